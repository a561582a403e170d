//! Checks of the files that a configuration names, so that a start fails before it binds and a reload before it swaps.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::settings::Settings;
use crate::model::policy::Fault;

pub(super) fn check(settings: &Settings, faults: &mut Vec<Fault>) {
    let mut check = |path: String, result: Result<(), String>| {
        let told = faults.iter().any(|fault| fault.path == path);
        if let Err(problem) = result
            && !told
        {
            faults.push(Fault { path, problem });
        }
    };
    for (at, listener) in settings.listeners.iter().enumerate() {
        let Some(tls) = &listener.tls else { continue };
        check(format!("listeners[{at}].tls.certificate"), certificate(&tls.certificate));
        check(format!("listeners[{at}].tls.key"), private_key(&tls.key));
    }
    if let Some(cluster) = &settings.cluster {
        check("cluster.tls.ca".to_owned(), certificate(&cluster.tls.ca));
        check("cluster.tls.certificate".to_owned(), certificate(&cluster.tls.certificate));
        check("cluster.tls.key".to_owned(), private_key(&cluster.tls.key));
        if let Some(files) = &cluster.numbering {
            check("cluster.numbering.certificate".to_owned(), certificate(&files.certificate));
            check("cluster.numbering.key".to_owned(), private_key(&files.key));
        }
    }
}

/// Secrets that other users of this machine can get at.
pub(super) fn exposed(settings: &Settings) -> Vec<String> {
    let keys = settings.listeners.iter().filter_map(|listener| Some(listener.tls.as_ref()?.key.as_path()));
    let cluster = settings.cluster.as_ref();
    let peer = cluster.map(|cluster| cluster.tls.key.as_path());
    let numbering = cluster.and_then(|cluster| Some(cluster.numbering.as_ref()?.key.as_path()));
    let secrets = keys.chain(peer).chain(numbering).chain([settings.admin.token_file.as_path()]);
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |known| known.permissions().mode());
    let mut warnings: Vec<_> = secrets
        .filter(|path| mode(path) & 0o006 != 0)
        .map(|path| {
            format!("{0} can be read or written by every user of this machine: chmod 600 {0}", path.display())
        })
        .collect();
    let data_dir = settings.node.data_dir.as_path();
    // In a sticky directory nobody can put another file in the place of ours.
    if mode(data_dir) & 0o1002 == 0o002 {
        warnings
            .push(format!("every user of this machine can write to {0}: chmod 700 {0}", data_dir.display()));
    }
    warnings
}

/// Whether a PEM file holds at least one certificate, and nothing malformed. A path that is missing is told elsewhere.
fn certificate(path: &Path) -> Result<(), String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
    let certificates = read.collect::<Result<Vec<_>, _>>().map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() { Err(format!("{} holds no certificate", path.display())) } else { Ok(()) }
}

fn private_key(path: &Path) -> Result<(), String> {
    PrivateKeyDer::from_pem_file(path).map(drop).map_err(|error| unusable(path, &error))
}

/// Says which file and why; the parser's own words name no content of it.
fn unusable(path: &Path, error: &rustls_pki_types::pem::Error) -> String {
    let why = match error {
        rustls_pki_types::pem::Error::Io(error) => error.to_string(),
        rustls_pki_types::pem::Error::NoItemsFound => "it holds no PEM section of this kind".to_owned(),
        _ => "it is no well-formed PEM file".to_owned(),
    };
    format!("{} cannot be used: {why}", path.display())
}

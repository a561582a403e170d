//! Checks of the files that a configuration names, so that a start fails before it binds and a reload before it swaps.

use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::settings::Settings;
use crate::model::policy::Fault;

pub(super) fn check(settings: &Settings, faults: &mut Vec<Fault>) {
    for (at, listener) in settings.listeners.iter().enumerate() {
        let Some(tls) = &listener.tls else { continue };
        let mut check = |key: &str, result: Result<(), String>| {
            let path = format!("listeners[{at}].tls.{key}");
            let told = faults.iter().any(|fault| fault.path == path);
            if let Err(problem) = result
                && !told
            {
                faults.push(Fault { path, problem });
            }
        };
        check("certificate", certificate(&tls.certificate));
        check("key", private_key(&tls.key));
    }
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

//! Certificates of TLS listeners: checked before they are used, and swapped while connections live.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use pingora::listeners::tls::TlsSettings;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsFiles;

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or holds something else.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The two do not belong together.
    #[error("{certificate} and {key} do not belong together: {problem}")]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The certificate that a listener shows, until a reload puts another in its place.
#[derive(Debug)]
pub(super) struct Certificate(ArcSwap<CertifiedKey>);

impl Certificate {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// When a file is at fault, or the key belongs to another certificate.
    pub(super) fn load(files: &TlsFiles) -> Result<Arc<Self>, CertificateError> {
        Ok(Arc::new(Self(ArcSwap::from(read(files)?))))
    }

    /// Shows `key` from the next handshake on.
    pub(super) fn show(&self, key: Arc<CertifiedKey>) {
        self.0.store(key);
    }

    /// TLS with this certificate, over HTTP/2 or HTTP/1.1.
    ///
    /// # Errors
    /// When Pingora cannot set it up.
    pub(super) fn settings(self: &Arc<Self>, files: &TlsFiles) -> pingora::Result<TlsSettings> {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut settings = TlsSettings::intermediate(&path(&files.certificate), &path(&files.key))?;
        settings.set_cert_resolver(Arc::clone(self) as _);
        settings.enable_h2();
        Ok(settings)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Reads a certificate chain and its key, and checks that they belong together.
///
/// # Errors
/// When a file is at fault, or the key belongs to another certificate.
pub(super) fn read(files: &TlsFiles) -> Result<Arc<CertifiedKey>, CertificateError> {
    let at = |path: &PathBuf| {
        let path = path.clone();
        move |error: &dyn std::fmt::Display| CertificateError::File { path, problem: error.to_string() }
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(&files.certificate)(&error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| at(&files.key)(&error))?;
    let key = any_supported_type(&key).map_err(|error| at(&files.key)(&error))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|error| CertificateError::Mismatch {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        problem: error.to_string(),
    })?;
    Ok(Arc::new(certified))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &std::path::Path, name: &str) -> TlsFiles {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files =
            TlsFiles { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn a_certificate_with_the_key_of_another_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (files(dir.path(), "one"), files(dir.path(), "other"));
        assert!(read(&one).is_ok());
        let mixed = TlsFiles { certificate: one.certificate.clone(), key: other.key };
        assert!(matches!(read(&mixed), Err(CertificateError::Mismatch { .. })));
        let swapped = TlsFiles { certificate: one.key.clone(), key: one.certificate };
        assert!(read(&swapped).is_err());
    }

    #[test]
    fn a_new_certificate_is_shown_from_the_next_handshake_on() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (files(dir.path(), "one"), files(dir.path(), "other"));
        let shown = Certificate::load(&one).unwrap();
        let before = shown.0.load_full();
        shown.show(read(&other).unwrap());
        assert_ne!(before.cert, shown.0.load_full().cert);
    }
}

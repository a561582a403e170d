//! Where requests go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// Connections that may be opened at the same time, so that a burst does not overrun the listener's backlog.
const OPENING: usize = 256;

/// Why a URL leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// It is no URL of a site.
    #[error("{0} is no http:// or https:// URL with a host")]
    Url(String),
    /// The certificates to trust cannot be read.
    #[error("the CA {path}: {why}; give a PEM file of the certificates to trust")]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// TLS without a CA.
    #[error("an https:// target needs --ca, the PEM file of the certificates to trust")]
    NoCa,
}

/// A site: where to connect, by which name to ask, whom to trust.
#[derive(Clone, Debug)]
pub struct Site {
    host: String,
    port: u16,
    authority: String,
    pub(super) tls: Option<Tls>,
    pub(super) opening: Arc<Semaphore>,
}

#[derive(Clone)]
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

impl Site {
    /// The site of a URL; its path is left out. `host` replaces the name that requests ask for.
    ///
    /// # Errors
    /// When it is no such URL, or TLS is asked for and there is no CA to trust.
    pub fn new(url: &str, host: Option<&str>, ca: Option<&Path>) -> Result<Self, SiteError> {
        let wrong = || SiteError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let name = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let (port, secure) = match uri.scheme_str() {
            Some("http") => (80, false),
            Some("https") => (443, true),
            _ => return Err(wrong()),
        };
        let authority = host.or(uri.authority().map(|a| a.as_str())).ok_or_else(wrong)?.to_owned();
        let asked = host.and_then(|host| host.split(':').next()).unwrap_or(&name).to_owned();
        let tls = if secure {
            let ca = ca.ok_or(SiteError::NoCa)?;
            let server = ServerName::try_from(asked).map_err(|_| wrong())?;
            Some(Tls { connector: connector(ca)?, name: server })
        } else {
            None
        };
        let opening = Arc::new(Semaphore::new(OPENING));
        Ok(Self { host: name, port: uri.port_u16().unwrap_or(port), authority, tls, opening })
    }

    /// What requests send as `Host`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

fn connector(ca: &Path) -> Result<TlsConnector, SiteError> {
    let wrong = |why: String| SiteError::Ca { path: ca.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|e| wrong(e.to_string()))? {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_where_its_url_says_and_asks_by_the_name_it_is_told() {
        let site = Site::new("http://127.0.0.1:8080/x", Some("tickets.example.com"), None).unwrap();
        assert_eq!(site.address(), ("127.0.0.1", 8080));
        assert_eq!(site.authority(), "tickets.example.com");
        assert_eq!(Site::new("http://[::1]/", None, None).unwrap().address(), ("::1", 80));
    }

    #[test]
    fn urls_that_lead_nowhere_and_tls_without_trust_are_refused() {
        for url in ["", "localhost", "ftp://a", "/x"] {
            assert!(matches!(Site::new(url, None, None), Err(SiteError::Url(_))), "{url}");
        }
        assert!(matches!(Site::new("https://a", None, None), Err(SiteError::NoCa)));
        let missing = Path::new("/nonexistent/ca.pem");
        assert!(matches!(Site::new("https://a", None, Some(missing)), Err(SiteError::Ca { .. })));
    }
}

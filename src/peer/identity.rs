//! Who this node is to others: its certificate, and the authority that signs all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::model::ids::NodeId;

/// Why a node cannot show who it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read, or holds something else.
    #[error("{path}: {detail}; `cluster.tls` wants PEM files as `anteroom certs` makes them")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The parts do not belong together.
    #[error("`cluster.tls` does not work: {0}; make the files anew with `anteroom certs`")]
    Tls(String),
    /// The certificate is another node's.
    #[error("{path} is not the certificate of node {node}: make one with `anteroom certs node --id {node}`")]
    OtherNode {
        /// The certificate.
        path: PathBuf,
        /// `node.id`.
        node: NodeId,
    },
}

/// What this node shows to others, and checks them against.
#[derive(Clone)]
pub struct Identity {
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Reads the files of `cluster.tls`.
    ///
    /// # Errors
    /// See [`IdentityError`]: one line that says what to do.
    pub fn load(ca: &Path, certificate: &Path, key: &Path, node: NodeId) -> Result<Self, IdentityError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(ca)? {
            roots.add(authority).map_err(|error| in_file(ca, &error))?;
        }
        let chain = certificates(certificate)?;
        let own = chain.first().ok_or_else(|| in_file(certificate, &"no certificate in it"))?;
        if !is_of(own, node) {
            return Err(IdentityError::OtherNode { path: certificate.to_owned(), node });
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build();
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(clients.map_err(|error| tls(&error))?)
            .with_single_cert(chain.clone(), secret.clone_key())
            .map_err(|error| tls(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, secret)
            .map_err(|error| tls(&error))?;
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// The name in the certificate of a node.
pub(super) fn name_of(node: NodeId) -> String {
    format!("node-{node}.anteroom.internal")
}

/// Whether a certificate, which the authority has signed, is of this node.
pub(super) fn is_of(certificate: &CertificateDer<'_>, node: NodeId) -> bool {
    let Ok(name) = ServerName::try_from(name_of(node)) else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| in_file(file, &error))
}

fn in_file(path: &Path, detail: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::File { path: path.to_owned(), detail: detail.to_string() }
}

fn tls(error: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

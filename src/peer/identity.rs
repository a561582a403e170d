//! Who this node is to others: its certificate, and the authority that signs all of them.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ServerConfig};

use super::examine::{IdentityError, IdentityFiles, examine};
use crate::model::ids::NodeId;

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
    /// Reads the files of `cluster.tls`, which have to hold at this moment.
    ///
    /// # Errors
    /// The first of [`Identity::faults`], or what else TLS has against them: one line that says what to do.
    pub fn load(ca: &Path, certificate: &Path, key: &Path, node: NodeId) -> Result<Self, IdentityError> {
        let (parts, faults) = examine(IdentityFiles { ca, certificate, key }, node, UnixTime::now());
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        let missing = || tls(&"a file is missing");
        let (Some(roots), Some(chain), Some(secret)) = parts else { return Err(missing()) };
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

    /// Everything that is wrong with the files of `cluster.tls` at this moment.
    #[must_use]
    pub fn faults(files: IdentityFiles<'_>, node: NodeId) -> Vec<IdentityError> {
        examine(files, node, UnixTime::now()).1
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

fn tls(error: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

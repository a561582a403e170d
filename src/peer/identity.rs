//! Who this node is to others: its certificate, and the authority that signs all of them.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};

use super::examine::{Expected, IdentityError, IdentityFiles, examine};
use crate::model::ids::NodeId;
use crate::model::numbered::{EdgeName, Instance};

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
        let files = IdentityFiles { ca, certificate, key };
        let (roots, chain, secret) = read(files, Expected::Node(node))?;
        Self::of(roots, chain, secret)
    }

    /// An identity from its parts.
    pub(super) fn of(
        roots: Arc<RootCertStore>,
        chain: Vec<CertificateDer<'static>>,
        secret: PrivateKeyDer<'static>,
    ) -> Result<Self, IdentityError> {
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
        examine(files, Expected::Node(node), UnixTime::now()).1
    }
}

/// Reads the files, which have to hold at this moment.
pub(super) fn read(files: IdentityFiles<'_>, expected: Expected) -> Result<Whole, IdentityError> {
    let (parts, faults) = examine(files, expected, UnixTime::now());
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault);
    }
    let (Some(roots), Some(chain), Some(secret)) = parts else { return Err(tls(&"a file is missing")) };
    Ok((roots, chain, secret))
}

/// What the files hold.
pub(super) type Whole = (Arc<RootCertStore>, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Below this are the names of the edges that the leader numbers: whoever signs for them can sign for no other node.
pub(super) const GIVEN_NAMES: &str = "edge.anteroom.internal";

/// What follows the name in a certificate of edges without a number.
const UNNUMBERED: &str = ".unnumbered.anteroom.internal";

/// The name in the certificate of a node.
pub(super) fn name_of(node: NodeId) -> String {
    if node.is_given() {
        format!("node-{node}.{GIVEN_NAMES}")
    } else {
        format!("node-{node}.anteroom.internal")
    }
}

/// The name in a certificate of edges without a number.
pub(super) fn unnumbered_name_of(name: &EdgeName) -> String {
    format!("{name}{UNNUMBERED}")
}

/// What a certificate calls edges without a number; `None`: it is another kind of certificate.
pub(super) fn edge_name(certificate: &CertificateDer<'_>) -> Option<EdgeName> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let name = parsed.valid_dns_names().find_map(|name| name.strip_suffix(UNNUMBERED))?;
    name.parse().ok()
}

/// By which key somebody has proved who it is.
pub(super) fn instance_of(certificate: &CertificateDer<'_>) -> Option<Instance> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    Some(Instance(Sha256::digest(parsed.subject_public_key_info()).into()))
}

/// Whether a certificate, which the authority has signed, is of this node.
pub(super) fn is_of(certificate: &CertificateDer<'_>, node: NodeId) -> bool {
    let Ok(name) = ServerName::try_from(name_of(node)) else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

pub(super) fn tls(error: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

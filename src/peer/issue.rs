//! The certificates by which nodes know each other: a CA of the fleet's own, and a certificate for each node.
//!
//! The CA signs nothing but nodes, so whoever shows a certificate of it is a node; which one is told by the DNS name in
//! it, never by the address that it comes from.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::model::ids::NodeId;
use crate::model::time::FleetTime;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For how many days a new CA is valid: ten years.
const CA_DAYS: u32 = 3652;

/// Certificates hold from this long before they were made, for clocks of other nodes that are behind.
const BACKDATED: Duration = Duration::from_secs(3600);

/// A certificate and its private key, both as PEM text.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key, for its owner's eyes only.
    pub key: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The CA's certificate cannot be read.
    #[error("the CA's certificate is no PEM certificate of a CA; take the one that `anteroom certs ca` made")]
    UnusableCa,
    /// The CA's key cannot be read.
    #[error("the CA's key is no PEM key of a kind that is known; take the one that `anteroom certs ca` made")]
    UnusableKey,
    /// What was signed does not verify.
    #[error(
        "the CA's certificate and key do not belong together, or were not made by `anteroom certs ca`; take both files \
         from the same run of it"
    )]
    Mismatched,
    /// The library refused.
    #[error("no certificate could be made: {0}")]
    Refused(#[from] rcgen::Error),
}

/// The name that a node's certificate holds and that others ask for when they reach it.
#[must_use]
pub fn node_name(node: NodeId) -> String {
    super::identity::name_of(node)
}

/// Makes a CA for one fleet, valid from an hour before `now` for ten years.
///
/// # Errors
/// If the system gives no randomness.
pub fn issue_ca(now: FleetTime) -> Result<Issued, IssueError> {
    let mut params = ca_params();
    hold(&mut params, now, CA_DAYS);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Makes a certificate by which `node` both serves and asks, valid from an hour before `now` until
/// `days` after it; a zero is as good as over.
///
/// # Errors
/// If `ca` is not what [`issue_ca`] made, or the system gives no randomness.
pub fn issue_node(ca: &Issued, node: NodeId, now: FleetTime, days: u16) -> Result<Issued, IssueError> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(|_| IssueError::UnusableKey)?;
    let issuer = Issuer::new(ca_params(), ca_key);
    let name = node_name(node);
    let mut params = CertificateParams::new([name.clone()])?;
    params.distinguished_name = common_name(&name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    hold(&mut params, now, days.into());
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    verify(&ca.certificate, certificate.der(), now)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// What every CA of ours has in common; so a CA is told from its key alone, and its certificate need not be parsed.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("Anteroom fleet CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Has a certificate hold from a little before `now` until `days` after it.
fn hold(params: &mut CertificateParams, now: FleetTime, days: u32) {
    let at = |time: FleetTime| (UNIX_EPOCH + Duration::from_millis(time.0)).into();
    params.not_before = at(now.before(BACKDATED));
    params.not_after = at(now.after(DAY * days));
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Checks what was signed as other nodes will, so that files which do not fit are found here and not in a fleet.
fn verify(ca: &str, made: &CertificateDer<'_>, now: FleetTime) -> Result<(), IssueError> {
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(|_| IssueError::UnusableCa)?;
    let mut roots = RootCertStore::empty();
    roots.add(ca).map_err(|_| IssueError::UnusableCa)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|_| IssueError::UnusableCa)?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(now.0));
    verifier.verify_client_cert(made, &[], now).map(drop).map_err(|_| IssueError::Mismatched)
}

#[cfg(test)]
mod tests;

//! The certificates by which nodes know each other: a CA of the fleet's own, and a certificate for each node.
//!
//! The CA signs nothing but nodes, so whoever shows a certificate of it is a node; which one is told by the DNS name in
//! it, never by the address that it comes from.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::identity::{GIVEN_NAMES, unnumbered_name_of};
use crate::model::ids::NodeId;
use crate::model::numbered::EdgeName;
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
    issue_as(ca, node_name(node), now, days)
}

/// Makes the certificate of edges that the leader numbers, valid as that of a node. As many edges as may share it.
///
/// # Errors
/// As of [`issue_node`].
pub fn issue_unnumbered(
    ca: &Issued,
    name: &EdgeName,
    now: FleetTime,
    days: u16,
) -> Result<Issued, IssueError> {
    issue_as(ca, unnumbered_name_of(name), now, days)
}

/// Makes what the controllers sign the certificates of edges with that they number, valid as the certificate of a node.
/// What it signs for any other node is refused.
///
/// # Errors
/// As of [`issue_node`], and if `ca` is of a version that could not number edges.
pub fn issue_numbering(ca: &Issued, now: FleetTime, days: u16) -> Result<Issued, IssueError> {
    let mut params = numbering_params();
    params.use_authority_key_identifier_extension = true;
    hold(&mut params, now, days.into());
    let key = KeyPair::generate()?;
    let made = params.signed_by(&key, &issuer(ca)?)?;
    let (certificate, secret) = (made.pem(), key.serialize_pem());
    // It is no certificate of a node, so what is tried is one that it signs.
    let signer = Issuer::new(numbering_params(), key);
    let signed =
        for_nodes(node_name(NodeId(NonZeroU16::MAX)), now, 1)?.signed_by(&KeyPair::generate()?, &signer)?;
    verify(roots(&ca.certificate)?, signed.der(), std::slice::from_ref(made.der()), now)?;
    Ok(Issued { certificate, key: secret })
}

fn issue_as(ca: &Issued, name: String, now: FleetTime, days: u16) -> Result<Issued, IssueError> {
    let key = KeyPair::generate()?;
    let certificate = for_nodes(name, now, days.into())?.signed_by(&key, &issuer(ca)?)?;
    verify(roots(&ca.certificate)?, certificate.der(), &[], now)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn issuer(ca: &Issued) -> Result<Issuer<'static, KeyPair>, IssueError> {
    let key = KeyPair::from_pem(&ca.key).map_err(|_| IssueError::UnusableKey)?;
    Ok(Issuer::new(ca_params(), key))
}

/// What every certificate of a node has in common.
pub(super) fn for_nodes(name: String, now: FleetTime, days: u32) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::new([name.clone()])?;
    params.distinguished_name = common_name(&name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    hold(&mut params, now, days);
    Ok(params)
}

/// What controllers sign with: below the fleet's CA, and for the names of numbered edges alone.
pub(super) fn numbering_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("Anteroom fleet numbering");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName(GIVEN_NAMES.to_owned())],
        excluded_subtrees: Vec::new(),
    });
    params
}

/// What every CA of ours has in common; so a CA is told from its key alone, and its certificate need not be parsed.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("Anteroom fleet CA");
    // One step more than to nodes: to what controllers sign with.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
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

/// The CA in a PEM text.
pub(super) fn roots(ca: &str) -> Result<Arc<RootCertStore>, IssueError> {
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(|_| IssueError::UnusableCa)?;
    let mut roots = RootCertStore::empty();
    roots.add(ca).map_err(|_| IssueError::UnusableCa)?;
    Ok(Arc::new(roots))
}

/// Checks what was signed as other nodes will, so that files which do not fit are found here and not in a fleet.
pub(super) fn verify(
    roots: Arc<RootCertStore>,
    made: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    now: FleetTime,
) -> Result<(), IssueError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    let verifier = verifier.map_err(|_| IssueError::UnusableCa)?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(now.0));
    verifier.verify_client_cert(made, between, now).map(drop).map_err(|_| IssueError::Mismatched)
}

#[cfg(test)]
mod tests;

//! What is wrong with the files by which a node shows who it is: looked at as other nodes will.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};

use super::identity::{edge_name, is_of};
use crate::model::ids::NodeId;

/// Why a node cannot show who it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read, or holds something else.
    #[error("{path}: {detail}; `cluster.tls` wants PEM files as `anteroom certs` makes them")]
    File {
        /// Which of them.
        part: IdentityPart,
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
    /// The certificate is of edges that the leader numbers, and this node has a number.
    #[error(
        "{path} is the certificate of an edge that the leader numbers, and this is node {node}: write `node.id: auto`, or \
         make another one with `anteroom certs node --id {node}`"
    )]
    Unnumbered {
        /// The certificate.
        path: PathBuf,
        /// `node.id`.
        node: NodeId,
    },
    /// The leader is to number this node, and the certificate does not allow it.
    #[error(
        "`node.id` is `auto`, and {path} is no certificate for that: make one with `anteroom certs edge`, or write the number \
         for which this one was made as `node.id`"
    )]
    Numbered {
        /// The certificate.
        path: PathBuf,
    },
    /// Another authority has signed the certificate.
    #[error(
        "{ca} did not sign {certificate}, so no node of one fleet would know the other: put the `ca.crt` here that lies beside \
         the certificate where `anteroom certs node` made it, the same on every node"
    )]
    OtherAuthority {
        /// The authority's certificate.
        ca: PathBuf,
        /// The node's.
        certificate: PathBuf,
    },
    /// The certificate is over.
    #[error(
        "{path} has expired at {at}, and nobody talks to this node: make a new one with `anteroom certs {way}`"
    )]
    Expired {
        /// The certificate.
        path: PathBuf,
        /// When.
        at: Timestamp,
        /// How a new one is made.
        way: String,
    },
    /// The certificate does not hold yet.
    #[error("{path} does not hold before {from}: is the clock of this machine right?")]
    NotYet {
        /// The certificate.
        path: PathBuf,
        /// From when it holds.
        from: Timestamp,
    },
    /// The key is another certificate's.
    #[error(
        "{key} is not the key of {certificate}: put the two files here that one run of `anteroom certs node` made"
    )]
    OtherKey {
        /// The key.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
    },
}

/// One of the files by which a node shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityPart {
    /// `cluster.tls.ca`.
    Authority,
    /// `cluster.tls.certificate`.
    Certificate,
    /// `cluster.tls.key`.
    Key,
}

impl IdentityError {
    /// Where in the configuration the fault is.
    #[must_use]
    pub fn path(&self) -> &'static str {
        let part = match self {
            Self::Tls(_) => return "cluster.tls",
            Self::File { part, .. } => *part,
            Self::OtherAuthority { .. } => IdentityPart::Authority,
            Self::OtherNode { .. }
            | Self::Unnumbered { .. }
            | Self::Numbered { .. }
            | Self::Expired { .. }
            | Self::NotYet { .. } => IdentityPart::Certificate,
            Self::OtherKey { .. } => IdentityPart::Key,
        };
        match part {
            IdentityPart::Authority => "cluster.tls.ca",
            IdentityPart::Certificate => "cluster.tls.certificate",
            IdentityPart::Key => "cluster.tls.key",
        }
    }
}

/// The files of `cluster.tls`.
#[derive(Clone, Copy, Debug)]
pub struct IdentityFiles<'a> {
    /// Who signs for the fleet.
    pub ca: &'a Path,
    /// This node's certificate.
    pub certificate: &'a Path,
    /// Its key.
    pub key: &'a Path,
}

type Parts =
    (Option<Arc<RootCertStore>>, Option<Vec<CertificateDer<'static>>>, Option<PrivateKeyDer<'static>>);

/// Whose certificate the files should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// This node's.
    Node(NodeId),
    /// That of edges which the leader numbers.
    Unnumbered,
}

impl Expected {
    fn fault(self, own: &CertificateDer<'_>, path: &Path) -> Option<IdentityError> {
        let path = path.to_owned();
        match self {
            Self::Node(node) if is_of(own, node) => None,
            Self::Node(node) if edge_name(own).is_some() => Some(IdentityError::Unnumbered { path, node }),
            Self::Node(node) => Some(IdentityError::OtherNode { path, node }),
            Self::Unnumbered if edge_name(own).is_some() => None,
            Self::Unnumbered => Some(IdentityError::Numbered { path }),
        }
    }

    fn way(self) -> String {
        match self {
            Self::Node(node) => format!("node --id {node}"),
            Self::Unnumbered => "edge".to_owned(),
        }
    }
}

/// Reads the files, and finds everything that is wrong with them at `now`.
pub(super) fn examine(
    files: IdentityFiles<'_>,
    expected: Expected,
    now: UnixTime,
) -> (Parts, Vec<IdentityError>) {
    let IdentityFiles { ca, certificate, key } = files;
    let mut faults = Vec::new();
    let roots = roots(ca).map_err(|fault| faults.push(fault)).ok();
    let chain = chain(certificate).map_err(|fault| faults.push(fault)).ok();
    let unreadable = |error| in_file(IdentityPart::Key, key, &error);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unreadable);
    let secret = secret.map_err(|fault| faults.push(fault)).ok();
    if let Some([own, others @ ..]) = chain.as_deref() {
        faults.extend(expected.fault(own, certificate));
        let verified = Verification { roots: roots.as_ref(), own, others }.run(now);
        faults.extend(verified.into_iter().map(|trouble| match trouble {
            Trouble::Expired(at) => {
                IdentityError::Expired { path: certificate.to_owned(), at, way: expected.way() }
            }
            Trouble::NotYet(from) => IdentityError::NotYet { path: certificate.to_owned(), from },
            Trouble::Unsigned => {
                IdentityError::OtherAuthority { ca: ca.to_owned(), certificate: certificate.to_owned() }
            }
            Trouble::Other(detail) => in_file(IdentityPart::Certificate, certificate, &detail),
        }));
    }
    if let (Some(chain), Some(secret)) = (&chain, &secret) {
        let signing = any_supported_type(secret).map_err(|error| in_file(IdentityPart::Key, key, &error));
        let fits = |signing| CertifiedKey::new(chain.clone(), signing).keys_match();
        match signing.map(fits) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => faults
                .push(IdentityError::OtherKey { key: key.to_owned(), certificate: certificate.to_owned() }),
            Err(fault) => faults.push(fault),
        }
    }
    ((roots, chain, secret), faults)
}

/// What is against a certificate.
enum Trouble {
    Expired(Timestamp),
    NotYet(Timestamp),
    Unsigned,
    Other(String),
}

/// Looks at a certificate as the nodes will to whom it is shown.
struct Verification<'a> {
    roots: Option<&'a Arc<RootCertStore>>,
    own: &'a CertificateDer<'static>,
    others: &'a [CertificateDer<'static>],
}

impl Verification<'_> {
    fn run(&self, now: UnixTime) -> Vec<Trouble> {
        let Some(roots) = self.roots else { return Vec::new() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider).build()
        {
            Ok(verifier) => verifier,
            Err(error) => return vec![Trouble::Other(error.to_string())],
        };
        let verify = |at| verifier.verify_client_cert(self.own, self.others, at).err();
        match verify(now) {
            // Whether it was ever signed shows at a time at which it held.
            Some(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                let mut troubles = vec![Trouble::Expired(timestamp(not_after))];
                troubles.extend(verify(not_after).map(trouble));
                troubles
            }
            Some(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
                let mut troubles = vec![Trouble::NotYet(timestamp(not_before))];
                troubles.extend(verify(not_before).map(trouble));
                troubles
            }
            other => other.map(trouble).into_iter().collect(),
        }
    }
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            Trouble::Unsigned
        }
        error => Trouble::Other(error.to_string()),
    }
}

fn timestamp(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|at| Timestamp::from_second(at).ok())
        .unwrap_or(Timestamp::MAX)
}

fn roots(ca: &Path) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut roots = RootCertStore::empty();
    let authorities = certificates(IdentityPart::Authority, ca)?;
    if authorities.is_empty() {
        return Err(in_file(IdentityPart::Authority, ca, &"no certificate in it"));
    }
    for authority in authorities {
        roots.add(authority).map_err(|error| in_file(IdentityPart::Authority, ca, &error))?;
    }
    Ok(Arc::new(roots))
}

fn chain(certificate: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let chain = certificates(IdentityPart::Certificate, certificate)?;
    let missing = || in_file(IdentityPart::Certificate, certificate, &"no certificate in it");
    if chain.is_empty() { Err(missing()) } else { Ok(chain) }
}

fn certificates(part: IdentityPart, file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| in_file(part, file, &error))
}

fn in_file(part: IdentityPart, path: &Path, detail: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::File { part, path: path.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::model::time::FleetTime;
    use crate::peer::{Issued, issue_ca, issue_node};

    /// 15 January 2027.
    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 24 * 3600;

    fn node(id: u16) -> NodeId {
        NodeId(NonZeroU16::new(id).unwrap())
    }

    fn made(ca: &Issued, id: u16) -> Issued {
        issue_node(ca, node(id), FleetTime(NOW * 1000), 1).unwrap()
    }

    /// Where in the configuration something is wrong when node 1 shows these files at this time.
    fn faults(ca: &Issued, certificate: &Issued, key: &Issued, at: u64) -> Vec<(&'static str, String)> {
        let dir: TempDir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let ca = write("ca.crt", &ca.certificate);
        let certificate = write("node.crt", &certificate.certificate);
        let key = write("node.key", &key.key);
        let files = IdentityFiles { ca: &ca, certificate: &certificate, key: &key };
        let (_, faults) =
            examine(files, Expected::Node(node(1)), UnixTime::since_unix_epoch(Duration::from_secs(at)));
        faults.iter().map(|fault| (fault.path(), fault.to_string())).collect()
    }

    fn paths(faults: &[(&'static str, String)]) -> Vec<&'static str> {
        faults.iter().map(|(path, _)| *path).collect()
    }

    #[test]
    fn files_that_belong_together_are_without_fault_while_they_hold() {
        let ca = issue_ca(FleetTime(NOW * 1000)).unwrap();
        let one = made(&ca, 1);
        assert_eq!(faults(&ca, &one, &one, NOW), []);
        let late = faults(&ca, &one, &one, NOW + DAY + 60);
        assert_eq!(paths(&late), ["cluster.tls.certificate"]);
        assert!(late[0].1.contains("2027-01-16T08:00:00Z") && late[0].1.contains("--id 1"), "{late:?}");
        assert!(faults(&ca, &one, &one, NOW - DAY)[0].1.contains("is the clock"));
    }

    #[test]
    fn a_certificate_that_another_authority_signed_is_found_also_when_it_is_over() {
        let (ours, theirs) = (FleetTime(NOW * 1000), FleetTime(NOW * 1000));
        let (ours, theirs) = (issue_ca(ours).unwrap(), issue_ca(theirs).unwrap());
        let one = made(&ours, 1);
        let found = faults(&theirs, &one, &one, NOW);
        assert_eq!(paths(&found), ["cluster.tls.ca"]);
        assert!(found[0].1.contains("did not sign"), "{found:?}");
        assert_eq!(
            paths(&faults(&theirs, &one, &one, NOW + 2 * DAY)),
            ["cluster.tls.certificate", "cluster.tls.ca"]
        );
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let (ours, theirs) = (issue_ca(FleetTime(NOW * 1000)).unwrap(), issue_ca(FleetTime(0)).unwrap());
        let found = faults(&theirs, &made(&ours, 2), &made(&ours, 1), NOW + 2 * DAY);
        assert_eq!(
            paths(&found),
            ["cluster.tls.certificate", "cluster.tls.certificate", "cluster.tls.ca", "cluster.tls.key"]
        );
        assert!(found[0].1.contains("not the certificate of node 1"), "{found:?}");
        assert!(found[3].1.contains("is not the key of"), "{found:?}");
    }
}

//! Numbers for edges that have none: an edge shows a certificate that says so and a key of its own, and a controller
//! answers with a certificate for that key and the number that the log gave it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::conversation::{LONGEST_HELLO, Saying, halves};
use super::dial::{Address, DialError, by_tls, unreachable};
use super::examine::{Expected, IdentityError, IdentityFiles, examine};
use super::hello::{Hello, Welcome};
use super::identity::{self, Identity, edge_name, is_of, name_of};
use super::issue::{IssueError, for_nodes, numbering_params, verify};
use crate::model::ids::NodeId;
use crate::model::numbered::{EdgeName, Instance};
use crate::model::time::FleetTime;

/// The longest that a connection may take to come about.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// The longest that a controller may take to answer: longer than its log may.
const PATIENCE: Duration = Duration::from_secs(8);

/// The longest frame with an answer, in bytes.
const LONGEST_ANSWER: u32 = 16 * 1024;

/// For how many days a certificate that a controller makes is valid, if the controller's own is: two years.
const DAYS: u32 = 730;

/// What an edge without a number says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Application {
    key: Vec<u8>,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Given {
    /// A number, and the certificates that prove it, the edge's own first.
    Number(NodeId, Vec<Vec<u8>>),
    /// Another controller leads, as this one knows it.
    NotLeader(Option<NodeId>),
    /// None.
    Nothing(NoNumber),
}

/// Why an edge gets no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoNumber {
    /// The controller has nothing to sign with.
    #[error(
        "the leader has no `cluster.numbering`: make the files with `anteroom certs numbering`, for every controller"
    )]
    NoAuthority,
    /// Every number is held.
    #[error(
        "every number is taken: an edge that starts again and again without its disk takes one each time"
    )]
    AllTaken,
    /// The log takes nothing at the moment.
    #[error("the control log takes no entries at the moment")]
    Unavailable,
}

/// The public key of an edge, a point of P-256.
struct EdgePublicKey(Vec<u8>);

impl PublicKeyData for EdgePublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// The key that an edge made for itself: which of all edges it is.
pub struct EdgeKey(KeyPair);

impl fmt::Debug for EdgeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EdgeKey")
    }
}

impl EdgeKey {
    /// A new key.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn make() -> Result<Self, IssueError> {
        Ok(Self(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?))
    }

    /// A key that was written out.
    ///
    /// # Errors
    /// If the text is no such key.
    pub fn from_pem(text: &str) -> Result<Self, IssueError> {
        KeyPair::from_pem_and_sign_algo(text, &PKCS_ECDSA_P256_SHA256)
            .map(Self)
            .map_err(|_| IssueError::UnusableKey)
    }

    fn public(&self) -> EdgePublicKey {
        EdgePublicKey(self.0.public_key_raw().to_vec())
    }

    /// The key as PEM text, for its owner's eyes only.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}

/// An edge that has no number yet: what the files of `cluster.tls` make of it.
pub struct Unnumbered {
    name: EdgeName,
    roots: Arc<RootCertStore>,
    client: Arc<ClientConfig>,
}

impl fmt::Debug for Unnumbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unnumbered").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Unnumbered {
    /// Reads the files of `cluster.tls`, which have to hold at this moment.
    ///
    /// # Errors
    /// The first of [`Unnumbered::faults`], or what else TLS has against them: one line that says what to do.
    pub fn load(files: IdentityFiles<'_>) -> Result<Self, IdentityError> {
        let (roots, chain, secret) = identity::read(files, Expected::Unnumbered)?;
        let other = || IdentityError::Numbered { path: files.certificate.to_owned() };
        let name = chain.first().and_then(edge_name).ok_or_else(other)?;
        let client = Identity::of(Arc::clone(&roots), chain, secret)?.client;
        Ok(Self { name, roots, client })
    }

    /// Everything that is wrong with the files of `cluster.tls` at this moment.
    #[must_use]
    pub fn faults(files: IdentityFiles<'_>) -> Vec<IdentityError> {
        examine(files, Expected::Unnumbered, UnixTime::now()).1
    }

    /// What its certificate calls it.
    #[must_use]
    pub fn name(&self) -> &EdgeName {
        &self.name
    }

    /// Asks a controller for the number of the edge with this key. Takes at most eight seconds.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn ask(&self, to: &Address, key: &EdgeKey) -> Result<Given, DialError> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in eight seconds");
        match tokio::time::timeout(PATIENCE, self.converse(to, key)).await {
            Ok(answered) => answered,
            Err(_) => Err(unreachable(to, late())),
        }
    }

    async fn converse(&self, to: &Address, key: &EdgeKey) -> Result<Given, DialError> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection in two seconds");
        let connecting = tokio::time::timeout(CONNECT_PATIENCE, by_tls(&self.client, to)).await;
        let stream = connecting.unwrap_or_else(|_| Err(late())).map_err(|error| unreachable(to, error))?;
        let (mut saying, mut hearing) = halves(stream);
        let broken = |source| DialError::Broken { node: to.node, at: to.at.clone(), source };
        saying.say(&Hello::unnumbered()).await.map_err(broken)?;
        let welcome: Welcome = hearing.hear_at_most(LONGEST_HELLO).await.map_err(broken)?;
        welcome.map_err(|refusal| DialError::Refused { node: to.node, refusal })?;
        let application = Application { key: key.0.public_key_raw().to_vec() };
        saying.say(&application).await.map_err(broken)?;
        hearing.hear_at_most(LONGEST_ANSWER).await.map_err(broken)
    }

    /// Who the edge is by a number that it was given.
    ///
    /// # Errors
    /// If the certificates are not of this number and key, or not of this fleet.
    pub fn identity(
        &self,
        node: NodeId,
        chain: &[Vec<u8>],
        key: &EdgeKey,
    ) -> Result<Identity, IdentityError> {
        let chain: Vec<_> = chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let of_node = |own: &CertificateDer<'_>| node.is_given() && is_of(own, node);
        let Some((own, others)) = chain.split_first().filter(|(own, _)| of_node(own)) else {
            return Err(identity::tls(&format_args!("it is no certificate of node {node}")));
        };
        verify(Arc::clone(&self.roots), own, others, now()).map_err(|error| identity::tls(&error))?;
        let secret = PrivateKeyDer::try_from(key.0.serialize_der()).map_err(|error| identity::tls(&error))?;
        Identity::of(Arc::clone(&self.roots), chain, secret)
    }
}

fn now() -> FleetTime {
    FleetTime(UnixTime::now().as_secs().saturating_mul(1000))
}

/// An edge without a number that has called, and waits for an answer.
pub struct Applicant {
    name: EdgeName,
    key: EdgePublicKey,
    saying: Saying,
}

impl fmt::Debug for Applicant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applicant").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Applicant {
    pub(super) fn new(name: EdgeName, application: Application, saying: Saying) -> Self {
        Self { name, key: EdgePublicKey(application.key), saying }
    }

    /// What its certificate calls it.
    #[must_use]
    pub fn name(&self) -> &EdgeName {
        &self.name
    }

    /// Which edge it is.
    #[must_use]
    pub fn instance(&self) -> Instance {
        Instance(Sha256::digest(self.key.subject_public_key_info()).into())
    }

    /// Answers, and hangs up. Whoever is gone before needs no answer.
    pub async fn answer(mut self, given: &Given) {
        let _ = self.saying.say(given).await;
    }
}

/// What a controller signs the certificates of edges with which it gives numbers; it can sign for no other node.
#[derive(Clone)]
pub struct Numbering(Arc<Signer>);

struct Signer {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    roots: Arc<RootCertStore>,
}

impl fmt::Debug for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbering")
    }
}

impl Numbering {
    /// Reads the files of `cluster.numbering`, and tries them: what they sign has to hold by the fleet's CA at this moment.
    ///
    /// # Errors
    /// If it does not, or a file cannot be read.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, NumberingError> {
        let read = |path: &Path| {
            let unreadable = |error| NumberingError::Unreadable(path.to_owned(), error);
            std::fs::read_to_string(path).map_err(unreadable)
        };
        let (ca, certificate, key) = (read(ca)?, read(certificate)?, read(key)?);
        let roots = super::issue::roots(&ca)?;
        let key = KeyPair::from_pem(&key).map_err(|_| IssueError::UnusableKey)?;
        let certificate =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| IssueError::UnusableCa)?;
        let numbering =
            Self(Arc::new(Signer { issuer: Issuer::new(numbering_params(), key), certificate, roots }));
        let first = std::num::NonZeroU16::MAX;
        numbering.sign(NodeId(first), &EdgeKey::make()?.public())?;
        Ok(numbering)
    }

    /// The certificates by which an applicant proves that it was given this number.
    ///
    /// # Errors
    /// If the certificate of `cluster.numbering` has expired, or the applicant's key is none.
    pub fn certify(&self, node: NodeId, applicant: &Applicant) -> Result<Vec<Vec<u8>>, IssueError> {
        self.sign(node, &applicant.key)
    }

    /// The same for any key.
    #[cfg(test)]
    pub(crate) fn certify_key(&self, node: NodeId, key: &EdgeKey) -> Result<Vec<Vec<u8>>, IssueError> {
        self.sign(node, &key.public())
    }

    fn sign(&self, node: NodeId, key: &EdgePublicKey) -> Result<Vec<Vec<u8>>, IssueError> {
        let Signer { issuer, certificate, roots } = self.0.as_ref();
        let now = now();
        let signed = for_nodes(name_of(node), now, DAYS)?.signed_by(key, issuer)?;
        verify(Arc::clone(roots), signed.der(), std::slice::from_ref(certificate), now)?;
        Ok(vec![signed.der().to_vec(), certificate.to_vec()])
    }
}

/// Why nothing can be signed with the files of `cluster.numbering`.
#[derive(Debug, thiserror::Error)]
pub enum NumberingError {
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}; `anteroom certs numbering` makes the files of `cluster.numbering`")]
    Unreadable(std::path::PathBuf, io::Error),
    /// They do not sign.
    #[error(
        "the files of `cluster.numbering` do not work with `cluster.tls.ca`: make them anew with `anteroom certs numbering` ({0})"
    )]
    Unusable(#[from] IssueError),
}

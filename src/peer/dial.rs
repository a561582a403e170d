//! Calling another node.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::conversation::{Conversation, LONGEST_HELLO, PeerError, Stream, halves};
use super::hello::{Hello, Purpose, Welcome};
use super::identity::{Identity, name_of};
use super::refusals::Refusal;
use crate::model::ids::{NodeId, NodeRun};

/// The longest that a call may take to be answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a node is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whom to expect there.
    pub node: NodeId,
    /// Host and port.
    pub at: String,
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody answers.
    #[error("node {node} cannot be reached at {at}: {source}")]
    Unreachable {
        /// Whom.
        node: NodeId,
        /// Where.
        at: String,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody answers who does not talk as a node does.
    #[error("node {node} at {at}: {source}")]
    Broken {
        /// Whom.
        node: NodeId,
        /// Where.
        at: String,
        /// What happened.
        source: PeerError,
    },
    /// The node does not let this one in.
    #[error("node {node} refuses this one: {refusal}")]
    Refused {
        /// Whom.
        node: NodeId,
        /// Why.
        refusal: Refusal,
    },
}

/// The way to other nodes: TLS over TCP, or what a simulation has in its place.
#[async_trait]
pub trait Way: fmt::Debug + Send + Sync {
    /// A stream to whoever is at the address, if that is the node that is expected there; the node at the other end is
    /// as sure of this one.
    ///
    /// # Errors
    /// When nobody answers there, or somebody else does.
    async fn to(&self, address: &Address) -> io::Result<Box<dyn Stream>>;
}

#[async_trait]
impl Way for Identity {
    async fn to(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        by_tls(&self.client, address).await
    }
}

/// A stream to the node at an address, which has to prove that it is that node.
pub(super) async fn by_tls(client: &Arc<ClientConfig>, address: &Address) -> io::Result<Box<dyn Stream>> {
    let name = ServerName::try_from(name_of(address.node))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let stream = TcpStream::connect(&address.at).await?;
    stream.set_nodelay(true)?;
    let tls = TlsConnector::from(Arc::clone(client));
    Ok(Box::new(tls.connect(name, stream).await?))
}

/// Calls other nodes in the name of this one.
#[derive(Clone, Debug)]
pub struct Dialer {
    way: Arc<dyn Way>,
    me: NodeRun,
}

impl Dialer {
    /// A dialer of this run.
    #[must_use]
    pub fn new(way: impl Way + 'static, me: NodeRun) -> Self {
        Self { way: Arc::new(way), me }
    }

    /// In whose name.
    #[must_use]
    pub fn me(&self) -> NodeRun {
        self.me
    }

    /// Calls a node. Takes at most two seconds.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn dial(&self, to: &Address, purpose: Purpose) -> Result<Conversation, DialError> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in two seconds");
        match tokio::time::timeout(PATIENCE, self.converse(to, purpose)).await {
            Ok(answered) => answered,
            Err(_) => Err(unreachable(to, late())),
        }
    }

    async fn converse(&self, to: &Address, purpose: Purpose) -> Result<Conversation, DialError> {
        let stream = self.way.to(to).await.map_err(|error| unreachable(to, error))?;
        let (mut saying, mut hearing) = halves(stream);
        let broken = |source| DialError::Broken { node: to.node, at: to.at.clone(), source };
        saying.say(&Hello::new(self.me, purpose)).await.map_err(broken)?;
        let welcome: Welcome = hearing.hear_at_most(LONGEST_HELLO).await.map_err(broken)?;
        match welcome {
            Ok(peer) => Ok(Conversation::new(peer, saying, hearing)),
            Err(refusal) => Err(DialError::Refused { node: to.node, refusal }),
        }
    }
}

pub(super) fn unreachable(to: &Address, source: io::Error) -> DialError {
    DialError::Unreachable { node: to.node, at: to.at.clone(), source }
}

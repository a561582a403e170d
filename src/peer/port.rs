//! Being called by other nodes.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::conversation::{Conversation, LONGEST_HELLO, Stream, halves};
use super::hello::{Hello, Purpose, Welcome};
use super::identity::{Identity, is_of};
use super::refusals::{Refusal, Refusals};
use crate::model::ids::{NodeId, NodeRun};

/// How long whoever calls may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Callers who have not said who they are; for each one more the oldest is dropped.
const MOST_UNKNOWN: usize = 256;

/// How long to wait after the system gave no connection.
const BREATH: Duration = Duration::from_millis(100);

/// Where callers are led, by what they come for; a closed channel: this node does not do that.
#[derive(Clone, Debug)]
pub struct Reception {
    /// For [`Purpose::Control`].
    pub control: mpsc::Sender<Conversation>,
    /// For [`Purpose::Raft`].
    pub raft: mpsc::Sender<Conversation>,
    /// For [`Purpose::Operator`].
    pub operator: mpsc::Sender<Conversation>,
    /// For [`Purpose::Gossip`].
    pub gossip: mpsc::Sender<Conversation>,
}

impl Reception {
    fn door(&self, purpose: Purpose) -> &mpsc::Sender<Conversation> {
        match purpose {
            Purpose::Control => &self.control,
            Purpose::Raft => &self.raft,
            Purpose::Operator => &self.operator,
            Purpose::Gossip => &self.gossip,
        }
    }
}

/// The port on which other nodes call.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    host: Arc<Host>,
}

struct Host {
    tls: TlsAcceptor,
    usher: Usher,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("usher", &self.usher).finish_non_exhaustive()
    }
}

impl Port {
    /// A port on a listener that is bound. Must be called within a runtime.
    ///
    /// # Errors
    /// When the system cannot make the listener wait.
    pub fn new(
        listener: std::net::TcpListener,
        identity: &Identity,
        me: NodeRun,
        reception: Reception,
        refusals: Arc<Refusals>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let tls = TlsAcceptor::from(Arc::clone(&identity.server));
        Ok(Self { listener, host: Arc::new(Host { tls, usher: Usher::new(me, reception, refusals) }) })
    }

    /// Lets callers in, for ever.
    pub async fn serve(self) {
        let mut unknown = Unknown::default();
        loop {
            let (stream, from) = match self.listener.accept().await {
                Ok(caller) => caller,
                Err(error) => {
                    tracing::warn!(%error, "no connection of another node can be taken");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            let from = from.ip();
            if let Some(dropped) = unknown.make_room() {
                self.host.usher.refuse(Refusal::Crowded, &dropped);
            }
            let host = Arc::clone(&self.host);
            let greeting = tokio::spawn(async move {
                let greeted = tokio::time::timeout(PATIENCE, host.greet(stream)).await;
                match greeted.unwrap_or(Err(Refusal::Silent)) {
                    // Whoever is known no longer stands in the crowd, however long the door takes to open.
                    Ok(let_in) => drop(tokio::spawn(let_in.lead())),
                    Err(refusal) => host.usher.refuse(refusal, &from),
                }
            });
            unknown.0.push_back((from, greeting.abort_handle()));
        }
    }
}

/// Callers who have not said who they are, the oldest first.
#[derive(Debug, Default)]
struct Unknown(VecDeque<(IpAddr, AbortHandle)>);

impl Unknown {
    /// Makes room for one more; whose caller was dropped for it. It is the oldest of the address that has most of them,
    /// so that no address that floods the port keeps nodes at others out, and a node that says who it is in time gets
    /// in even from the same one.
    fn make_room(&mut self) -> Option<IpAddr> {
        if self.0.len() < MOST_UNKNOWN {
            return None;
        }
        self.0.retain(|(_, greeting)| !greeting.is_finished());
        if self.0.len() < MOST_UNKNOWN {
            return None;
        }
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        self.0.iter().for_each(|(from, _)| *by_address.entry(*from).or_default() += 1);
        let crowd =
            by_address.into_iter().max_by_key(|(from, count)| (*count, *from)).map(|(from, _)| from)?;
        let oldest = self.0.iter().position(|(from, _)| *from == crowd)?;
        let (from, greeting) = self.0.remove(oldest)?;
        greeting.abort();
        Some(from)
    }
}

impl Host {
    async fn greet(&self, stream: TcpStream) -> Result<LetIn, Refusal> {
        let _ = stream.set_nodelay(true);
        let stream = self.tls.accept(stream).await.map_err(|_| Refusal::Certificate)?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
        let certificate = certificate.ok_or(Refusal::Certificate)?;
        self.usher.greet(Box::new(stream), |node| is_of(&certificate, node)).await
    }
}

/// Hears who calls and what for, and leads them to the right door.
#[derive(Clone, Debug)]
pub struct Usher {
    me: NodeRun,
    reception: Reception,
    refusals: Arc<Refusals>,
}

impl Usher {
    /// An usher of this run.
    #[must_use]
    pub fn new(me: NodeRun, reception: Reception, refusals: Arc<Refusals>) -> Self {
        Self { me, reception, refusals }
    }

    /// Lets a caller in whom the way proves to be the node that `proves` is true of; refused ones are counted.
    pub async fn admit(&self, stream: Box<dyn Stream>, proves: impl Fn(NodeId) -> bool) {
        let greeted = tokio::time::timeout(PATIENCE, self.greet(stream, proves)).await;
        match greeted.unwrap_or(Err(Refusal::Silent)) {
            Ok(let_in) => let_in.lead().await,
            Err(refusal) => self.refuse(refusal, &"the other end"),
        }
    }

    async fn greet(
        &self,
        stream: Box<dyn Stream>,
        proves: impl Fn(NodeId) -> bool,
    ) -> Result<LetIn, Refusal> {
        let (mut saying, mut hearing) = halves(stream);
        let hello: Hello = hearing
            .hear_at_most(LONGEST_HELLO)
            .await
            .map_err(|error| error.refusal().unwrap_or(Refusal::Garbage))?;
        let door = self.reception.door(hello.purpose);
        let refusal = if !hello.is_understood() {
            Some(Refusal::Version)
        } else if !proves(hello.run.node) {
            Some(Refusal::WrongNode)
        } else if hello.run.node == self.me.node {
            Some(Refusal::SameNode)
        } else if door.is_closed() {
            Some(Refusal::NotServed)
        } else {
            None
        };
        let welcome: Welcome = refusal.map_or(Ok(self.me), Err);
        // Whoever is gone before the answer needs none.
        let _ = saying.say(&welcome).await;
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(LetIn { door: door.clone(), caller: Conversation::new(hello.run, saying, hearing) }),
        }
    }

    fn refuse(&self, refusal: Refusal, from: &dyn fmt::Display) {
        self.refusals.note(refusal, &format_args!("a caller at {from}"));
    }
}

/// A caller who is known, before the door that it wants.
struct LetIn {
    door: mpsc::Sender<Conversation>,
    caller: Conversation,
}

impl LetIn {
    async fn lead(self) {
        let _ = tokio::time::timeout(PATIENCE, self.door.send(self.caller)).await;
    }
}

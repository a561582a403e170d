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

use super::conversation::{Conversation, LONGEST_HELLO, Saying, Stream, halves};
use super::hello::{Hello, Purpose, Welcome};
use super::identity::{Identity, edge_name, instance_of, is_of};
use super::numbering::Applicant;
use super::refusals::{Refusal, Refusals};
use crate::model::ids::{NodeId, NodeRun};
use crate::model::numbered::{EdgeName, Instance};

/// How long whoever calls may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Callers who have not said who they are; for each one more the oldest is dropped.
const MOST_UNKNOWN: usize = 256;

/// Callers who may wait to be attended to, by what they come for.
const MOST_WAITING: usize = 64;

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
    /// For [`Purpose::Number`].
    pub number: mpsc::Sender<Applicant>,
}

/// Who was led somewhere, by what for.
#[derive(Debug)]
pub struct Arrived {
    /// For [`Purpose::Control`].
    pub control: mpsc::Receiver<Conversation>,
    /// For [`Purpose::Raft`].
    pub raft: mpsc::Receiver<Conversation>,
    /// For [`Purpose::Operator`].
    pub operator: mpsc::Receiver<Conversation>,
    /// For [`Purpose::Gossip`].
    pub gossip: mpsc::Receiver<Conversation>,
    /// For [`Purpose::Number`].
    pub number: mpsc::Receiver<Applicant>,
}

impl Reception {
    /// A reception, and where those arrive whom it leads on.
    #[must_use]
    pub fn open() -> (Self, Arrived) {
        let (control, to_control) = mpsc::channel(MOST_WAITING);
        let (raft, to_raft) = mpsc::channel(MOST_WAITING);
        let (operator, to_operator) = mpsc::channel(MOST_WAITING);
        let (gossip, to_gossip) = mpsc::channel(MOST_WAITING);
        let (number, to_number) = mpsc::channel(MOST_WAITING);
        let arrived = Arrived {
            control: to_control,
            raft: to_raft,
            operator: to_operator,
            gossip: to_gossip,
            number: to_number,
        };
        (Self { control, raft, operator, gossip, number }, arrived)
    }

    /// The door for nodes that have a number; `None`: who comes for this has none.
    fn door(&self, purpose: Purpose) -> Option<&mpsc::Sender<Conversation>> {
        Some(match purpose {
            Purpose::Control => &self.control,
            Purpose::Raft => &self.raft,
            Purpose::Operator => &self.operator,
            Purpose::Gossip => &self.gossip,
            Purpose::Number => return None,
        })
    }
}

/// What a caller's certificate tells beyond the number that it claims.
#[derive(Debug, Default)]
struct Shown {
    instance: Option<Instance>,
    /// What it calls edges without a number, if it is of such.
    name: Option<EdgeName>,
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
                    Ok(Some(let_in)) => drop(tokio::spawn(let_in.lead())),
                    Ok(None) => tracing::debug!(%from, "a caller has hung up before it said who it is"),
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
    /// `None`: it hangs up first, as nodes do that end or have found another leader.
    async fn greet(&self, stream: TcpStream) -> Result<Option<LetIn>, Refusal> {
        let _ = stream.set_nodelay(true);
        let stream = match self.tls.accept(stream).await {
            Ok(stream) => stream,
            Err(error) => return refusal_of(&error).map_or(Ok(None), Err),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
        let certificate = certificate.ok_or(Refusal::Certificate)?;
        let shown = Shown { instance: instance_of(&certificate), name: edge_name(&certificate) };
        self.usher.greet(Box::new(stream), |node| is_of(&certificate, node), shown).await.map(Some)
    }
}

/// Why a handshake came to nothing; `None`: the caller has gone.
fn refusal_of(error: &io::Error) -> Option<Refusal> {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
        return None;
    }
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    Some(match of_tls {
        Some(rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. }) => {
            Refusal::Garbage
        }
        _ => Refusal::Certificate,
    })
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
        let greeted = tokio::time::timeout(PATIENCE, self.greet(stream, proves, Shown::default())).await;
        match greeted.unwrap_or(Err(Refusal::Silent)) {
            Ok(let_in) => let_in.lead().await,
            Err(refusal) => self.refuse(refusal, &"the other end"),
        }
    }

    async fn greet(
        &self,
        stream: Box<dyn Stream>,
        proves: impl Fn(NodeId) -> bool,
        shown: Shown,
    ) -> Result<LetIn, Refusal> {
        let (saying, mut hearing) = halves(stream);
        let hello: Hello = hearing
            .hear_at_most(LONGEST_HELLO)
            .await
            .map_err(|error| error.refusal().unwrap_or(Refusal::Garbage))?;
        if !hello.is_understood() {
            return self.turn_away(saying, Refusal::Version).await;
        }
        match (hello.run, self.reception.door(hello.purpose), shown.name) {
            (Some(run), Some(door), _) => {
                let refusal = if !proves(run.node) {
                    Some(Refusal::WrongNode)
                } else if run.node == self.me.node {
                    Some(Refusal::SameNode)
                } else {
                    door.is_closed().then_some(Refusal::NotServed)
                };
                if let Some(refusal) = refusal {
                    return self.turn_away(saying, refusal).await;
                }
                let saying = self.welcome(saying).await;
                let caller = Conversation::new(run, saying, hearing).with_instance(shown.instance);
                Ok(LetIn::Node(door.clone(), caller))
            }
            (None, None, Some(_)) if self.reception.number.is_closed() => {
                self.turn_away(saying, Refusal::NotServed).await
            }
            (None, None, Some(name)) => {
                let saying = self.welcome(saying).await;
                let application = hearing.hear_at_most(LONGEST_HELLO).await;
                let application = application.map_err(|error| error.refusal().unwrap_or(Refusal::Garbage))?;
                Ok(LetIn::Unnumbered(
                    self.reception.number.clone(),
                    Applicant::new(name, application, saying),
                ))
            }
            _ => self.turn_away(saying, Refusal::WrongNode).await,
        }
    }

    /// Says who answers. Whoever is gone before needs no answer.
    async fn welcome(&self, mut saying: Saying) -> Saying {
        let welcome: Welcome = Ok(self.me);
        let _ = saying.say(&welcome).await;
        saying
    }

    /// Says why not.
    async fn turn_away(&self, mut saying: Saying, refusal: Refusal) -> Result<LetIn, Refusal> {
        let welcome: Welcome = Err(refusal);
        let _ = saying.say(&welcome).await;
        Err(refusal)
    }

    fn refuse(&self, refusal: Refusal, from: &dyn fmt::Display) {
        self.refusals.note(refusal, &format_args!("a caller at {from}"));
    }
}

/// A caller who is known, before the door that it wants.
enum LetIn {
    Node(mpsc::Sender<Conversation>, Conversation),
    Unnumbered(mpsc::Sender<Applicant>, Applicant),
}

impl LetIn {
    async fn lead(self) {
        let leading = async {
            match self {
                Self::Node(door, caller) => drop(door.send(caller).await),
                Self::Unnumbered(door, applicant) => drop(door.send(applicant).await),
            }
        };
        let _ = tokio::time::timeout(PATIENCE, leading).await;
    }
}

//! Those who call with gossip.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chitchat::{ChitchatMessage, Deserializable};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::book::Book;
use super::line::{LONGEST_FRAME, LONGEST_OPENING, Opening};
use crate::model::ids::{Generation, NodeId};
use crate::peer::{Conversation, PeerError, Refusal, Refusals};

/// How long a caller may take to say where it is to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of one node's nonsense is told no more often.
const TELL_GAP: Duration = Duration::from_secs(60);

/// A message and the address of its sender.
pub(super) type Heard = (SocketAddr, ChitchatMessage);

/// Hears all callers out, one conversation to a node.
pub(super) struct Callers {
    book: Book,
    inbox: mpsc::Sender<Heard>,
    hearing: BTreeMap<NodeId, (Generation, AbortHandle)>,
    tasks: JoinSet<Result<(), (NodeId, Unheard)>>,
    refusals: Arc<Refusals>,
    /// Whose nonsense was told of, and when.
    told: BTreeMap<NodeId, Instant>,
}

/// Why a caller is not listened to any longer.
#[derive(Debug, thiserror::Error)]
enum Unheard {
    #[error("{0}")]
    Peer(#[from] PeerError),
    #[error("it does not say where it is to be found")]
    Silent,
    #[error("nobody can call it at {0}; look at its `cluster.advertise`")]
    Nowhere(SocketAddr),
    #[error("no message of gossip ({0}); do both run versions that know each other?")]
    Garbled(String),
}

impl Unheard {
    /// What the caller is refused for; `None`: the connection is over, as every one is some day.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Peer(error) => error.refusal(),
            Self::Silent => Some(Refusal::Silent),
            Self::Nowhere(_) | Self::Garbled(_) => Some(Refusal::Garbage),
        }
    }
}

impl Callers {
    pub(super) fn new(book: Book, inbox: mpsc::Sender<Heard>, refusals: Arc<Refusals>) -> Self {
        Self { book, inbox, hearing: BTreeMap::new(), tasks: JoinSet::new(), refusals, told: BTreeMap::new() }
    }

    /// Hears callers out until the door is closed and the last has hung up.
    pub(super) async fn receive(mut self, mut door: mpsc::Receiver<Conversation>) {
        loop {
            tokio::select! {
                Some(caller) = door.recv() => self.admit(caller),
                Some(over) = self.tasks.join_next() => {
                    if let Ok(Err((node, why))) = over {
                        self.tell(node, &why);
                    }
                }
                else => return,
            }
        }
    }

    fn admit(&mut self, caller: Conversation) {
        let peer = caller.peer();
        if self.hearing.get(&peer.node).is_some_and(|(known, _)| *known > peer.generation) {
            return;
        }
        let (book, inbox) = (self.book.clone(), self.inbox.clone());
        let task = self
            .tasks
            .spawn(async move { hear_out(caller, &book, &inbox).await.map_err(|why| (peer.node, why)) });
        if let Some((_, before)) = self.hearing.insert(peer.node, (peer.generation, task)) {
            before.abort();
        }
    }

    /// Counts what a node is not listened to for, and tells of it.
    fn tell(&mut self, node: NodeId, why: &Unheard) {
        let Some(refusal) = why.refusal() else { return };
        self.refusals.count_one(refusal);
        let now = Instant::now();
        if self.told.get(&node).is_none_or(|told| now.duration_since(*told) >= TELL_GAP) {
            self.told.insert(node, now);
            tracing::warn!(%node, reason = refusal.as_str(), "gossip of a node is not taken: {why}");
        }
    }
}

async fn hear_out(caller: Conversation, book: &Book, inbox: &mpsc::Sender<Heard>) -> Result<(), Unheard> {
    let node = caller.peer().node;
    let (_unused, mut hearing) = caller.split();
    let opening = tokio::time::timeout(PATIENCE, hearing.hear_at_most(LONGEST_OPENING)).await;
    let Opening { at } = opening.map_err(|_| Unheard::Silent)??;
    if at.ip().is_unspecified() || at.port() == 0 {
        return Err(Unheard::Nowhere(at));
    }
    book.note_caller(node, at);
    loop {
        let frame: Vec<u8> = hearing.hear_at_most(LONGEST_FRAME).await?;
        let mut rest = frame.as_slice();
        let message =
            ChitchatMessage::deserialize(&mut rest).map_err(|error| Unheard::Garbled(error.to_string()))?;
        if !rest.is_empty() {
            return Err(Unheard::Garbled(format!("{} bytes too many", rest.len())));
        }
        // Whoever sends faster than this node takes waits in its own queue, and drops there.
        if inbox.send((at, message)).await.is_err() {
            return Ok(());
        }
    }
}

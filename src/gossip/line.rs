//! Chitchat's way to other nodes: a queue and a connection to each that it talks to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chitchat::transport::{Socket, Transport};
use chitchat::{ChitchatMessage, Serializable};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc};

use super::book::Book;
use super::callers::Heard;
use crate::peer::{Address, Dialer, Purpose};

/// No message is longer, in bytes: chitchat cuts what it sends to what a datagram would hold.
const LONGEST_MESSAGE: usize = 65_507;

/// The longest frame with a message: its length takes up to three bytes.
pub(super) const LONGEST_FRAME: u32 = 65_507 + 3;

/// The longest frame with an [`Opening`].
pub(super) const LONGEST_OPENING: u32 = 64;

/// Messages that wait for a node; what it was not sent now it is sent in a later round.
const MOST_WAITING: usize = 4;

/// How long a node may take to let a message through.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection may be unused.
const IDLE: Duration = Duration::from_secs(60);

/// What a caller says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Opening {
    /// Where the caller is called.
    pub(super) at: SocketAddr,
}

/// Opens a [`Line`] after the other: there is one at a time.
#[derive(Clone)]
pub(super) struct Exchange {
    dialer: Dialer,
    at: SocketAddr,
    book: Book,
    inbox: Arc<Mutex<mpsc::Receiver<Heard>>>,
}

impl Exchange {
    pub(super) fn new(dialer: Dialer, at: SocketAddr, book: Book, inbox: mpsc::Receiver<Heard>) -> Self {
        Self { dialer, at, book, inbox: Arc::new(Mutex::new(inbox)) }
    }

    pub(super) fn line(&self) -> Line {
        Line { exchange: self.clone(), queues: HashMap::new() }
    }
}

#[async_trait]
impl Transport for Exchange {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        Ok(Box::new(self.line()))
    }
}

/// The way to all other nodes. Whatever goes wrong with one of them is no business of chitchat's, which would end.
pub(super) struct Line {
    exchange: Exchange,
    queues: HashMap<SocketAddr, mpsc::Sender<ChitchatMessage>>,
}

#[async_trait]
impl Socket for Line {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        let queue = match self.queues.get(&to) {
            Some(queue) if !queue.is_closed() => queue,
            _ => {
                let Some(address) = self.exchange.book.whom(to) else { return Ok(()) };
                self.queues.retain(|_, queue| !queue.is_closed());
                let (queue, waiting) = mpsc::channel(MOST_WAITING);
                let Exchange { dialer, at, .. } = &self.exchange;
                tokio::spawn(talk(dialer.clone(), address, Opening { at: *at }, waiting));
                self.queues.entry(to).insert_entry(queue).into_mut()
            }
        };
        let _ = queue.try_send(message);
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<Heard> {
        let heard = self.exchange.inbox.lock().await.recv().await;
        heard.ok_or_else(|| anyhow::anyhow!("the node ends"))
    }
}

/// Calls a node and says to it what is in the queue, until the queue is gone, nothing comes, or the node hangs up.
async fn talk(dialer: Dialer, to: Address, opening: Opening, mut queue: mpsc::Receiver<ChitchatMessage>) {
    let node = to.node;
    let conversation = match dialer.dial(&to, Purpose::Gossip).await {
        Ok(conversation) => conversation,
        Err(error) => return tracing::debug!(%node, %error, "gossip does not reach a node"),
    };
    let (mut saying, mut hearing) = conversation.split();
    // Nobody answers here: whatever is heard is the end.
    let over = hearing.hear_at_most::<()>(0);
    tokio::pin!(over);
    if !matches!(tokio::time::timeout(PATIENCE, saying.say(&opening)).await, Ok(Ok(()))) {
        return;
    }
    loop {
        let message = tokio::select! {
            message = tokio::time::timeout(IDLE, queue.recv()) => message,
            _ = &mut over => return,
        };
        let Ok(Some(message)) = message else { return };
        let bytes = message.serialize_to_vec();
        if bytes.len() > LONGEST_MESSAGE {
            tracing::debug!(%node, bytes = bytes.len(), "a message of gossip is too long");
            continue;
        }
        match tokio::time::timeout(PATIENCE, saying.say(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return tracing::debug!(%node, %error, "a node has hung up"),
            Err(_) => return tracing::debug!(%node, "a node takes no gossip"),
        }
    }
}

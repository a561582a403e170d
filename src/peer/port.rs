//! Being called by other nodes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::conversation::{Conversation, LONGEST_HELLO, halves};
use super::hello::{Hello, Purpose, Welcome};
use super::identity::{Identity, is_of};
use super::refusals::{Refusal, Refusals};
use crate::model::ids::NodeRun;

/// How long whoever calls may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Callers who have not said who they are; more are not answered until some have.
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
    me: NodeRun,
    tls: TlsAcceptor,
    reception: Reception,
    refusals: Arc<Refusals>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("me", &self.me).finish_non_exhaustive()
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
        Ok(Self { listener, host: Arc::new(Host { me, tls, reception, refusals }) })
    }

    /// Lets callers in, for ever.
    pub async fn serve(self) {
        let unknown = Arc::new(Semaphore::new(MOST_UNKNOWN));
        loop {
            let Ok(turn) = Arc::clone(&unknown).acquire_owned().await else { return };
            let (stream, from) = match self.listener.accept().await {
                Ok(caller) => caller,
                Err(error) => {
                    tracing::warn!(%error, "no connection of another node can be taken");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            let host = Arc::clone(&self.host);
            tokio::spawn(async move {
                let answered = tokio::time::timeout(PATIENCE, host.answer(stream)).await;
                if let Err(refusal) = answered.unwrap_or(Err(Refusal::Garbage)) {
                    host.refuse(refusal, from);
                }
                drop(turn);
            });
        }
    }
}

impl Host {
    async fn answer(&self, stream: TcpStream) -> Result<(), Refusal> {
        let _ = stream.set_nodelay(true);
        let stream = self.tls.accept(stream).await.map_err(|_| Refusal::Certificate)?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
        let certificate = certificate.ok_or(Refusal::Certificate)?;
        let (mut saying, mut hearing) = halves(Box::new(stream));
        let hello: Hello = hearing.hear_at_most(LONGEST_HELLO).await.map_err(|_| Refusal::Garbage)?;
        let door = self.reception.door(hello.purpose);
        let refusal = if !hello.is_understood() {
            Some(Refusal::Version)
        } else if !is_of(&certificate, hello.run.node) {
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
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let _ = door.send(Conversation::new(hello.run, saying, hearing)).await;
        Ok(())
    }

    fn refuse(&self, refusal: Refusal, from: SocketAddr) {
        self.refusals.note(refusal, &from.ip());
    }
}

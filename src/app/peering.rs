//! This node among others: its identity, the port on which they call, and its place in the fleet.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

use super::node::StartError;
use crate::config::{ClusterSettings, PeerFiles, ServerAddress};
use crate::control::{Incoming, Membership, OpenControl, RunningControl};
use crate::desk::Desk;
use crate::gossip::{Gossip, Pace};
use crate::model::ids::{NodeId, NodeRun};
use crate::model::policy::Fault;
use crate::peer::{Dialer, Identity, IdentityError, IdentityFiles, Port, Reception, Refusals};

/// Callers who may wait to be attended to.
const MOST_WAITING: usize = 64;

/// Who this node is to others.
///
/// # Errors
/// When its certificate files do not do.
fn identity(cluster: &ClusterSettings, node: NodeId) -> Result<Identity, IdentityError> {
    let files = &cluster.tls;
    Identity::load(&files.ca, &files.certificate, &files.key, node)
}

/// What is wrong with the certificate files, under the keys that name them.
pub(super) fn identity_faults(cluster: &ClusterSettings, node: NodeId) -> Vec<Fault> {
    let PeerFiles { ca, certificate, key } = &cluster.tls;
    let faults = Identity::faults(IdentityFiles { ca, certificate, key }, node);
    let told = |error: IdentityError| Fault { path: error.path().to_owned(), problem: error.to_string() };
    faults.into_iter().map(told).collect()
}

/// A place in a fleet that is not taken yet.
pub(super) struct Peering {
    listener: TcpListener,
    identity: Identity,
    me: NodeRun,
    /// Where others call this node.
    at: SocketAddr,
    membership: Membership,
    refusals: Arc<Refusals>,
}

impl Peering {
    /// Reads the certificate; others will call at the listener.
    ///
    /// # Errors
    /// When the certificate or the address to tell others cannot be had.
    pub(super) fn open(
        cluster: &ClusterSettings,
        listener: TcpListener,
        me: NodeRun,
    ) -> Result<Self, StartError> {
        let identity = identity(cluster, me.node)?;
        let at = match &cluster.advertise {
            Some(advertised) => looked_up(advertised)?,
            None => listener.local_addr().map_err(|error| StartError::System(error.to_string()))?,
        };
        let controllers = cluster.controllers.iter().map(|(node, at)| (*node, at.to_string())).collect();
        let dialer = Dialer::new(identity.clone(), me);
        let membership = Membership { dialer, controllers, heartbeat: cluster.heartbeat };
        Ok(Self { listener, identity, me, at, membership, refusals: Arc::default() })
    }

    /// Whom this node does not let in, counted from now on.
    pub(super) fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// Answers other nodes from now on, on a thread of its own, and takes the place.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn join(
        self,
        open: OpenControl,
        desk: Arc<Desk>,
    ) -> io::Result<(RunningControl, RunningPeers)> {
        let Self { listener, identity, me, at, membership, refusals } = self;
        let (control, edges) = mpsc::channel(MOST_WAITING);
        let (raft, controllers) = mpsc::channel(MOST_WAITING);
        let (operator, operators) = mpsc::channel(MOST_WAITING);
        let (gossip, gossips) = mpsc::channel(MOST_WAITING);
        let reception = Reception { control, raft, operator, gossip };
        let gossiping = Gossip {
            desk: Arc::clone(&desk),
            dialer: membership.dialer.clone(),
            at,
            controllers: membership.controllers.clone(),
            callers: gossips,
            pace: Pace::default(),
            refusals: Arc::clone(&refusals),
        };
        let incoming = Incoming {
            control: edges,
            raft: controllers,
            operator: operators,
            refusals: Arc::clone(&refusals),
        };
        let running = open.join(desk, membership, incoming)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = async move {
            match Port::new(listener, &identity, me, reception, refusals) {
                Ok(port) => {
                    tokio::spawn(gossiping.run());
                    port.serve().await;
                }
                Err(error) => tracing::error!(%error, "other nodes cannot call this one"),
            }
        };
        let (end, mut ended) = watch::channel(false);
        let until_ended = async move {
            tokio::select! {
                () = answer => {}
                _ = ended.wait_for(|ended| *ended) => {}
            }
        };
        let answer = move || runtime.block_on(until_ended);
        let thread = std::thread::Builder::new().name("peers".to_owned()).spawn(answer)?;
        Ok((running, RunningPeers { end, thread }))
    }
}

/// The port on which other nodes call, and gossip, at work.
#[derive(Debug)]
pub(super) struct RunningPeers {
    end: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl RunningPeers {
    /// Hangs up on every other node, and closes the port.
    pub(super) fn stop(self) {
        self.end.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("the thread that other nodes call ended by a fault in the program");
        }
    }
}

/// The address behind a name, as it is now.
fn looked_up(advertised: &ServerAddress) -> Result<SocketAddr, StartError> {
    let found = (advertised.host.as_str(), advertised.port.get()).to_socket_addrs();
    let missing = |detail: String| {
        StartError::System(format!(
            "`cluster.advertise` {advertised} is no address that can be found ({detail})"
        ))
    };
    let mut found = found.map_err(|error| missing(error.to_string()))?;
    found.next().ok_or_else(|| missing("the name has none".to_owned()))
}

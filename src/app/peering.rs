//! This node among others: its identity, the port on which they call, and its place in the fleet.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::node::StartError;
use crate::config::{ClusterSettings, OwnNumber, PeerFiles, ServerAddress, SignerFiles};
use crate::control::{Incoming, Membership, OpenControl, RunningControl};
use crate::desk::Desk;
use crate::gossip::{Gossip, Pace};
use crate::model::ids::{NodeId, NodeRun};
use crate::model::policy::Fault;
use crate::peer::{
    Arrived, Dialer, Identity, IdentityError, IdentityFiles, Numbering, NumberingError, Port, Reception,
    Refusals, Unnumbered,
};

/// Who this node is to others.
///
/// # Errors
/// When its certificate files do not do.
pub(super) fn identity(cluster: &ClusterSettings, node: NodeId) -> Result<Identity, IdentityError> {
    let files = &cluster.tls;
    Identity::load(&files.ca, &files.certificate, &files.key, node)
}

/// What is wrong with the certificate files, under the keys that name them.
pub(super) fn identity_faults(cluster: &ClusterSettings, number: OwnNumber) -> Vec<Fault> {
    let PeerFiles { ca, certificate, key } = &cluster.tls;
    let files = IdentityFiles { ca, certificate, key };
    let faults = match number {
        OwnNumber::Configured(node) => Identity::faults(files, node),
        OwnNumber::Auto => Unnumbered::faults(files),
    };
    let told = |error: IdentityError| Fault { path: error.path().to_owned(), problem: error.to_string() };
    let mut faults: Vec<_> = faults.into_iter().map(told).collect();
    // A fault of the CA is told once.
    if faults.is_empty()
        && let Err(error) = numbering(cluster)
    {
        faults.push(Fault { path: "cluster.numbering".to_owned(), problem: error.to_string() });
    }
    faults
}

/// What this node certifies the numbers of edges with, if it does.
fn numbering(cluster: &ClusterSettings) -> Result<Option<Numbering>, NumberingError> {
    let load = |files: &SignerFiles| Numbering::load(&cluster.tls.ca, &files.certificate, &files.key);
    cluster.numbering.as_ref().map(load).transpose()
}

/// A place in a fleet that is not taken yet.
pub(super) struct Peering {
    listener: TcpListener,
    identity: Identity,
    me: NodeRun,
    /// Where others call this node.
    at: SocketAddr,
    membership: Membership,
    numbering: Option<Numbering>,
    refusals: Arc<Refusals>,
}

impl Peering {
    /// A place under this identity; others will call at the listener.
    ///
    /// # Errors
    /// When what numbers are certified with, or the address to tell others, cannot be had.
    pub(super) fn open(
        cluster: &ClusterSettings,
        identity: Identity,
        listener: TcpListener,
        me: NodeRun,
    ) -> Result<Self, StartError> {
        let numbering = numbering(cluster)?;
        let at = match &cluster.advertise {
            Some(advertised) => looked_up(advertised)?,
            None => reached_at(cluster, &listener)?,
        };
        let controllers = cluster.controllers.iter().map(|(node, at)| (*node, at.to_string())).collect();
        let dialer = Dialer::new(identity.clone(), me);
        let membership = Membership { dialer, controllers, heartbeat: cluster.heartbeat };
        Ok(Self { listener, identity, me, at, membership, numbering, refusals: Arc::default() })
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
        let Self { listener, identity, me, at, membership, numbering, refusals } = self;
        let (reception, Arrived { control, raft, operator, gossip, number }) = Reception::open();
        let gossiping = Gossip {
            desk: Arc::clone(&desk),
            dialer: membership.dialer.clone(),
            at,
            controllers: membership.controllers.clone(),
            callers: gossip,
            pace: Pace::default(),
            refusals: Arc::clone(&refusals),
        };
        let incoming =
            Incoming { control, raft, operator, number, numbering, refusals: Arc::clone(&refusals) };
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

/// Where others reach a listener: where it says, or, if it stands for every address of the machine, at the one from which
/// this machine reaches the controllers.
fn reached_at(cluster: &ClusterSettings, listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let system = |error: io::Error| StartError::System(error.to_string());
    let at = listener.local_addr().map_err(system)?;
    if !at.ip().is_unspecified() {
        return Ok(at);
    }
    let own = cluster.controllers.values().find_map(|controller| {
        let (host, port) = (controller.host.as_str(), controller.port.get());
        (host, port).to_socket_addrs().ok()?.find_map(|to| {
            let any: IpAddr =
                if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind((any, 0)).ok()?;
            // Nothing is sent: the system only looks up the way.
            socket.connect(to).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
    });
    let missing = || {
        StartError::System(
            "it is not known where other nodes are to call this one: write `cluster.advertise`".to_owned(),
        )
    };
    Ok(SocketAddr::new(own.ok_or_else(missing)?, at.port()))
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

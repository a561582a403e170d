//! A node: everything that one process runs.

mod serving;
mod succession;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

pub use self::succession::{Left, Outcome};
use super::bind::{BindError, Reserved};
use super::certificates::{self, Certificate, CertificateError};
use super::ending::Over;
use super::hand_over::{Predecessor, Sockets, TakeOverError};
use super::learning::Learning;
use super::numbered::Numbered;
use super::open_files;
use super::operator::Operator;
use super::peering;
use super::peering::{Peering, RunningPeers};
use super::reload::Reloader;
use super::signals::Signals;
use crate::admin::{Admin, AdminToken, AdminTokenError, Probes};
use crate::clock::Clock;
use crate::config::{self, ClusterSettings, Faults, Settings};
use crate::control::{OpenControl, OpenError, RunningControl};
use crate::desk::Desk;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::model::policy::Fault;
use crate::peer::{IdentityError, NumberingError};
use crate::proxy::{Gate, ProxySettings};

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The control log.
    #[error(transparent)]
    Control(#[from] OpenError),
    /// An address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The operator's token.
    #[error(transparent)]
    Token(#[from] AdminTokenError),
    /// What other nodes know this one by.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What numbers are certified with.
    #[error(transparent)]
    Numbering(#[from] NumberingError),
    /// The data directory, before there is a control log in it.
    #[error("what the leader gives this edge cannot be kept in {path}: {source}; mend `node.data_dir`")]
    Unkept {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process that runs does not give way.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// Something that the operator can do little about.
    #[error("the node cannot start: {0}")]
    System(String),
}

impl StartError {
    fn system(error: impl std::fmt::Display) -> Self {
        Self::System(error.to_string())
    }
}

/// Does everything that a start does with a configuration file, but opens and binds nothing.
///
/// # Errors
/// Every fault of the file.
pub fn check(file: &Path) -> Result<Settings, Faults> {
    let settings = config::load(file)?;
    let files = settings.listeners.iter().enumerate().filter_map(|(at, one)| Some((at, one.tls.as_ref()?)));
    let fault = |(at, files)| {
        let problem = certificates::read(files).err()?.to_string();
        Some(Fault { path: format!("listeners[{at}].tls"), problem })
    };
    let cluster = settings.cluster.iter();
    let identity = cluster.flat_map(|cluster| peering::identity_faults(cluster, settings.node.id));
    let faults: Vec<_> = files.filter_map(fault).chain(identity).collect();
    if faults.is_empty() { Ok(settings) } else { Err(Faults::around(file, faults)) }
}

/// A node that is open, and serves nobody yet.
pub struct Node {
    desk: Arc<Desk>,
    control: RunningControl,
    peers: Option<RunningPeers>,
    operator: Operator,
    lifecycle: Arc<Lifecycle>,
    reloader: Arc<Reloader>,
    gate: Gate<Desk>,
    listeners: Vec<SocketAddr>,
    /// The same, until visitors are served.
    reserved: Vec<Reserved>,
    admin: SocketAddr,
    metrics: SocketAddr,
    /// Everything that this process listens at.
    sockets: Sockets,
    /// Who has to be told once it serves.
    predecessor: Option<Predecessor>,
    numbered: Numbered,
}

/// Who gives a node its sockets.
enum SocketsFrom {
    /// The system.
    System,
    /// The process that runs.
    Running(Predecessor),
    /// This process.
    Left(Sockets),
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("desk", &self.desk).finish_non_exhaustive()
    }
}

impl Node {
    /// Opens the control log, tries every address, and starts all but the listeners of visitors.
    ///
    /// `file` is what a reload reads again.
    ///
    /// # Errors
    /// See [`StartError`]: one line that says what to do.
    pub fn open(settings: Settings, file: Option<PathBuf>, numbered: Numbered) -> Result<Self, StartError> {
        OpenControl::clear_for(&settings.node.data_dir, numbered.node)?;
        Self::open_at(settings, file, numbered, SocketsFrom::System)
    }

    /// Opens the node in place of the process that runs it.
    ///
    /// # Errors
    /// See [`StartError`]; that process goes on, or opens the node again.
    pub fn take_over(settings: Settings, file: PathBuf, numbered: Numbered) -> Result<Self, StartError> {
        OpenControl::look(&settings.node.data_dir, numbered.node)?;
        AdminToken::look(&settings.admin.token_file, &settings.node.data_dir)?;
        let predecessor = Predecessor::ask(&settings.node)?;
        Self::open_at(settings, Some(file), numbered, SocketsFrom::Running(predecessor))
    }

    /// Opens a node again, at the sockets that it had.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn open_again(left: Left) -> Result<Self, StartError> {
        let Left { settings, file, numbered, sockets } = left;
        Self::open_at(Settings::clone(&settings), file, numbered, SocketsFrom::Left(sockets))
    }

    fn open_at(
        settings: Settings,
        file: Option<PathBuf>,
        numbered: Numbered,
        from: SocketsFrom,
    ) -> Result<Self, StartError> {
        open_files::allow_many();
        let clock = Clock::start();
        let certificates = settings
            .listeners
            .iter()
            .map(|listener| listener.tls.as_ref().map(Certificate::load).transpose());
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let (inherited, predecessor) = match from {
            SocketsFrom::System => (Sockets::default(), None),
            SocketsFrom::Running(predecessor) => (predecessor.sockets.clone(), Some(predecessor)),
            SocketsFrom::Left(sockets) => (sockets, None),
        };
        let sockets = Sockets::default();
        let reserve = |name, address| Reserved::new(name, address, &inherited);
        let listeners = settings.listeners.iter().map(|listener| reserve("listeners", listener.address));
        let reserved = listeners.collect::<Result<Vec<_>, _>>()?;
        let api = reserve("admin.address", settings.admin.address)?.listen(&sockets)?;
        let probes = reserve("metrics.address", settings.metrics.address)?.listen(&sockets)?;
        let addresses = (api.local_addr(), probes.local_addr());
        let admin = addresses.0.map_err(StartError::system)?;
        let metrics_address = addresses.1.map_err(StartError::system)?;
        let cluster = settings.cluster.as_ref();
        let port = |cluster: &ClusterSettings| reserve("cluster.listen", cluster.listen)?.listen(&sockets);
        let port = cluster.map(port).transpose()?;
        // What this configuration has no use for.
        inherited.close();
        if let Some(predecessor) = &predecessor {
            predecessor.await_way()?;
        }
        let open = OpenControl::open(&settings.node.data_dir, numbered.node, clock)?;
        let peering = cluster.zip(port).zip(numbered.identity.clone());
        let peering =
            peering.map(|((cluster, port), identity)| Peering::open(cluster, identity, port, open.run()));
        let peering = peering.transpose()?;
        let token = AdminToken::load_or_make(&settings.admin.token_file, rand::random())?;
        let desk = Desk::new(open.run(), clock);
        let refusals = peering.as_ref().map(Peering::refusals).unwrap_or_default();
        let running = match peering {
            Some(peering) => {
                peering.join(open, Arc::clone(&desk)).map(|(control, peers)| (control, Some(peers)))
            }
            None => open.start(Arc::clone(&desk)).map(|control| (control, None)),
        };
        let (control, peers) = running.map_err(StartError::system)?;
        let metrics = Metrics::new().map_err(StartError::system)?;
        metrics.configured(clock.wall());
        let gate = Gate::new(Arc::clone(&desk), ProxySettings::from(&settings), Arc::clone(&metrics), clock);
        let gate = gate.map_err(StartError::system)?;
        let lifecycle = Arc::new(Lifecycle::default());
        let reloader = Arc::new(Reloader {
            file,
            settings: ArcSwap::from_pointee(settings),
            gate: gate.clone(),
            certificates,
            desk: Arc::clone(&desk),
            metrics: Arc::clone(&metrics),
            clock,
            one_at_a_time: Mutex::new(()),
        });
        let assembly = Arc::clone(&reloader) as _;
        let admin_parts = Admin { desk: Arc::clone(&desk), token: Arc::new(token), assembly };
        let probe_parts =
            Probes { desk: Arc::clone(&desk), metrics, lifecycle: Arc::clone(&lifecycle), refusals };
        let operator =
            Operator::start((api, admin_parts), (probes, probe_parts)).map_err(StartError::system)?;
        Ok(Self {
            desk,
            control,
            peers,
            operator,
            lifecycle,
            reloader,
            gate,
            listeners: reserved.iter().map(|reserved| reserved.address).collect(),
            reserved,
            admin,
            metrics: metrics_address,
            sockets,
            predecessor,
            numbered,
        })
    }

    /// Where visitors are served, in the order of the configuration.
    #[must_use]
    pub fn listeners(&self) -> &[SocketAddr] {
        &self.listeners
    }

    /// Where the operator's API listens.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where metrics and probes listen.
    #[must_use]
    pub fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Serves until a signal ends it, or another process takes over. The caller's thread must not belong to a runtime.
    ///
    /// # Errors
    /// When the node could not go on.
    pub fn run(mut self, signals: &Signals) -> anyhow::Result<Outcome> {
        let ended = match self.prepare(signals)? {
            Prepared::Ended => Ok(Over::Ended),
            prepared => self.serve(signals, prepared),
        };
        let ended = match ended {
            Ok(Over::Followed(successor)) => return self.give_place(&successor, signals),
            Ok(Over::Ended) => Ok(Outcome::Ended),
            Err(error) => Err(error),
        };
        self.control.stop();
        self.operator.stop();
        tracing::info!("the node has ended");
        ended
    }

    /// Waits until it is known which events there are.
    fn prepare(&self, signals: &Signals) -> io::Result<Prepared> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let learning = self.learning();
        runtime.block_on(async {
            tokio::select! {
                () = learning.hear_leader() => Ok(Prepared::Ready),
                () = learning.make_do() => Ok(Prepared::Alone),
                _ = signals.order("the node starts") => Ok(Prepared::Ended),
            }
        })
    }

    fn learning(&self) -> Learning {
        Learning { desk: Arc::clone(&self.desk), reloader: Arc::clone(&self.reloader) }
    }
}

/// What a start has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prepared {
    /// The leader was heard.
    Ready,
    /// It was not, and what was kept has to do.
    Alone,
    /// A signal has ended the node.
    Ended,
}

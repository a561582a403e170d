//! A node: everything that one process runs.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, available_parallelism};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};
use tokio::sync::Mutex;

use super::bind::{self, BindError};
use super::certificates::{self, Certificate, CertificateError};
use super::ending::{Ending, Failure, LONGEST_FLIGHT};
use super::learning::Learning;
use super::open_files;
use super::operator::Operator;
use super::peering;
use super::peering::Peering;
use super::reload::Reloader;
use super::signals::{Signal, Signals};
use crate::admin::{Admin, AdminToken, AdminTokenError, Probes};
use crate::clock::Clock;
use crate::config::{self, Faults, Settings};
use crate::control::{OpenControl, OpenError, RunningControl};
use crate::desk::Desk;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::model::policy::Fault;
use crate::peer::IdentityError;
use crate::proxy::{self, Gate, ProxySettings};

/// How long Pingora may take over its own end, in seconds: longer than [`Ending`] lets anything take.
const GRACE_S: u64 = LONGEST_FLIGHT.as_secs() + 5;

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
    operator: Operator,
    lifecycle: Arc<Lifecycle>,
    reloader: Arc<Reloader>,
    gate: Gate<Desk>,
    listeners: Vec<SocketAddr>,
    admin: SocketAddr,
    metrics: SocketAddr,
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
    pub fn open(settings: Settings, file: Option<PathBuf>) -> Result<Self, StartError> {
        open_files::allow_many();
        let clock = Clock::start();
        let certificates = settings
            .listeners
            .iter()
            .map(|listener| listener.tls.as_ref().map(Certificate::load).transpose());
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = settings.listeners.iter().map(|listener| listener.address).collect();
        let listeners = bind::try_listeners(&addresses)?;
        let api = bind::bind("admin.address", settings.admin.address)?;
        let probes = bind::bind("metrics.address", settings.metrics.address)?;
        let addresses = (api.local_addr(), probes.local_addr());
        let admin = addresses.0.map_err(StartError::system)?;
        let metrics_address = addresses.1.map_err(StartError::system)?;
        let open = OpenControl::open(&settings.node.data_dir, settings.node.id, clock)?;
        let peering =
            settings.cluster.as_ref().map(|cluster| Peering::open(cluster, open.run())).transpose()?;
        let token = AdminToken::load_or_make(&settings.admin.token_file, rand::random())?;
        let desk = Desk::new(open.run(), clock);
        let refusals = peering.as_ref().map(Peering::refusals).unwrap_or_default();
        let control = match peering {
            Some(peering) => peering.join(open, Arc::clone(&desk)),
            None => open.start(Arc::clone(&desk)),
        };
        let control = control.map_err(StartError::system)?;
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
            operator,
            lifecycle,
            reloader,
            gate,
            listeners,
            admin,
            metrics: metrics_address,
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

    /// Serves until a signal ends it. The caller's thread must not belong to a runtime.
    ///
    /// # Errors
    /// When the node could not go on.
    pub fn run(self, signals: &Signals) -> anyhow::Result<()> {
        let ended = match self.prepare(signals)? {
            Prepared::Ended => Ok(()),
            prepared => self.serve(signals, prepared),
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
                () = ended(signals) => Ok(Prepared::Ended),
            }
        })
    }

    fn learning(&self) -> Learning {
        Learning { desk: Arc::clone(&self.desk), reloader: Arc::clone(&self.reloader) }
    }

    fn serve(&self, signals: &Signals, prepared: Prepared) -> anyhow::Result<()> {
        let settings = self.reloader.settings.load_full();
        let failure = Arc::new(Failure::default());
        let conf = ServerConf {
            threads: available_parallelism().map_or(1, usize::from),
            // Requests are short and alike, and connections many: threads that look after their own lose less.
            work_stealing: false,
            grace_period_seconds: Some(GRACE_S),
            graceful_shutdown_timeout_seconds: Some(1),
            ..ServerConf::default()
        };
        let mut server = Server::new_with_opt_and_conf(None, conf);
        server.bootstrap();
        let mut visitors = proxy::service(&server.configuration, self.gate.clone());
        let listeners = settings.listeners.iter().zip(&self.reloader.certificates).zip(&self.listeners);
        for ((listener, certificate), address) in listeners {
            match (&listener.tls, certificate) {
                (Some(files), Some(certificate)) => {
                    let tls = certificate.settings(files).map_err(|error| anyhow::anyhow!("{error}"))?;
                    visitors.add_tls_with_settings(&address.to_string(), None, tls);
                }
                _ => visitors.add_tcp(&address.to_string()),
            }
        }
        server.add_service(visitors);
        server.add_service(background_service("origins", Tending(self.gate.clone())));
        if prepared == Prepared::Alone {
            server.add_service(background_service("events", self.learning()));
        }
        let opening = Opening {
            listeners: self.listeners.clone(),
            lifecycle: Arc::clone(&self.lifecycle),
            failure: Arc::clone(&failure),
        };
        server.add_service(background_service("opening", opening));
        let (over, until_over) = mpsc::channel();
        let ending = Ending {
            over: over.clone(),
            signals: signals.clone(),
            reloader: Arc::clone(&self.reloader),
            desk: Arc::clone(&self.desk),
            lifecycle: Arc::clone(&self.lifecycle),
            drained: self.control.drained(),
            failure: Arc::clone(&failure),
        };
        thread::Builder::new().name("server".to_owned()).spawn(move || {
            server.run(RunArgs { shutdown_signal: Box::new(ending) });
            let _ = over.send(());
        })?;
        // The server has ended, or there is nothing to wait for.
        let _ = until_over.recv();
        failure.take().map_or(Ok(()), Err)
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

async fn ended(signals: &Signals) {
    while signals.next().await == Signal::Reload {
        tracing::warn!("the configuration is not read again while the node starts");
    }
}

/// Resolves and probes origins.
struct Tending(Gate<Desk>);

#[async_trait]
impl BackgroundService for Tending {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.0.tend() => {}
            _ = shutdown.changed() => {}
        }
    }
}

/// Waits until everything listens, and says so.
struct Opening {
    listeners: Vec<SocketAddr>,
    lifecycle: Arc<Lifecycle>,
    failure: Arc<Failure>,
}

#[async_trait]
impl BackgroundService for Opening {
    async fn start(&self, _: ShutdownWatch) {
        match bind::await_listeners(&self.listeners).await {
            Ok(()) => {
                self.lifecycle.serve();
                let at: Vec<_> = self.listeners.iter().map(ToString::to_string).collect();
                tracing::info!("the node serves visitors at {}", at.join(", "));
            }
            Err(error) => self.failure.tell(error.into()),
        }
    }
}

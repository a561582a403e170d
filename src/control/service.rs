//! The control log as a service: a thread and a runtime of its own, so that no flood of visitors can starve it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::acknowledged::Acknowledged;
use super::lead::{Ended, Post, lead};
use super::port::ControlLog;
use super::queue::{Queue, queue};
use super::raft::Log;
use super::stop::Stop;
use super::storage::{OpenError, SharedState, Storage};
use crate::clock::Clock;
use crate::desk::Desk;
use crate::model::ids::{NodeId, NodeRun, Term};

/// How long to wait before a log that failed is opened again; longer every time.
const RETRY: Duration = Duration::from_secs(1);

/// The longest such wait.
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// What a failed log says.
const FROZEN: &str = "nobody new is admitted, visitors keep their places; trying again until it works";

/// A control log that is open, with a run of this node of its own.
#[derive(Debug)]
pub struct OpenControl {
    run: NodeRun,
    clock: Clock,
    data_dir: PathBuf,
    storage: Storage,
}

impl OpenControl {
    /// What [`OpenControl::open`] would refuse of `data_dir`; makes, writes and locks nothing.
    ///
    /// # Errors
    /// As of the opening itself, but that a directory in use is in order.
    pub fn look(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
        Storage::look(data_dir, node)
    }

    /// Opens the control log in `data_dir`, or makes it, and begins a new run of the node.
    ///
    /// # Errors
    /// See [`OpenError`]: one line that says what to do.
    pub fn open(data_dir: &Path, node: NodeId, clock: Clock) -> Result<Self, OpenError> {
        let storage = Storage::open(data_dir)?;
        let generation = storage.next_generation(node, clock.wall().unix_seconds())?;
        // Reading everything now tells of a damaged file before any listener opens.
        storage.split()?;
        Ok(Self { run: NodeRun { node, generation }, clock, data_dir: data_dir.to_owned(), storage })
    }

    /// This run of the node.
    #[must_use]
    pub fn run(&self) -> NodeRun {
        self.run
    }

    /// Leads from now on, and keeps the desk told; the desk reaches the log from here on too.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, desk: Arc<Desk>) -> io::Result<RunningControl> {
        let reopen = {
            let data_dir = self.data_dir.clone();
            move || Storage::open(&data_dir)
        };
        start(self.storage, reopen, self.clock, desk)
    }
}

/// Starts the loop on an open storage; `reopen` opens it again after a failure.
pub(super) fn start(
    storage: Storage,
    reopen: impl Fn() -> Result<Storage, OpenError> + Send + 'static,
    clock: Clock,
    desk: Arc<Desk>,
) -> io::Result<RunningControl> {
    let (asking, queue) = queue();
    let stop = Arc::new(Stop::new());
    let state = Arc::new(ArcSwap::from_pointee(SharedState::default()));
    let acknowledged = Acknowledged::default();
    let log = Arc::new(ControlLog::new(asking, Arc::clone(&state), acknowledged.clone(), clock));
    desk.set_control(Arc::clone(&log) as _);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let service = Service { desk, clock, queue, stop: Arc::clone(&stop), state, acknowledged };
    let thread = std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || runtime.block_on(service.run(storage, reopen)))?;
    Ok(RunningControl { log, stop, thread })
}

/// The control log at work.
#[derive(Debug)]
pub struct RunningControl {
    log: Arc<ControlLog>,
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

impl RunningControl {
    /// The way to the log.
    #[must_use]
    pub fn log(&self) -> Arc<ControlLog> {
        Arc::clone(&self.log)
    }

    /// For whoever waits until a draining node is settled.
    #[must_use]
    pub fn drained(&self) -> Drained {
        Drained(Arc::clone(&self.stop))
    }

    /// Ends the loop and closes the file; returns once that is done.
    pub fn stop(self) {
        self.stop.ask();
        if self.thread.join().is_err() {
            tracing::error!("the control thread ended by a fault in the program");
        }
    }
}

/// Tells when everything that this node promised is in the log.
#[derive(Clone, Debug)]
pub struct Drained(Arc<Stop>);

impl Drained {
    /// Waits until a node that drains has nothing left that the log does not know.
    pub async fn wait(&self) {
        self.0.drained().await;
    }
}

struct Service {
    desk: Arc<Desk>,
    clock: Clock,
    queue: Queue,
    stop: Arc<Stop>,
    state: Arc<ArcSwap<SharedState>>,
    acknowledged: Acknowledged,
}

impl Service {
    async fn run(mut self, storage: Storage, reopen: impl Fn() -> Result<Storage, OpenError>) {
        let mut storage = Some(storage);
        let mut term = Term(0);
        let mut wait = RETRY;
        let mut said = false;
        loop {
            let opened = match storage.take() {
                Some(storage) => Ok(storage),
                None => reopen(),
            };
            let log = match opened {
                Ok(storage) => Log::start(storage, self.desk.run().node, term).await,
                Err(error) => Err(error.into()),
            };
            let failure = match log {
                Ok(log) => {
                    self.state.store(Arc::new(log.state().clone()));
                    term = log.term();
                    if said {
                        tracing::info!("the control log works again");
                    }
                    (said, wait) = (false, RETRY);
                    let post = Post {
                        log: &log,
                        desk: &self.desk,
                        clock: self.clock,
                        acknowledged: &self.acknowledged,
                    };
                    let ended = lead(post, &mut self.queue, &self.stop).await;
                    log.stop().await;
                    match ended {
                        Ended::Stopped => return,
                        Ended::Outdated => {
                            tracing::error!("a newer run of this node is in the control log; {FROZEN}");
                            return;
                        }
                        Ended::Failed(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            if !said {
                tracing::error!("the control log takes no entries ({failure}): {FROZEN}");
                said = true;
            }
            if !self.pause(wait, &failure.to_string()).await {
                return;
            }
            wait = (2 * wait).min(LONGEST_RETRY);
        }
    }

    /// Waits, and refuses whatever is asked meanwhile; false: the node stops.
    async fn pause(&mut self, wait: Duration, reason: &str) -> bool {
        self.queue.refuse(reason);
        let over = tokio::time::sleep(wait);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return true,
                request = self.queue.next() => request.refuse(reason),
                () = self.stop.asked() => return false,
            }
        }
    }
}

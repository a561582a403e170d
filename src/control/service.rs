//! The control log as a service: a thread and a runtime of its own, so that no flood of visitors can starve it.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::mpsc;

use super::acknowledged::Acknowledged;
use super::beginning::Beginning;
use super::council::Council;
use super::fleet::{Controller, Incoming, Leadership, Membership, answer_controllers};
use super::follow::{Edge, Search, follow};
use super::heard::Heard;
use super::keep;
use super::lead::{Company, Ended, Post, lead};
use super::number::{Counter, answer_applicants};
use super::port::ControlLog;
use super::queue::{Queue, queue};
use super::raft::{Log, LogFailure};
use super::relay::{Relay, answer_operators};
use super::stop::Stop;
use super::storage::{OpenError, SharedState, Storage};
use crate::clock::Clock;
use crate::desk::{ControlPort, Desk, Keepsake};
use crate::model::ids::{LedgerEpoch, NodeId, NodeRun};

/// How long to wait before a log that failed is opened again; longer every time.
const RETRY: Duration = Duration::from_secs(1);

/// The longest such wait.
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// What a failed log says.
const FROZEN: &str = "nobody new is admitted, visitors keep their places; trying again until it works";

/// A control log that is open, with a run of this node of its own.
#[derive(Debug)]
pub struct OpenControl {
    part: Part,
    data_dir: PathBuf,
}

impl OpenControl {
    /// What [`OpenControl::open`] would refuse of `data_dir`; makes, writes and locks nothing.
    ///
    /// # Errors
    /// As of the opening itself, but that a directory in use is in order.
    pub fn look(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
        Storage::look(data_dir, node)
    }

    /// Removes from `data_dir` what an edge kept there under another number that a leader had given it; nobody must be at
    /// work in it. Whatever else is there is left as it is.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn clear_for(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
        Storage::clear_for(data_dir, node)
    }

    /// Opens the control log in `data_dir`, or makes it, and begins a new run of the node.
    ///
    /// # Errors
    /// See [`OpenError`]: one line that says what to do.
    pub fn open(data_dir: &Path, node: NodeId, clock: Clock) -> Result<Self, OpenError> {
        let part = Part::begin(Storage::open(data_dir)?, node, clock)?;
        Ok(Self { part, data_dir: data_dir.to_owned() })
    }

    /// This run of the node.
    #[must_use]
    pub fn run(&self) -> NodeRun {
        self.part.run
    }

    /// Leads from now on, and keeps the desk told; the desk reaches the log from here on too.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, desk: Arc<Desk>) -> io::Result<RunningControl> {
        let reopen = self.reopen();
        start(self.part.storage, reopen, self.part.clock, desk)
    }

    /// Takes this node's place in a fleet from now on, and keeps the desk told.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn join(
        self,
        desk: Arc<Desk>,
        membership: Membership,
        incoming: Incoming,
    ) -> io::Result<RunningControl> {
        let reopen = self.reopen();
        let kept = keep::load(&self.data_dir, self.part.run.node, self.part.ledger);
        if let Some(kept) = &kept {
            desk.recall(kept.clone());
        }
        let keeping = keep::keep_in_file(Arc::clone(&desk), self.data_dir, kept);
        on_a_thread(self.part.played(desk, membership, incoming, keeping, reopen))
    }

    fn reopen(&self) -> impl Fn() -> Result<Storage, OpenError> + Send + 'static {
        let data_dir = self.data_dir.clone();
        move || Storage::open(&data_dir)
    }
}

/// A node's part in a fleet before it begins: on whose runtime it is played is up to the caller.
#[derive(Debug)]
pub struct Part {
    run: NodeRun,
    clock: Clock,
    storage: Storage,
    /// The ledger of the log, if its snapshot tells.
    ledger: Option<LedgerEpoch>,
}

impl Part {
    fn begin(storage: Storage, node: NodeId, clock: Clock) -> Result<Self, OpenError> {
        let generation = storage.next_generation(node, clock.wall().unix_seconds())?;
        // Reading everything now tells of a damaged file before any listener opens.
        let (_, _, state) = storage.split()?;
        let ledger = state.read(|state| state.epoch);
        Ok(Self { run: NodeRun { node, generation }, clock, storage, ledger })
    }

    /// Opens the control log on a storage of the caller's, or makes it there, and begins a new run of the node.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(backend: impl redb::StorageBackend, node: NodeId, clock: Clock) -> Result<Self, OpenError> {
        Self::begin(Storage::on_backend(backend)?, node, clock)
    }

    /// This run of the node.
    #[must_use]
    pub fn run(&self) -> NodeRun {
        self.run
    }

    /// The node's part, for as long as the caller's runtime lives. A storage that fails is opened again by way of
    /// `backend`; what the node hears is handed to `keep` whenever it is news.
    pub fn play<B: redb::StorageBackend>(
        self,
        desk: Arc<Desk>,
        membership: Membership,
        incoming: Incoming,
        backend: impl Fn() -> B + Send + 'static,
        keep: impl Fn(Keepsake) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let reopen = move || Storage::on_backend(backend());
        let kept = move |new| {
            keep(new);
            std::future::ready(Ok(()))
        };
        let keeping = keep::keep_up(Arc::clone(&desk), None, kept);
        self.played(desk, membership, incoming, keeping, reopen).work
    }

    fn played(
        self,
        desk: Arc<Desk>,
        membership: Membership,
        incoming: Incoming,
        keeping: impl Future<Output = ()> + Send + 'static,
        reopen: impl Fn() -> Result<Storage, OpenError> + Send + 'static,
    ) -> Played {
        join(self.storage, reopen, self.clock, desk, membership, incoming, keeping)
    }
}

/// What a service does until it is asked to stop.
struct Played {
    stop: Arc<Stop>,
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    #[cfg(test)]
    council: Option<Council>,
}

impl Played {
    fn new(stop: Arc<Stop>, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            stop,
            work: Box::pin(work),
            #[cfg(test)]
            council: None,
        }
    }
}

/// What a log is served with.
struct Parts {
    queue: Queue,
    stop: Arc<Stop>,
    state: Arc<ArcSwap<SharedState>>,
    acknowledged: Acknowledged,
    log: Arc<ControlLog>,
}

impl Parts {
    fn new(clock: Clock, council: Option<Council>) -> Self {
        let (asking, queue) = queue();
        let stop = Arc::new(Stop::new());
        let state = Arc::new(ArcSwap::from_pointee(SharedState::default()));
        let acknowledged = Acknowledged::default();
        let log = Arc::new(ControlLog::new(asking, Arc::clone(&state), acknowledged.clone(), clock, council));
        Self { queue, stop, state, acknowledged, log }
    }
}

/// Starts the loop on an open storage; `reopen` opens it again after a failure.
pub(super) fn start(
    storage: Storage,
    reopen: impl Fn() -> Result<Storage, OpenError> + Send + 'static,
    clock: Clock,
    desk: Arc<Desk>,
) -> io::Result<RunningControl> {
    let Parts { queue, stop, state, acknowledged, log } = Parts::new(clock, None);
    desk.set_control(log);
    let service = Service { desk, clock, queue, stop: Arc::clone(&stop), state, acknowledged };
    on_a_thread(Played::new(stop, service.run(storage, reopen)))
}

fn join(
    storage: Storage,
    reopen: impl Fn() -> Result<Storage, OpenError> + Send + 'static,
    clock: Clock,
    desk: Arc<Desk>,
    membership: Membership,
    incoming: Incoming,
    keeping: impl Future<Output = ()> + Send + 'static,
) -> Played {
    let raft = Arc::new(ArcSwapOption::empty());
    let (leadership, heard) = (Leadership::default(), Heard::new(membership.heartbeat));
    let beginning = Beginning::default();
    let (seat, standing) = (membership.clone(), leadership.clone());
    let council = Council::new(Arc::clone(&raft), seat, standing, heard.clone(), beginning.clone());
    let Parts { queue, stop, state, acknowledged, log } = Parts::new(clock, Some(council.clone()));
    let Incoming { control, raft: controllers, operator, number, numbering, refusals } = incoming;
    let counter = Counter { log: Arc::clone(&log), leadership: leadership.clone(), numbering };
    let local = membership.is_controller().then_some(log as Arc<dyn ControlPort>);
    let relay = Arc::new(Relay::new(local, leadership.clone(), membership.clone()));
    desk.set_control(Arc::clone(&relay) as _);
    if !membership.is_controller() {
        // Nobody is served here: whoever calls hears so.
        drop((control, controllers, operator, number));
        let edge = LoneEdge { desk, stop: Arc::clone(&stop), membership };
        let work = async move {
            // The file stays open: it is locked, so that no second process takes this node's directory.
            let _locked = storage;
            let keeping = tokio::spawn(keeping);
            edge.run().await;
            keeping.abort();
        };
        return Played::new(stop, work);
    }
    let known = membership.controllers.keys().copied().collect();
    let controller = Controller {
        desk,
        clock,
        queue,
        stop: Arc::clone(&stop),
        state,
        acknowledged,
        membership,
        leadership,
        callers: control,
        refusals: Arc::clone(&refusals),
        raft: Arc::clone(&raft),
        council: council.clone(),
        heard: heard.clone(),
        beginning: beginning.clone(),
    };
    let work = async move {
        let keeping = tokio::spawn(keeping);
        let answering = tokio::spawn(answer_controllers(
            controllers,
            raft,
            known,
            (beginning, heard),
            Arc::clone(&refusals),
        ));
        let relaying = tokio::spawn(answer_operators(operator, relay, refusals));
        let numbering = tokio::spawn(answer_applicants(number, counter));
        controller.run(storage, reopen).await;
        keeping.abort();
        answering.abort();
        relaying.abort();
        numbering.abort();
    };
    Played {
        #[cfg(test)]
        council: Some(council),
        ..Played::new(stop, work)
    }
}

fn on_a_thread(played: Played) -> io::Result<RunningControl> {
    let work = played.work;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread =
        std::thread::Builder::new().name("control".to_owned()).spawn(move || runtime.block_on(work))?;
    Ok(RunningControl {
        stop: played.stop,
        thread,
        #[cfg(test)]
        council: played.council,
    })
}

/// The control log at work.
#[derive(Debug)]
pub struct RunningControl {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
    /// For what no operator can bring about.
    #[cfg(test)]
    pub(super) council: Option<Council>,
}

impl RunningControl {
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
        let mut tries = Tries::default();
        let (_nobody, mut callers) = mpsc::channel(1);
        let refusals = Arc::default();
        loop {
            let opened = storage.take().map_or_else(&reopen, Ok);
            let log = match opened {
                Ok(storage) => Log::start(storage, self.desk.run().node).await,
                Err(error) => Err(error.into()),
            };
            let failure = match log {
                Ok(log) => {
                    self.state.store(Arc::new(log.state().clone()));
                    tries.note_success();
                    let post = Post {
                        log: &log,
                        desk: &self.desk,
                        clock: self.clock,
                        acknowledged: &self.acknowledged,
                        company: Company::Alone,
                        refusals: &refusals,
                    };
                    let ended = lead(post, &mut self.queue, &mut callers, &self.stop).await;
                    log.stop().await;
                    match ended {
                        Ended::Stopped => return,
                        Ended::Outdated => {
                            tracing::error!("a newer run of this node is in the control log; {FROZEN}");
                            return;
                        }
                        Ended::Failed(failure) => failure,
                        Ended::Deposed => LogFailure::Deposed,
                    }
                }
                Err(failure) => failure,
            };
            if !tries.pause(&mut self.queue, &self.stop, &failure).await {
                return;
            }
        }
    }
}

/// A node of a fleet that never leads.
struct LoneEdge {
    desk: Arc<Desk>,
    stop: Arc<Stop>,
    membership: Membership,
}

impl LoneEdge {
    async fn run(self) {
        let Self { desk, stop, membership } = self;
        let mut search = Search::new(membership.controllers.clone());
        follow(Edge { desk: &desk, dialer: &membership.dialer, stop: &stop }, &mut search).await;
    }
}

/// Opening a log again and again.
#[derive(Debug)]
pub(super) struct Tries {
    wait: Duration,
    said: bool,
}

impl Default for Tries {
    fn default() -> Self {
        Self { wait: RETRY, said: false }
    }
}

impl Tries {
    /// The log is open.
    pub(super) fn note_success(&mut self) {
        if self.said {
            tracing::info!("the control log works again");
        }
        *self = Self::default();
    }

    /// Says once what is wrong, waits, and refuses whatever is asked meanwhile; false: the node stops.
    pub(super) async fn pause(&mut self, queue: &mut Queue, stop: &Stop, failure: &LogFailure) -> bool {
        if !self.said {
            tracing::error!("the control log takes no entries ({failure}): {FROZEN}");
            self.said = true;
        }
        let reason = failure.to_string();
        queue.refuse(&reason);
        let over = tokio::time::sleep(self.wait);
        self.wait = (2 * self.wait).min(LONGEST_RETRY);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return true,
                request = queue.next() => request.refuse(&reason),
                () = stop.asked() => return false,
            }
        }
    }
}

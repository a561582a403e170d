//! The control log as one of a fleet: leads when the controllers elect this node, follows whoever leads otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use openraft::Raft;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::acknowledged::Acknowledged;
use super::beginning::Beginning;
use super::council::Council;
use super::follow::{Edge, Search, follow};
use super::heard::Heard;
use super::lead::{Callers, Company, Ended, Post, lead};
use super::peers::{Peers, Unanswered, answer};
use super::queue::Queue;
use super::raft::{Log, LogFailure, Standing};
use super::service::Tries;
use super::stop::Stop;
use super::storage::{LogTypes, OpenError, SharedState, Storage};
use super::streams::redirect;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::model::ids::NodeId;
use crate::peer::{Applicant, Conversation, Dialer, Numbering, Refusal, Refusals};

/// This node's place in a fleet.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Calls the other nodes.
    pub dialer: Dialer,
    /// The controllers of the configuration, with host and port.
    pub controllers: BTreeMap<NodeId, String>,
    /// Between controllers.
    pub heartbeat: Duration,
}

impl Membership {
    /// Whether this node may lead.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.controllers.contains_key(&self.dialer.me().node)
    }
}

/// Who calls this node, by what for.
#[derive(Debug)]
pub struct Incoming {
    /// Edges with reports.
    pub control: mpsc::Receiver<Conversation>,
    /// Controllers with raft's messages.
    pub raft: mpsc::Receiver<Conversation>,
    /// Nodes that an operator has asked.
    pub operator: mpsc::Receiver<Conversation>,
    /// Edges without a number.
    pub number: mpsc::Receiver<Applicant>,
    /// What a controller certifies numbers with; without it none is given here.
    pub numbering: Option<Numbering>,
    /// Counts who is not let in.
    pub refusals: Arc<Refusals>,
}

/// Who leads, as this node knows it; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Leadership(Arc<ArcSwap<(Standing, Instant)>>);

impl Default for Leadership {
    fn default() -> Self {
        Self(Arc::new(ArcSwap::from_pointee((Standing::Follows(None), Instant::now()))))
    }
}

impl Leadership {
    fn standing(&self) -> Standing {
        self.0.load().0
    }

    /// Whether this node leads.
    pub(super) fn leads(&self) -> bool {
        self.standing() == Standing::Leads
    }

    /// How long it has led, if it does.
    pub(super) fn leads_for(&self) -> Option<Duration> {
        let (standing, since) = **self.0.load();
        (standing == Standing::Leads).then(|| since.elapsed())
    }

    /// Who else does, if that is known.
    pub(super) fn other(&self) -> Option<NodeId> {
        match self.standing() {
            Standing::Leads => None,
            Standing::Follows(other) => other,
        }
    }

    fn note(&self, standing: Standing) {
        if self.standing() != standing {
            self.0.store(Arc::new((standing, Instant::now())));
        }
    }
}

/// A controller of a fleet.
pub(super) struct Controller {
    pub(super) desk: Arc<Desk>,
    pub(super) clock: Clock,
    pub(super) queue: Queue,
    pub(super) stop: Arc<Stop>,
    pub(super) state: Arc<ArcSwap<SharedState>>,
    pub(super) acknowledged: Acknowledged,
    pub(super) membership: Membership,
    pub(super) leadership: Leadership,
    pub(super) callers: Callers,
    pub(super) refusals: Arc<Refusals>,
    pub(super) raft: Arc<ArcSwapOption<Raft<LogTypes>>>,
    pub(super) council: Council,
    pub(super) heard: Heard,
    pub(super) beginning: Beginning,
}

impl Controller {
    /// Runs until the node stops; opens the log again when it fails.
    pub(super) async fn run(mut self, storage: Storage, reopen: impl Fn() -> Result<Storage, OpenError>) {
        let mut storage = Some(storage);
        let mut tries = Tries::default();
        loop {
            let opened = storage.take().map_or_else(&reopen, Ok);
            let failure = match opened {
                Ok(storage) => match self.open(storage).await {
                    Ok(log) => {
                        tries.note_success();
                        match self.serve(&log).await {
                            Some(failure) => failure,
                            None => {
                                self.beginning.close();
                                return log.stop().await;
                            }
                        }
                    }
                    Err(failure) => failure,
                },
                Err(error) => error.into(),
            };
            self.raft.store(None);
            self.beginning.close();
            self.leadership.note(Standing::Follows(None));
            if !tries.pause(&mut self.queue, &self.stop, &failure).await {
                return;
            }
        }
    }

    async fn open(&self, storage: Storage) -> Result<Log, LogFailure> {
        let Membership { dialer, heartbeat, .. } = &self.membership;
        let network = Peers { dialer: dialer.clone(), heard: self.heard.clone() };
        self.beginning.open(&storage)?;
        let log = Log::open(storage, dialer.me().node, network, *heartbeat).await?;
        self.state.store(Arc::new(log.state().clone()));
        self.beginning.know(log.state());
        self.raft.store(Some(Arc::new(log.raft().clone())));
        Ok(log)
    }

    /// Leads and follows by turns; `None`: the node stops.
    async fn serve(&mut self, log: &Log) -> Option<LogFailure> {
        let mut search = Search::new(self.membership.controllers.clone());
        loop {
            let standing = log.standing();
            self.leadership.note(standing);
            let ended = match standing {
                Standing::Leads => {
                    let ended = self.lead(log).await;
                    search.note_led();
                    ended
                }
                Standing::Follows(leader) => {
                    search.learn(log.controllers());
                    search.suggest(leader);
                    self.follow(log, &mut search).await
                }
            };
            match ended {
                Ended::Stopped => return None,
                Ended::Deposed => {}
                Ended::Outdated => {
                    tracing::error!(
                        "a newer run of this node is in the control log: end the other process of this `node.id`; if there is \
                         none, this disk is new and the clock behind: set it, and start again"
                    );
                    return None;
                }
                Ended::Failed(failure) => return Some(failure),
            }
        }
    }

    async fn lead(&mut self, log: &Log) -> Ended {
        tracing::info!(term = log.term().election(), "this controller leads");
        let post = Post {
            log,
            desk: &self.desk,
            clock: self.clock,
            acknowledged: &self.acknowledged,
            company: Company::Fleet,
            refusals: &self.refusals,
        };
        self.desk.set_leads(Some(log.term()));
        let council = self.council.clone();
        let ended = tokio::select! {
            ended = lead(post, &mut self.queue, &mut self.callers, &self.stop) => ended,
            () = council.tend() => Ended::Deposed,
        };
        self.desk.set_leads(None);
        self.leadership.note(log.standing());
        // Edges report to somebody else from now on.
        self.acknowledged.hear(std::iter::empty());
        if matches!(ended, Ended::Deposed) {
            tracing::info!("this controller leads no more");
        }
        ended
    }

    async fn follow(&mut self, log: &Log, search: &mut Search) -> Ended {
        let edge = Edge { desk: &self.desk, dialer: &self.membership.dialer, stop: &self.stop };
        let leadership = self.leadership.clone();
        let turn_away = async {
            loop {
                tokio::select! {
                    Some(caller) = self.callers.recv() => {
                        tokio::spawn(redirect(caller, leadership.other()));
                    }
                    request = self.queue.next() => request.refuse("this controller does not lead"),
                }
            }
        };
        let elected = async {
            loop {
                match log.standing() {
                    Standing::Leads => return Ended::Deposed,
                    standing => leadership.note(standing),
                }
                if let Some(failure) = log.fatal() {
                    return Ended::Failed(failure);
                }
                log.news().await;
            }
        };
        tokio::select! {
            () = follow(edge, search) => Ended::Stopped,
            ended = elected => ended,
            () = turn_away => Ended::Stopped,
        }
    }
}

/// Answers other controllers, for as long as the node runs: those of the configuration (`known`) and those that the
/// log knows. An edge has no business here.
pub(super) async fn answer_controllers(
    mut callers: mpsc::Receiver<Conversation>,
    raft: Arc<ArcSwapOption<Raft<LogTypes>>>,
    known: BTreeSet<NodeId>,
    (beginning, heard): (Beginning, Heard),
    refusals: Arc<Refusals>,
) {
    while let Some(caller) = callers.recv().await {
        // A controller whose log is closed has nothing to say.
        let Some(raft) = raft.load_full() else { continue };
        let node = caller.peer().node;
        let is_member = |raft: &Raft<LogTypes>| {
            let metrics = raft.metrics();
            let seen = metrics.borrow();
            seen.membership_config.membership().get_node(&u64::from(node.0.get())).is_some()
        };
        if !known.contains(&node) && !is_member(&raft) {
            refusals.note(Refusal::NotController, &format_args!("node {node}"));
            continue;
        }
        let (known_here, refusals) = ((beginning.clone(), heard.clone()), Arc::clone(&refusals));
        tokio::spawn(async move {
            let Err(error) = answer(caller, Raft::clone(&raft), known_here).await else { return };
            let refusal = match &error {
                Unanswered::EmptyLog => Some(Refusal::EmptyLog),
                Unanswered::Lost => Some(Refusal::Lost),
                Unanswered::Broken(error) => error.refusal(),
                Unanswered::NotNoted => None,
            };
            if let Some(refusal) = refusal {
                refusals.note(refusal, &format_args!("node {node}"));
            }
            tracing::debug!(%node, %error, "a controller is answered no more");
        });
    }
}

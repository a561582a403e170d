//! The loop that leads: takes this node's report, plans, commits, answers with a pulse.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::absent::Absent;
use super::acknowledged::Acknowledged;
use super::queue::{Queue, Request};
use super::raft::{Log, LogFailure, Standing};
use super::stop::Stop;
use super::streams::{Streams, ToLeader, Urgency};
use super::tenure::{Start, first_reports};
use crate::clock::Clock;
use crate::desk::Desk;
use crate::model::exchange::EdgeStage;
use crate::model::ids::{KeyId, LedgerEpoch, NodeRun, Tenure};
use crate::model::leader::Leader;
use crate::model::ledger::{Command, KeyRecord, Registration, Step};
use crate::model::time::{BootTime, FleetClock, FleetTime, TICK, as_millis};
use crate::peer::{Conversation, Refusal, Refusals};

/// Urgent reports are this far apart at least, so that a rush shares commits instead of wearing out the disk.
const URGENT_GAP: Duration = Duration::from_millis(5);

/// Slots that the rate allows one by one are handed out this far apart at least, for the same reason.
const SLOT_GAP: Duration = Duration::from_millis(50);

/// Wall and boot clock this far apart between two ticks: the machine slept, or somebody set the clock.
const SUSPENDED: Duration = Duration::from_secs(1);

/// Why leading came to an end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The node stops.
    Stopped,
    /// The log takes no more entries.
    Failed(LogFailure),
    /// Another controller leads, or no quorum answers.
    Deposed,
    /// A newer run of this node is registered: this one must not go on.
    Outdated,
}

impl From<LogFailure> for Ended {
    fn from(failure: LogFailure) -> Self {
        match failure {
            LogFailure::Deposed => Self::Deposed,
            failure => Self::Failed(failure),
        }
    }
}

/// Leads on an open log until the node stops, the log fails, or another leads.
pub(super) async fn lead(post: Post<'_>, queue: &mut Queue, callers: &mut Callers, stop: &Stop) -> Ended {
    match Lead::begin(post, callers).await {
        Ok(Some(mut lead)) => lead.run(queue, callers, stop).await,
        Ok(None) => Ended::Outdated,
        Err(failure) => failure.into(),
    }
}

/// Edges that want a control stream.
pub(super) type Callers = mpsc::Receiver<Conversation>;

/// Whether others may lead in this node's stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// The node is a whole installation.
    Alone,
    /// It is one of a fleet.
    Fleet,
}

/// What a leader leads with.
#[derive(Clone, Copy)]
pub(super) struct Post<'a> {
    pub(super) log: &'a Log,
    pub(super) desk: &'a Desk,
    pub(super) clock: Clock,
    pub(super) acknowledged: &'a Acknowledged,
    pub(super) company: Company,
    pub(super) refusals: &'a Arc<Refusals>,
}

impl Post<'_> {
    /// Whether this node may speak as the leader now.
    fn leads(&self) -> bool {
        self.company == Company::Alone || self.log.standing() == Standing::Leads
    }
}

struct Lead<'a> {
    post: Post<'a>,
    fleet: FleetClock,
    leader: Leader,
    streams: Streams,
    absent: Absent,
    wall_ahead: i128,
}

impl<'a> Lead<'a> {
    /// Founds the ledger if it is new, registers this run, and takes the lead; `None`: the run is outdated.
    async fn begin(post: Post<'a>, callers: &mut Callers) -> Result<Option<Self>, LogFailure> {
        let Post { log, desk, clock, .. } = post;
        let (committed, founded, registered) = log
            .state()
            .read(|state| (state.now, state.epoch.is_some(), state.runs.contains_key(&desk.run())));
        let others = log.state().read(|state| state.runs.len()) - usize::from(registered);
        let mut streams = Streams::new(Arc::clone(post.refusals), log.state().clone());
        let reports = match post.company {
            Company::Alone => Vec::new(),
            Company::Fleet => first_reports(desk.report(), others, &mut streams, callers).await,
        };
        let start = Start::of(&reports).unwrap_or_else(|| Start::Guessed(clock.wall()));
        let mut fleet = FleetClock::begin(committed, start.at(), clock.boot());
        let now = fleet.read(clock.boot(), clock.wall());
        let mut commands = vec![Command::Lead { now, absence: start.absence(committed) }];
        if !founded {
            commands.push(Command::Found { epoch: new_epoch(), now, key: new_key(now) });
        }
        if !registered {
            commands.push(Command::Register { run: desk.run(), now });
        }
        let outcome = log.write(Command::Batch(commands)).await?;
        if outcome.steps.contains(&Step::Registered(Registration::Outdated)) {
            return Ok(None);
        }
        let tenure = Tenure { term: log.term(), generation: desk.run().generation, began: clock.boot() };
        let mut leader = log.state().read(|state| Leader::begin(tenure, state));
        reports.into_iter().for_each(|report| leader.take(report, clock.boot()));
        let wall_ahead = wall_ahead(&clock);
        Ok(Some(Self { post, fleet, leader, streams, absent: Absent::new(), wall_ahead }))
    }

    async fn run(&mut self, queue: &mut Queue, callers: &mut Callers, stop: &Stop) -> Ended {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            let slot_due = self.next_slot().map(|wait| last + SLOT_GAP.max(last.elapsed() + wait));
            let first = tokio::select! {
                _ = ticks.tick() => None,
                () = due(slot_due) => None,
                () = self.post.desk.report_wanted().notified() => {
                    tokio::time::sleep_until(last + URGENT_GAP).await;
                    None
                }
                ToLeader { report, urgency } = self.streams.next() => {
                    self.leader.take(report, self.post.clock.boot());
                    if urgency == Urgency::Tick {
                        continue;
                    }
                    tokio::time::sleep_until(last + URGENT_GAP).await;
                    None
                }
                Some(caller) = callers.recv() => {
                    self.streams.open(caller);
                    continue;
                }
                request = queue.next() => Some(request),
                () = stop.asked() => return Ended::Stopped,
            };
            last = Instant::now();
            self.watch_for_suspends();
            let stage = self.post.desk.stage();
            if let Err(failure) = self.turn(queue, first).await {
                return failure.into();
            }
            match stage {
                EdgeStage::Draining if self.post.desk.is_settled() => {
                    self.post.desk.set_stage(EdgeStage::Gone);
                    self.post.desk.report_wanted().notify_one();
                }
                EdgeStage::Gone => stop.note_drained(),
                EdgeStage::Serving | EdgeStage::Draining => {}
            }
        }
    }

    /// One turn: reports, plan, commit if there is anything to commit, pulses.
    async fn turn(&mut self, queue: &mut Queue, first: Option<Request>) -> Result<(), LogFailure> {
        let (now, boot) = self.read_clock();
        for ToLeader { report, .. } in self.streams.waiting() {
            self.leader.take(report, boot);
        }
        self.leader.take(self.post.desk.report(), boot);
        self.register(now).await?;
        self.post.acknowledged.hear(self.leader.acknowledgements(boot));
        let state = self.post.log.state();
        state.read(|state| self.absent.look(state.runs.keys(), self.post.acknowledged));
        let tick = state.read(|state| self.leader.plan(state, now, boot));
        if let Some(entry) = queue.gather(first, tick) {
            let (command, answers) = entry.split();
            match self.post.log.write(command).await {
                Ok(outcome) => {
                    let boot = self.post.clock.boot();
                    state.read(|state| self.leader.applied(state, &outcome, boot));
                    answers.applied(&outcome);
                }
                Err(failure) => {
                    answers.lost();
                    return Err(failure);
                }
            }
        }
        self.pulse()
    }

    /// Registers runs that have come: each before its first pulse, which brings the live set.
    async fn register(&mut self, now: FleetTime) -> Result<(), LogFailure> {
        let state = self.post.log.state();
        let reported = self.leader.heard(self.post.clock.boot());
        let of_node = |run: &NodeRun| {
            state.read(|state| state.runs.keys().filter(|known| known.node == run.node).max().copied())
        };
        let mut new = Vec::new();
        for run in self.streams.runs().into_iter().filter(|run| reported.contains(run)) {
            match of_node(&run) {
                // Not worth an entry: the answer is known.
                Some(known) if known > run => self.streams.refuse(run, Refusal::OldRun),
                Some(known) if known == run => {}
                _ if self.leader.is_leaving(run) => {}
                _ => new.push(run),
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let commands = new.iter().map(|run| Command::Register { run: *run, now }).collect();
        let outcome = self.post.log.write(Command::Batch(commands)).await?;
        let boot = self.post.clock.boot();
        state.read(|state| self.leader.applied(state, &outcome, boot));
        for (run, step) in new.into_iter().zip(&outcome.steps) {
            if *step == Step::Registered(Registration::Outdated) {
                self.streams.refuse(run, Refusal::OldRun);
            } else {
                tracing::info!(node = %run.node, "the node has joined the fleet");
            }
        }
        Ok(())
    }

    /// Tells this node and every edge that has reported what is so; nothing, once another may lead.
    fn pulse(&mut self) -> Result<(), LogFailure> {
        if !self.post.leads() {
            return Err(LogFailure::Deposed);
        }
        let state = self.post.log.state();
        let (now, boot) = self.read_clock();
        let granted = self.leader.await_grants();
        for run in self.streams.await_pulses(&granted) {
            if state.read(|state| state.runs.contains_key(&run)) || self.leader.is_leaving(run) {
                let pulse = state.read(|state| self.leader.pulse(state, run, now, boot));
                self.streams.send(run, pulse);
            }
        }
        let pulse = state.read(|state| self.leader.pulse(state, self.post.desk.run(), now, boot));
        self.post.desk.take(pulse);
        Ok(())
    }

    /// How long it takes until there is a slot for which somebody waits.
    fn next_slot(&mut self) -> Option<Duration> {
        let (now, _) = self.read_clock();
        self.post.log.state().read(|state| self.leader.next_slot(state, now))
    }

    fn read_clock(&mut self) -> (FleetTime, BootTime) {
        let boot = self.post.clock.boot();
        (self.fleet.read(boot, self.post.clock.wall()), boot)
    }

    /// After a suspend nobody knows whether what was granted before is still ours.
    fn watch_for_suspends(&mut self) {
        let wall_ahead = wall_ahead(&self.post.clock);
        if (wall_ahead - self.wall_ahead).unsigned_abs() > u128::from(as_millis(SUSPENDED)) {
            tracing::warn!("the machine was suspended, or its clock was set: unspent slots are given up");
            self.post.desk.drop_slots();
        }
        self.wall_ahead = wall_ahead;
    }
}

/// Waits for an instant that may never come.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How far the wall clock is ahead of the boot clock, in milliseconds.
fn wall_ahead(clock: &Clock) -> i128 {
    i128::from(clock.wall().0) - i128::from(clock.boot().0)
}

fn new_epoch() -> LedgerEpoch {
    LedgerEpoch(rand::random())
}

/// A new signing key; the ledger numbers it and says from when it signs.
pub(super) fn new_key(now: FleetTime) -> KeyRecord {
    KeyRecord { id: KeyId(0), secret: rand::random(), made_at: now, signs_from: now, verifies_until: None }
}

//! The loop that leads: takes this node's report, plans, commits, answers with a pulse.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::acknowledged::Acknowledged;
use super::queue::{Queue, Request};
use super::raft::{Log, LogFailure};
use super::stop::Stop;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::model::exchange::EdgeStage;
use crate::model::ids::{KeyId, LedgerEpoch};
use crate::model::leader::Leader;
use crate::model::ledger::{Command, KeyRecord, Registration, Step};
use crate::model::time::{BootTime, FleetClock, FleetTime, TICK, as_millis};

/// Urgent reports are this far apart at least, so that a rush shares commits instead of wearing out the disk.
const URGENT_GAP: Duration = Duration::from_millis(5);

/// Wall and boot clock this far apart between two ticks: the machine slept, or somebody set the clock.
const SUSPENDED: Duration = Duration::from_secs(1);

/// Why leading came to an end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The node stops.
    Stopped,
    /// The log takes no more entries.
    Failed(LogFailure),
    /// A newer run of this node is registered: this one must not go on.
    Outdated,
}

/// Leads on an open log until the node stops or the log fails.
pub(super) async fn lead(post: Post<'_>, queue: &mut Queue, stop: &Stop) -> Ended {
    match Lead::begin(post).await {
        Ok(Some(mut lead)) => lead.run(queue, stop).await,
        Ok(None) => Ended::Outdated,
        Err(failure) => Ended::Failed(failure),
    }
}

/// What a leader leads with.
#[derive(Clone, Copy)]
pub(super) struct Post<'a> {
    pub(super) log: &'a Log,
    pub(super) desk: &'a Desk,
    pub(super) clock: Clock,
    pub(super) acknowledged: &'a Acknowledged,
}

struct Lead<'a> {
    post: Post<'a>,
    fleet: FleetClock,
    leader: Leader,
    wall_ahead: i128,
}

impl<'a> Lead<'a> {
    /// Founds the ledger if it is new, registers this run, and takes the lead; `None`: the run is outdated.
    async fn begin(post: Post<'a>) -> Result<Option<Self>, LogFailure> {
        let Post { log, desk, clock, .. } = post;
        let (committed, founded, registered) = log
            .state()
            .read(|state| (state.now, state.epoch.is_some(), state.runs.contains_key(&desk.run())));
        // A lone node steps to its wall clock, forward only.
        let mut fleet = FleetClock::begin(committed, clock.wall(), clock.boot());
        let now = fleet.read(clock.boot(), clock.wall());
        let mut commands = Vec::new();
        if !founded {
            commands.push(Command::Found { epoch: new_epoch(), now, key: new_key(now) });
        }
        if !registered {
            commands.push(Command::Register { run: desk.run(), now });
        }
        if !commands.is_empty() {
            let outcome = log.write(Command::Batch(commands)).await?;
            if outcome.steps.contains(&Step::Registered(Registration::Outdated)) {
                return Ok(None);
            }
        }
        let leader = log.state().read(|state| Leader::begin(log.term(), state, now, clock.boot()));
        let wall_ahead = wall_ahead(&clock);
        Ok(Some(Self { post, fleet, leader, wall_ahead }))
    }

    async fn run(&mut self, queue: &mut Queue, stop: &Stop) -> Ended {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            let first = tokio::select! {
                _ = ticks.tick() => None,
                () = self.post.desk.report_wanted().notified() => {
                    tokio::time::sleep_until(last + URGENT_GAP).await;
                    None
                }
                request = queue.next() => Some(request),
                () = stop.asked() => return Ended::Stopped,
            };
            last = Instant::now();
            self.watch_for_suspends();
            let stage = self.post.desk.stage();
            if let Err(failure) = self.turn(queue, first).await {
                return Ended::Failed(failure);
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

    /// One turn: report, plan, commit if there is anything to commit, pulse.
    async fn turn(&mut self, queue: &mut Queue, first: Option<Request>) -> Result<(), LogFailure> {
        let state = self.post.log.state();
        let (now, boot) = self.read_clock();
        self.leader.take(self.post.desk.report(), boot);
        self.post.acknowledged.hear(self.leader.acknowledgements());
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
        let (now, boot) = self.read_clock();
        let pulse = state.read(|state| self.leader.pulse(state, self.post.desk.run(), now, boot));
        self.post.desk.take(pulse);
        Ok(())
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

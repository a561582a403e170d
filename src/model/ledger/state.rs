//! The replicated state, and the pure function that applies an entry to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{Change, ChangeKind, Command, Condition, Span, Tick};
use super::event::{Event, EventOutcome, check_routes};
use super::keys::Keys;
use super::lag::Lag;
use super::live::LiveChange;
use super::numbers::Numbers;
use super::outcome::{ChangeApplied, ChangeError, ChangeOutcome, Outcome, Registration, Step};
use super::remains::Remains;
use crate::model::ids::{EventId, LedgerEpoch, LineId, LogIndex, NodeId, NodeRun, PoolId, TicketId};
use crate::model::policy::{Fields, Policy};
use crate::model::presence::{Missing, forgiven, merge_span, tickets_horizon};
use crate::model::time::FleetTime;

/// Everything that the control log decides. The same entries make the same state on every controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last applied entry.
    pub index: LogIndex,
    /// The life of this ledger; `None` until it is founded.
    pub epoch: Option<LedgerEpoch>,
    /// Fleet time of the last entry that carried one.
    pub now: FleetTime,
    /// The runs that may hold a live set.
    pub runs: BTreeMap<NodeRun, RunState>,
    /// The numbers that edges were given.
    pub numbers: Numbers,
    /// Forgiven spans, merged.
    pub spans: Vec<Span>,
    /// The signing keys.
    pub keys: Keys,
    /// The events.
    pub events: BTreeMap<EventId, Event>,
    pub(super) remains: BTreeMap<EventId, Remains>,
    /// How far behind an edge may be that does not hear the leader.
    pub lag: Lag,
    next_sweep: FleetTime,
}

/// A registered run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Where in the log it was registered.
    pub registered: LogIndex,
    /// When it was last heard, to about a minute.
    pub heard: FleetTime,
    /// Until when a session that it heard of can live: no slot is given back without its word before.
    honours_until: FleetTime,
}

impl RunState {
    fn new(registered: LogIndex, now: FleetTime, session_max: Duration) -> Self {
        Self { registered, heard: now, honours_until: now.after(session_max) }
    }

    /// The run was heard. A ceiling that has been lowered since still holds for the sessions of before.
    fn hear(&mut self, heard: FleetTime, session_max: Duration) {
        self.heard = self.heard.max(heard);
        self.honours_until = self.honours_until.max(heard.after(session_max));
    }
}

/// How often what is over is looked for in the sets that keep ids.
pub const SWEEP: Duration = Duration::from_secs(60);

/// A silence of the log that proves that the fleet was away: the leader tells of the time every minute.
const LEADERLESS: Duration = Duration::from_secs(120);

/// What the overlap of keys covers beyond sessions and heartbeats.
const KEY_MARGIN: Duration = Duration::from_secs(600);

impl State {
    /// Applies the entry at `index`; an index that is not beyond the last applied one changes nothing.
    pub fn apply(&mut self, index: LogIndex, command: &Command) -> Outcome {
        let mut outcome = Outcome { index, ..Outcome::default() };
        if index > self.index {
            self.index = index;
            self.apply_command(command, &mut outcome);
        }
        outcome
    }

    /// Leaves so many numbers out before the next block of every pool: blocks that entries unknown here reserved may have
    /// them, and a pass from one of those must find no other block in its place.
    pub fn skip_blocks(&mut self, numbers: u64) {
        self.events.values_mut().for_each(|event| event.pool.skip_blocks(numbers));
        self.remains.values_mut().for_each(|remains| remains.skip_blocks(numbers));
    }

    /// What a change would come to if it were the next entry, and the fields of its event then; nothing is changed.
    ///
    /// # Errors
    /// As of the change itself.
    pub fn try_change(&self, change: &Change) -> Result<(ChangeApplied, Option<Fields>), ChangeError> {
        self.clone().try_next(change)
    }

    /// The same of changes that are made one after the other; one that is refused leaves things as they are.
    pub fn try_changes(
        &self,
        changes: &[Change],
    ) -> Vec<Result<(ChangeApplied, Option<Fields>), ChangeError>> {
        let mut tried = self.clone();
        changes.iter().map(|change| tried.try_next(change)).collect()
    }

    fn try_next(&mut self, change: &Change) -> Result<(ChangeApplied, Option<Fields>), ChangeError> {
        self.index = LogIndex(self.index.0.saturating_add(1));
        let mut outcome = Outcome { index: self.index, ..Outcome::default() };
        let applied = self.change(change, &mut outcome)?;
        Ok((applied, self.events.get(&change.event).map(|event| event.fields.clone())))
    }

    fn apply_command(&mut self, command: &Command, outcome: &mut Outcome) {
        let step = match command {
            Command::Batch(commands) => {
                commands.iter().for_each(|command| self.apply_command(command, outcome));
                return;
            }
            Command::Found { epoch, now, key } => {
                if self.epoch.is_none() {
                    self.epoch = Some(*epoch);
                    self.pass_time(outcome.index, *now);
                    self.keys.add(outcome.index, *now, key, Duration::ZERO);
                }
                Step::Founded
            }
            Command::Register { run, now } => Step::Registered(self.register(outcome.index, *run, *now)),
            Command::Number { now, name, instance } => {
                self.pass_time(outcome.index, *now);
                let named = self.given_numbers_named();
                Step::Numbered(self.numbers.give(self.now, name, *instance, &named))
            }
            Command::Lead { now, absence } => {
                self.lead(outcome.index, *now, *absence);
                Step::Led
            }
            Command::Tick(tick) => Step::Ticked(self.tick(tick, outcome)),
            Command::Change(change) => Step::Changed(self.change(change, outcome)),
            Command::RotateKey { now, key } => {
                self.pass_time(outcome.index, *now);
                let overlap =
                    self.longest(|policy| policy.session_ttl + 2 * policy.heartbeat_ttl) + KEY_MARGIN;
                Step::Rotated(self.keys.add(outcome.index, self.now, key, overlap))
            }
        };
        outcome.steps.push(step);
    }

    fn register(&mut self, index: LogIndex, run: NodeRun, now: FleetTime) -> Registration {
        self.pass_time(index, now);
        let of_node = |known: &&NodeRun| known.node == run.node;
        if self.runs.keys().filter(of_node).any(|known| known.generation >= run.generation) {
            return Registration::Outdated;
        }
        if run.node.is_given() && self.numbers.holder(run.node).is_none() {
            return Registration::Outdated;
        }
        // A node holds its data directory alone, so a new run proves that the old ones serve nobody any more. After a
        // clean end nothing is known of them, and visitors still have to find their way back.
        let before = self.runs.iter().filter(|(known, _)| known.node == run.node);
        let from = before.map(|(_, state)| state.heard).max().unwrap_or(self.now);
        let to = self.now.after(self.longest(|policy| policy.heartbeat_ttl));
        self.forgive(index, Span { node: Some(run.node), from, to });
        self.runs.retain(|known, _| known.node != run.node);
        let session_max = self.longest(|policy| policy.session_max);
        self.runs.insert(run, RunState::new(index, self.now, session_max));
        self.numbers.note_serving(run.node, self.now);
        Registration::Accepted
    }

    fn lead(&mut self, index: LogIndex, now: FleetTime, absence: Option<Span>) {
        if self.now > FleetTime(0) {
            self.lag.step(index, now.since(self.now));
        }
        self.pass_time(index, now);
        absence.into_iter().for_each(|span| self.forgive(index, span));
    }

    fn tick(&mut self, tick: &Tick, outcome: &mut Outcome) -> Vec<EventOutcome> {
        let index = outcome.index;
        self.pass_time(index, tick.now);
        self.lag.acknowledge(tick.acknowledged);
        let session_max = self.longest(|policy| policy.session_max);
        for (run, heard) in &tick.heard {
            if let Some(state) = self.runs.get_mut(run) {
                state.hear(*heard, session_max);
            }
        }
        self.runs.retain(|run, _| !tick.ended.contains(run));
        tick.spans.iter().for_each(|span| self.forgive(index, *span));
        self.keys.acknowledge(index, self.now, tick.acknowledged);
        let edges = self.lag.abreast(tick.acknowledged, self.now);
        let mut outcomes = Vec::new();
        for event_tick in &tick.events {
            let Some(event) = self.events.get_mut(&event_tick.event) else { continue };
            let mut changes = Vec::new();
            let reserved = event.tick(index, self.now, event_tick, edges, &mut changes);
            keep(outcome, &event_tick.event, changes);
            let event = event_tick.event.clone();
            outcomes.push(EventOutcome { event, pool: PoolId::default(), line: LineId::default(), reserved });
        }
        self.sweep(index);
        outcomes
    }

    fn forgive(&mut self, index: LogIndex, span: Span) {
        let to_all = |spans: &[Span]| forgiven(spans, Missing::Everywhere, FleetTime(0), FleetTime(u64::MAX));
        let before = to_all(&self.spans);
        merge_span(&mut self.spans, span);
        let more = to_all(&self.spans).saturating_sub(before);
        if more > Duration::ZERO {
            self.keys.extend(index, more);
        }
    }

    fn change(&mut self, change: &Change, outcome: &mut Outcome) -> Result<ChangeApplied, ChangeError> {
        self.pass_time(outcome.index, change.now);
        self.check(change)?;
        let Some(mut event) = self.events.remove(&change.event) else {
            return self.create(outcome.index, change);
        };
        let mut changes = Vec::new();
        let applied = event.change(outcome.index, self.now, change, &self.events, &mut changes);
        keep(outcome, &change.event, changes);
        if matches!(&applied, Ok(applied) if applied.outcome != ChangeOutcome::Unchanged) {
            event.changed = outcome.index;
        }
        if matches!(&applied, Ok(ChangeApplied { outcome: ChangeOutcome::Deleted, .. })) {
            self.remains.insert(change.event.clone(), Remains::of(event, self.now));
        } else {
            self.events.insert(change.event.clone(), event);
        }
        applied
    }

    fn check(&self, change: &Change) -> Result<(), ChangeError> {
        let current = self.events.get(&change.event).map(|event| event.version);
        let makes = matches!(change.kind, ChangeKind::Put(_) | ChangeKind::Submit(_));
        match (change.condition, current) {
            (Condition::Version(seen), Some(current)) if seen != current => {
                Err(ChangeError::VersionMismatch(current))
            }
            (Condition::Absent, Some(current)) => Err(ChangeError::Exists(current)),
            (Condition::Version(_) | Condition::Exists, None) if makes => Err(ChangeError::Missing),
            (_, Some(_)) => match change.kind {
                ChangeKind::EndPass(id) if self.is_foreign(&change.event, id) => {
                    Err(ChangeError::NoSuchTicket)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether an id is surely no ticket of an event: another event knows it, or its node has yet to come to that run.
    /// Of who waits the log knows nothing, so an id that nobody knows may be a ticket.
    fn is_foreign(&self, event: &EventId, id: TicketId) -> bool {
        let known_to = |event: &Event| event.pool.live().knows(id);
        if self.events.get(event).is_some_and(known_to) {
            return false;
        }
        let newest =
            self.runs.keys().filter(|run| run.node.0.get() == id.node).map(|run| run.generation.0).max();
        newest.is_some_and(|newest| newest < id.generation) || self.events.values().any(known_to)
    }

    fn create(&mut self, index: LogIndex, change: &Change) -> Result<ChangeApplied, ChangeError> {
        let fields = match &change.kind {
            ChangeKind::Put(fields) => fields,
            ChangeKind::Submit(submission) => &submission.fields,
            _ => return Err(ChangeError::NoSuchEvent),
        };
        let policy = Policy::from_fields(fields).map_err(ChangeError::Faults)?;
        check_routes(&policy.routes, &self.events)?;
        let remains = self.remains.remove(&change.event);
        let mut event = Event::new(index, self.now, fields.clone(), policy, change.entropy, remains);
        let mut merged = None;
        if let ChangeKind::Submit(submission) = &change.kind {
            merged = Some(event.submissions.found(submission));
        }
        let version = event.version;
        self.events.insert(change.event.clone(), event);
        Ok(ChangeApplied { version, outcome: ChangeOutcome::Created, merged })
    }

    /// Drops what nothing valid refers to any more; ids are looked for once a minute.
    fn sweep(&mut self, index: LogIndex) {
        if self.now < self.next_sweep {
            return;
        }
        let now = self.now;
        self.next_sweep = now.after(SWEEP);
        let horizon = tickets_horizon(&self.spans, now);
        self.events.values_mut().for_each(|event| event.pool.forget_before(horizon));
        // Where no tick reaches, nobody's word is taken.
        let edges = self.lag.abreast(LogIndex(0), now);
        self.remains.retain(|_, remains| remains.outlives(edges, horizon));
        self.keys.forget_before(index, now);
        self.forget_spans(now);
        let session_max = self.longest(|policy| policy.session_max);
        self.runs
            .retain(|_, run| run.honours_until.max(run.heard.after(session_max)).after(SWEEP) > edges.time);
        let named = self.given_numbers_named();
        self.numbers.sweep(now, &named);
    }

    /// The numbers of edges of which something still counts: a run that may honour sessions, a row of who waits, a span
    /// in which it was away.
    fn given_numbers_named(&self) -> BTreeSet<NodeId> {
        let rows = self.events.values().flat_map(|event| event.line.rows.keys().map(|(_, run)| run.node));
        let runs = self.runs.keys().map(|run| run.node);
        let spans = self.spans.iter().filter_map(|span| span.node);
        rows.chain(runs).chain(spans).filter(|node| node.is_given()).collect()
    }

    /// Drops spans that no ticket can ask for: time that is forgiven itself does not count towards their age.
    fn forget_spans(&mut self, now: FleetTime) {
        let heartbeats = 2 * self.longest(|policy| policy.heartbeat_ttl);
        let tickets = heartbeats.max(2 * self.longest(|policy| policy.ticket_max));
        let kept = |span: &Span| {
            let (least, missing) = match span.node {
                None => (tickets, Missing::Everywhere),
                Some(node) => (heartbeats, Missing::AtNode(Some(node))),
            };
            let age = now.since(span.to).saturating_sub(forgiven(&self.spans, missing, span.to, now));
            age <= least
        };
        let spans = self.spans.iter().copied().filter(kept).collect();
        self.spans = spans;
    }

    fn longest(&self, of: impl Fn(&Policy) -> Duration) -> Duration {
        self.events.values().map(|event| of(&event.policy)).max().unwrap_or_default()
    }

    /// Moves on to `now`. Whoever leads tells of the time every minute, so in a longer silence nobody led.
    fn pass_time(&mut self, index: LogIndex, now: FleetTime) {
        let before = self.now;
        self.now = before.max(now);
        if before > FleetTime(0) && now.since(before) > LEADERLESS {
            self.forgive(index, Span { node: None, from: before, to: now });
        }
    }
}

fn keep(outcome: &mut Outcome, event: &EventId, changes: Vec<LiveChange>) {
    outcome.live.extend(changes.into_iter().map(|change| (event.clone(), change)));
}

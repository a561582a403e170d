//! The world of a run: one log, leaders that come and go, edges, visitors.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use super::Scenario;
use super::edge::Edge;
use super::faults::{Dice, Faults, Mutant};
use super::network::{Message, Network};
use super::oracle::{Figures, Honoured, Oracle, Violation};
use super::visitors::{Stage, Visitor};
use crate::model::edge::Honour;
use crate::model::exchange::{Pulse, Report};
use crate::model::ids::{EventId, Generation, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, Tenure, Term};
use crate::model::leader::Leader;
use crate::model::ledger::{Change, ChangeKind, Command, Condition, Event, KeyRecord, Span, State, Tick};
use crate::model::policy::{Fields, Policy};
use crate::model::time::{BootTime, FleetClock, FleetTime, as_millis};
use crate::model::token::Pass;

/// When a run begins, in unix milliseconds.
const START_MS: u64 = 1_800_000_000_000;

pub(super) const STEP_MS: u64 = 50;

const TICK_MS: u64 = 250;

/// A look at everything that would be honoured is taken this often.
pub(super) const LOOK_MS: u64 = 200;

pub(super) const HEARTBEAT_TTL_S: u64 = 8;

/// An edge's place in the fleet; the run in it changes.
pub(super) struct Node {
    pub(super) edge: Option<Edge>,
    id: NodeId,
    generation: u32,
    pub(super) boot_offset: u64,
    down_until: u64,
    cut_until: u64,
    /// Until then it hears deposed leaders only.
    deaf_until: u64,
    next_report: u64,
}

struct Seat {
    leader: Leader,
    tenure: Tenure,
    clock: FleetClock,
    boot_offset: u64,
    up_at: u64,
    inbox: Vec<Report>,
    /// When the next slot is due for which somebody waits.
    slot_due: Option<u64>,
}

/// A deposed leader: it cannot commit, and goes on handing out what it had reserved.
struct Deposed {
    leader: Leader,
    tenure: Tenure,
    state: State,
    /// Its fleet time when it was deposed, and when that was: time goes on for it.
    then: (FleetTime, u64),
    /// The clock that it judges its grants by stands still: it was frozen, and does not know.
    boot: BootTime,
    wakes: u64,
    dies: u64,
}

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) dice: Dice,
    pub(super) now: u64,
    event: EventId,
    pub(super) policy: Arc<Policy>,
    state: State,
    seat: Seat,
    deposed: Vec<Deposed>,
    pub(super) nodes: Vec<Node>,
    network: Network,
    pub(super) visitors: Vec<Visitor>,
    pub(super) passes: Vec<Pass>,
    pub(super) oracle: Oracle,
    /// Whether any edge has been out of the leader's reach: from then on some counts are not the leader's to know.
    parted: bool,
}

impl World {
    /// The world at its start; an error if the scenario makes no policy.
    pub(super) fn new(scenario: Scenario) -> Result<Self, String> {
        let mut dice = Dice::new(scenario.seed);
        let fields = fields(&scenario);
        let event: EventId = "sale".parse().map_err(|error| format!("{error}"))?;
        let policy = Arc::new(Policy::from_fields(&fields).map_err(|faults| format!("{faults:?}"))?);
        let start = FleetTime(START_MS);
        let key = KeyRecord {
            id: KeyId(1),
            secret: dice.secret(),
            made_at: start,
            signs_from: start,
            verifies_until: None,
        };
        let mut state = State::default();
        state.apply(LogIndex(1), &Command::Found { epoch: LedgerEpoch(7), now: start, key });
        let kind = ChangeKind::Put(fields);
        let change = Change {
            now: start,
            event: event.clone(),
            condition: Condition::Always,
            entropy: dice.secret(),
            kind,
        };
        state.apply(LogIndex(2), &Command::Change(change));
        let boot_offset = dice.between(0, 1_000_000);
        let boot = BootTime(START_MS + boot_offset);
        let tenure = Tenure { term: Term(1), generation: Generation(1), began: boot };
        let seat = Seat {
            leader: Leader::begin(tenure, &state),
            tenure,
            clock: FleetClock::begin(start, start, boot),
            boot_offset,
            up_at: START_MS,
            inbox: Vec::new(),
            slot_due: None,
        };
        let nodes = (1..=scenario.edges).filter_map(NonZeroU16::new).map(|id| Node {
            edge: None,
            id: NodeId(id),
            generation: 0,
            boot_offset: dice.between(0, 1_000_000),
            down_until: START_MS,
            cut_until: 0,
            deaf_until: 0,
            next_report: START_MS,
        });
        let nodes = nodes.collect();
        let visitors =
            (0..scenario.visitors).map(|_| Visitor::new(&scenario, START_MS + 1_000, &mut dice)).collect();
        let per_sec = scenario.max_admit_per_sec as usize;
        let mints_allowed = match scenario.faults {
            Faults::None => per_sec * 5 / 4 + 1,
            Faults::Restarts | Faults::All => per_sec * 2 + 1,
        };
        let mut world = Self {
            oracle: Oracle::new(scenario.capacity, mints_allowed),
            network: Network::new(scenario.faults),
            scenario,
            dice,
            now: START_MS,
            event,
            policy,
            state,
            seat,
            deposed: Vec::new(),
            nodes,
            visitors,
            passes: Vec::new(),
            parted: false,
        };
        world.break_ledger();
        Ok(world)
    }

    pub(super) fn run(mut self) -> (Figures, Vec<Violation>) {
        let end = START_MS + u64::from(self.scenario.duration_s) * 1_000;
        while self.now < end && self.oracle.violations.is_empty() {
            self.now += STEP_MS;
            match self.scenario.faults {
                Faults::None => {}
                Faults::Restarts => self.restart(),
                Faults::All => self.fail(),
            }
            self.start_edges();
            self.deliver();
            self.visit();
            self.send_reports();
            self.lead();
            self.wake_deposed();
            if self.now.is_multiple_of(LOOK_MS) {
                self.look();
            }
        }
        (self.oracle.figures, self.oracle.violations)
    }

    /// What a mutant breaks in the ledger's own view of the policy.
    fn break_ledger(&mut self) {
        let Some(event) = self.state.events.get_mut(&self.event) else { return };
        let policy = Arc::make_mut(&mut event.policy);
        match self.scenario.mutant {
            Mutant::NoCapacityCheck => policy.capacity = NonZeroU32::MAX,
            Mutant::ConsumedForgotten => policy.ticket_max = Duration::ZERO,
            _ => {}
        }
    }

    /// A power cut: every edge and the leader begin anew with what the log has.
    fn restart(&mut self) {
        if !self.dice.happens(0.002) || self.seat.up_at > self.now {
            return;
        }
        for node in &mut self.nodes {
            node.edge = None;
            node.down_until = self.now + self.dice.between(500, 2_000);
        }
        self.depose();
        self.deposed.clear();
    }

    fn fail(&mut self) {
        let now = self.now;
        for node in &mut self.nodes {
            if self.dice.happens(0.0004) {
                self.parted = true;
                node.cut_until = now + self.dice.between(1_000, 15_000);
            }
            if self.dice.happens(0.0005) && node.edge.is_some() {
                node.edge = None;
                node.down_until = now + self.dice.between(500, 6_000);
                if self.scenario.mutant == Mutant::RowsDropped {
                    drop_rows(&mut self.state, &self.event);
                }
            }
        }
    }

    fn depose(&mut self) {
        // Whoever leads next may be the same node, which has started again or had no quorum for a moment.
        let elections = self.dice.between(0, 1);
        let up_at = self.now + self.dice.between(800, 2_500);
        if self.scenario.mutant == Mutant::RowsDropped {
            drop_rows(&mut self.state, &self.event);
        }
        let boot_offset = self.dice.between(0, 1_000_000);
        let boot = BootTime(self.now + boot_offset);
        let mut uppers: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| {
                let edge = node.edge.as_ref()?;
                edge.link.newest().map(|_| edge.link.upper(BootTime(self.now + node.boot_offset)))
            })
            .collect();
        uppers.sort_unstable();
        let known = uppers.get(uppers.len().saturating_sub(1) / 2).copied().unwrap_or(self.state.now);
        // Nobody whom the leader reaches has heard of fleet time, and its own clock is wrong.
        let guesses = self.dice.happens(0.2);
        let guess = self.state.now.after(Duration::from_millis(self.dice.between(0, 20_000)));
        let start = if guesses { guess } else { known };
        let absence = guesses.then_some(Span { node: None, from: self.state.now, to: start });
        let Tenure { term, generation, .. } = self.seat.tenure;
        let tenure =
            Tenure { term: Term(term.0 + elections), generation: Generation(generation.0 + 1), began: boot };
        let fresh = Seat {
            leader: Leader::begin(tenure, &self.state),
            tenure,
            clock: FleetClock::begin(self.state.now, start, boot),
            boot_offset,
            up_at,
            inbox: Vec::new(),
            slot_due: None,
        };
        let old = std::mem::replace(&mut self.seat, fresh);
        let deafens = self.scenario.faults == Faults::All && self.dice.happens(0.5);
        self.parted |= deafens;
        for node in self.nodes.iter_mut().filter(|_| deafens) {
            if self.dice.happens(0.5) {
                node.deaf_until = self.now + self.dice.between(1_000, 14_000);
            }
        }
        let wakes = self.now + self.dice.between(0, 9_000);
        self.deposed.push(Deposed {
            boot: BootTime(self.now + old.boot_offset),
            then: (old.clock.now(), self.now),
            leader: old.leader,
            tenure: old.tenure,
            state: self.state.clone(),
            wakes,
            dies: wakes + self.dice.between(500, 5_000),
        });
        self.oracle.figures.leader_changes += 1;
        let now = self.fleet_now();
        let lead = match self.scenario.mutant {
            Mutant::StepsUnknown => {
                Command::Tick(Tick { now, spans: absence.into_iter().collect(), ..Tick::default() })
            }
            _ => Command::Lead { now, absence },
        };
        self.commit(&lead);
    }

    fn start_edges(&mut self) {
        if self.seat.up_at > self.now {
            return;
        }
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            if node.edge.is_some() || node.down_until > self.now {
                continue;
            }
            node.generation += 1;
            let run = NodeRun { node: node.id, generation: Generation(node.generation) };
            node.edge = Some(Edge::new(run));
            node.boot_offset = self.dice.between(0, 1_000_000);
            let now = self.fleet_now();
            self.commit(&Command::Register { run, now });
        }
    }

    fn fleet_now(&mut self) -> FleetTime {
        let boot = BootTime(self.now + self.seat.boot_offset);
        self.seat.clock.read(boot, FleetTime(self.now))
    }

    fn commit(&mut self, command: &Command) {
        let index = LogIndex(self.state.index.0 + 1);
        let outcome = self.state.apply(index, command);
        self.oracle.applied(self.now, self.state.events.get(&self.event), &outcome);
        let boot = BootTime(self.now + self.seat.boot_offset);
        self.seat.leader.applied(&self.state, &outcome, boot);
    }

    fn deliver(&mut self) {
        for message in self.network.arrived(self.now) {
            match message {
                Message::Report(to, report) => {
                    if self.is_cut(report.run) {
                        continue;
                    }
                    if to == self.seat.tenure && self.seat.up_at <= self.now {
                        self.seat.inbox.push(*report);
                    } else if let Some(old) = self.deposed.iter_mut().find(|old| old.tenure == to) {
                        old.leader.take(*report, old.boot);
                    }
                }
                Message::Pulse(pulse) => {
                    let now = self.now;
                    let node = self.nodes.iter_mut().find(|node| node.id == pulse.run.node);
                    let reaches = |node: &&mut Node| {
                        node.cut_until <= now && (node.deaf_until <= now || pulse.tenure < self.seat.tenure)
                    };
                    let Some(node) = node.filter(reaches) else { continue };
                    let boot = BootTime(now + node.boot_offset);
                    if let Some(edge) = &mut node.edge {
                        edge.take(*pulse, boot);
                    }
                }
            }
        }
    }

    fn is_cut(&self, run: NodeRun) -> bool {
        self.nodes.iter().any(|node| node.id == run.node && node.cut_until > self.now)
    }

    fn send_reports(&mut self) {
        for node in &mut self.nodes {
            let due = node.next_report <= self.now;
            let Some(edge) = node.edge.as_mut().filter(|edge| due || edge.is_urgent()) else { continue };
            node.next_report = self.now + TICK_MS - self.dice.between(0, 50);
            let boot = BootTime(self.now + node.boot_offset);
            let report = edge.report(boot, self.scenario.mutant);
            if node.cut_until > self.now {
                continue;
            }
            // Edges follow the newest leader that they heard of; right after an election some still ask the old one.
            let known = edge.link.newest().map_or(self.seat.tenure, |(leader, _)| leader);
            let follows = node.deaf_until <= self.now && self.dice.happens(0.85);
            let to = if follows { self.seat.tenure } else { known };
            self.network.send(self.now, Message::Report(to, Box::new(report)), &mut self.dice);
        }
    }

    fn lead(&mut self) {
        if self.seat.up_at > self.now {
            return;
        }
        let boot = BootTime(self.now + self.seat.boot_offset);
        let inbox = std::mem::take(&mut self.seat.inbox);
        let slot_is_due = self.seat.slot_due.is_some_and(|due| due <= self.now);
        if inbox.is_empty() && !slot_is_due && !self.now.is_multiple_of(TICK_MS) {
            return;
        }
        let mut runs: Vec<_> = inbox.iter().map(|report| report.run).collect();
        runs.dedup();
        inbox.into_iter().for_each(|report| self.seat.leader.take(report, boot));
        let now = self.fleet_now();
        let tick = self.seat.leader.plan(&self.state, now, boot);
        let reserves = tick.events.iter().any(|event| event.reserve > 0);
        if !tick.is_empty() {
            self.commit(&Command::Tick(tick));
        }
        // The worst moment to be deposed: slots are reserved, and no edge has them.
        if self.scenario.faults == Faults::All && self.dice.happens(if reserves { 0.04 } else { 0.002 }) {
            self.depose();
            return;
        }
        self.seat.slot_due =
            self.seat.leader.next_slot(&self.state, now).map(|wait| self.now + as_millis(wait));
        runs.extend(self.seat.leader.await_grants());
        runs.sort_unstable();
        runs.dedup();
        for run in runs {
            let pulse = self.seat.leader.pulse(&self.state, run, now, boot);
            let pulse = self.spoil(pulse);
            self.network.send(self.now, Message::Pulse(Box::new(pulse)), &mut self.dice);
        }
    }

    fn wake_deposed(&mut self) {
        let now = self.now;
        self.deposed.retain(|old| old.dies > now);
        let mut late = Vec::new();
        for old in self.deposed.iter_mut().filter(|old| old.wakes <= now) {
            let (fleet, deposed) = old.then;
            let fleet = FleetTime(fleet.0 + now - deposed);
            for run in old.leader.heard(old.boot) {
                late.push(old.leader.pulse(&old.state, run, fleet, old.boot));
            }
        }
        for pulse in late {
            let pulse = self.spoil(pulse);
            self.network.send(now, Message::Pulse(Box::new(pulse)), &mut self.dice);
        }
    }

    /// What mutants change in a pulse; edges are always told the true policy.
    fn spoil(&self, mut pulse: Pulse) -> Pulse {
        for event in &mut pulse.events {
            event.policy = Arc::clone(&self.policy);
            if let Some(grant) = event.grant.as_mut().filter(|_| self.scenario.mutant == Mutant::NoExpMax) {
                grant.exp_max = FleetTime(u64::MAX / 2);
            }
        }
        pulse
    }

    fn look(&mut self) {
        let mut honoured = Honoured::new();
        for node in &self.nodes {
            let Some(edge) = &node.edge else { continue };
            let boot = BootTime(self.now + node.boot_offset);
            for pass in &self.passes {
                let opens = matches!(
                    edge.honours(pass, boot),
                    Honour::Open { .. } | Honour::Claim { fallback: Some(_) }
                );
                if opens {
                    honoured.insert(pass.id, pass.at);
                }
            }
        }
        let expired = |pass: &Pass| pass.expires.0 + 60_000 > self.now;
        self.passes.retain(expired);
        let Some(event) = self.state.events.get(&self.event) else { return };
        self.oracle.look(self.now, event, &honoured);
        let waiting = self.visitors.iter().filter(|visitor| visitor.is_waiting()).count();
        let inside =
            self.visitors.iter().filter(|visitor| matches!(visitor.stage, Stage::Inside { .. })).count();
        self.oracle.utilise(inside, waiting);
        let called = self.visitors.iter().filter(|visitor| visitor.is_waiting() && visitor.called).count();
        let allowed = (self.scenario.capacity + 3 * self.scenario.max_admit_per_sec) as usize;
        // After an election some are called whose pass has to wait; nearly everybody is only by mistake.
        if !self.parted && called > allowed && called * 3 > waiting * 2 {
            self.oracle
                .report(self.now, format!("{called} of {waiting} are called, {allowed} at most should be"));
        }
    }
}

fn drop_rows(state: &mut State, event: &EventId) {
    let event: Option<&mut Event> = state.events.get_mut(event);
    event.into_iter().for_each(|event| event.line.rows.clear());
}

fn fields(scenario: &Scenario) -> Fields {
    let ordering = serde_json::to_value(scenario.ordering).unwrap_or_default();
    let value = serde_json::json!({
        "capacity": scenario.capacity,
        "max_admit_per_sec": scenario.max_admit_per_sec,
        "ordering": ordering,
        "bucket_seconds": if scenario.ordering == crate::model::policy::Ordering::Fifo { 1 } else { 10 },
        "session_ttl_s": 6,
        "session_max_s": if scenario.session_s > 10 { 120 } else { 12 },
        "pass_claim_s": if scenario.seed % 3 == 2 { 12 } else { 4 },
        "heartbeat_ttl_s": HEARTBEAT_TTL_S,
        "ticket_max_s": 600,
    });
    match value {
        serde_json::Value::Object(map) => Fields::from(map),
        _ => Fields::default(),
    }
}

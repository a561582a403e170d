//! A toy fleet: the real ledger and leader, and edges that do no more than the protocol asks of them.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::time::Duration;

use crate::model::exchange::{
    BucketCount, EdgeStage, EventPulse, EventReport, LiveUpdate, Presence, Pulse, Report,
};
use crate::model::grant::EdgeSlots;
use crate::model::ids::{EventId, Generation, LogIndex, NodeId, NodeRun, Tenure, Term, TicketId, Weight};
use crate::model::leader::Leader;
use crate::model::ledger::{Change, ChangeKind, Command, Condition, Gate, Outcome, State, Step, Tick};
use crate::model::order::{BucketStart, Draws, Fraction, KeyBase, OrderKey, SLICES, arrival_key};
use crate::model::policy::{Fields, Ordering};
use crate::model::presence::Window;
use crate::model::time::{BootTime, FRESH, FleetTime};

pub(super) const START: u64 = 1_800_000_000_000;

/// Numbers that look random, from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number, in 0..1.
    pub(super) fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) id: TicketId,
    pub(super) key: OrderKey,
    pub(super) joined: BootTime,
    pub(super) comes: bool,
    pub(super) asked: bool,
    next_poll: BootTime,
}

/// A visitor who was let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) at: BootTime,
    pub(super) arrived: BootTime,
    pub(super) by_line: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) run: NodeRun,
    pub(super) slots: EdgeSlots,
    pub(super) tickets: Vec<Ticket>,
    /// Newcomers who wait for a slot, or for a bucket, since they came.
    pub(super) held: VecDeque<BootTime>,
    pub(super) keyless: VecDeque<BootTime>,
    pub(super) admitted: Vec<Admitted>,
    pub(super) joined_by_bucket: std::collections::BTreeMap<BucketStart, u32>,
    pub(super) full: bool,
    pub(super) pulse: Option<Pulse>,
    pub(super) silent: bool,
    number: u64,
    sequence: u64,
    put_in_line: bool,
    live_index: LogIndex,
    recent: VecDeque<(BootTime, bool)>,
    last_key: OrderKey,
}

pub(super) struct Toy {
    pub(super) state: State,
    pub(super) leader: Leader,
    pub(super) edges: Vec<Edge>,
    pub(super) boot: BootTime,
    pub(super) event: EventId,
    pub(super) entries: u64,
    pub(super) dice: Dice,
    pub(super) led: u32,
}

/// A node that leads one term for the `led`th time.
fn tenure(led: u32, began: BootTime) -> Tenure {
    Tenure { term: Term(1), generation: Generation(led), began }
}

pub(super) fn run(node: u16, generation: u32) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::new(node).unwrap()), generation: Generation(generation) }
}

pub(super) fn fields(json: serde_json::Value) -> Fields {
    json.as_object().cloned().unwrap().into()
}

impl Toy {
    pub(super) fn new(edges: u16, seed: u64, policy: serde_json::Value) -> Self {
        let mut state = State::default();
        let event: EventId = "e".parse().unwrap();
        let runs: Vec<_> = (1..=edges).map(|node| run(node, 1)).collect();
        let mut index = 0;
        let mut apply = |state: &mut State, command: Command| {
            index += 1;
            state.apply(LogIndex(index), &command)
        };
        for run in &runs {
            apply(&mut state, Command::Register { run: *run, now: FleetTime(START) });
        }
        let kind = ChangeKind::Put(fields(policy));
        let change = Change {
            now: FleetTime(START),
            event: event.clone(),
            condition: Condition::Always,
            entropy: [9; 32],
            kind,
        };
        let outcome = apply(&mut state, Command::Change(change));
        assert!(matches!(outcome.steps.as_slice(), [Step::Changed(Ok(_))]), "{outcome:?}");
        let boot = BootTime(1_000);
        let leader = Leader::begin(tenure(1, boot), &state);
        let edges = runs.into_iter().map(Edge::new).collect();
        Self { state, leader, edges, boot, event, entries: 0, dice: Dice::new(seed), led: 1 }
    }

    pub(super) fn now(&self) -> FleetTime {
        FleetTime(START + self.boot.0)
    }

    pub(super) fn event(&self) -> &crate::model::ledger::Event {
        &self.state.events[&self.event]
    }

    pub(super) fn line(&self) -> &crate::model::ledger::Line {
        &self.event().line
    }

    pub(super) fn change(&mut self, kind: ChangeKind) {
        let change = Change {
            now: self.now(),
            event: self.event.clone(),
            condition: Condition::Always,
            entropy: [1; 32],
            kind,
        };
        let outcome = self.apply(Command::Change(change));
        assert!(matches!(outcome.steps.as_slice(), [Step::Changed(Ok(_))]), "{outcome:?}");
    }

    pub(super) fn apply(&mut self, command: Command) -> Outcome {
        let before = self.line().watermark;
        let epoch = self.line().epoch;
        let outcome = self.state.apply(LogIndex(self.state.index.0 + 1), &command);
        self.leader.applied(&self.state, &outcome, self.boot);
        let event = self.event();
        assert!(event.pool.occupied() <= event.policy.capacity.get().max(self.edges.len() as u32 * 1000));
        assert!(event.line.epoch != epoch || event.line.watermark >= before, "the watermark went back");
        outcome
    }

    /// One tick: everybody reports, the leader plans, the log applies, everybody hears.
    pub(super) fn tick(&mut self) -> Tick {
        self.boot = BootTime(self.boot.0 + 250);
        for at in 0..self.edges.len() {
            self.visit(at);
        }
        let tick = self.round();
        // Whoever waits for a slot or a bucket makes his edge report at once.
        for _ in 0..2 {
            for at in 0..self.edges.len() {
                self.visit(at);
            }
            if self.edges.iter().any(|edge| edge.waits(&self.event, self.boot)) {
                self.boot = BootTime(self.boot.0 + 5);
                self.round();
            }
        }
        tick
    }

    pub(super) fn round(&mut self) -> Tick {
        self.round_with(None)
    }

    /// A round in which an operator's change comes into the same entry, after the tick.
    pub(super) fn round_with(&mut self, kind: Option<ChangeKind>) -> Tick {
        let (now, boot) = (self.now(), self.boot);
        for edge in self.edges.iter_mut().filter(|edge| !edge.silent) {
            self.leader.take(edge.report(&self.event, now, boot), boot);
        }
        let tick = self.leader.plan(&self.state, now, boot);
        let change = kind.map(|kind| {
            let event = self.event.clone();
            Command::Change(Change { now, event, condition: Condition::Always, entropy: [1; 32], kind })
        });
        if !tick.is_empty() {
            self.entries += 1;
            let commands = [Command::Tick(tick.clone())].into_iter().chain(change);
            self.apply(Command::Batch(commands.collect()));
        }
        for edge in self.edges.iter_mut().filter(|edge| !edge.silent) {
            let pulse = self.leader.pulse(&self.state, edge.run, now, boot);
            edge.take(pulse);
        }
        tick
    }

    /// What visitors of one edge do at this moment.
    fn visit(&mut self, at: usize) {
        let watermark = self.line().watermark;
        let (boot, now) = (self.boot, self.now());
        let claim = self.event().policy.pass_claim;
        let edge = &mut self.edges[at];
        edge.slots.expire(boot);
        edge.poll(&self.event, boot, now, claim);
        edge.serve_newcomers(&self.event, boot, now, claim, watermark, &mut self.dice);
    }

    /// Somebody comes to an edge.
    pub(super) fn arrive(&mut self, at: usize) {
        let boot = self.boot;
        self.edges[at].held.push_back(boot);
    }

    /// The node of an edge dies and comes back as a new run; its tickets are still in their owners' hands.
    pub(super) fn restart(&mut self, at: usize) {
        let old = self.edges[at].clone();
        let new = run(old.run.node.0.get(), old.run.generation.0 + 1);
        self.led += 1;
        let register = Command::Register { run: new, now: self.now() };
        self.state.apply(LogIndex(self.state.index.0 + 1), &register);
        self.leader = Leader::begin(tenure(self.led, self.boot), &self.state);
        let mut edge = Edge::new(new);
        edge.full = false;
        edge.admitted = old.admitted;
        self.edges[at] = edge;
    }

    /// What a mutant of the ledger would do: the counts do not survive.
    pub(super) fn forget_rows(&mut self) {
        if let Some(event) = self.state.events.get_mut(&self.event) {
            event.line.rows.clear();
        }
    }

    /// Gives the tickets of a lottery their keys, once it is drawn.
    pub(super) fn draw_keys(&mut self) {
        for edge in &mut self.edges {
            let Some(said) = edge.said(&self.event).cloned() else { continue };
            let Some(lottery) = &said.lottery else { continue };
            let draws = Draws::new(said.draw_secret, Some(lottery));
            for ticket in edge.tickets.iter_mut().filter(|ticket| ticket.key.bucket() == lottery.bucket) {
                let base = KeyBase::Drawn { bucket: lottery.bucket, floor: Fraction(0) };
                ticket.key = OrderKey::of(base, ticket.id, &draws).unwrap();
            }
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.edges.iter().map(|edge| edge.tickets.len()).sum()
    }

    pub(super) fn admitted(&self) -> usize {
        self.edges.iter().map(|edge| edge.admitted.len()).sum()
    }
}

impl Edge {
    fn new(run: NodeRun) -> Self {
        Self {
            run,
            slots: EdgeSlots::new(run),
            tickets: Vec::new(),
            held: VecDeque::new(),
            keyless: VecDeque::new(),
            admitted: Vec::new(),
            joined_by_bucket: std::collections::BTreeMap::new(),
            full: true,
            pulse: None,
            silent: false,
            number: 0,
            sequence: 0,
            put_in_line: false,
            live_index: LogIndex(0),
            recent: VecDeque::new(),
            last_key: OrderKey::default(),
        }
    }

    pub(super) fn said<'a>(&'a self, event: &EventId) -> Option<&'a EventPulse> {
        self.pulse.as_ref().and_then(|pulse| pulse.events.iter().find(|of| of.event == *event))
    }

    fn take(&mut self, pulse: Pulse) {
        self.put_in_line = false;
        self.live_index = pulse.index;
        for said in &pulse.events {
            if let LiveUpdate::Whole(set) = &said.live {
                assert_eq!(set.index, pulse.index);
            }
            self.slots.settle(&said.settled);
            if let Some(grant) = said.grant {
                self.slots.take(grant, pulse.echo);
            }
        }
        self.pulse = Some(pulse);
    }

    fn mint(&mut self, id: TicketId, boot: BootTime, now: FleetTime, claim: Duration) -> bool {
        self.slots.spend(id, Weight::ONE, now.after(claim), boot).is_some()
    }

    fn poll(&mut self, event: &EventId, boot: BootTime, now: FleetTime, claim: Duration) {
        let Some(watermark) = self.said(event).map(|said| said.watermark) else { return };
        for mut ticket in std::mem::take(&mut self.tickets) {
            let called = ticket.key < watermark;
            if called && !ticket.asked {
                self.recent.push_back((boot, false));
            }
            if called && !ticket.comes {
                continue;
            }
            if boot >= ticket.next_poll {
                ticket.next_poll = BootTime(ticket.next_poll.0 + 1_000);
                ticket.asked |= called;
            }
            if ticket.asked && self.mint(ticket.id, boot, now, claim) {
                self.recent.push_back((boot, true));
                self.admitted.push(Admitted { at: boot, arrived: ticket.joined, by_line: true });
                continue;
            }
            self.tickets.push(ticket);
        }
        while self.recent.front().is_some_and(|(at, _)| boot.since(*at) > Duration::from_secs(60)) {
            self.recent.pop_front();
        }
    }

    fn serve_newcomers(
        &mut self,
        event: &EventId,
        boot: BootTime,
        now: FleetTime,
        claim: Duration,
        watermark: OrderKey,
        dice: &mut Dice,
    ) {
        let Some(said) = self.said(event).cloned() else { return };
        while let Some(arrived) = self.held.pop_front() {
            let id = self.next_id();
            let holds = boot.since(arrived) < Duration::from_secs(1);
            if said.gate == Gate::Open && self.mint(id, boot, now, claim) {
                self.admitted.push(Admitted { at: boot, arrived, by_line: false });
            } else if holds && !said.refused && said.gate != Gate::Queue {
                self.held.push_front(arrived);
                break;
            } else {
                self.put_in_line = true;
                self.keyless.push_back(arrived);
            }
        }
        let echo = self.pulse.as_ref().map_or(BootTime(0), |pulse| pulse.echo);
        let second = BucketStart::from(now);
        let usable = |bucket: &&BucketStart| said.policy.ordering == Ordering::Random || **bucket <= second;
        let bucket = said.buckets.iter().rev().find(usable).copied();
        let Some(bucket) = bucket.filter(|_| boot.since(echo) <= FRESH) else { return };
        let draws = Draws::new(said.draw_secret, said.lottery.as_ref());
        while let Some(arrived) = self.keyless.pop_front() {
            let id = self.next_id();
            let key = match said.policy.ordering {
                Ordering::BucketedRandom => {
                    let same = said.floor.bucket() == bucket;
                    assert!(said.floor.bucket() <= bucket);
                    let floor = if same { said.floor.fraction() } else { Fraction(0) };
                    let base = KeyBase::Drawn { bucket, floor };
                    // A lottery that has not been drawn has no keys: who is in it is told by its last key.
                    OrderKey::of(base, id, &draws).unwrap_or(OrderKey::new(bucket, Fraction::MAX))
                }
                Ordering::Fifo => arrival_key(bucket, said.policy.bucket, now, self.last_key),
                Ordering::Random => OrderKey::of(KeyBase::Clock(said.floor), id, &draws).unwrap(),
            };
            assert!(key >= watermark, "{key:?} was called before it was made");
            self.last_key = key;
            *self.joined_by_bucket.entry(key.bucket()).or_default() += 1;
            let next_poll = BootTime(boot.0 + (dice.roll() * 1000.0) as u64);
            let comes = dice.roll() >= 0.1;
            self.tickets.push(Ticket { id, key, joined: arrived, comes, asked: false, next_poll });
        }
    }

    fn next_id(&mut self) -> TicketId {
        self.sequence += 1;
        TicketId::of_run(self.run, self.sequence)
    }

    fn waits(&self, event: &EventId, boot: BootTime) -> bool {
        let gate = self.said(event).map(|said| said.gate);
        let asks = self.tickets.iter().any(|ticket| ticket.asked) && self.slots.available(boot) == 0;
        asks || !self.keyless.is_empty() || (gate == Some(Gate::Open) && !self.held.is_empty())
    }

    fn report(&mut self, event: &EventId, now: FleetTime, boot: BootTime) -> Report {
        self.number += 1;
        let said = self.said(event);
        let line = said.map(|said| said.line).unwrap_or_default();
        let watermark = said.map(|said| said.watermark).unwrap_or_default();
        let empty = |bucket, joined| {
            // Who is here has just been seen.
            let window = Window::from_number(u32::MAX);
            let presence = Presence { window, alive: 0, slices: vec![0; SLICES] };
            BucketCount { bucket, joined, returned: 0, seen: vec![presence], full: self.full }
        };
        let mut counts = std::collections::BTreeMap::new();
        for (&bucket, &joined) in &self.joined_by_bucket {
            counts.insert(bucket, empty(bucket, joined));
        }
        for ticket in self.tickets.iter().filter(|ticket| ticket.key >= watermark) {
            let bucket = ticket.key.bucket();
            let count = counts.entry(bucket).or_insert_with(|| empty(bucket, 0));
            count.seen[0].alive += 1;
            count.seen[0].slices[ticket.key.slice()] += 1;
        }
        let asking = self.tickets.iter().filter(|ticket| ticket.asked).count() as u32;
        let claimed = self.recent.iter().filter(|(_, claimed)| *claimed).count() as u32;
        let report = EventReport {
            event: event.clone(),
            line,
            outbox: self.slots.outbox(),
            extend: vec![],
            revoke: vec![],
            window: Window::default(),
            counts: counts.into_values().collect(),
            put_in_line: self.put_in_line,
            wants_bucket: !self.keyless.is_empty(),
            held: self.held.len() as u32 + asking,
            called_asking: asking,
            called_last_minute: self.recent.len() as u32 - claimed,
            claimed_last_minute: claimed,
            admitted_last_minute: claimed,
            express_rate: 0.0,
        };
        Report {
            run: self.run,
            number: self.number,
            sent: boot,
            upper: now,
            pulse_seen: self.pulse.as_ref().map(|pulse| (pulse.tenure, pulse.number)),
            live_index: self.live_index,
            keys_version: 0,
            stage: EdgeStage::Serving,
            events: vec![report],
        }
    }
}

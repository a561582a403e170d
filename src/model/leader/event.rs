//! Leading one event: one tick's changes, the grants that it may hand out, its part of a pulse.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::changes::Changes;
use super::counts::Counts;
use super::edges::{Edge, Edges};
use super::gate::{Doorman, Facts};
use super::line::{Calls, Pilot, Situation, has_opened, past_everybody, told_buckets, told_lottery};
use super::news::{acknowledge, is_worth, unsettled};
use super::patience::{most_held, soon};
use super::rows::Rows;
use super::share::{Want, split};
use super::table::table;
use super::told::Cut;
use crate::model::exchange::{EventPulse, Grant, TableRow};
use crate::model::ids::{EventId, LineEpoch, LogIndex, NodeRun, Tenure, TicketId};
use crate::model::ledger::{
    Event, EventTick, Gate, Lag, Line, LotteryState, Reserved, Returned, RunState, Span,
};
use crate::model::order::OrderKey;
use crate::model::pacing::Supply;
use crate::model::policy::{Mode, Policy};
use crate::model::time::{BootTime, FleetTime, GRANT_LIFE, TICK};

/// A first use that got no answer is forwarded again after this.
const EXTEND_AGAIN: Duration = Duration::from_millis(900);

/// The table is made anew at most this often.
const TABLE_EVERY: Duration = Duration::from_millis(200);

/// The weight of a guess at the rate of admissions when a line begins, as if counted over this many seconds.
const GUESS_SPAN: f32 = 10.0;

/// The time that edges count admissions over, in seconds.
const RATE_SPAN: f32 = 60.0;

/// What is volatile of one event.
#[derive(Debug)]
pub(super) struct EventLead {
    line: LineEpoch,
    counts: Counts,
    cut: Cut,
    pilot: Pilot,
    doorman: Doorman,
    rows: Rows,
    pub(super) changes: Changes,
    /// Who could use the slots that this tick reserves.
    wants: Vec<Want>,
    turn: usize,
    extends: BTreeMap<TicketId, BootTime>,
    table: Arc<Vec<TableRow>>,
    table_at: Option<BootTime>,
    waiting: f64,
    moving_since: Option<BootTime>,
    claimed: u32,
    /// Passes minted in the last minute.
    admitted: u32,
    held: u32,
    heartbeat_ttl: Duration,
    /// By which the last tick reserved slots.
    capacity: NonZeroU32,
}

/// What a tick of one event is planned from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub(super) id: &'a EventId,
    pub(super) event: &'a Event,
    pub(super) spans: &'a [Span],
    pub(super) lag: &'a Lag,
    pub(super) registered: &'a BTreeMap<NodeRun, RunState>,
    pub(super) now: FleetTime,
    pub(super) boot: BootTime,
    /// Whether every registered edge has been heard, or has had its time.
    pub(super) ready: bool,
    /// Whether edges have acknowledged more than the log knows.
    pub(super) news: bool,
}

/// What a plan comes to.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) tick: Option<EventTick>,
    pub(super) span: Option<Span>,
}

/// Which pulse, to whom, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) run: NodeRun,
    pub(super) number: u64,
    pub(super) index: LogIndex,
    pub(super) now: FleetTime,
    pub(super) boot: BootTime,
}

/// The sums of what edges said.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    asking: u32,
    held: u32,
    called: u32,
    claimed: u32,
    admitted: u32,
    wants_bucket: bool,
    put_in_line: bool,
}

impl EventLead {
    pub(super) fn new(event: &Event, seen: LogIndex, boot: BootTime) -> Self {
        Self {
            line: event.line.epoch,
            counts: Counts::from_rows(event.line.rows.iter()),
            cut: Cut::new(event.policy.heartbeat_ttl),
            pilot: Pilot::begin(&event.line, boot),
            doorman: Doorman::default(),
            rows: Rows::begin(boot),
            changes: Changes::after(seen),
            wants: Vec::new(),
            turn: 0,
            extends: BTreeMap::new(),
            table: Arc::default(),
            table_at: None,
            waiting: 0.0,
            moving_since: None,
            claimed: 0,
            admitted: 0,
            held: 0,
            heartbeat_ttl: event.policy.heartbeat_ttl,
            capacity: event.policy.capacity,
        }
    }

    pub(super) fn is_of(&self, line: &Line) -> bool {
        self.line == line.epoch
    }

    /// Begins a new line of the same event: the live set goes on.
    pub(super) fn restart(&mut self, event: &Event, boot: BootTime) {
        let changes = std::mem::replace(&mut self.changes, Changes::after(LogIndex(0)));
        *self = Self { changes, capacity: self.capacity, ..Self::new(event, LogIndex(0), boot) };
    }

    pub(super) fn plan(&mut self, scene: Scene<'_>, tenure: Tenure, edges: &mut Edges) -> Planned {
        let Scene { id, event, now, boot, .. } = scene;
        let heard = self.hear(&scene, tenure, edges);
        let mut tick = EventTick::nothing(id.clone());
        tick.watermark = event.line.watermark;
        self.forward(&scene, edges, &mut tick);
        self.returned(&scene, edges, &mut tick);
        let supply = self.supply(&scene, heard);
        self.steer(&scene, tenure, edges, heard, supply, &mut tick);
        tick.rows.extend(self.rows.due(&event.line, &self.counts, boot));
        tick.drop_rows = self.rows.outlived(&mut self.counts, edges, &event.policy, scene.spans, now, boot);
        self.reserve(&scene, edges, supply, &mut tick);
        self.remember(&scene, heard, &tick);
        Planned { tick: self.is_due(&scene, &tick).then_some(tick), span: self.heartbeat_span(&scene) }
    }

    /// Takes in what new reports say, and sums up what the last ones do.
    fn hear(&mut self, scene: &Scene<'_>, tenure: Tenure, edges: &mut Edges) -> Heard {
        let mut heard = Heard::default();
        let line = &scene.event.line;
        let reporting = edges.iter().filter(|(_, edge)| edge.is_heard(scene.boot)).map(|(run, _)| *run);
        let cut = self.cut.at(scene.now, scene.event.policy.heartbeat_ttl);
        self.counts.attend(reporting.collect(), cut, line);
        for (run, edge) in edges {
            edge.note_grants(scene.id, tenure);
            let of_line = |report: &&_| is_of(report, scene.id, self.line);
            for report in edge.inbox.iter().filter(of_line) {
                for count in &report.counts {
                    self.rows.touch(count.bucket, *run);
                    self.counts.take(*run, count.clone(), line.watermark);
                }
                let counts_now = self.doorman.heeds(*run, edge, tenure);
                heard.wants_bucket |= report.wants_bucket && counts_now;
                heard.put_in_line |= report.put_in_line;
            }
            let last = edge.events.get(scene.id).filter(|report| report.line == self.line);
            if let Some(report) = last.filter(|_| edge.is_heard(scene.boot)) {
                heard.asking = heard.asking.saturating_add(report.called_asking);
                heard.held = heard.held.saturating_add(report.held);
                heard.called = heard.called.saturating_add(report.called_last_minute);
                heard.claimed = heard.claimed.saturating_add(report.claimed_last_minute);
                heard.admitted = heard.admitted.saturating_add(report.admitted_last_minute);
            }
        }
        self.counts.changed().into_iter().for_each(|(bucket, run)| self.rows.touch(bucket, run));
        self.counts.follow(line.watermark);
        heard
    }

    /// Puts into the tick what edges report of slots and passes, unless the log has it.
    fn forward(&mut self, scene: &Scene<'_>, edges: &Edges, tick: &mut EventTick) {
        let (pool, boot) = (&scene.event.pool, scene.boot);
        self.extends.retain(|_, at| boot.since(*at) < EXTEND_AGAIN);
        let mut revoked = BTreeSet::new();
        for (run, edge) in edges {
            let Some(report) = edge.events.get(scene.id) else { continue };
            tick.settle.extend(report.outbox.iter().filter_map(|settle| unsettled(pool, *run, settle)));
            for extend in &report.extend {
                let wanted =
                    !self.extends.contains_key(&extend.pass) && is_worth(extend, scene.event, scene.now);
                if wanted {
                    self.extends.insert(extend.pass, boot);
                    tick.extend.push(*extend);
                }
            }
            revoked.extend(report.revoke.iter().copied().filter(|revoke| pool.live().would_end(revoke)));
        }
        tick.revoke = revoked.into_iter().collect();
    }

    /// Gives back what was reserved and could not be handed over within a tick, or before a capacity was lowered.
    fn returned(&mut self, scene: &Scene<'_>, edges: &mut Edges, tick: &mut EventTick) {
        let recalled = self.is_recalled(&scene.event.policy);
        let stale = edges.values_mut().filter_map(|edge| {
            if recalled {
                edge.grants.remove(scene.id).map(|(grant, _)| grant)
            } else {
                edge.stale_grants(scene.id, scene.boot, TICK)
            }
        });
        tick.returned.extend(stale.map(|grant| Returned { block: grant.block, slots: grant.slots }));
    }

    /// Whether what the last tick reserved may not be spent any more: edges give up what they have in hand themselves.
    fn is_recalled(&self, policy: &Policy) -> bool {
        policy.capacity < self.capacity
    }

    fn supply(&self, scene: &Scene<'_>, heard: Heard) -> Supply {
        let policy = &scene.event.policy;
        let mut supply = Supply {
            free: scene.event.pool.free(policy.capacity.get()),
            per_sec: policy.max_admit_per_sec.get(),
            elapsed: Duration::ZERO,
            asking: heard.asking,
            pending: 0.0,
            called: heard.called,
            claimed: heard.claimed,
        };
        supply.pending = self.pilot.recent.pending(scene.boot, supply.take_up());
        supply
    }

    fn steer(
        &mut self,
        scene: &Scene<'_>,
        tenure: Tenure,
        edges: &Edges,
        heard: Heard,
        supply: Supply,
        tick: &mut EventTick,
    ) {
        let Scene { event, now, boot, .. } = *scene;
        let (line, policy) = (&event.line, &*event.policy);
        let admits = admits(policy, now);
        let situation = Situation {
            line,
            policy,
            now,
            boot,
            wants_bucket: heard.wants_bucket || heard.put_in_line,
            calls: if admits && scene.ready { Calls::Paced } else { Calls::None },
            supply,
        };
        let steering = self.pilot.steer(situation, &mut self.counts);
        tick.watermark = steering.watermark;
        tick.bucket = steering.bucket;
        tick.admitted = steering.admitted;
        tick.draw_lottery = steering.draw_lottery;
        if let Some(settled) = steering.settled {
            self.rows.close_before(settled, line);
        }
        let uncalled = self.counts.waiting(steering.watermark);
        let called = f64::from(supply.asking) + self.pilot.recent.pending(boot, supply.take_up());
        self.waiting = uncalled + called;
        let credit = event.pool.credit(now, policy.max_admit_per_sec.get());
        let facts = Facts {
            event: scene.id,
            gate: line.gate,
            has_opened: has_opened(policy, now),
            admits: admits && scene.ready,
            certain: self.counts.first_doubtful(steering.watermark).is_none(),
            waiting: self.waiting,
            uncalled,
            serves: supply.free.min(soon(credit, policy.max_admit_per_sec)),
            free: supply.free,
            put_in_line: heard.put_in_line,
            wants_bucket: heard.wants_bucket,
            lottery_runs: lottery_runs(line.lottery.as_ref(), policy, now),
            boot,
        };
        let registered = scene.registered;
        let door =
            self.doorman.decide(facts, tenure, edges.iter().filter(|(run, _)| registered.contains_key(run)));
        tick.gate = door.gate;
        if door.calls_all {
            let past = past_everybody(line, policy.ordering, self.pilot.floor(), &self.counts);
            tick.watermark = tick.watermark.max(past);
            tick.bucket = Some(None);
            self.pilot.recent.add(boot, uncalled);
        }
        if let Some(Some(bucket)) = tick.bucket {
            let heard =
                edges.iter().filter(|(run, edge)| edge.is_heard(boot) && registered.contains_key(run));
            tick.rows.extend(self.rows.opening(bucket, line, heard.map(|(run, _)| *run)));
        }
    }

    /// Asks for slots for those who wait for one, and ahead for the newcomers of the next moment.
    fn reserve(&mut self, scene: &Scene<'_>, edges: &Edges, supply: Supply, tick: &mut EventTick) {
        let Scene { id, event, now, boot, .. } = *scene;
        self.wants.clear();
        if !admits(&event.policy, now) {
            return;
        }
        let is_open = tick.gate.unwrap_or(event.line.gate) == Gate::Open;
        let credit = event.pool.credit(now, event.policy.max_admit_per_sec.get());
        for (run, edge) in edges {
            let usable = edge.serves(boot) && scene.registered.contains_key(run);
            let Some(report) = edge.events.get(id).filter(|report| usable && report.line == self.line) else {
                continue;
            };
            // Those who hold the line for a slot: the called and, while express is open, newcomers.
            let held = if is_open { report.held } else { report.held.min(report.called_asking) };
            let waiting =
                if edge.grants.contains_key(id) { 0 } else { held.saturating_sub(edge.on_their_way(id)) };
            let ahead = if is_open { (report.express_rate.max(0.0) * 0.375).round() as u32 } else { 0 };
            if waiting + ahead > 0 {
                self.wants.push(Want { run: *run, waiting, ahead, traffic: edge.traffic(id) });
            }
        }
        let sum = |of: fn(&Want) -> u32| self.wants.iter().map(of).fold(0, u32::saturating_add);
        let waiting = sum(|want| want.waiting);
        // Half of the credit is kept for those whom this does not cover.
        let ahead = sum(|want| want.ahead).min(credit.slots().saturating_sub(waiting) / 2);
        let frees = supply.free > 0 || frees_slots(scene, tick);
        tick.reserve = if frees { waiting.saturating_add(ahead).min(credit.slots()) } else { 0 };
    }

    /// Hands what the log reserved to the edges that it was reserved for.
    pub(super) fn hand_out(&mut self, id: &EventId, reserved: Reserved, boot: BootTime, edges: &mut Edges) {
        self.turn = self.turn.wrapping_add(1);
        for (run, slots) in split(reserved.slots, &self.wants, self.turn) {
            let Some(edge) = edges.get_mut(&run) else { continue };
            let grant = Grant { block: reserved.block, slots, life: GRANT_LIFE, exp_max: reserved.exp_max };
            edge.grants.insert(id.clone(), (grant, boot));
        }
        self.wants.clear();
    }

    /// Whether the tick is worth an entry of the log.
    fn is_due(&self, scene: &Scene<'_>, tick: &EventTick) -> bool {
        let pool = &scene.event.pool;
        let changes = EventTick { watermark: OrderKey::default(), ..tick.clone() };
        changes != EventTick::nothing(scene.id.clone())
            || tick.watermark > scene.event.line.watermark
            || pool.next_change(scene.lag).is_some_and(|at| at <= scene.now)
            || (scene.news && pool.awaits_acknowledgement().is_some())
    }

    fn remember(&mut self, scene: &Scene<'_>, heard: Heard, tick: &EventTick) {
        let boot = scene.boot;
        self.capacity = scene.event.policy.capacity;
        self.claimed = heard.claimed;
        self.admitted = heard.admitted;
        self.held = heard.held;
        if tick.watermark > scene.event.line.watermark {
            self.moving_since.get_or_insert(boot);
        } else if scene.event.line.gate == Gate::Open {
            self.moving_since = None;
        }
        if self.table_at.is_none_or(|at| boot.since(at) >= TABLE_EVERY) {
            self.table_at = Some(boot);
            let cells = self.counts.coarse_cells(tick.watermark);
            let uncalled: f64 = cells.iter().map(|cell| cell.waiting).sum();
            let table = table(tick.watermark, (self.waiting - uncalled).max(0.0), &cells);
            if *self.table != table {
                self.table = Arc::new(table);
            }
        }
    }

    /// How long it takes until the rate allows a slot for those who wait for nothing else; `None` if nobody does.
    pub(super) fn next_slot(&self, event: &Event, now: FleetTime) -> Option<Duration> {
        let policy = &*event.policy;
        let per_sec = policy.max_admit_per_sec.get();
        let credit = event.pool.credit(now, per_sec);
        let lacks_credit_only = self.held > 0
            && credit.slots() == 0
            && event.pool.free(policy.capacity.get()) > 0
            && admits(policy, now);
        lacks_credit_only.then(|| credit.until_next_slot(per_sec))
    }

    /// A shorter `heartbeat_ttl_s` is for those who have been told of it: nobody ends by the old rhythm.
    fn heartbeat_span(&mut self, scene: &Scene<'_>) -> Option<Span> {
        let before = std::mem::replace(&mut self.heartbeat_ttl, scene.event.policy.heartbeat_ttl);
        let shorter = self.heartbeat_ttl < before && scene.event.line.is_in_use();
        shorter.then_some(Span { node: None, from: scene.now, to: scene.now.after(before) })
    }

    /// Admissions per second of the line: as the edges counted them, and before they can have counted as slots and rate
    /// allow.
    fn pace(&self, boot: BootTime, policy: &Policy, free: u32) -> f32 {
        let span = self.moving_since.map_or(0.0, |since| boot.since(since).as_secs_f32().min(RATE_SPAN));
        let most = policy.max_admit_per_sec.get() as f32;
        let likely = most.min(free as f32 / GUESS_SPAN);
        let guessed_over = GUESS_SPAN * (1.0 - span / RATE_SPAN);
        ((self.claimed as f32 + likely * guessed_over) / (span + guessed_over)).min(most)
    }

    pub(super) fn pulse(
        &mut self,
        id: &EventId,
        event: &Event,
        edge: Option<&mut Edge>,
        address: Address,
    ) -> EventPulse {
        let Address { run, number, index, now, boot } = address;
        let (line, policy, pool) = (&event.line, &event.policy, &event.pool);
        if line.gate == Gate::Reopening {
            self.doorman.told(run, number, boot);
        }
        let free = pool.free(policy.capacity.get());
        let credit = pool.credit(now, policy.max_admit_per_sec.get());
        let (mut grant, mut settled, mut refused, mut live_index) = (None, Vec::new(), false, LogIndex(0));
        let held = self.held;
        if let Some(edge) = edge {
            live_index = edge.live_index;
            if !self.is_recalled(policy) {
                grant = edge.hand_over(id, number, boot);
            }
            if let Some(report) = edge.events.get(id) {
                settled = report.outbox.iter().map(|settle| acknowledge(pool, run, settle)).collect();
                let patient = most_held(line.gate, credit, policy.max_admit_per_sec);
                let nothing_left = free == 0 || held > patient || !admits(policy, now);
                let waits = report.held > 0 && grant.is_none() && !edge.granted_by.contains_key(id);
                refused = waits && nothing_left && line.gate != Gate::Reopening;
            }
        }
        let floor = self.pilot.floor();
        EventPulse {
            event: id.clone(),
            version: event.version,
            policy: Arc::clone(policy),
            line: line.epoch,
            draw_secret: line.draw_secret,
            lottery: line.lottery.as_ref().map(told_lottery),
            gate: line.gate,
            watermark: line.watermark,
            floor: floor.max(line.watermark),
            buckets: told_buckets(line, policy.ordering, floor),
            grant,
            refused,
            settled,
            live: self.changes.since(live_index, index, pool.live()),
            table: Arc::clone(&self.table),
            admit_rate: self.admitted as f32 / RATE_SPAN,
            pace: self.pace(boot, policy, free),
            slots_free: free,
            credit_share: credit.share(policy.max_admit_per_sec.get()),
            live_passes: u32::try_from(pool.live().len()).unwrap_or(u32::MAX),
            waiting: self.waiting.ceil() as u32,
        }
    }
}

/// Whether anybody may be admitted at `now`.
fn admits(policy: &Policy, now: FleetTime) -> bool {
    let mode_admits = matches!(policy.mode, Mode::Enforce | Mode::Observe);
    mode_admits && !policy.paused && has_opened(policy, now)
}

fn is_of(report: &crate::model::exchange::EventReport, id: &EventId, line: LineEpoch) -> bool {
    report.event == *id && report.line == line
}

/// Whether a lottery's bucket takes joins at `now`.
fn lottery_runs(lottery: Option<&LotteryState>, policy: &Policy, now: FleetTime) -> bool {
    let begun = lottery.is_some_and(|lottery| lottery.order.is_none() && lottery.bucket.time() <= now);
    begun && policy.schedule.lottery_closes().is_some_and(|closes| now < closes)
}

/// Whether the tick may free slots before it reserves some.
fn frees_slots(scene: &Scene<'_>, tick: &EventTick) -> bool {
    let closes = tick.settle.iter().any(|settle| settle.closed.is_some());
    let next_change = scene.event.pool.next_change(scene.lag);
    closes || !tick.returned.is_empty() || next_change.is_some_and(|at| at <= scene.now)
}

//! Steering one line: its buckets, its floors, its watermark.

use std::collections::VecDeque;
use std::time::Duration;

use super::counts::Counts;
use crate::model::exchange::Lottery;
use crate::model::ledger::{Gate, Line, LotteryState};
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::pacing::{Cell, RecentCalls, Step, Stride, Supply, advance, nearly_over};
use crate::model::policy::{Ordering, Policy};
use crate::model::schedule::Stage;
use crate::model::time::{BootTime, FRESH, FleetTime, TICK};

/// After this no edge keys by a pulse that was sent before: it is not fresh any more. With a margin for clocks.
const HEARD_BY_ALL: Duration = FRESH.saturating_add(Duration::from_millis(50));

/// The same in fleet time, which may run ten percent fast.
const HEARD_BY_ALL_FLEET: Duration = FRESH.saturating_add(Duration::from_millis(100));

/// How far ahead of the watermark the floor is: more ticks than a pulse stays fresh.
const FLOOR_TICKS: f64 = 4.0;

/// The watermark is not paced more often than this, however often the leader plans.
const PACE: Duration = Duration::from_millis(200);

/// What is volatile of a line: it is lost with the leader, and the next one does without.
#[derive(Clone, Debug)]
pub(super) struct Pilot {
    /// Joins are keyed above it.
    floor: OrderKey,
    /// Floors that pulses carried, with the time from which every pulse did.
    floors: VecDeque<(BootTime, OrderKey)>,
    /// Since when every pulse told of these buckets, ascending.
    told: VecDeque<(BootTime, BucketStart)>,
    /// Since when no bucket is told of.
    closed_since: BootTime,
    paced: BootTime,
    pub(super) recent: RecentCalls,
}

/// What the leader knows when it steers a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    pub(super) line: &'a Line,
    pub(super) policy: &'a Policy,
    pub(super) now: FleetTime,
    pub(super) boot: BootTime,
    /// Whether somebody waits at an edge for a bucket, or was put in line.
    pub(super) wants_bucket: bool,
    /// Whether anybody may be called at this moment.
    pub(super) calls: Calls,
    pub(super) supply: Supply,
}

/// Whether anybody may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// As slots and rate allow.
    Paced,
    /// Nobody: the event is paused, closed or has not opened, or the counts are not in yet.
    None,
}

/// What steering comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Steering {
    pub(super) bucket: Option<Option<BucketStart>>,
    pub(super) watermark: OrderKey,
    pub(super) called: f64,
    pub(super) admitted: u32,
    pub(super) draw_lottery: bool,
    /// The newest bucket that every edge must have heard of.
    pub(super) settled: Option<BucketStart>,
}

impl Pilot {
    /// A pilot that knows nothing but the line: what pulses of before said is taken to have ended just now.
    pub(super) fn begin(line: &Line, boot: BootTime) -> Self {
        Self {
            floor: line.watermark,
            floors: VecDeque::new(),
            told: line.buckets.iter().map(|bucket| (boot, *bucket)).collect(),
            closed_since: boot,
            paced: boot,
            recent: RecentCalls::default(),
        }
    }

    /// The floor that pulses carry.
    pub(super) fn floor(&self) -> OrderKey {
        self.floor
    }

    /// Decides on buckets and on the watermark.
    pub(super) fn steer(&mut self, at: Situation<'_>, counts: &mut Counts) -> Steering {
        self.observe(&at);
        let mut steering = Steering { watermark: at.line.watermark, ..Steering::default() };
        let waiting = counts.waiting(at.line.watermark);
        let settled = self.settled_bucket(&at);
        // What is older than a bucket that everybody has heard of says nothing any more.
        self.told.retain(|(_, bucket)| Some(*bucket) >= settled);
        steering.settled = settled;
        steering.draw_lottery = undrawn(at.line).is_some_and(|lottery| settled > Some(lottery));
        if at.calls == Calls::Paced && at.boot.since(self.paced) >= PACE {
            self.pace(&at, counts, settled, &mut steering);
        }
        steering.bucket = self.next_bucket(&at, counts, waiting, settled).map(Some);
        steering
    }

    /// Takes note of what the log says by now, so that it is known since when every pulse says it.
    fn observe(&mut self, at: &Situation<'_>) {
        let line = at.line;
        if line.buckets.is_empty() && !self.told.is_empty() {
            self.closed_since = at.boot;
        }
        self.told.retain(|(_, bucket)| {
            line.buckets.contains(bucket) || Some(*bucket) < line.buckets.first().copied()
        });
        if line.buckets.is_empty() {
            self.told.clear();
        }
        for bucket in &line.buckets {
            if self.told.iter().all(|(_, told)| told != bucket) {
                self.told.push_back((at.boot, *bucket));
            }
        }
        self.floor = self.floor.max(line.watermark);
    }

    /// The newest bucket that every edge must have heard of: joins are keyed by no older one.
    fn settled_bucket(&self, at: &Situation<'_>) -> Option<BucketStart> {
        let settled = |(told, bucket): &&(BootTime, BucketStart)| {
            at.boot.since(*told) > HEARD_BY_ALL && at.now >= bucket.time().after(HEARD_BY_ALL_FLEET)
        };
        self.told.iter().rev().find(settled).map(|(_, bucket)| *bucket)
    }

    /// The newest floor that every edge must have heard of.
    fn settled_floor(&self, boot: BootTime) -> OrderKey {
        let settled = |(since, _): &&(BootTime, OrderKey)| boot.since(*since) > HEARD_BY_ALL;
        self.floors.iter().rev().find(settled).map_or(OrderKey::default(), |(_, floor)| *floor)
    }

    /// Up to where nobody can be keyed any more.
    fn limit(&self, at: &Situation<'_>, settled: Option<BucketStart>) -> OrderKey {
        let mut limit = self.settled_floor(at.boot);
        if at.policy.ordering != Ordering::Random {
            limit = limit.max(settled.map_or(OrderKey::default(), BucketStart::first_key));
            let nobody_joins = at.line.buckets.is_empty() && at.boot.since(self.closed_since) > HEARD_BY_ALL;
            if let Some(newest) = at.line.newest_bucket.filter(|_| nobody_joins) {
                limit = limit.max(newest.next().first_key());
            }
            if let Some(lottery) = undrawn(at.line) {
                limit = limit.min(lottery.first_key());
            }
        }
        limit
    }

    fn pace(
        &mut self,
        at: &Situation<'_>,
        counts: &mut Counts,
        settled: Option<BucketStart>,
        steering: &mut Steering,
    ) {
        let watermark = at.line.watermark;
        let supply = Supply { elapsed: at.boot.since(self.paced), ..at.supply };
        self.paced = at.boot;
        let paced = supply.wanted_calls();
        let extra = f64::from(at.line.admit_pending);
        let limit = self.limit(at, settled);
        let step = step(at, counts, watermark, paced + extra, limit);
        steering.watermark = step.watermark;
        steering.called = step.called;
        self.recent.add(at.boot, step.called);
        steering.admitted = admitted(at, counts, step, paced);
        let soon = supply.calls_within(TICK.mul_f64(FLOOR_TICKS));
        self.raise_floor(at, counts, settled, step.watermark, soon + extra);
    }

    /// Publishes a floor where the watermark may be wanted by the time that every edge has heard of it.
    fn raise_floor(
        &mut self,
        at: &Situation<'_>,
        counts: &Counts,
        settled: Option<BucketStart>,
        watermark: OrderKey,
        wanted: f64,
    ) {
        let floor = match (at.policy.ordering, settled) {
            (Ordering::Random, _) => step(at, counts, watermark, wanted, OrderKey::END).watermark,
            (Ordering::BucketedRandom, Some(open)) if undrawn(at.line) != Some(open) => {
                let last = nearly_over(open);
                step(at, counts, watermark, wanted, last).watermark.max(open.first_key())
            }
            (_, Some(open)) => open.first_key(),
            (_, None) => watermark,
        };
        self.floor = self.floor.max(floor);
        if self.floors.back().is_none_or(|(_, last)| *last < self.floor) {
            self.floors.push_back((at.boot, self.floor));
        }
        // One floor that every edge has heard of is enough.
        while self.floors.get(1).is_some_and(|(since, _)| at.boot.since(*since) > HEARD_BY_ALL) {
            self.floors.pop_front();
        }
    }

    /// The bucket to open, if one is due.
    fn next_bucket(
        &self,
        at: &Situation<'_>,
        counts: &Counts,
        waiting: f64,
        settled: Option<BucketStart>,
    ) -> Option<BucketStart> {
        let line = at.line;
        let second = BucketStart::from(at.now);
        let beyond = |start: BucketStart| line.newest_bucket.map_or(start, |newest| start.max(newest.next()));
        let Some(newest) = line.buckets.last().copied() else {
            if let Some(lottery) = open_lottery(at) {
                return Some(lottery);
            }
            let first = match at.policy.ordering {
                // There it only says that there is a line: keys follow the clock.
                Ordering::Random => beyond(BucketStart(0)),
                Ordering::BucketedRandom | Ordering::Fifo => beyond(second),
            };
            return at.wants_bucket.then_some(first);
        };
        if at.policy.ordering == Ordering::Random {
            return None;
        }
        if let Some(lottery) = open_lottery(at).filter(|lottery| newest < *lottery) {
            return Some(lottery);
        }
        let next = second.next();
        let width = u32::try_from(at.policy.bucket.as_secs()).unwrap_or(u32::MAX).max(1);
        if newest > second || next <= newest {
            return None;
        }
        if undrawn(line) == Some(newest) {
            let closes = BucketStart::from(at.policy.schedule.lottery_closes().unwrap_or(at.now));
            return (next >= closes && waiting > 0.0).then_some(next);
        }
        let old = next.0.saturating_sub(newest.0) >= width && waiting > 0.0;
        (old || self.is_short(at, counts, newest, settled)).then_some(next)
    }

    /// Whether the open bucket is drained and would soon be empty: it closes first.
    fn is_short(
        &self,
        at: &Situation<'_>,
        counts: &Counts,
        newest: BucketStart,
        settled: Option<BucketStart>,
    ) -> bool {
        if at.policy.ordering != Ordering::BucketedRandom
            || settled != Some(newest)
            || at.calls == Calls::None
        {
            return false;
        }
        let watermark = at.line.watermark;
        let inside = counts.waiting_in(newest, watermark);
        if inside <= 0.0 {
            return false;
        }
        if self.floor >= nearly_over(newest) {
            return true;
        }
        let per_floor = f64::from(at.supply.per_sec) * TICK.as_secs_f64() * FLOOR_TICKS;
        let soon = f64::from(at.supply.free).min(per_floor.max(1.0)) + f64::from(at.line.admit_pending);
        let mut left = soon - inside;
        // A long line is told from a short one by its first cells.
        let mut ahead = counts.cells(watermark).take_while(|cell| cell.from < newest.first_key());
        while left >= 0.0 {
            let Some(cell) = ahead.next() else { return true };
            left -= cell.waiting;
        }
        false
    }
}

/// The lottery whose bucket has not been drawn.
fn undrawn(line: &Line) -> Option<BucketStart> {
    line.lottery.as_ref().filter(|lottery| lottery.order.is_none()).map(|lottery| lottery.bucket)
}

/// The lottery's bucket, if it is due and nothing newer was opened.
fn open_lottery(at: &Situation<'_>) -> Option<BucketStart> {
    let lottery = undrawn(at.line)?;
    let closes = at.policy.schedule.lottery_closes()?;
    let due = lottery.time() <= at.now && at.now < closes && at.policy.ordering != Ordering::Random;
    (due && at.line.newest_bucket < Some(lottery)).then_some(lottery)
}

/// One step of the watermark in the way of the event's ordering.
fn step(at: &Situation<'_>, counts: &Counts, from: OrderKey, wanted: f64, limit: OrderKey) -> Step {
    if wanted <= 0.0 || limit <= from {
        return Step { watermark: from, called: 0.0 };
    }
    let half = counts.first_doubtful(from).map(|bucket| half_way(at.policy.ordering, bucket, from));
    // Half of what a bucket has left at a time, where more may be in it than is known.
    let limit = half.map_or(limit, |half| half.min(limit));
    let (stride, limit) = match at.policy.ordering {
        Ordering::Fifo => stride_of_fifo(at.line, counts, from, limit),
        Ordering::BucketedRandom | Ordering::Random => (Stride::Inside, limit),
    };
    let step = advance(from, wanted, counts.cells(from), limit, stride);
    // Whoever is known to wait does so behind this half, which would be the next one again.
    let waits = |cell: Cell| cell.waiting > 0.0;
    let is_stuck = step.watermark == from
        && half == Some(limit)
        && !counts.cells(from).take_while(|cell| cell.from < limit).any(waits)
        && counts.cells(limit).any(waits);
    if is_stuck { Step { watermark: limit, called: 0.0 } } else { step }
}

/// The middle of what a bucket has left above `from`.
fn half_way(ordering: Ordering, bucket: BucketStart, from: OrderKey) -> OrderKey {
    let start = from.max(bucket.first_key());
    let half = (bucket.next().first_key().0 - start.0) / 2;
    match ordering {
        Ordering::Fifo => OrderKey::slice_start(bucket, OrderKey(start.0 + half).slice() + 1),
        Ordering::BucketedRandom | Ordering::Random => OrderKey(start.0 + half),
    }
}

/// A lottery is even whatever the ordering: it is split anywhere, and what is before or after it is not.
fn stride_of_fifo(line: &Line, counts: &Counts, from: OrderKey, limit: OrderKey) -> (Stride, OrderKey) {
    let lottery = line.lottery.as_ref().map(|lottery| lottery.bucket);
    let front = counts.cells(from).find(|cell| cell.waiting > 0.0).map(|cell| cell.from.bucket());
    match (lottery, front) {
        (Some(lottery), Some(front)) if lottery == front => {
            (Stride::Inside, limit.min(lottery.next().first_key()))
        }
        (Some(lottery), Some(front)) if front < lottery => (Stride::Whole, limit.min(lottery.first_key())),
        _ => (Stride::Whole, limit),
    }
}

/// How many of the operator's extra calls a step has served; all of them once nobody is left to call.
fn admitted(at: &Situation<'_>, counts: &mut Counts, step: Step, paced: f64) -> u32 {
    let pending = at.line.admit_pending;
    if pending == 0 {
        return 0;
    }
    if counts.waiting(step.watermark) < 0.5 {
        return pending;
    }
    ((step.called - paced).max(0.0).round() as u32).min(pending)
}

/// The key above everybody who has joined.
pub(super) fn past_everybody(line: &Line, ordering: Ordering, floor: OrderKey, counts: &Counts) -> OrderKey {
    let last = match ordering {
        Ordering::Random => counts.last_joined().map(BucketStart::next).map(BucketStart::first_key),
        Ordering::BucketedRandom | Ordering::Fifo => {
            line.newest_bucket.map(BucketStart::next).map(BucketStart::first_key)
        }
    };
    let floor = if ordering == Ordering::Random { floor } else { line.watermark };
    last.unwrap_or_default().max(floor).max(line.watermark)
}

/// Whether the schedule lets anybody in at `now`.
pub(super) fn has_opened(policy: &Policy, now: FleetTime) -> bool {
    policy.schedule.stage(now) == Stage::Open
}

/// The buckets that a pulse carries: none while a line is about to be over, so that nobody is keyed meanwhile.
pub(super) fn told_buckets(line: &Line, ordering: Ordering, floor: OrderKey) -> Vec<BucketStart> {
    if line.gate == Gate::Reopening || line.buckets.is_empty() {
        return Vec::new();
    }
    match ordering {
        Ordering::Random => vec![floor.bucket()],
        Ordering::BucketedRandom | Ordering::Fifo => line.buckets.clone(),
    }
}

/// What a pulse says of a lottery: the seed once the order is drawn.
pub(super) fn told_lottery(state: &LotteryState) -> Lottery {
    let seed = state.order.map(|_| state.seed);
    Lottery { bucket: state.bucket, commitment: state.commitment, order: state.order, seed }
}

const _: () = assert!(SLICES == 64, "the watermark of `fifo` moves by slices of a bucket");

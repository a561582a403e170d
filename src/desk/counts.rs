//! This node's slice of the line: who joined and who is still there, per bucket and slice of its keys.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::seen::{Seen, Sighting};
use crate::model::exchange::BucketCount;
use crate::model::ids::TicketId;
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::presence::Window;
use crate::model::time::FleetTime;

/// How many buckets from the front are told slice by slice.
const SLICED_BUCKETS: usize = 4;

/// How many windows a ticket lives through: the one that it was last seen in, and two more.
const LIFE: usize = 3;

/// Counts of one line at one node. Joins and heartbeats touch atomics only; one thread turns windows and reads.
#[derive(Debug)]
pub(super) struct Counts {
    rows: ArcSwap<BTreeMap<BucketStart, Arc<Row>>>,
    growing: Mutex<()>,
    windows: [Seen; LIFE],
    turned: Mutex<Turned>,
    /// Which of the windows is the running one.
    running: AtomicU32,
}

#[derive(Debug, Default)]
struct Turned {
    window: Option<Window>,
    heartbeat_ttl: Duration,
    begun: Option<FleetTime>,
    turns: u32,
}

type Slices = [AtomicU32; SLICES];

#[derive(Debug)]
struct Row {
    joined: AtomicU32,
    /// Each ticket that lives, in the newest window that it was seen in.
    seen: [Slices; LIFE],
    /// What was stated of the row last, and the number of the report that did so first.
    stated: Mutex<Option<(Statement, u64)>>,
}

/// What the leader is told of a row that is far from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Statement {
    joined: u32,
    alive: u32,
    /// Whether the windows are full: until then the leader takes some of those who joined to be alive.
    full: bool,
}

/// A ticket's place among the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: BucketStart,
    pub(super) slice: usize,
}

impl Place {
    /// The place of a key.
    pub(super) fn of_key(key: OrderKey) -> Self {
        Self { bucket: key.bucket(), slice: key.slice() }
    }

    /// The place of a ticket whose draw is not made yet: spread evenly, as the draw will.
    pub(super) fn undrawn(bucket: BucketStart, id: TicketId) -> Self {
        Self { bucket, slice: usize::try_from(id.sequence).unwrap_or_default() % SLICES }
    }
}

fn slices() -> Slices {
    std::array::from_fn(|_| AtomicU32::new(0))
}

fn clear(slices: &Slices) {
    slices.iter().for_each(|slice| slice.store(0, Ordering::Relaxed));
}

fn bump(slices: &Slices, slice: usize) {
    if let Some(count) = slices.get(slice) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes one out of a slice; out of another if that is empty, as when a lottery was drawn since it was counted.
fn lower(slices: &Slices, slice: usize) {
    let takes = |count: &AtomicU32| {
        let less = |count: u32| count.checked_sub(1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    };
    if !slices.get(slice).is_some_and(takes) {
        let _ = slices.iter().any(takes);
    }
}

impl Row {
    fn new() -> Self {
        Self { joined: AtomicU32::new(0), seen: std::array::from_fn(|_| slices()), stated: Mutex::new(None) }
    }

    /// Those of a slice who wait.
    fn alive_in(&self, slice: usize) -> u32 {
        let counts = self.seen.iter().filter_map(|slices| slices.get(slice));
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            rows: ArcSwap::default(),
            growing: Mutex::default(),
            windows: Default::default(),
            turned: Mutex::default(),
            running: AtomicU32::new(0),
        }
    }
}

impl Counts {
    fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed) as usize % LIFE
    }

    /// The windows from the running one back.
    fn newest_first(&self) -> impl Iterator<Item = usize> {
        let running = self.running();
        (0..LIFE).map(move |back| (running + LIFE - back) % LIFE)
    }

    fn row(&self, bucket: BucketStart) -> Arc<Row> {
        if let Some(row) = self.rows.load().get(&bucket) {
            return Arc::clone(row);
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = BTreeMap::clone(&self.rows.load());
        let row = Arc::clone(rows.entry(bucket).or_insert_with(|| Arc::new(Row::new())));
        self.rows.store(Arc::new(rows));
        row
    }

    /// A ticket was keyed here; to be told once per ticket.
    pub(super) fn join(&self, id: TicketId, place: Place) {
        self.row(place.bucket).joined.fetch_add(1, Ordering::Relaxed);
        self.heartbeat(id, place);
    }

    /// A ticket that waits has sent a heartbeat.
    pub(super) fn heartbeat(&self, id: TicketId, place: Place) {
        let mut windows = self.newest_first();
        let Some(running) = windows.next() else { return };
        if self.windows.get(running).map(|window| window.mark(id)) != Some(Sighting::First) {
            return;
        }
        let row = self.row(place.bucket);
        row.seen.get(running).into_iter().for_each(|slices| bump(slices, place.slice));
        let before = windows.find(|window| self.windows.get(*window).is_some_and(|seen| seen.contains(id)));
        let before = before.and_then(|window| row.seen.get(window));
        before.into_iter().for_each(|slices| lower(slices, place.slice));
    }

    /// A ticket that waits has left; one that is not counted here, or has left before, changes nothing.
    pub(super) fn leave(&self, id: TicketId, place: Place) {
        let mut counted_in = None;
        for window in self.newest_first() {
            if self.windows.get(window).is_some_and(|seen| seen.unmark(id)) {
                counted_in.get_or_insert(window);
            }
        }
        if let Some(window) = counted_in {
            let row = self.row(place.bucket);
            row.seen.get(window).into_iter().for_each(|slices| lower(slices, place.slice));
        }
    }

    /// How many of a bucket wait here.
    pub(super) fn alive_in(&self, bucket: BucketStart) -> u32 {
        let rows = self.rows.load();
        rows.get(&bucket).map_or(0, |row| (0..SLICES).map(|slice| row.alive_in(slice)).sum())
    }

    /// How many wait here in a bucket or behind it.
    pub(super) fn alive_from(&self, bucket: BucketStart) -> u32 {
        let alive = |row: &Arc<Row>| (0..SLICES).map(|slice| row.alive_in(slice)).sum::<u32>();
        self.rows.load().range(bucket..).map(|(_, row)| alive(row)).sum()
    }

    /// Whether the ticket was seen while it may live of it.
    pub(super) fn has_seen(&self, id: TicketId) -> bool {
        self.windows.iter().any(|window| window.contains(id))
    }

    /// Begins the window that `now` lies in, if it is another one.
    pub(super) fn turn(&self, now: FleetTime, heartbeat_ttl: Duration) {
        let window = Window::at(now, heartbeat_ttl);
        let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        turned.begun.get_or_insert(now);
        if turned.window.is_some_and(|known| known >= window) {
            return;
        }
        let known = turned.window.replace(window);
        let before = std::mem::replace(&mut turned.heartbeat_ttl, heartbeat_ttl);
        let Some(known) = known else { return };
        turned.turns = turned.turns.saturating_add(1);
        // Windows of another length cannot be told apart: who was seen in the last one of before is still there.
        let changed = before != heartbeat_ttl;
        let mut begins = window;
        for _ in 0..LIFE {
            self.begin_window();
            begins = begins.previous(heartbeat_ttl);
            if changed || begins <= known {
                break;
            }
        }
    }

    /// The oldest window is over, and what it counted with it; the next one is the running one.
    fn begin_window(&self) {
        let next = (self.running() + 1) % LIFE;
        self.windows.get(next).into_iter().for_each(Seen::clear);
        for row in self.rows.load().values() {
            row.seen.get(next).into_iter().for_each(clear);
        }
        self.running.store(u32::try_from(next).unwrap_or_default(), Ordering::Relaxed);
    }

    /// The rows to report: those at the front slice by slice, of the others those that no answered report has stated.
    pub(super) fn report(&self, watermark: OrderKey, number: u64, answered: u64) -> Vec<BucketCount> {
        let full_since = {
            let turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
            let began = turned.begun.map(BucketStart::from);
            if turned.turns > 2 { Some(BucketStart(0)) } else { began.map(BucketStart::next) }
        };
        let rows = self.rows.load();
        let ahead = rows.range(watermark.bucket()..);
        let mut sliced = 0;
        ahead
            .filter_map(|(bucket, row)| {
                let all: Vec<_> = (0..SLICES).map(|slice| row.alive_in(slice)).collect();
                let joined = row.joined.load(Ordering::Relaxed);
                let alive = all.iter().sum();
                let at_front = alive > 0 && sliced < SLICED_BUCKETS;
                sliced += usize::from(at_front);
                let full = full_since.is_some_and(|since| *bucket >= since);
                let news = row.state(Statement { joined, alive, full }, number, answered);
                let slices = if at_front { all } else { Vec::new() };
                (at_front || news).then_some(BucketCount { bucket: *bucket, joined, alive, slices, full })
            })
            .collect()
    }

    /// Forgets buckets that the watermark has left behind.
    pub(super) fn forget_before(&self, bucket: BucketStart) {
        if self.rows.load().keys().next().is_none_or(|first| *first >= bucket) {
            return;
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = BTreeMap::clone(&self.rows.load());
        rows.retain(|start, _| *start >= bucket);
        self.rows.store(Arc::new(rows));
    }
}

impl Row {
    /// Whether this is news to the leader.
    fn state(&self, statement: Statement, number: u64, answered: u64) -> bool {
        let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
        match *stated {
            Some((before, report)) if before == statement => report > answered,
            _ => {
                *stated = Some((statement, number));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::order::Fraction;
    use crate::model::presence::ends;

    const TTL: Duration = Duration::from_secs(10);

    fn id(sequence: u64) -> TicketId {
        TicketId { node: 1, generation: 1, sequence }
    }

    fn key(bucket: u32, fraction: u32) -> OrderKey {
        OrderKey::new(BucketStart(bucket), Fraction(fraction))
    }

    fn at(second: u64) -> FleetTime {
        FleetTime::from_unix_seconds(1_800_000_000 + second)
    }

    fn alive(counts: &Counts) -> u32 {
        counts.report(OrderKey::default(), 1, 0).iter().map(|count| count.alive).sum()
    }

    #[test]
    fn who_stays_is_counted_once_and_who_goes_fades_when_the_ticket_ends() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        for n in 0..100 {
            counts.join(id(n), Place::of_key(key(5, u32::MAX / 100 * u32::try_from(n).unwrap())));
        }
        assert_eq!(alive(&counts), 100);
        for window in 1..6 {
            counts.turn(at(window * 5), TTL);
            for n in 0..60 {
                for _ in 0..3 {
                    counts
                        .heartbeat(id(n), Place::of_key(key(5, u32::MAX / 100 * u32::try_from(n).unwrap())));
                }
            }
            let expected = if window < 3 { 100 } else { 60 };
            assert_eq!(alive(&counts), expected, "window {window}");
        }
        let report = counts.report(OrderKey::default(), 1, 0);
        assert_eq!(report[0].joined, 100);
        assert!(report[0].full && report[0].is_sliced());
    }

    #[test]
    fn who_leaves_is_gone_at_once() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        let place = Place::of_key(key(5, 0));
        (0..10).for_each(|n| counts.join(id(n), place));
        (0..4).for_each(|n| counts.leave(id(n), place));
        assert_eq!(alive(&counts), 6);
    }

    #[test]
    fn who_has_left_does_not_come_back_with_the_next_window_and_leaves_once_only() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        let place = Place::of_key(key(5, 0));
        (0..10).for_each(|n| counts.join(id(n), place));
        for _ in 0..5 {
            (0..4).for_each(|n| counts.leave(id(n), place));
        }
        assert_eq!(alive(&counts), 6);
        counts.turn(at(5), TTL);
        assert_eq!(alive(&counts), 6, "the last window is without them");
        (0..4).for_each(|n| counts.leave(id(n), place));
        assert_eq!(alive(&counts), 6, "they are gone already");
        counts.leave(id(9), place);
        (4..10).for_each(|n| counts.heartbeat(id(n), place));
        counts.leave(id(8), place);
        counts.turn(at(10), TTL);
        assert_eq!(alive(&counts), 5, "9 was heard once more after it left");
    }

    #[test]
    fn a_drawn_lottery_counts_nobody_twice() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        (0..10).for_each(|n| counts.join(id(n), Place::undrawn(BucketStart(5), id(n))));
        for window in 1..4 {
            counts.turn(at(window * 5), TTL);
            (0..9).for_each(|n| {
                counts.heartbeat(id(n), Place::of_key(key(5, u32::MAX - u32::try_from(n).unwrap())))
            });
            assert_eq!(alive(&counts), if window < 3 { 10 } else { 9 }, "window {window}");
        }
        (0..9).for_each(|n| counts.leave(id(n), Place::undrawn(BucketStart(5), id(n))));
        assert_eq!(alive(&counts), 0);
    }

    #[test]
    fn another_heartbeat_ttl_forgets_nobody() {
        let counts = Counts::default();
        counts.turn(at(0), Duration::from_secs(60));
        (0..10).for_each(|n| counts.join(id(n), Place::of_key(key(5, 0))));
        counts.turn(at(29), TTL);
        assert_eq!(alive(&counts), 10);
        counts.turn(at(30), TTL);
        assert_eq!(alive(&counts), 10);
    }

    proptest! {
        /// The count is of those whose tickets live, by the rule that ends them.
        #[test]
        fn a_ticket_is_counted_for_as_long_as_it_lives(
            steps in prop::collection::vec((0_u64..7_000, prop::collection::vec(0_u64..12, 0..5)), 1..40)
        ) {
            let counts = Counts::default();
            let mut now = at(0);
            counts.turn(now, TTL);
            let mut seen = BTreeMap::new();
            for (passes, polls) in steps {
                now = now.after(Duration::from_millis(passes));
                counts.turn(now, TTL);
                for n in polls {
                    let place = Place::of_key(key(5, u32::MAX / 12 * u32::try_from(n).unwrap()));
                    let new = seen.insert(n, Window::at(now, TTL)).is_none();
                    if new { counts.join(id(n), place) } else { counts.heartbeat(id(n), place) }
                }
                let lives = seen.values().filter(|window| !ends(**window, now, TTL, &[], None)).count();
                prop_assert_eq!(alive(&counts) as usize, lives);
            }
        }
    }

    #[test]
    fn what_an_answered_report_has_stated_is_not_stated_again_far_from_the_front() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        (0..10).for_each(|n| counts.join(id(u64::from(n)), Place::of_key(key(n, 0))));
        assert_eq!(counts.report(OrderKey::default(), 1, 0).len(), 10);
        assert_eq!(counts.report(OrderKey::default(), 2, 0).len(), 10, "not answered yet");
        assert_eq!(counts.report(OrderKey::default(), 3, 1).len(), SLICED_BUCKETS);
        counts.forget_before(BucketStart(8));
        assert_eq!(counts.report(OrderKey::default(), 4, 1).len(), 2);
    }

    #[test]
    fn a_row_that_is_empty_for_certain_is_stated_as_such() {
        let counts = Counts::default();
        counts.turn(at(0), TTL);
        counts.join(id(1), Place::of_key(key(5, 0)));
        let mut last = None;
        for window in 1..5 {
            counts.turn(at(window * 5), TTL);
            // Every report is answered before the next one.
            if let [row] = counts.report(OrderKey::default(), window + 1, window).as_slice() {
                last = Some((row.alive, row.full));
            }
        }
        assert_eq!(last, Some((0, true)), "else the leader would take a share of those who joined to wait");
    }
}

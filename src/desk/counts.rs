//! This node's slice of the line: who joined and who is still there, per bucket and slice of its keys.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// Counts of one line at one node. Joins and heartbeats touch atomics only; one thread turns windows and reads.
#[derive(Debug)]
pub(super) struct Counts {
    rows: ArcSwap<BTreeMap<BucketStart, Arc<Row>>>,
    growing: Mutex<()>,
    windows: [Seen; 2],
    /// Those who left in the running and in the last window: leaving twice counts once.
    gone: [Seen; 2],
    turned: Mutex<Turned>,
    /// Which of the two windows is the running one.
    running: AtomicU32,
}

#[derive(Debug, Default)]
struct Turned {
    window: Option<Window>,
    begun: Option<FleetTime>,
    turns: u32,
}

type Slices = [AtomicU32; SLICES];

#[derive(Debug)]
struct Row {
    joined: AtomicU32,
    /// Seen in the running and in the last window.
    seen: [Slices; 2],
    /// Joined in the running window.
    fresh: Slices,
    /// Left in the running window, of those counted in the last window or fresh in this one.
    left: Slices,
    /// What was stated of the row last, and the number of the report that did so first.
    stated: Mutex<Option<(Statement, u64)>>,
    touched: AtomicU64,
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

fn lower(slices: &Slices, slice: usize) {
    if let Some(count) = slices.get(slice) {
        let less = |count: u32| count.checked_sub(1);
        let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Row {
    fn new() -> Self {
        Self {
            joined: AtomicU32::new(0),
            seen: [slices(), slices()],
            fresh: slices(),
            left: slices(),
            stated: Mutex::new(None),
            touched: AtomicU64::new(0),
        }
    }

    /// Those of a slice who wait: seen in the last window or joined since, and not left; right after a start, when no
    /// last window is there, those seen in the running one.
    fn alive_in(&self, slice: usize, running: usize) -> u32 {
        let read = |slices: &Slices| slices.get(slice).map_or(0, |count| count.load(Ordering::Relaxed));
        let [even, odd] = [read(&self.seen[0]), read(&self.seen[1])];
        let (now, last) = if running == 0 { (even, odd) } else { (odd, even) };
        (last + read(&self.fresh)).saturating_sub(read(&self.left)).max(now)
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            rows: ArcSwap::default(),
            growing: Mutex::default(),
            windows: [Seen::default(), Seen::default()],
            gone: [Seen::default(), Seen::default()],
            turned: Mutex::default(),
            running: AtomicU32::new(0),
        }
    }
}

impl Counts {
    fn running(&self) -> usize {
        (self.running.load(Ordering::Relaxed) % 2) as usize
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
        let row = self.row(place.bucket);
        row.joined.fetch_add(1, Ordering::Relaxed);
        let running = self.running();
        if self.mark(running, id) == Sighting::First {
            bump(&row.fresh, place.slice);
            self.bump_seen(&row, running, place.slice);
        }
    }

    /// A ticket that waits has sent a heartbeat.
    pub(super) fn heartbeat(&self, id: TicketId, place: Place) {
        let running = self.running();
        if self.mark(running, id) == Sighting::First {
            let row = self.row(place.bucket);
            self.bump_seen(&row, running, place.slice);
        }
    }

    /// A ticket that waits has left; one that is not counted here, or has left before, changes nothing.
    pub(super) fn leave(&self, id: TicketId, place: Place) {
        let running = self.running();
        let has = |sets: &[Seen; 2], set: usize| sets.get(set).is_some_and(|set| set.contains(id));
        let (now, last) = (has(&self.windows, running), has(&self.windows, 1 - running));
        if !now && !last || has(&self.gone, 1 - running) {
            return;
        }
        if self.gone.get(running).map(|gone| gone.mark(id)) != Some(Sighting::First) {
            return;
        }
        let row = self.row(place.bucket);
        if now && let Some(seen) = row.seen.get(running) {
            lower(seen, place.slice);
        }
        bump(&row.left, place.slice);
    }

    /// How many of a bucket wait here.
    pub(super) fn alive_in(&self, bucket: BucketStart) -> u32 {
        let (rows, running) = (self.rows.load(), self.running());
        rows.get(&bucket).map_or(0, |row| (0..SLICES).map(|slice| row.alive_in(slice, running)).sum())
    }

    /// How many wait here in a bucket or behind it.
    pub(super) fn alive_from(&self, bucket: BucketStart) -> u32 {
        let (rows, running) = (self.rows.load(), self.running());
        let alive = |row: &Arc<Row>| (0..SLICES).map(|slice| row.alive_in(slice, running)).sum::<u32>();
        rows.range(bucket..).map(|(_, row)| alive(row)).sum()
    }

    /// Whether the ticket was seen in the running or the last window.
    pub(super) fn has_seen(&self, id: TicketId) -> bool {
        self.windows.iter().any(|window| window.contains(id))
    }

    fn mark(&self, running: usize, id: TicketId) -> Sighting {
        self.windows.get(running).map_or(Sighting::Again, |window| window.mark(id))
    }

    fn bump_seen(&self, row: &Row, running: usize, slice: usize) {
        if let Some(seen) = row.seen.get(running) {
            bump(seen, slice);
        }
        row.touched.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins the window that `now` lies in, if it is another one.
    pub(super) fn turn(&self, now: FleetTime, heartbeat_ttl: Duration) {
        let window = Window::at(now, heartbeat_ttl);
        let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        turned.begun.get_or_insert(now);
        if turned.window.is_some_and(|known| known >= window) {
            return;
        }
        let skipped = turned.window.is_some_and(|known| known != window.previous(heartbeat_ttl));
        let first = turned.window.replace(window).is_none();
        if first {
            return;
        }
        turned.turns = turned.turns.saturating_add(1);
        let next = 1 - self.running();
        let clear_window = |window: usize| {
            for seen in self.windows.get(window).into_iter().chain(self.gone.get(window)) {
                seen.clear();
            }
            for row in self.rows.load().values() {
                row.seen.get(window).into_iter().for_each(clear);
            }
        };
        clear_window(next);
        if skipped {
            clear_window(1 - next);
        }
        for row in self.rows.load().values() {
            clear(&row.fresh);
            clear(&row.left);
        }
        self.running.store(u32::try_from(next).unwrap_or_default(), Ordering::Relaxed);
    }

    /// The rows to report: those at the front slice by slice, of the others those that no answered report has stated.
    pub(super) fn report(&self, watermark: OrderKey, number: u64, answered: u64) -> Vec<BucketCount> {
        let running = self.running();
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
                let all: Vec<_> = (0..SLICES).map(|slice| row.alive_in(slice, running)).collect();
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
    use super::*;
    use crate::model::order::Fraction;

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
    fn who_stays_is_counted_once_a_window_and_who_goes_fades_within_two() {
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
            let expected = if window == 1 { 100 } else { 60 };
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
        let stays = alive(&counts);
        assert!((4..=5).contains(&stays), "{stays}: 9 was heard once more after it left");
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

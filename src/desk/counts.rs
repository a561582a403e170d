//! This node's slice of the line: who joined and who is still there, per bucket, slice of its keys and heartbeat window.
//!
//! The rule is that of [`crate::model::headcount`]; here many threads count at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::seen::{Seen, Sighting};
use crate::model::exchange::{BucketCount, Presence};
use crate::model::headcount::{FULL_AFTER, KEPT, LIFE, Shown, TELLINGS, counted_before};
use crate::model::ids::{Tenure, TicketId};
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::presence::Window;
use crate::model::time::FleetTime;

/// How many buckets from the front are told slice by slice.
const SLICED_BUCKETS: usize = 4;

/// One for each window that is kept, and one for the next: who comes in it first need not wait for it to be begun.
const SLOTS: usize = KEPT + 1;

/// Counts of one line at one node. Joins and heartbeats touch atomics only; one thread turns windows and reads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    rows: ArcSwap<BTreeMap<BucketStart, Arc<Row>>>,
    growing: Mutex<()>,
    /// Who was met in each window.
    met: [Seen; SLOTS],
    /// Who has left.
    left: Seen,
    /// Which windows the slots are for.
    windows: [AtomicU32; SLOTS],
    /// Which of the slots is for the running window; the one after it is for the next.
    running: AtomicU32,
    /// The window that this run began in.
    begun: AtomicU32,
    turned: Mutex<Turned>,
}

#[derive(Debug, Default)]
struct Turned {
    heartbeat_ttl: Duration,
    begun: Option<FleetTime>,
    turns: u32,
    /// The leader that was told last.
    told: Option<Tenure>,
}

/// To whom and when counts are reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    /// Buckets below it are over.
    pub(super) watermark: OrderKey,
    /// The number of the report.
    pub(super) number: u64,
    /// The newest report that was answered.
    pub(super) answered: u64,
    /// The leader, as far as it is known.
    pub(super) leader: Option<Tenure>,
    /// When it is made.
    pub(super) now: FleetTime,
}

/// Tickets by slice; below zero where other nodes have counted more of them than this one.
#[derive(Debug)]
struct Slices([AtomicI32; SLICES]);

#[derive(Debug, Default)]
struct Row {
    joined: AtomicU32,
    /// Tickets counted here that nobody else counts any more.
    returned: AtomicU32,
    /// Each ticket that lives, in the newest window that it was seen in.
    seen: [Slices; SLOTS],
    /// What was stated of the row last.
    stated: Mutex<Option<Stated>>,
}

/// What the leader is told of a row that is far from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Statement {
    joined: u32,
    returned: u32,
    alive: i32,
    /// Whether the windows are full: until then the leader takes some of those who joined to be alive.
    full: bool,
}

#[derive(Debug)]
struct Stated {
    statement: Statement,
    windows: [(Window, i32); SLOTS],
    /// The report that did so first.
    report: u64,
    at: FleetTime,
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

impl Default for Slices {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicI32::new(0)))
    }
}

impl Slices {
    fn clear(&self) {
        self.0.iter().for_each(|slice| slice.store(0, Ordering::Relaxed));
    }

    fn read(&self) -> [i32; SLICES] {
        std::array::from_fn(|slice| self.0.get(slice).map_or(0, |count| count.load(Ordering::Acquire)))
    }
}

impl Row {
    fn add(&self, slot: usize, slice: usize, change: i32) {
        // Release: whoever sees a ticket taken out of one window sees it counted in another.
        let count = self.seen.get(slot).and_then(|slices| slices.0.get(slice));
        if let Some(count) = count {
            count.fetch_add(change, Ordering::Release);
        }
    }

    fn seen_in(&self, slot: usize) -> [i32; SLICES] {
        self.seen.get(slot).map_or([0; SLICES], Slices::read)
    }

    fn take_up(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    fn alive_in(&self, slots: impl Iterator<Item = usize>) -> u32 {
        let sum: i32 = slots.filter_map(|slot| self.seen.get(slot)).flat_map(Slices::read).sum();
        u32::try_from(sum).unwrap_or_default()
    }
}

impl Counts {
    fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed) as usize % SLOTS
    }

    fn window(&self, slot: usize) -> Window {
        Window::from_number(self.windows.get(slot).map_or(0, |window| window.load(Ordering::Relaxed)))
    }

    fn label(&self, slot: usize, window: Window) {
        self.windows.get(slot).into_iter().for_each(|of| of.store(window.to_number(), Ordering::Relaxed));
    }

    /// The slot for who comes in `window`, which may be the next one already.
    fn slot_in(&self, window: Window) -> usize {
        let running = self.running();
        let next = (running + 1) % SLOTS;
        let began = self.window(next);
        if began > Window::default() && began <= window { next } else { running }
    }

    fn has_met(&self, slot: usize, id: TicketId) -> bool {
        self.met.get(slot).is_some_and(|met| met.contains(id))
    }

    fn meet(&self, slot: usize, id: TicketId) -> Sighting {
        self.met.get(slot).map_or(Sighting::Again, |met| met.mark(id))
    }

    /// Where a ticket was counted before it is in `slot`.
    fn counted_before(&self, shown: Shown, slot: usize) -> Option<usize> {
        let slots = || newest_first(slot).map(|slot| (self.window(slot), slot));
        let find = |window| slots().find(|(of, _)| *of == window).map(|(_, slot)| slot);
        let knows = |window| find(window).is_some_and(|slot| self.has_met(slot, shown.id));
        let begun = Window::from_number(self.begun.load(Ordering::Relaxed));
        counted_before(shown, slots().map(|(window, _)| window), begun, knows).and_then(find)
    }

    fn row(&self, bucket: BucketStart) -> Arc<Row> {
        if let Some(row) = self.rows.load().get(&bucket) {
            return Arc::clone(row);
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = BTreeMap::clone(&self.rows.load());
        let row = Arc::clone(rows.entry(bucket).or_default());
        self.rows.store(Arc::new(rows));
        row
    }

    /// A ticket was keyed here, in `window`; to be told once per ticket.
    pub(super) fn join(&self, id: TicketId, place: Place, window: Window) {
        let slot = self.slot_in(window);
        if self.meet(slot, id) == Sighting::First {
            let row = self.row(place.bucket);
            row.joined.fetch_add(1, Ordering::Relaxed);
            row.add(slot, place.slice, 1);
        }
    }

    /// A ticket that waits is shown, in `window`; where it counts after that, which its cookie has to say.
    ///
    /// That is the next window where this node has begun it since the request came.
    pub(super) fn heartbeat(&self, shown: Shown, place: Place, window: Window) -> Window {
        let slot = self.slot_in(window);
        let counts_in = self.window(slot).max(window);
        let counted = shown.seen >= self.window(slot) || self.left.contains(shown.id);
        if self.meet(slot, shown.id) == Sighting::Again || counted {
            return counts_in;
        }
        let before = self.counted_before(shown, slot);
        let row = self.row(place.bucket);
        row.add(slot, place.slice, 1);
        match before {
            Some(before) => row.add(before, place.slice, -1),
            None => row.take_up(),
        }
        counts_in
    }

    /// A ticket that waits has left; one that has left before changes nothing.
    pub(super) fn leave(&self, shown: Shown, place: Place) {
        if self.left.mark(shown.id) != Sighting::First {
            return;
        }
        let row = self.row(place.bucket);
        let next = (self.running() + 1) % SLOTS;
        // An old cookie may be shown: what is known here is newer then.
        let seen = self.last_seen(shown.id).map_or(shown.seen, |known| known.max(shown.seen));
        match self.counted_before(Shown { seen, ..shown }, next) {
            Some(slot) => row.add(slot, place.slice, -1),
            None => row.take_up(),
        }
    }

    /// The newest window in which a ticket was met here, while it may live of it.
    pub(super) fn last_seen(&self, id: TicketId) -> Option<Window> {
        let lives = newest_first((self.running() + 1) % SLOTS).take(LIFE + 1);
        lives.into_iter().find(|slot| self.has_met(*slot, id)).map(|slot| self.window(slot))
    }

    /// How many of a bucket count here.
    pub(super) fn alive_in(&self, bucket: BucketStart) -> u32 {
        self.rows.load().get(&bucket).map_or(0, |row| row.alive_in(self.living()))
    }

    /// How many count here in a bucket or behind it.
    pub(super) fn alive_from(&self, bucket: BucketStart) -> u32 {
        self.rows.load().range(bucket..).map(|(_, row)| row.alive_in(self.living())).sum()
    }

    /// The slots of tickets that live.
    fn living(&self) -> impl Iterator<Item = usize> + use<> {
        newest_first((self.running() + 1) % SLOTS).take(LIFE + 1)
    }

    /// Begins the window that `now` lies in, if it is another one.
    pub(super) fn turn(&self, now: FleetTime, heartbeat_ttl: Duration) {
        let window = Window::at(now, heartbeat_ttl);
        let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut turned.heartbeat_ttl, heartbeat_ttl);
        if turned.begun.is_none() {
            turned.begun = Some(now);
            self.begun.store(window.to_number(), Ordering::Relaxed);
            self.label((self.running() + 1) % SLOTS, window.next(heartbeat_ttl));
            let mut earlier = window;
            for slot in newest_first(self.running()).take(KEPT) {
                self.label(slot, earlier);
                earlier = earlier.previous(heartbeat_ttl);
            }
            return;
        }
        let has_begun = window > self.window(self.running());
        if before != heartbeat_ttl {
            // Windows of another length begin where they begin, and all that was counted before stays a while.
            let next = if has_begun { window } else { window.next(heartbeat_ttl) };
            self.label((self.running() + 1) % SLOTS, next);
        }
        if !has_begun {
            return;
        }
        turned.turns = turned.turns.saturating_add(1);
        for _ in 0..KEPT {
            self.begin_window(heartbeat_ttl);
            if self.window(self.running()) >= window {
                return;
            }
        }
        // Away for longer than anything is kept.
        self.label(self.running(), window);
        self.label((self.running() + 1) % SLOTS, window.next(heartbeat_ttl));
    }

    /// The next window is the running one; the oldest is over, and what it counted with it.
    fn begin_window(&self, heartbeat_ttl: Duration) {
        let running = (self.running() + 1) % SLOTS;
        let next = (running + 1) % SLOTS;
        self.label(next, Window::default());
        self.met.get(next).into_iter().for_each(Seen::clear);
        for row in self.rows.load().values() {
            row.seen.get(next).into_iter().for_each(Slices::clear);
        }
        self.running.store(u32::try_from(running).unwrap_or_default(), Ordering::Relaxed);
        self.label(next, self.window(running).next(heartbeat_ttl));
    }

    /// The rows to report: those at the front slice by slice, of the others those of which there is something to say.
    pub(super) fn report(&self, telling: Telling) -> Vec<BucketCount> {
        let (full_since, every, retell) = {
            let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
            let began = turned.begun.map(BucketStart::from);
            let full =
                if turned.turns > FULL_AFTER { Some(BucketStart(0)) } else { began.map(BucketStart::next) };
            let retell = std::mem::replace(&mut turned.told, telling.leader) != telling.leader;
            (full, turned.heartbeat_ttl / 2 / TELLINGS, retell)
        };
        let slots = oldest_first((self.running() + 1) % SLOTS);
        let rows = self.rows.load();
        let mut sliced = 0;
        let tell = |(bucket, row): (&BucketStart, &Arc<Row>)| {
            // Oldest first: a ticket that moves meanwhile is seen twice rather than not at all.
            let seen = slots.map(|slot| (self.window(slot), row.seen_in(slot)));
            // Also where most are counted by others: the leader sums slice by slice.
            let at_front = sliced < SLICED_BUCKETS && seen.iter().any(|(_, slices)| says(slices));
            sliced += usize::from(at_front);
            let windows = seen.map(|(window, slices)| (window, slices.iter().sum()));
            let statement = Statement {
                joined: row.joined.load(Ordering::Relaxed),
                returned: row.returned.load(Ordering::Relaxed),
                alive: windows.iter().map(|(_, alive)| alive).sum(),
                full: full_since.is_some_and(|since| *bucket >= since),
            };
            let news = row.state(statement, windows, telling, every) || retell;
            if !at_front && !news {
                return None;
            }
            let told = seen.iter().filter(|(_, slices)| says(slices)).map(|(window, slices)| Presence {
                window: *window,
                alive: slices.iter().sum(),
                slices: if at_front { slices.to_vec() } else { Vec::new() },
            });
            let Statement { joined, returned, full, .. } = statement;
            Some(BucketCount { bucket: *bucket, joined, returned, seen: told.collect(), full })
        };
        rows.range(telling.watermark.bucket()..).filter_map(tell).collect()
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
    /// Whether this is news to the leader: a number at once, and in which windows it is after a while.
    fn state(
        &self,
        statement: Statement,
        windows: [(Window, i32); SLOTS],
        telling: Telling,
        every: Duration,
    ) -> bool {
        let Telling { number: report, answered, now: at, .. } = telling;
        let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*stated
            && before.statement == statement
            && (before.windows == windows || at < before.at.after(every))
        {
            return before.report > answered;
        }
        *stated = Some(Stated { statement, windows, report, at });
        true
    }
}

/// Whether there is anything to tell of.
fn says(slices: &[i32; SLICES]) -> bool {
    slices.iter().any(|count| *count != 0)
}

/// The slots up to and with this one, from the one after it.
fn oldest_first(slot: usize) -> [usize; SLOTS] {
    std::array::from_fn(|ahead| (slot + 1 + ahead) % SLOTS)
}

/// A slot and those before it, back to the one after it.
fn newest_first(slot: usize) -> impl Iterator<Item = usize> + use<> {
    (0..SLOTS).map(move |back| (slot + SLOTS - back) % SLOTS)
}

#[cfg(test)]
mod tests;

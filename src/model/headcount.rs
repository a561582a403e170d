//! Who waits, counted by heartbeat windows: each ticket once, at whichever edges it is shown.
//!
//! A ticket carries the window that it was seen in last. The edge that sees it first in a newer one counts it there and
//! takes it out of the one before, whoever has counted it there: counts may be below zero at one edge, the sums over all
//! edges are exact. This is the plain form of the rule; the desk keeps the same counts for many threads.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::estimate::FRONT_POLL;
use super::exchange::{BucketCount, Presence};
use super::ids::TicketId;
use super::order::{BucketStart, OrderKey, SLICES};
use super::presence::Window;
use super::time::FleetTime;

/// How many windows a ticket lives through: the one that it was last seen in, and two more.
pub const LIFE: usize = 3;

/// How many windows are kept: leaders go on to the next one a little later than edges.
pub const KEPT: usize = LIFE + 1;

/// So many windows have begun after the first of a run when its counts are full: leaders count those of the run before a
/// window longer than edges do, and what others have taken out of them is theirs to the end.
pub const FULL_AFTER: u32 = LIFE as u32;

/// Every edge tells a leader what it counted at least so many times in a window.
pub const TELLINGS: u32 = 8;

/// How much later than edges leaders go on to the next window at most, beyond the time between two tellings: reports are
/// on their way, and clocks differ.
const LAG: Duration = Duration::from_secs(1);

/// The first window that counts at `now` for a leader: by then every edge has told what it knows of those before.
#[must_use]
pub fn first_counted(now: FleetTime, heartbeat_ttl: Duration) -> Window {
    let length = heartbeat_ttl / 2;
    let lag = (length / TELLINGS + LAG).min(length / 2);
    (1..LIFE).fold(Window::at(now.before(lag), heartbeat_ttl), |window, _| window.previous(heartbeat_ttl))
}

/// Who signed a ticket last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// This node, in this run or in one before.
    Here,
    /// Another node.
    Elsewhere,
}

impl Signer {
    /// How long a called visitor counts as one who asks, from when it did: two polls if it comes back to this node. One
    /// who comes from another node goes on to a third, and is to count there by then.
    #[must_use]
    pub fn asks_for(self) -> Duration {
        match self {
            Self::Here => 2 * FRONT_POLL,
            Self::Elsewhere => FRONT_POLL,
        }
    }
}

/// A ticket as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its id.
    pub id: TicketId,
    /// The window that it was seen in last.
    pub seen: Window,
    /// Who signed it then.
    pub signer: Signer,
}

/// Where a ticket that counts in the running window was counted before: in the newest of the windows that it may live
/// through, `newest_first`, that is no newer than the one it carries. `None`: nowhere that still counts.
///
/// `begun` is the window that this run began in, and `knows` whether this run has met the ticket in a window: what a run
/// of before counted stands in that run's name, so it is not taken out of this run's counts.
pub fn counted_before(
    shown: Shown,
    newest_first: impl Iterator<Item = Window>,
    begun: Window,
    knows: impl FnOnce(Window) -> bool,
) -> Option<Window> {
    let window = newest_first.take(LIFE).find(|window| *window <= shown.seen)?;
    let is_ours = window > begun || shown.signer == Signer::Elsewhere || knows(window);
    is_ours.then_some(window)
}

/// One run's counts of one line.
#[derive(Clone, Debug, Default)]
pub struct Headcount {
    rows: BTreeMap<BucketStart, Row>,
    /// Who was met in a window.
    met: BTreeMap<Window, HashSet<TicketId>>,
    begun: Option<(Window, BucketStart)>,
    turns: u32,
}

#[derive(Clone, Debug, Default)]
struct Row {
    joined: u32,
    returned: u32,
    seen: BTreeMap<Window, [i32; SLICES]>,
}

impl Row {
    fn add(&mut self, window: Window, slice: usize, change: i32) {
        let slices = self.seen.entry(window).or_insert([0; SLICES]);
        slices.iter_mut().skip(slice).take(1).for_each(|count| *count += change);
    }
}

impl Headcount {
    /// Begins the window that `now` lies in, unless it has begun.
    pub fn turn(&mut self, now: FleetTime, heartbeat_ttl: Duration) {
        let mut window = Window::at(now, heartbeat_ttl);
        let newest = self.met.keys().next_back().copied();
        if newest.is_some_and(|newest| newest >= window) {
            return;
        }
        self.begun.get_or_insert((window, now.into()));
        self.turns += u32::from(newest.is_some());
        for _ in 0..KEPT {
            self.met.entry(window).or_default();
            window = window.previous(heartbeat_ttl);
        }
        while self.met.len() > KEPT {
            self.met.pop_first();
        }
        let oldest = self.met.keys().next().copied().unwrap_or_default();
        self.rows.values_mut().for_each(|row| row.seen.retain(|window, _| *window >= oldest));
    }

    /// A ticket was keyed here.
    pub fn join(&mut self, id: TicketId, key: OrderKey) {
        let Some(mut running) = self.met.last_entry() else { return };
        let window = *running.key();
        if !running.get_mut().insert(id) {
            return;
        }
        let row = self.rows.entry(key.bucket()).or_default();
        row.joined += 1;
        row.add(window, key.slice(), 1);
    }

    /// A ticket that waits is shown.
    pub fn heartbeat(&mut self, shown: Shown, key: OrderKey) {
        let Some(mut running) = self.met.last_entry() else { return };
        let window = *running.key();
        if !running.get_mut().insert(shown.id) || shown.seen >= window {
            return;
        }
        let begun = self.begun.map(|(begun, _)| begun).unwrap_or_default();
        let knows = |window| self.met.get(&window).is_some_and(|met| met.contains(&shown.id));
        let before = counted_before(shown, self.met.keys().rev().copied(), begun, knows);
        let row = self.rows.entry(key.bucket()).or_default();
        row.add(window, key.slice(), 1);
        match before {
            Some(before) => row.add(before, key.slice(), -1),
            None => row.returned += 1,
        }
    }

    /// What there is to report, slice by slice.
    #[must_use]
    pub fn report(&self, watermark: OrderKey) -> Vec<BucketCount> {
        let full = |bucket: BucketStart| {
            self.turns > FULL_AFTER || self.begun.is_some_and(|(_, began)| bucket > began)
        };
        let presence = |(window, slices): (&Window, &[i32; SLICES])| Presence {
            window: *window,
            alive: slices.iter().sum(),
            slices: slices.to_vec(),
        };
        let count = |(bucket, row): (&BucketStart, &Row)| BucketCount {
            bucket: *bucket,
            joined: row.joined,
            returned: row.returned,
            seen: row.seen.iter().map(presence).collect(),
            full: full(*bucket),
        };
        self.rows.range(watermark.bucket()..).map(count).collect()
    }
}

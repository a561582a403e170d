//! What one run tells of one bucket, summed over the windows that count.

use std::ops::Range;
use std::time::Duration;

use crate::model::exchange::BucketCount;
use crate::model::headcount::first_counted;
use crate::model::order::SLICES;
use crate::model::presence::Window;
use crate::model::time::FleetTime;

/// The first window that counts; it never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    window: Window,
    heartbeat_ttl: Duration,
    /// Windows of before another length are in use until then.
    stands_until: FleetTime,
}

impl Cut {
    pub(super) fn new(heartbeat_ttl: Duration) -> Self {
        Self { window: Window::default(), heartbeat_ttl, stands_until: FleetTime(0) }
    }

    pub(super) fn at(&mut self, now: FleetTime, heartbeat_ttl: Duration) -> Window {
        let before = std::mem::replace(&mut self.heartbeat_ttl, heartbeat_ttl);
        if before != heartbeat_ttl {
            self.stands_until = now.after(2 * before.max(heartbeat_ttl));
        }
        if now >= self.stands_until {
            self.window = self.window.max(first_counted(now, heartbeat_ttl));
        }
        self.window
    }
}

/// A run's count of a bucket.
#[derive(Clone, Debug)]
pub(super) struct Told {
    count: BucketCount,
    alive: i64,
    slices: Option<[i64; SLICES]>,
}

impl Told {
    /// A count of which the windows from `cut` on count.
    pub(super) fn new(count: BucketCount, cut: Window) -> Self {
        let mut told = Self { count, alive: 0, slices: None };
        told.sum(cut);
        told
    }

    /// Counts the windows from `cut` on.
    pub(super) fn sum(&mut self, cut: Window) {
        let counted = || self.count.seen.iter().filter(|presence| presence.window >= cut);
        self.alive = counted().map(|presence| i64::from(presence.alive)).sum();
        self.slices = counted().any(|presence| presence.slices.len() == SLICES).then(|| {
            let mut slices = [0; SLICES];
            for presence in counted() {
                let even = i64::from(presence.slices.is_empty()) * i64::from(presence.alive) / SLICES as i64;
                for (slice, sum) in slices.iter_mut().enumerate() {
                    *sum += presence.slices.get(slice).map_or(even, |alive| i64::from(*alive));
                }
            }
            slices
        });
    }

    /// Tickets that were last seen in these windows, less those of other runs who were seen since.
    pub(super) fn between(&self, windows: &Range<Window>) -> i64 {
        let between = self.count.seen.iter().filter(|presence| windows.contains(&presence.window));
        between.map(|presence| i64::from(presence.alive)).sum()
    }

    /// Tickets that wait, uncalled; below zero if most of them were counted by other runs.
    pub(super) fn alive(&self) -> i64 {
        self.alive
    }

    /// Those of a slice.
    pub(super) fn slice(&self, slice: usize) -> f64 {
        match &self.slices {
            Some(slices) => slices.get(slice).map_or(0.0, |alive| *alive as f64),
            None => self.alive as f64 / SLICES as f64,
        }
    }

    pub(super) fn joined(&self) -> u32 {
        self.count.joined
    }

    pub(super) fn returned(&self) -> u32 {
        self.count.returned
    }

    pub(super) fn is_full(&self) -> bool {
        self.count.full
    }

    /// Whether the count is told slice by slice.
    pub(super) fn is_sliced(&self) -> bool {
        self.slices.is_some()
    }
}

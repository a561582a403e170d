//! How many to call, and how far the watermark moves for it (design §3 *Tick*).

use std::collections::VecDeque;
use std::time::Duration;

use super::estimate::FRONT_POLL;
use super::order::{BucketStart, OrderKey};
use super::time::{BootTime, TICK};

/// Keys from `from` up to, not including, `to`, and how many tickets are expected to wait there, uncalled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The first key.
    pub from: OrderKey,
    /// The first key after it.
    pub to: OrderKey,
    /// Tickets that wait; a fraction where the watermark has been through a part.
    pub waiting: f64,
}

/// Where the watermark may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// Anywhere: the keys of a cell are spread evenly.
    Inside,
    /// At the borders of cells only: what is in a cell is not even.
    Whole,
}

/// A step of the watermark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Where it stands then.
    pub watermark: OrderKey,
    /// How many that is expected to call.
    pub called: f64,
}

/// Moves the watermark up through ascending cells until `wanted` are expected to be called, at most to `limit`.
#[must_use]
pub fn advance(
    from: OrderKey,
    wanted: f64,
    cells: impl IntoIterator<Item = Cell>,
    limit: OrderKey,
    stride: Stride,
) -> Step {
    let mut step = Step { watermark: from, called: 0.0 };
    for cell in cells {
        let start = cell.from.max(step.watermark);
        let left = wanted - step.called;
        if left <= 0.0 || start >= limit {
            break;
        }
        if cell.waiting <= 0.0 || cell.to <= start {
            continue;
        }
        let width = (cell.to.0 - start.0) as f64;
        let reached = if left >= cell.waiting || stride == Stride::Whole {
            cell.to
        } else {
            OrderKey(start.0.saturating_add((width * left / cell.waiting) as u64)).min(cell.to)
        };
        if stride == Stride::Whole && reached > limit {
            break;
        }
        let reached = reached.min(limit);
        step.called += cell.waiting * (reached.0 - start.0) as f64 / width;
        step.watermark = reached;
        if reached < cell.to {
            break;
        }
    }
    step
}

/// A bucket is over once the watermark has passed all but 2^-16 of it.
#[must_use]
pub const fn nearly_over(bucket: BucketStart) -> OrderKey {
    OrderKey(bucket.next().first_key().0 - (1 << 16))
}

/// Called visitors who are to be at hand beyond those on their way, so that a slot finds somebody who waits for it: they
/// come when they poll, not when the slot does.
const AT_HAND: f64 = 3.0;

/// What calling follows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Supply {
    /// Slots that are neither live nor promised.
    pub free: u32,
    /// `max_admit_per_sec`.
    pub per_sec: u32,
    /// How long ago the watermark was last paced.
    pub elapsed: Duration,
    /// Called visitors who asked and have no pass.
    pub asking: u32,
    /// Called visitors who are expected to ask, but have had no time to.
    pub pending: f64,
    /// Tickets called in the last minute.
    pub called: u32,
    /// Of those, how many took a pass.
    pub claimed: u32,
}

impl Supply {
    /// How many to call now: `max(0, (n + S* − S)/q)`.
    ///
    /// `S*` covers those whom a poll interval at the front and a tick keep from asking, and some at hand: at most the
    /// free slots; `S` counts them where they are expected.
    #[must_use]
    pub fn wanted_calls(&self) -> f64 {
        let free = f64::from(self.free);
        let elapsed = self.elapsed.min(2 * TICK).as_secs_f64();
        let now = (f64::from(self.per_sec) * elapsed).min(free);
        let short = now + self.stock().min(free) - f64::from(self.asking) - self.pending;
        (short / self.take_up()).max(0.0)
    }

    /// `1.1·R·(P + τ)/2`, and those at hand: how many called visitors have to be about for the rate to be met.
    fn stock(&self) -> f64 {
        1.1 * f64::from(self.per_sec) * (FRONT_POLL + TICK).as_secs_f64() / 2.0 + AT_HAND
    }

    /// The most that can be wanted within `span`: who fits into the free slots, and into those that come free meanwhile
    /// at twice the rate of the last minute, as far as the rate allows.
    #[must_use]
    pub fn calls_within(&self, span: Duration) -> f64 {
        let coming = f64::from(self.called) / 60.0 * span.as_secs_f64();
        let by_slots = f64::from(self.free) + (2.0 * coming).max(1.0);
        let by_rate = f64::from(self.per_sec) * span.as_secs_f64() + self.stock();
        by_slots.min(by_rate.max(1.0)) / self.take_up()
    }

    /// `q`: which share of the called take a pass or wait for one, 0.2..=1; 1 before anything is known.
    ///
    /// Those who wait count too: where slots are scarce, few passes do not mean that the called stay away.
    #[must_use]
    pub fn take_up(&self) -> f64 {
        if self.called < 10 {
            return 1.0;
        }
        ((f64::from(self.claimed) + f64::from(self.asking)) / f64::from(self.called)).clamp(0.2, 1.0)
    }
}

/// Calls of the last moments: whom to expect before they ask.
#[derive(Clone, Debug, Default)]
pub struct RecentCalls(VecDeque<(BootTime, f64)>);

impl RecentCalls {
    /// Adds calls.
    pub fn add(&mut self, boot: BootTime, called: f64) {
        while self.0.front().is_some_and(|(at, _)| unasked(boot.since(*at)) <= 0.0) {
            self.0.pop_front();
        }
        if called > 0.0 {
            self.0.push_back((boot, called));
        }
    }

    /// How many of them are expected to ask yet, if the share `take_up` of the called asks at all.
    #[must_use]
    pub fn pending(&self, boot: BootTime, take_up: f64) -> f64 {
        self.0.iter().map(|(at, called)| called * take_up * unasked(boot.since(*at))).sum()
    }
}

/// The share of those called `ago` who have not been heard asking: polls are spread over the interval at the front, and
/// a report takes up to a tick.
fn unasked(ago: Duration) -> f64 {
    let polling = ago.saturating_sub(TICK).as_secs_f64();
    (1.0 - polling / FRONT_POLL.as_secs_f64()).max(0.0)
}

#[cfg(test)]
mod tests;

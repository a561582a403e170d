//! Positions and waiting times, as ranges.

use std::time::Duration;

/// Where a ticket stands and how long it may take; ranges are rounded outward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// At least and at most this many are before the visitor, the visitor included; `[0, 0]` once called.
    pub position: (u32, u32),
    /// The likely wait; `None` where the line does not move.
    pub eta: Option<Duration>,
    /// The range of the wait.
    pub eta_range: Option<(Duration, Duration)>,
    /// How much of the way is done, 0..=1; never goes back by itself.
    pub progress: f32,
    /// How likely it is that nothing is left at the turn, 0..=1; `None` without an inventory.
    pub sold_out_likelihood: Option<f32>,
}

//! How far behind the leader's clock an edge may be that does not hear the leader.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::ids::LogIndex;
use crate::model::time::FleetTime;

/// By how much fleet time has stepped forward where tenures began, since every edge heard the leader.
///
/// An edge that still goes by the clock of an earlier leader takes fleet time for no less than it was when that leader
/// wrote to the log last, and a moment is no shorter for it. So it may honour a pass for longer than the leader does, by
/// the steps since, and slots wait for it as much longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lag {
    by: Duration,
    /// Where in the log the last step stands.
    stepped: LogIndex,
}

impl Lag {
    /// A leader whose entry stands at `index` begins with a clock that is ahead of the log's by so much.
    pub(super) fn step(&mut self, index: LogIndex, by: Duration) {
        if by > Duration::ZERO {
            *self = Self { by: self.by.saturating_add(by), stepped: index };
        }
    }

    /// Every edge goes by the clock of a leader who knows the log up to there.
    pub(super) fn acknowledge(&mut self, acknowledged: LogIndex) {
        if acknowledged >= self.stepped {
            *self = Self::default();
        }
    }

    /// How far every edge is when it is `now` for the leader, and all have acknowledged the log up to an entry.
    pub(super) fn abreast(&self, acknowledged: LogIndex, now: FleetTime) -> Abreast {
        Abreast { index: acknowledged, time: now.before(self.by) }
    }

    /// When no edge takes fleet time for less than `at` any more, by the leader's clock.
    #[must_use]
    pub fn passed(&self, at: FleetTime) -> FleetTime {
        at.after(self.by)
    }
}

/// What no edge falls short of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abreast {
    /// It knows the log up to there.
    pub(super) index: LogIndex,
    /// It takes fleet time for no less.
    pub(super) time: FleetTime,
}

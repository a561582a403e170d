//! The only clock reads in the program.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::model::time::{BootTime, FleetTime, as_millis};

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that reads clocks")]
impl Clock {
    /// A clock whose boot time begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Time since the start, in steps of a millisecond.
    #[must_use]
    pub fn boot(&self) -> BootTime {
        BootTime(as_millis(self.start.elapsed()))
    }

    /// The wall clock, as a steer for fleet time.
    #[must_use]
    pub fn wall(&self) -> FleetTime {
        FleetTime(SystemTime::now().duration_since(UNIX_EPOCH).map(as_millis).unwrap_or_default())
    }
}

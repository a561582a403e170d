//! The only clock reads of the load tool: one wall base, and a clock that never goes back on top of it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall time that never goes back: the wall clock of the start plus the time that has passed since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_us: u64,
    start: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that reads clocks")]
impl Clock {
    /// A clock set by the wall clock of this moment.
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { base_us: as_micros(wall), start: Instant::now() }
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.base_us.saturating_add(as_micros(self.start.elapsed()))
    }
}

/// A duration in whole microseconds.
#[must_use]
pub fn as_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! The only clock reads in the program.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::model::time::{BootTime, FleetTime, as_millis};

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    #[cfg(test)]
    hand: Option<&'static std::sync::atomic::AtomicU64>,
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
        Self {
            start: Instant::now(),
            #[cfg(test)]
            hand: None,
        }
    }

    /// A clock that shows what the hand says, in milliseconds; the hand is never given back.
    #[cfg(test)]
    pub(crate) fn by_hand(at: u64) -> (Self, &'static std::sync::atomic::AtomicU64) {
        let hand: &_ = Box::leak(Box::new(std::sync::atomic::AtomicU64::new(at)));
        (Self { hand: Some(hand), ..Self::start() }, hand)
    }

    /// Time since the start, in steps of a millisecond.
    #[must_use]
    pub fn boot(&self) -> BootTime {
        #[cfg(test)]
        if let Some(hand) = self.hand {
            return BootTime(hand.load(std::sync::atomic::Ordering::Relaxed));
        }
        BootTime(as_millis(self.start.elapsed()))
    }

    /// The wall clock, as a steer for fleet time.
    #[must_use]
    pub fn wall(&self) -> FleetTime {
        FleetTime(SystemTime::now().duration_since(UNIX_EPOCH).map(as_millis).unwrap_or_default())
    }
}

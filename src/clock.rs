//! The only clock reads in the program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::model::time::{BootTime, FleetTime, as_millis};

/// The clocks of this machine, or of one that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    Machine { start: Instant },
    Hands(&'static Hands),
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
        Self(Source::Machine { start: Instant::now() })
    }

    /// A clock that shows what its hands are moved to.
    #[must_use]
    pub const fn moved_by(hands: &'static Hands) -> Self {
        Self(Source::Hands(hands))
    }

    /// Time since the start, in steps of a millisecond.
    #[must_use]
    pub fn boot(&self) -> BootTime {
        match self.0 {
            Source::Machine { start } => BootTime(as_millis(start.elapsed())),
            Source::Hands(hands) => hands.boot(),
        }
    }

    /// The wall clock, as a steer for fleet time.
    #[must_use]
    pub fn wall(&self) -> FleetTime {
        match self.0 {
            Source::Machine { .. } => {
                FleetTime(SystemTime::now().duration_since(UNIX_EPOCH).map(as_millis).unwrap_or_default())
            }
            Source::Hands(hands) => FleetTime(hands.wall.load(Ordering::Relaxed)),
        }
    }
}

/// The hands of a simulated machine's clocks.
#[derive(Debug, Default)]
pub struct Hands {
    boot: AtomicU64,
    wall: AtomicU64,
}

impl Hands {
    /// Hands that stand at these times.
    #[must_use]
    pub const fn at(boot: BootTime, wall: FleetTime) -> Self {
        Self { boot: AtomicU64::new(boot.0), wall: AtomicU64::new(wall.0) }
    }

    /// What the boot clock shows.
    #[must_use]
    pub fn boot(&self) -> BootTime {
        BootTime(self.boot.load(Ordering::Relaxed))
    }

    /// Moves both on by the same time.
    pub fn advance(&self, by: Duration) {
        self.boot.fetch_add(as_millis(by), Ordering::Relaxed);
        self.wall.fetch_add(as_millis(by), Ordering::Relaxed);
    }

    /// Sets the wall clock, as an operator does, or a wrong time server.
    pub fn set_wall(&self, to: FleetTime) {
        self.wall.store(to.0, Ordering::Relaxed);
    }
}

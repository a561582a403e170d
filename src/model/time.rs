//! Fleet time and the clocks that steer it. Nothing here reads a clock: every instant is an argument.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often an edge reports and the leader answers.
pub const TICK: Duration = Duration::from_millis(250);

/// How long a grant may be spent after the report that it answers was sent.
pub const GRANT_LIFE: Duration = Duration::from_millis(500);

/// An edge that hears no pulse for this long calls itself isolated.
pub const ISOLATION: Duration = Duration::from_millis(1500);

/// The slot of an ended session is free at its expiry plus this, even if an edge never acknowledged the end.
pub const RELEASE_GUARD: Duration = Duration::from_secs(2);

/// A pulse is fresh for this long after the report that it echoes was sent: three ticks.
pub const FRESH: Duration = Duration::from_millis(750);

/// A point in fleet time, in milliseconds since the Unix epoch. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FleetTime(pub u64);

impl FleetTime {
    /// The start of a second.
    #[must_use]
    pub const fn from_unix_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The second that this instant lies in.
    #[must_use]
    pub const fn unix_seconds(self) -> u64 {
        self.0 / 1000
    }

    /// The instant `duration` later, at most the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(as_millis(duration)))
    }

    /// The instant `duration` earlier, at least the epoch.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(as_millis(duration)))
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A point on a node's own clock, in milliseconds since its boot; it goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootTime(pub u64);

impl BootTime {
    /// The instant `duration` later, at most the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(as_millis(duration)))
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole milliseconds, at most `u64::MAX` of them.
#[must_use]
pub fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The leader's fleet time: it runs at 0.9 to 1.1 times the leader's boot clock, steered by its wall clock.
///
/// Source: design §3 *Fleet time*. It never stands still or goes back.
#[derive(Clone, Copy, Debug)]
pub struct FleetClock {
    now: FleetTime,
    boot: BootTime,
}

impl FleetClock {
    /// The clock of a new tenure: from the last committed `now`, stepped forward (never back) to `start`.
    #[must_use]
    pub fn begin(committed: FleetTime, start: FleetTime, boot: BootTime) -> Self {
        Self { now: committed.max(start), boot }
    }

    /// Fleet time at the last reading.
    #[must_use]
    pub fn now(&self) -> FleetTime {
        self.now
    }

    /// Reads the clock: `boot` says how much time passed, `wall` whether to run up to 10 % fast or slow.
    pub fn read(&mut self, boot: BootTime, wall: FleetTime) -> FleetTime {
        let passed = as_millis(boot.since(self.boot));
        let slow = passed - passed / 10;
        let fast = passed.saturating_add(passed / 10);
        let wanted = wall.0.saturating_sub(self.now.0);
        self.now = FleetTime(self.now.0.saturating_add(wanted.clamp(slow, fast)));
        self.boot = self.boot.max(boot);
        self.now
    }
}

/// What an edge knows of fleet time: bounds around the leader's clock, from the last pulse.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetBounds {
    /// The fleet time that the last pulse carried.
    pub pulse_now: FleetTime,
    /// When the report that it answers was sent, on this node's clock.
    pub echo: BootTime,
}

impl FleetBounds {
    /// The latest that fleet time can be: expiries are judged by it, so that none is honoured late.
    #[must_use]
    pub fn upper(&self, boot: BootTime) -> FleetTime {
        let passed = as_millis(boot.since(self.echo));
        FleetTime(self.pulse_now.0.saturating_add(passed).saturating_add(passed / 10))
    }

    /// Takes the first pulse of another leader: its clock may have stepped forward.
    pub fn take(&mut self, pulse_now: FleetTime, echo: BootTime) {
        if pulse_now >= self.pulse_now {
            *self = Self { pulse_now, echo };
        }
    }

    /// Takes a further pulse of the same leader at `now`, unless what is known bounds the same clock more closely: a pulse that
    /// answers an old report says little.
    pub fn tighten(&mut self, pulse_now: FleetTime, echo: BootTime, now: BootTime) {
        let other = Self { pulse_now, echo };
        if other.upper(now) <= self.upper(now) {
            *self = other;
        }
    }
}

/// The fleet time that an edge reckons with where to be near it counts for more than to be on one side of it: by the
/// pulse that came the fastest.
///
/// It is off by what that pulse took to come, and by a tenth of the time since at most: behind a fleet time that runs
/// fast, ahead of one that runs slow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetReckoning {
    /// The fleet time that the pulse carried.
    pub pulse_now: FleetTime,
    /// When it came, on this node's clock.
    pub received: BootTime,
}

impl FleetReckoning {
    /// What fleet time is about.
    #[must_use]
    pub fn read(&self, boot: BootTime) -> FleetTime {
        self.pulse_now.after(boot.since(self.received))
    }

    /// Takes a further pulse of the same leader, unless fleet time is known to be past what it says: it was long under way.
    pub fn tighten(&mut self, pulse_now: FleetTime, received: BootTime) {
        let passed = as_millis(received.since(self.received));
        // Less than the slowest that fleet time runs, or nothing would ever be near it again while it does.
        let least = self.pulse_now.0.saturating_add(passed - passed / 8);
        if pulse_now.0 >= least {
            *self = Self { pulse_now, received };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fleet_time_runs_within_ten_percent_and_never_back(
            wall in prop::collection::vec((1u64..5_000, 0u64..10_000_000), 1..50)
        ) {
            let mut clock = FleetClock::begin(FleetTime(5_000_000), FleetTime(0), BootTime(0));
            let mut boot = 0;
            for (step, wall) in wall {
                let before = clock.now();
                boot += step;
                let now = clock.read(BootTime(boot), FleetTime(wall));
                let passed = now.0 - before.0;
                prop_assert!(passed >= step - step / 10 && passed <= step + step / 10);
                prop_assert!(passed > 0);
            }
        }

        #[test]
        fn what_is_reckoned_is_behind_by_no_more_than_the_newest_pulse_took(
            pulses in prop::collection::vec((1u64..1_000, 0u64..700), 1..50)
        ) {
            let ahead = 1_000_000;
            let (mut reckoning, mut received) = (FleetReckoning::default(), 0);
            for (step, delay) in pulses {
                received += step;
                let is = FleetTime(ahead + received);
                reckoning.tighten(FleetTime(is.0 - delay), BootTime(received));
                let reckoned = reckoning.read(BootTime(received));
                prop_assert!(reckoned <= is && is.0 - reckoned.0 <= delay);
            }
        }

        #[test]
        fn an_upper_bound_is_never_below_the_leaders_clock(
            steps in prop::collection::vec((1u64..1_000, any::<bool>()), 1..50)
        ) {
            let mut clock = FleetClock::begin(FleetTime(1_000_000), FleetTime(0), BootTime(0));
            let mut bounds = FleetBounds::default();
            bounds.take(clock.now(), BootTime(0));
            let mut boot = 0;
            for (step, heard) in steps {
                boot += step;
                clock.read(BootTime(boot), FleetTime(u64::MAX));
                if heard {
                    bounds.tighten(clock.now(), BootTime(boot), BootTime(boot));
                }
                prop_assert!(bounds.upper(BootTime(boot)) >= clock.now());
            }
        }
    }

    #[test]
    fn a_late_answer_does_not_loosen_the_bound() {
        let mut bounds = FleetBounds::default();
        bounds.take(FleetTime(100_000), BootTime(1_000));
        bounds.tighten(FleetTime(109_000), BootTime(1_500), BootTime(10_000));
        assert_eq!(bounds.upper(BootTime(10_000)), FleetTime(109_900));
        bounds.tighten(FleetTime(109_000), BootTime(9_990), BootTime(10_000));
        assert_eq!(bounds.upper(BootTime(10_000)), FleetTime(109_011));
    }

    #[test]
    fn a_term_steps_forward_only() {
        let ahead = FleetClock::begin(FleetTime(10), FleetTime(50), BootTime(0));
        let behind = FleetClock::begin(FleetTime(50), FleetTime(10), BootTime(0));
        assert_eq!(ahead.now(), FleetTime(50));
        assert_eq!(behind.now(), FleetTime(50));
    }
}

//! Rate credit: how many slots may be reserved at this moment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::time::{FleetTime, TICK, as_millis};

/// A token bucket on fleet time, capped at `max(1, R·τ)`, in thousandths of a slot so that fractions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateCredit {
    milli_slots: u64,
    at: FleetTime,
}

const MILLI: u64 = 1000;

impl RateCredit {
    /// The credit at `now` at a rate of `per_sec`.
    #[must_use]
    pub fn at(self, now: FleetTime, per_sec: u32) -> Self {
        let earned = u64::from(per_sec).saturating_mul(as_millis(now.since(self.at)));
        let level = self.milli_slots.saturating_add(earned).min(cap(per_sec));
        Self { milli_slots: level, at: self.at.max(now) }
    }

    /// Whole slots that the credit is good for.
    #[must_use]
    pub fn slots(self) -> u32 {
        u32::try_from(self.milli_slots / MILLI).unwrap_or(u32::MAX)
    }

    /// The credit as a share of its cap, 0..=1.
    #[must_use]
    pub fn share(self, per_sec: u32) -> f32 {
        self.milli_slots as f32 / cap(per_sec) as f32
    }

    /// The credit after `slots` have been taken.
    #[must_use]
    pub fn spend(self, slots: u32) -> Self {
        Self { milli_slots: self.milli_slots.saturating_sub(u64::from(slots) * MILLI), ..self }
    }

    /// How long it takes until a whole slot is there; zero if it is.
    #[must_use]
    pub fn until_next_slot(self, per_sec: u32) -> Duration {
        let missing = MILLI.saturating_sub(self.milli_slots);
        Duration::from_millis(missing.div_ceil(u64::from(per_sec.max(1))))
    }
}

fn cap(per_sec: u32) -> u64 {
    u64::from(per_sec).saturating_mul(as_millis(TICK)).max(MILLI)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_more_is_spent_than_was_earned_and_the_cap(
            per_sec in 1u32..20_000,
            steps in prop::collection::vec((0u64..3_000, 0u32..10_000), 1..60)
        ) {
            let (mut credit, mut now, mut spent) = (RateCredit::default().at(FleetTime(5_000), per_sec), 5_000, 0u64);
            let start = now;
            for (step, wanted) in steps {
                now += step;
                credit = credit.at(FleetTime(now), per_sec);
                let slots = wanted.min(credit.slots());
                credit = credit.spend(slots);
                spent += u64::from(slots);
                let earned = u64::from(per_sec) * (now - start) + cap(per_sec);
                prop_assert!(spent * MILLI <= earned);
            }
        }
    }

    #[test]
    fn one_a_second_earns_one_a_second() {
        let mut credit = RateCredit::default().at(FleetTime(1_000_000), 1).spend(1);
        let mut slots = 0;
        for tick in 1..=40 {
            credit = credit.at(FleetTime(1_000_000 + 250 * tick), 1);
            slots += credit.slots();
            credit = credit.spend(credit.slots());
        }
        assert_eq!(slots, 10);
    }
}

//! The schedule of an event: when its prequeue begins, when it opens, when it closes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::order::BucketStart;
use super::time::FleetTime;

/// When an event takes visitors; every part may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// From when visitors may join and wait for the opening.
    pub prequeue_at: Option<FleetTime>,
    /// From when visitors are admitted.
    pub opens_at: Option<FleetTime>,
    /// From when joins are refused.
    pub closes_at: Option<FleetTime>,
    /// Who joins up to this many seconds after the opening still takes part in the lottery.
    pub opening_bucket_seconds: u32,
}

/// Where in its schedule an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Neither prequeue nor opening has come: joins are refused.
    Early,
    /// Visitors may join; nobody is admitted.
    Prequeue,
    /// Visitors are admitted.
    Open,
    /// Joins are refused; passes go on until they end.
    Closed,
}

impl Schedule {
    /// Where in the schedule `now` is.
    #[must_use]
    pub fn stage(&self, now: FleetTime) -> Stage {
        let reached = |time: Option<FleetTime>| time.is_some_and(|time| time <= now);
        let unreached = |time: Option<FleetTime>| time.is_some_and(|time| time > now);
        if reached(self.closes_at) {
            Stage::Closed
        } else if !unreached(self.opens_at) {
            Stage::Open
        } else if unreached(self.prequeue_at) || self.prequeue_at.is_none() {
            Stage::Early
        } else {
            Stage::Prequeue
        }
    }

    /// The bucket that everybody who joins before the opening goes into; `None` without a prequeue.
    #[must_use]
    pub fn lottery_bucket(&self) -> Option<BucketStart> {
        let begins = self.prequeue_at?;
        self.opens_at.filter(|opens| begins < *opens).map(|_| BucketStart::from(begins))
    }

    /// When the lottery's bucket closes; `None` without a prequeue.
    #[must_use]
    pub fn lottery_closes(&self) -> Option<FleetTime> {
        self.lottery_bucket()?;
        let opens = self.opens_at?;
        Some(opens.after(Duration::from_secs(self.opening_bucket_seconds.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other() {
        let at = |seconds| Some(FleetTime::from_unix_seconds(seconds));
        let schedule =
            Schedule { prequeue_at: at(10), opens_at: at(20), closes_at: at(30), opening_bucket_seconds: 5 };
        let stages = [9, 10, 19, 20, 29, 30].map(|now| schedule.stage(FleetTime::from_unix_seconds(now)));
        let wanted =
            [Stage::Early, Stage::Prequeue, Stage::Prequeue, Stage::Open, Stage::Open, Stage::Closed];
        assert_eq!(stages, wanted);
        assert_eq!(schedule.lottery_bucket(), Some(BucketStart(10)));
        assert_eq!(schedule.lottery_closes(), at(25));
    }

    #[test]
    fn an_event_without_a_schedule_is_open() {
        assert_eq!(Schedule::default().stage(FleetTime(0)), Stage::Open);
        assert_eq!(Schedule::default().lottery_bucket(), None);
    }

    #[test]
    fn an_opening_without_a_prequeue_is_early_until_it_comes() {
        let schedule = Schedule { opens_at: Some(FleetTime(5_000)), ..Schedule::default() };
        assert_eq!(schedule.stage(FleetTime(4_999)), Stage::Early);
        assert_eq!(schedule.stage(FleetTime(5_000)), Stage::Open);
    }
}

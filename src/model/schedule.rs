//! The schedule of an event: when its prequeue begins, when it opens, when it closes.

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

impl Schedule {
    /// The bucket that everybody who joins before the opening goes into; `None` without a prequeue.
    #[must_use]
    pub fn lottery_bucket(&self) -> Option<BucketStart> {
        let begins = self.prequeue_at?;
        self.opens_at.filter(|opens| begins < *opens).map(|_| BucketStart::from(begins))
    }
}

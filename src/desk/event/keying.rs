//! What a ticket is keyed by when it joins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{EventDesk, View};
use crate::model::edge::Link;
use crate::model::order::{BucketStart, KeyBase, OrderKey, arrival_key};
use crate::model::policy::{Ordering as LineOrdering, Policy};
use crate::model::time::{BootTime, FleetTime};

impl EventDesk {
    /// What a ticket joining now is keyed by; `None` while there is nothing to key it by.
    pub(in crate::desk) fn key_base(&self, view: &View, link: &Link, boot: BootTime) -> Option<KeyBase> {
        let now = link.upper(boot);
        let pulse = &view.pulse;
        let policy = &pulse.policy;
        if let Some(lottery) = running_lottery(policy, now) {
            return Some(KeyBase::Drawn { bucket: lottery, floor: Default::default() });
        }
        if policy.ordering == LineOrdering::Random {
            // No bucket is told of while there is no line, or while it is about to be over.
            pulse.buckets.last()?;
            return Some(KeyBase::Clock(pulse.floor.max(pulse.watermark)));
        }
        if policy.ordering == LineOrdering::Fifo {
            // Near what other edges take for it, so that arrivals at several of them stay in order.
            let arrived = link.reckoned(boot);
            let bucket = open_bucket(view, arrived).or_else(|| open_bucket(view, now))?;
            return Some(KeyBase::Arrival(self.arrival(bucket, policy.bucket, arrived)));
        }
        let bucket = open_bucket(view, now)?;
        if pulse.floor.bucket() > bucket {
            return None;
        }
        let floor = pulse.floor.max(pulse.watermark);
        let within = floor.bucket() == bucket;
        let floor = if within { floor.fraction() } else { Default::default() };
        Some(KeyBase::Drawn { bucket, floor })
    }

    /// The next key of `fifo` here: keys of one edge never go back.
    fn arrival(&self, bucket: BucketStart, length: Duration, now: FleetTime) -> OrderKey {
        let next = |last: u64| {
            let last = OrderKey(last);
            let bucket = bucket.max(last.bucket());
            arrival_key(bucket, length, now, last).0
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.last_arrival.fetch_update(set, fetch, |last| Some(next(last)));
        OrderKey(before.map_or(0, next))
    }
}

pub(super) fn open_bucket(view: &View, now: FleetTime) -> Option<BucketStart> {
    let now = BucketStart::from(now);
    view.pulse.buckets.iter().copied().filter(|start| *start <= now).max()
}

fn running_lottery(policy: &Policy, now: FleetTime) -> Option<BucketStart> {
    let bucket = policy.schedule.lottery_bucket().filter(|_| policy.ordering != LineOrdering::Random)?;
    let closes = policy.schedule.lottery_closes()?;
    (bucket.time() <= now && now < closes).then_some(bucket)
}

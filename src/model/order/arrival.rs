//! Keys of `fifo`: the arrival's offset in its bucket.

use std::time::Duration;

use super::{BucketStart, Fraction, OrderKey};
use crate::model::time::{FleetTime, as_millis};

/// Up to this fraction the key is linear in the offset; the rest is for arrivals after the bucket's usual end.
const LINEAR: u64 = 7 << 29;

/// The key of an arrival at `now`, above `last`, the newest key that this edge made, if that is of the same bucket.
///
/// A bucket may stay open a little longer than `length`, so what comes late still follows arrival.
#[must_use]
pub fn arrival_key(bucket: BucketStart, length: Duration, now: FleetTime, last: OrderKey) -> OrderKey {
    let length = as_millis(length).clamp(1, u64::from(u32::MAX));
    let offset = as_millis(now.since(bucket.time())).min(u64::from(u32::MAX));
    let fraction = match offset.checked_sub(length) {
        None => offset * LINEAR / length,
        Some(over) => LINEAR + ((over << 29) - over) / (over + length),
    };
    let key = OrderKey::new(bucket, Fraction(u32::try_from(fraction).unwrap_or(u32::MAX)));
    let next = OrderKey(last.0.saturating_add(1));
    if last.bucket() != bucket {
        key
    } else if next.bucket() == bucket {
        key.max(next)
    } else {
        last
    }
}

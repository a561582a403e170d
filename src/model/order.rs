//! Order keys, buckets and draws: where in the line a ticket stands.

use serde::{Deserialize, Serialize};

use super::time::FleetTime;

/// Into how many slices of its keys a bucket is counted.
pub const SLICES: usize = 64;

/// The start of a bucket in unix seconds; for `random` the whole part of the exponential clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BucketStart(pub u32);

/// A fraction of a bucket, in 1/2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fraction(pub u32);

/// Where a ticket stands: bucket start in the high 32 bits, fraction inside the bucket in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderKey(pub u64);

impl OrderKey {
    /// The key of a fraction of a bucket.
    #[must_use]
    pub const fn new(bucket: BucketStart, fraction: Fraction) -> Self {
        Self((bucket.0 as u64) << 32 | fraction.0 as u64)
    }

    /// The bucket of the key.
    #[must_use]
    pub const fn bucket(self) -> BucketStart {
        BucketStart((self.0 >> 32) as u32)
    }

    /// The fraction inside the bucket.
    #[must_use]
    pub const fn fraction(self) -> Fraction {
        Fraction((self.0 & 0xffff_ffff) as u32)
    }

    /// Which of the [`SLICES`] of its bucket the key lies in.
    #[must_use]
    pub const fn slice(self) -> usize {
        (self.fraction().0 >> 26) as usize
    }
}

/// What a ticket's key is made from, written into its token at the join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyBase {
    /// Not keyed yet: the edge had no fresh pulse.
    Unkeyed,
    /// `bucketed_random`: the bucket and its floor at the join; the draw decides above it.
    Drawn {
        /// The bucket.
        bucket: BucketStart,
        /// The floor `f` of the bucket at the join.
        floor: Fraction,
    },
    /// `fifo`: the key itself, from the arrival.
    Arrival(OrderKey),
    /// `random`: the exponential clock at the join, 32.32 fixed point; the draw decides above it.
    Clock(OrderKey),
}

impl From<FleetTime> for BucketStart {
    fn from(time: FleetTime) -> Self {
        Self(u32::try_from(time.unix_seconds()).unwrap_or(u32::MAX))
    }
}

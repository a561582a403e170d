//! Order keys, buckets and draws: where in the line a ticket stands.

mod arrival;
mod clock;
mod draw;

use serde::{Deserialize, Serialize};

use super::ids::TicketId;
use super::time::FleetTime;

pub use arrival::arrival_key;
pub use clock::exponential;
pub use draw::{BucketDraw, Draw, Draws};

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

impl Fraction {
    /// The greatest fraction of a bucket.
    pub const MAX: Self = Self(u32::MAX);
}

impl OrderKey {
    /// A key above every ticket.
    pub const END: Self = Self(u64::MAX);

    /// The key of a ticket; `None` while it has none: it is unkeyed, or its lottery has not been drawn.
    #[must_use]
    pub fn of(base: KeyBase, id: TicketId, draws: &Draws) -> Option<Self> {
        match base {
            KeyBase::Unkeyed => None,
            KeyBase::Arrival(key) => Some(key),
            KeyBase::Drawn { bucket, floor } => {
                let draw = draws.draw(bucket, id)?;
                Some(Self::new(bucket, draw.above(floor)))
            }
            KeyBase::Clock(at) => {
                let draw = draws.draw(at.bucket(), id)?;
                Some(Self(at.0.saturating_add(exponential(draw))))
            }
        }
    }

    /// The first key of the bucket's slice `slice`, 0..=64; the 64th is the first key of the next bucket.
    #[must_use]
    pub const fn slice_start(bucket: BucketStart, slice: usize) -> Self {
        Self(((bucket.0 as u64) << 32).saturating_add((slice as u64) << 26))
    }
}

impl BucketStart {
    /// The next whole second: the end of a bucket that closes here at the earliest.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The first key of the bucket.
    #[must_use]
    pub const fn first_key(self) -> OrderKey {
        OrderKey::new(self, Fraction(0))
    }

    /// When the bucket begins (not for `random`).
    #[must_use]
    pub const fn time(self) -> FleetTime {
        FleetTime::from_unix_seconds(self.0 as u64)
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

#[cfg(test)]
mod tests;

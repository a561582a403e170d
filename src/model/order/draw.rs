//! Draws: a number per ticket that is fixed at the join, the same at every edge, and in no cookie.

use std::collections::BTreeMap;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{BucketStart, Fraction};
use crate::model::exchange::Lottery;
use crate::model::ids::TicketId;

/// A pseudo-random number that orders tickets inside a bucket, in 1/2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Draw(pub u64);

impl Draw {
    /// The fraction of the bucket that the draw comes to, at or above `floor`: `f + (1 − f)·draw`.
    #[must_use]
    pub fn above(self, floor: Fraction) -> Fraction {
        let room = (1_u128 << 32) - u128::from(floor.0);
        let above = (room * u128::from(self.0)) >> 64;
        let fraction = u128::from(floor.0) + above;
        Fraction(u32::try_from(fraction).unwrap_or(u32::MAX))
    }
}

/// What every draw of one bucket is made with; the hash state of the key is kept, so that a draw is two blocks.
#[derive(Clone)]
pub struct BucketDraw(Hmac<Sha256>);

impl BucketDraw {
    /// The draws of a bucket: `HKDF(event draw secret, bucket start)` keys them.
    #[must_use]
    pub fn of_bucket(secret: &[u8; 32], bucket: BucketStart) -> Self {
        let mut key = [0; 32];
        let expanded = Hkdf::<Sha256>::new(None, secret).expand(&bucket.0.to_be_bytes(), &mut key);
        debug_assert!(expanded.is_ok(), "32 bytes are within what HKDF can expand to");
        Self::keyed(&key)
    }

    /// The draws of a lottery, from its order.
    #[must_use]
    pub fn of_lottery(order: &[u8; 32]) -> Self {
        Self::keyed(order)
    }

    fn keyed(key: &[u8; 32]) -> Self {
        // HMAC pads a short key with zeros to a block; doing it here leaves no error to handle.
        let mut block = [0; 64];
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self(Hmac::new(&block.into()))
    }

    /// The draw of a ticket.
    #[must_use]
    pub fn draw(&self, id: TicketId) -> Draw {
        let mut mac = self.0.clone();
        mac.update(&id.to_bytes());
        let tag: [u8; 32] = mac.finalize().into_bytes().into();
        let [a, b, c, d, e, f, g, h, ..] = tag;
        Draw(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl std::fmt::Debug for BucketDraw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketDraw").finish_non_exhaustive()
    }
}

/// What the draws of one event are made with.
#[derive(Clone)]
pub struct Draws {
    secret: [u8; 32],
    lottery: Option<(BucketStart, Option<BucketDraw>)>,
    warm: BTreeMap<BucketStart, BucketDraw>,
}

impl Draws {
    /// The draws of an event with this draw secret and lottery.
    #[must_use]
    pub fn new(secret: [u8; 32], lottery: Option<&Lottery>) -> Self {
        let lottery =
            lottery.map(|lottery| (lottery.bucket, lottery.order.as_ref().map(BucketDraw::of_lottery)));
        Self { secret, lottery, warm: BTreeMap::new() }
    }

    /// Keeps the key schedules of exactly these buckets at hand: those whose tickets poll most.
    pub fn warm(&mut self, buckets: impl IntoIterator<Item = BucketStart>) {
        let mut before = std::mem::take(&mut self.warm);
        let secret = self.secret;
        let kept = buckets.into_iter().map(|bucket| {
            let draw = before.remove(&bucket).unwrap_or_else(|| BucketDraw::of_bucket(&secret, bucket));
            (bucket, draw)
        });
        self.warm = kept.collect();
    }

    /// The draw of a ticket in a bucket; `None` for a lottery that has not been drawn.
    #[must_use]
    pub fn draw(&self, bucket: BucketStart, id: TicketId) -> Option<Draw> {
        match &self.lottery {
            Some((of, order)) if *of == bucket => order.as_ref().map(|order| order.draw(id)),
            _ => Some(match self.warm.get(&bucket) {
                Some(warm) => warm.draw(id),
                None => BucketDraw::of_bucket(&self.secret, bucket).draw(id),
            }),
        }
    }

    /// Whether the bucket is a lottery that has not been drawn.
    #[must_use]
    pub fn is_undrawn(&self, bucket: BucketStart) -> bool {
        matches!(&self.lottery, Some((of, None)) if *of == bucket)
    }
}

impl std::fmt::Debug for Draws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draws").field("warm", &self.warm.len()).finish_non_exhaustive()
    }
}

//! Chance from a seed: the same seed makes the same visitors.

use std::time::Duration;

/// A stream of numbers that look random (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The `number`th stream of a seed.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `from..to`.
    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A duration of `from..to` seconds.
    pub fn seconds(&mut self, from: f64, to: f64) -> Duration {
        Duration::from_secs_f64(self.between(from, to).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_its_streams_differ() {
        let take = |number| {
            let mut dice = Dice::new(7, number);
            (0..4).map(|_| dice.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        let mut dice = Dice::new(1, 1);
        let mean = (0..10_000).map(|_| dice.between(2.0, 4.0)).sum::<f64>() / 10_000.0;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }
}

//! When visitors arrive.

use std::time::Duration;

use clap::ValueEnum;

/// The shape of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Curve {
    /// Half in the first twentieth, the others more and more rarely.
    Burst,
    /// More and more often.
    Ramp,
    /// Evenly.
    Constant,
}

impl Curve {
    /// When the visitor arrives who has the share `share` (0..1) of all before it.
    #[must_use]
    pub fn arrival(self, share: f64, over: Duration) -> Duration {
        let share = share.clamp(0.0, 1.0);
        over.mul_f64(match self {
            Self::Burst if share < 0.5 => share * 0.1,
            Self::Burst => 0.05 + 0.95 * ((share - 0.5) * 2.0).powi(2),
            Self::Ramp => share.sqrt(),
            Self::Constant => share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_rises_from_the_start_to_the_end() {
        let over = Duration::from_secs(10);
        for curve in [Curve::Burst, Curve::Ramp, Curve::Constant] {
            let times: Vec<Duration> =
                (0..=100).map(|at| curve.arrival(f64::from(at) / 100.0, over)).collect();
            assert!(times.is_sorted(), "{curve:?}");
            assert_eq!((times[0], times[100]), (Duration::ZERO, over), "{curve:?}");
        }
        assert!(Curve::Burst.arrival(0.5, over) <= over / 20);
        assert!(Curve::Ramp.arrival(0.25, over) >= over / 2);
    }
}

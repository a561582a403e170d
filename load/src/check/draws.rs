//! Line 6, the draw: who is called next is not told by the order of joining.

use std::collections::BTreeMap;

use super::Violation;
use super::rules::{Ordering, Rules, SECOND};
use super::story::Story;

/// Fewer admissions than this tell nothing.
const LEAST: usize = 50;

/// A newcomer is not called within this time, so it is not yet among those who may be next.
const SETTLED_AFTER: u64 = 2 * SECOND;

/// How even the draws were.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Draws {
    /// How many admissions were tested.
    pub tested: usize,
    /// χ² of where, by order of joining, those who were called next stood among those who waited.
    pub chi_squared: Option<f64>,
    /// How likely even draws are to give a χ² this large.
    pub p: Option<f64>,
}

/// One who waited: from and to when surely, whether it was admitted then.
struct Waiter {
    joined: u64,
    last_uncalled: u64,
    admitted: bool,
}

/// Tests the draws inside buckets (`random`: of the whole line).
///
/// For each admission: the share of those who waited with it, and were called later, that had joined before it. Even
/// draws make that share uniform between 0 and 1, whoever leaves and however fast the line moves.
#[must_use]
pub(super) fn test(stories: &BTreeMap<&str, Story<'_>>, rules: &Rules) -> Draws {
    let mut groups: BTreeMap<u64, Vec<Waiter>> = BTreeMap::new();
    for story in stories.values() {
        let group = match rules.ordering {
            Ordering::Fifo => return Draws::default(),
            Ordering::Random => Some(0),
            Ordering::BucketedRandom => story.bucket(),
        };
        let (Some(group), Some((_, joined))) = (group, story.joined()) else { continue };
        let Some(last_uncalled) = story.uncalled().map(|(_, r)| r.t_sent_us).max() else { continue };
        groups.entry(group).or_default().push(Waiter {
            joined: joined.t_answered_us,
            last_uncalled,
            admitted: story.admitted().is_some(),
        });
    }
    let mut shares = Vec::new();
    for waiters in groups.values_mut() {
        waiters.sort_by_key(|waiter| waiter.joined);
        for waiter in waiters.iter().filter(|waiter| waiter.admitted) {
            if let Some((before, all)) = stand(waiter, waiters) {
                let place = before as f64 + jitter(shares.len() as u64);
                shares.push(place / all as f64);
            }
        }
    }
    judge_shares(&shares)
}

/// How many of those who waited when `waiter` was last told so had joined before it, and how many there were.
fn stand(waiter: &Waiter, waiters: &[Waiter]) -> Option<(usize, usize)> {
    let at = waiter.last_uncalled;
    let settled = at.checked_sub(SETTLED_AFTER).filter(|settled| waiter.joined <= *settled)?;
    let among = waiters.iter().take_while(|other| other.joined <= settled).filter(|o| o.last_uncalled >= at);
    let (mut before, mut all) = (0usize, 0usize);
    for other in among {
        all += 1;
        before += usize::from(other.joined < waiter.joined);
    }
    (all > 1).then_some((before, all))
}

/// Spreads a share evenly over its step, the same way in every run: 0..1.
fn jitter(number: u64) -> f64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn judge_shares(shares: &[f64]) -> Draws {
    if shares.len() < LEAST {
        return Draws { tested: shares.len(), chi_squared: None, p: None };
    }
    let bins = 10usize;
    let mut counts = vec![0u32; bins];
    for share in shares {
        let bin = ((share * bins as f64) as usize).min(bins - 1);
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    let expected = shares.len() as f64 / bins as f64;
    let chi_squared = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let p = upper_tail(chi_squared, bins as f64 - 1.0);
    Draws { tested: shares.len(), chi_squared: Some(chi_squared), p: Some(p) }
}

impl Draws {
    /// Draws that cannot be draws.
    #[must_use]
    pub(super) fn judge(&self, rules: &Rules) -> Option<Violation> {
        let (chi_squared, p) = (self.chi_squared?, self.p?);
        (p < rules.least_p).then(|| {
            let what =
                format!("draws are not even: χ² = {chi_squared:.1} over {} draws, p = {p:.1e}", self.tested);
            Violation::new(6, what, [])
        })
    }
}

/// The chance that a χ² of `freedom` degrees exceeds `x`: the regularised upper incomplete gamma function.
fn upper_tail(x: f64, freedom: f64) -> f64 {
    let (a, x) = (freedom / 2.0, x / 2.0);
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut sum, mut term, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-15 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        (1.0 - front * sum).clamp(0.0, 1.0)
    } else {
        let mut b = x + 1.0 - a;
        let (mut c, mut d) = (1e300, 1.0 / b);
        let mut h = d;
        for i in 1..500 {
            let i = f64::from(i);
            let an = -i * (i - a);
            b += 2.0;
            d = 1.0 / (an * d + b);
            c = b + an / c;
            h *= d * c;
            if (d * c - 1.0).abs() < 1e-14 {
                break;
            }
        }
        (front * h).clamp(0.0, 1.0)
    }
}

/// Stirling's series, shifted to where it is exact to 12 digits.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_chi_squared_agrees_with_printed_tables() {
        for (x, freedom, p) in
            [(16.919, 9.0, 0.05), (21.666, 9.0, 0.01), (3.325, 9.0, 0.95), (3.841, 1.0, 0.05)]
        {
            let found = upper_tail(x, freedom);
            assert!((found - p).abs() < 2e-4, "{x} {freedom}: {found} {p}");
        }
        assert!(upper_tail(200.0, 9.0) < 1e-30);
    }

    #[test]
    fn even_shares_pass_and_sorted_ones_do_not() {
        let even: Vec<f64> = (0..500u64).map(jitter).collect();
        assert!(judge_shares(&even).p.unwrap() > 1e-3);
        let first_come: Vec<f64> = (0..500u64).map(|n| jitter(n) * 0.5).collect();
        assert!(judge_shares(&first_come).p.unwrap() < 1e-12);
        assert_eq!(judge_shares(&even[..LEAST - 1]).p, None);
    }
}

//! Pairs: the subject and the yardstick, one after the other, which of them first in turn.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::BenchArgs;
use super::generator::{Load, Requests, measure as rate};

/// Who is measured, with which requests.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    /// The waiting room.
    pub(super) subject: SocketAddr,
    /// Bare Pingora.
    pub(super) bare: SocketAddr,
    /// The requests.
    pub(super) requests: Arc<Requests>,
}

/// Answers per second, pair by pair.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Pairs {
    /// The waiting room's.
    pub subject: Vec<f64>,
    /// Bare Pingora's.
    pub bare: Vec<f64>,
    /// The median of the ratios of each pair: 1 is as fast as bare Pingora.
    pub ratio: f64,
}

impl Pairs {
    fn new(subject: Vec<f64>, bare: Vec<f64>) -> Self {
        let ratio = median(subject.iter().zip(&bare).map(|(subject, bare)| subject / bare).collect());
        Self { subject, bare, ratio }
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, bare) = (median(self.subject.clone()), median(self.bare.clone()));
        write!(f, "{subject:.0}/s, bare Pingora {bare:.0}/s, ratio {:.3}", self.ratio)?;
        write!(f, " (median of {} pairs)", self.subject.len())
    }
}

/// Measures so many pairs.
pub(super) async fn measure(
    contest: &Contest,
    args: &BenchArgs,
    measured: Duration,
) -> anyhow::Result<Pairs> {
    let load = |target| Load {
        target,
        requests: Arc::clone(&contest.requests),
        connections: args.connections,
        warm_up: Duration::from_millis(500),
        measured,
    };
    let (mut subject, mut bare) = (Vec::new(), Vec::new());
    for pair in 0..args.pairs {
        if pair % 2 == 0 {
            subject.push(rate(&load(contest.subject)).await?);
            bare.push(rate(&load(contest.bare)).await?);
        } else {
            bare.push(rate(&load(contest.bare)).await?);
            subject.push(rate(&load(contest.subject)).await?);
        }
    }
    Ok(Pairs::new(subject, bare))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
    if numbers.len() % 2 == 1 { at(middle) } else { (at(middle.wrapping_sub(1)) + at(middle)) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_own_ratios() {
        let pairs = Pairs::new(vec![50.0, 90.0, 10.0], vec![100.0, 100.0, 100.0]);
        assert!((pairs.ratio - 0.5).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-12);
        assert!(median(Vec::new()).is_nan());
    }
}

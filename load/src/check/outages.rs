//! When the server was away.

use super::rules::SECOND;
use crate::history::{Kind, Record};

/// Times in which nobody was answered, ascending and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages(Vec<(u64, u64)>);

/// Failures in a row that make an outage: one or two may be connections that closed under a request.
const FAILURES: usize = 3;

impl Outages {
    /// The outages that a history shows, and those that are known besides.
    #[must_use]
    pub fn find(records: &[Record], known: &[(u64, u64)]) -> Self {
        let mut spans = known.to_vec();
        spans.extend(
            records.iter().filter(|r| r.kind == Kind::Outage).map(|r| (r.t_sent_us, r.t_answered_us)),
        );
        let mut by_answer: Vec<&Record> = records.iter().filter(|r| r.kind != Kind::Outage).collect();
        by_answer.sort_by_key(|r| r.t_answered_us);
        let mut failed: Option<(u64, u64, usize)> = None;
        for record in by_answer {
            if record.is_answered() {
                if let Some((from, to, count)) = failed.take()
                    && count >= FAILURES
                {
                    spans.push((from, to.max(record.t_sent_us)));
                }
            } else {
                let (from, to, count) = failed.unwrap_or((record.t_sent_us, record.t_answered_us, 0));
                failed =
                    Some((from.min(record.t_sent_us), to.max(record.t_answered_us), count.saturating_add(1)));
            }
        }
        Self::merge(spans)
    }

    fn merge(mut spans: Vec<(u64, u64)>) -> Self {
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1.saturating_add(SECOND) => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How much of `from..to` was outage, where each is taken to last `after_us` longer.
    #[must_use]
    pub fn within(&self, from: u64, to: u64, after_us: u64) -> u64 {
        let mut sum = 0u64;
        let mut done = from;
        for &(start, end) in &self.0 {
            let start = start.max(done);
            let end = end.saturating_add(after_us).min(to);
            if end > start {
                sum = sum.saturating_add(end - start);
                done = end;
            }
        }
        sum
    }

    /// What is left of `spans` outside of outages.
    #[must_use]
    pub fn cut_out(&self, spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut left = Vec::new();
        for &(from, to) in spans {
            let mut from = from;
            for &(start, end) in &self.0 {
                if start >= to || end <= from {
                    continue;
                }
                if from < start {
                    left.push((from, start));
                }
                from = from.max(end);
            }
            if from < to {
                left.push((from, to));
            }
        }
        left
    }

    /// The same outages, each lasting until what `until` makes of its end.
    #[must_use]
    pub fn lasting_until(&self, until: impl Fn(u64) -> u64) -> Self {
        Self::merge(self.0.iter().map(|&(start, end)| (start, until(end).max(end))).collect())
    }

    /// Whether any of `from..to` was outage.
    #[must_use]
    pub fn touch(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|&(start, end)| start <= to && from <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Role, Saw};

    fn record(sent: u64, answered: u64, saw: Saw) -> Record {
        let mut record = Record::new(1, Role::Ordinary, Kind::Poll, sent);
        record.t_answered_us = answered;
        record.saw = saw;
        record
    }

    #[test]
    fn an_outage_can_be_taken_to_last_until_its_effects_are_over() {
        let outages = Outages(vec![(10, 20), (5 * SECOND, 6 * SECOND)]);
        let longer = outages.lasting_until(|end| end + 5);
        assert_eq!(longer, Outages(vec![(10, 25), (5 * SECOND, 6 * SECOND + 5)]));
        assert_eq!(outages.lasting_until(|_| 0), outages);
    }

    #[test]
    fn three_failures_in_a_row_are_an_outage_until_the_next_answered_request_and_two_are_not() {
        let nothing = |at| record(at, at + 5, Saw::Nothing);
        let answered = |at| record(at, at + 5, Saw::Waiting);
        let two = [answered(0), nothing(10), nothing(20), answered(30)];
        assert_eq!(Outages::find(&two, &[]).count(), 0);
        let three = [answered(0), nothing(10), nothing(20), nothing(30), answered(90)];
        assert_eq!(Outages::find(&three, &[]), Outages(vec![(10, 90)]));
    }

    #[test]
    fn spans_that_touch_are_one_and_the_time_after_them_counts_once() {
        let outages = Outages::find(&[], &[(10 * SECOND, 20 * SECOND), (20 * SECOND, 25 * SECOND)]);
        assert_eq!(outages.count(), 1);
        assert_eq!(outages.within(0, 100 * SECOND, 0), 15 * SECOND);
        assert_eq!(outages.within(24 * SECOND, 100 * SECOND, 5 * SECOND), 6 * SECOND);
        assert_eq!(
            outages.cut_out(&[(0, 12 * SECOND), (30 * SECOND, 31 * SECOND)]),
            [(0, 10 * SECOND), (30 * SECOND, 31 * SECOND)]
        );
        assert!(outages.touch(25 * SECOND, 26 * SECOND));
        assert!(!outages.touch(26 * SECOND, 27 * SECOND));
    }
}

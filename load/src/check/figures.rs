//! The figures of a run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::draws::Draws;
use super::event_log::EventLog;
use super::order;
use super::outages::Outages;
use super::passes::{Passes, waits};
use super::rules::{Rules, SECOND};
use super::story::Story;
use crate::history::{Kind, Record, Role, Saw};

/// What a run comes to, in numbers.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Requests that were recorded.
    pub records: u64,
    /// Visitors.
    pub visitors: u64,
    /// Tickets that were made, those of express included.
    pub tickets: u64,
    /// Tickets that were put in line.
    pub queued: u64,
    /// Passes that visitors were given.
    pub admitted: u64,
    /// Of those, how many without waiting.
    pub expressed: u64,
    /// Tickets that ended with 410.
    pub ended: u64,
    /// What visitors saw, by word.
    pub saw: BTreeMap<String, u64>,
    /// `capacity`.
    pub capacity: u64,
    /// Passes that surely lived, at most at once.
    pub most_live: u64,
    /// Passes that may have lived, at most at once: not known to be over.
    pub most_live_possible: u64,
    /// The share of capacity in use while anyone waited, once the room had filled, after an outage again: 0..=1.
    pub utilisation: Option<f64>,
    /// Passes that were surely minted within one second, at most.
    pub most_mints_in_a_second: u64,
    /// How many are allowed.
    pub allowed_mints_in_a_second: f64,
    /// Tickets that were passed over.
    pub inversions: u64,
    /// The draws.
    pub draws: Draws,
    /// Waits from the join to the pass, in seconds.
    pub wait_s: Spread,
    /// How far off the middle of the expected wait was, in seconds.
    pub eta_error_s: Spread,
    /// The share of expected ranges that held the real wait.
    pub eta_range_held: Option<f64>,
    /// Answers whose upper end of the position was above an earlier one in the same tab.
    pub position_rises: u64,
    /// Answers that took the longest, in milliseconds.
    pub answer_ms: Spread,
    /// Times in which nobody was answered.
    pub outages: u64,
    /// Records of the event's log that were understood.
    pub log_records: u64,
}

/// How something is spread.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Spread {
    /// Half are below.
    pub p50: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// How many there are.
    pub count: u64,
}

impl Spread {
    /// The spread of durations in microseconds, in units of `unit_us`.
    fn of(durations: impl Iterator<Item = u64>, unit_us: u64) -> Self {
        let Ok(mut histogram) = Histogram::<u64>::new(3) else { return Self::default() };
        for duration in durations {
            let _ = histogram.record(duration);
        }
        let at = |share| histogram.value_at_quantile(share) as f64 / unit_us as f64;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), count: histogram.len() }
    }
}

/// Works out the figures.
#[must_use]
pub(super) fn of(
    records: &[Record],
    stories: &BTreeMap<&str, Story<'_>>,
    outages: &Outages,
    passes: &Passes,
    draws: &Draws,
    log: &EventLog,
    rules: &Rules,
) -> Figures {
    let mut saw = BTreeMap::new();
    for record in records.iter().filter(|r| r.kind != Kind::Outage) {
        let word = serde_json::to_value(record.saw).ok().and_then(|word| word.as_str().map(str::to_owned));
        *saw.entry(word.unwrap_or_default()).or_default() += 1;
    }
    let mut visitors: Vec<u64> = records.iter().map(|r| r.visitor).collect();
    visitors.sort_unstable();
    visitors.dedup();
    let given = || stories.values().filter(|s| s.joined().is_some() || s.admitted().is_some());
    let waited = stories.values().filter_map(|story| {
        let joined = story.joined()?.1;
        Some(story.admitted()?.1.t_answered_us.saturating_sub(joined.t_answered_us))
    });
    let (eta_error_s, eta_range_held) = etas(stories);
    let passed_over = order::inversions(stories, rules).len() + order::express(stories, rules).len();
    Figures {
        records: count(records.len()),
        visitors: count(visitors.len()),
        tickets: count(given().count()),
        queued: count(given().filter(|s| s.joined().is_some()).count()),
        admitted: count(given().filter(|s| s.admitted().is_some()).count()),
        expressed: count(given().filter(|s| s.joined().is_none()).count()),
        ended: count(given().filter(|s| s.records.iter().any(|(_, r)| r.saw == Saw::Ended)).count()),
        saw,
        capacity: rules.capacity,
        most_live: passes.sure_peak().count,
        most_live_possible: passes.possible_peak().count,
        utilisation: passes.utilisation(&waits(stories), outages, rules),
        most_mints_in_a_second: count(passes.fastest_second().len()),
        allowed_mints_in_a_second: rules.most_mints(),
        inversions: count(passed_over),
        draws: draws.clone(),
        wait_s: Spread::of(waited, SECOND),
        eta_error_s,
        eta_range_held,
        position_rises: stories.values().map(position_rises).sum(),
        answer_ms: Spread::of(answer_times(records), SECOND / 1000),
        outages: count(outages.count()),
        log_records: count(log.len()),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn answer_times(records: &[Record]) -> impl Iterator<Item = u64> + '_ {
    let answered = records.iter().filter(|r| r.is_answered() && r.kind != Kind::Outage);
    answered.map(|r| r.t_answered_us.saturating_sub(r.t_sent_us))
}

/// How far off the expected waits were, and the share of ranges that held.
fn etas(stories: &BTreeMap<&str, Story<'_>>) -> (Spread, Option<f64>) {
    let mut errors = Vec::new();
    let (mut ranges, mut held) = (0u64, 0u64);
    for story in stories.values() {
        let Some((_, admitted)) = story.admitted() else { continue };
        for (_, told) in story.uncalled() {
            let real = admitted.t_answered_us.saturating_sub(told.t_answered_us);
            if let Some(eta) = told.eta_min {
                let expected = (eta * 60.0 * SECOND as f64) as u64;
                errors.push(expected.abs_diff(real));
            }
            if let Some([from, to]) = told.eta_range_min {
                let minutes = real as f64 / (60.0 * SECOND as f64);
                ranges += 1;
                held += u64::from((from..=to).contains(&minutes));
            }
        }
    }
    (Spread::of(errors.into_iter(), SECOND), (ranges > 0).then(|| held as f64 / ranges as f64))
}

fn position_rises(story: &Story<'_>) -> u64 {
    let mut upper = u64::MAX;
    let mut rises = 0;
    // Each of a replayer's tabs has a token of its own, and hears of the others nothing.
    for (_, record) in story.uncalled().filter(|(_, r)| r.role != Role::Replayer) {
        if let Some([_, to]) = record.position_range {
            rises += u64::from(to > upper);
            upper = to;
        }
    }
    rises
}

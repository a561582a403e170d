//! Lines 5 and 6: calls are kept, nobody is called at birth, and nobody overtakes.

use std::collections::BTreeMap;

use super::Violation;
use super::event_log::EventLog;
use super::rules::{Ordering, Rules, SECOND};
use super::story::Story;
use crate::history::Saw;

/// Line 5: a called ticket stays called, none is called at birth, and the watermark never goes back.
#[must_use]
pub(super) fn judge_calls(
    stories: &BTreeMap<&str, Story<'_>>,
    log: &EventLog,
    rules: &Rules,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for story in stories.values() {
        let waiting = || story.records.iter().copied().filter(|(_, r)| r.saw == Saw::Waiting);
        let called = waiting().filter(|(_, r)| r.called == Some(true)).min_by_key(|(_, r)| r.t_answered_us);
        if let Some((at, first)) = called
            && let Some((later, _)) = story
                .uncalled()
                .find(|(_, r)| r.t_sent_us > first.t_answered_us.saturating_add(rules.slack_us))
        {
            let what = format!("ticket {} was called, and then no longer", story.id);
            violations.push(Violation::new(5, what, [at, later]));
        }
        let joined = story.joined().filter(|(_, r)| r.called == Some(true));
        if let Some((at, record)) = joined
            && record.t_sent_us == story.arrived_sent
        {
            let what = format!("ticket {} was called by the answer that made it", story.id);
            violations.push(Violation::new(5, what, [at]));
        }
    }
    for (before, after) in log.steps_back() {
        let what =
            format!("the watermark went back from {before:#018x} to {after:#018x}, by the event's log");
        violations.push(Violation::new(5, what, []));
    }
    violations
}

/// Who may overtake whom, as far as a history can tell.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Below this everybody else who has `from` above it stands behind.
    until: u64,
    /// The earliest place that this ticket can have.
    from: u64,
    /// The proof: its join, or the answer that let it in.
    join: usize,
}

/// A visitor who was passed over: `b` was admitted although `a` stood before it and was not called even afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inversion {
    /// The join of who was passed over.
    pub(super) joined: usize,
    /// The answer that admitted who came later.
    pub(super) admitted: usize,
    /// The answer that told the first, after that, that it is not called.
    pub(super) uncalled: usize,
}

/// Line 6.
#[must_use]
pub(super) fn judge_order(stories: &BTreeMap<&str, Story<'_>>, rules: &Rules) -> Vec<Violation> {
    let mut violations: Vec<Violation> = inversions(stories, rules)
        .into_iter()
        .map(|found| {
            let proof = [found.joined, found.admitted, found.uncalled];
            Violation::new(
                6,
                "somebody was admitted before one who stood further ahead and was not called",
                proof,
            )
        })
        .collect();
    violations.extend(express(stories, rules).into_iter().map(|found| {
        let proof = [found.joined, found.admitted, found.uncalled];
        Violation::new(6, "a newcomer was let in at once while somebody waited uncalled", proof)
    }));
    violations
}

/// One inversion for each ticket that was passed over by one with a later place.
#[must_use]
pub(super) fn inversions(stories: &BTreeMap<&str, Story<'_>>, rules: &Rules) -> Vec<Inversion> {
    if rules.ordering == Ordering::Random {
        return Vec::new();
    }
    let tokens =
        if stories.values().any(|story| story.bucket().is_some()) { Tokens::Told } else { Tokens::Mute };
    let mut admitted: Vec<(u64, u64, usize)> = stories
        .values()
        .filter_map(|story| {
            let place = place(story, tokens, rules)?;
            let (at, record) = story.admitted()?;
            Some((place.from, record.t_answered_us, at))
        })
        .collect();
    admitted.sort_unstable();
    passed_over(stories, &admitted, rules, |story| {
        place(story, tokens, rules).map(|place| (place.until, place.join))
    })
}

/// One for each ticket that waited while somebody new was let in without waiting.
#[must_use]
pub(super) fn express(stories: &BTreeMap<&str, Story<'_>>, rules: &Rules) -> Vec<Inversion> {
    let mut admitted: Vec<(u64, u64, usize)> = stories
        .values()
        .filter(|story| story.joined().is_none())
        .filter_map(|story| story.admitted().map(|(at, r)| (story.arrived_sent, r.t_answered_us, at)))
        .collect();
    admitted.sort_unstable();
    let slack = if rules.slack_us > 0 { rules.slack_us.saturating_add(SECOND) } else { 0 };
    passed_over(stories, &admitted, rules, |story| {
        let (at, first) = story.uncalled().min_by_key(|(_, r)| r.t_answered_us)?;
        Some((first.t_answered_us.saturating_add(slack), at))
    })
}

/// `later` are the places, admission times and proofs of who may have overtaken, ascending by place.
fn passed_over(
    stories: &BTreeMap<&str, Story<'_>>,
    later: &[(u64, u64, usize)],
    rules: &Rules,
    place: impl Fn(&Story<'_>) -> Option<(u64, usize)>,
) -> Vec<Inversion> {
    let mut earliest_behind: Vec<(u64, usize)> = Vec::with_capacity(later.len());
    let mut least = (u64::MAX, 0);
    for &(_, time, at) in later.iter().rev() {
        least = least.min((time, at));
        earliest_behind.push(least);
    }
    earliest_behind.reverse();
    let mut found = Vec::new();
    for story in stories.values() {
        let Some((until, joined)) = place(story) else { continue };
        let Some((uncalled, last)) = story.uncalled().max_by_key(|(_, r)| r.t_sent_us) else { continue };
        let behind = later.partition_point(|&(from, _, _)| from <= until);
        if let Some(&(time, admitted)) = earliest_behind.get(behind)
            && time.saturating_add(rules.slack_us) < last.t_sent_us
        {
            found.push(Inversion { joined, admitted, uncalled });
        }
    }
    found
}

/// Whether the tokens of this history tell their buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tokens {
    Told,
    Mute,
}

/// How far apart arrivals have to be for their order to be promised, in microseconds: edges of a fleet may be so far apart
/// (line 6).
fn apart_us(rules: &Rules) -> u64 {
    if rules.slack_us > 0 { SECOND / 10 } else { 0 }
}

/// By the bucket if tokens tell it, else by times that are a bucket apart; `fifo`: by the times of joining.
///
/// A ticket that waits for its key arrives with the answer that keys it.
fn place(story: &Story<'_>, tokens: Tokens, rules: &Rules) -> Option<Place> {
    let (join, joined) = story.joined()?;
    let (from, until) = match (rules.ordering, tokens) {
        (Ordering::BucketedRandom, Tokens::Told) => (story.bucket()?, story.bucket()?),
        (Ordering::BucketedRandom, Tokens::Mute) => {
            let apart = rules.bucket_us.saturating_add(2 * SECOND);
            (story.arrived_sent, joined.t_answered_us.saturating_add(apart))
        }
        (_, Tokens::Told) => {
            (story.arrived_sent, story.keyed()?.1.t_answered_us.saturating_add(apart_us(rules)))
        }
        (_, Tokens::Mute) => (story.arrived_sent, joined.t_answered_us.saturating_add(apart_us(rules))),
    };
    Some(Place { until, from, join })
}

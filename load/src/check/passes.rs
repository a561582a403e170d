//! Lines 3, 4 and the slots of line 8: how many passes live, how fast they are minted, and that slots come back.

use std::collections::BTreeMap;

use super::Violation;
use super::event_log::EventLog;
use super::outages::Outages;
use super::rules::{Lowered, Rules, SECOND};
use super::story::Story;
use super::sweep::{Peak, levels, most_within, peak, union, weigh};

/// How far `expires_at`, in whole seconds of fleet time, may be ahead of this machine's clock.
pub(super) const CLOCK_MARGIN: u64 = 3 * SECOND / 2;

/// The slot of a session that ended is free at its expiry plus this at the latest.
pub(super) const RELEASE_GUARD: u64 = 2 * SECOND;

/// What a history tells of the life of one pass. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// The answer that gave it.
    pub(super) granted: usize,
    /// It was minted no earlier.
    pub(super) minted_from: u64,
    /// It was minted by then.
    pub(super) minted_by: u64,
    /// It surely lived until then.
    pub(super) sure_until: u64,
    /// By the rules of claim and renewal it lived until about then.
    pub(super) likely_until: u64,
    /// It surely was over by then.
    pub(super) over_by: u64,
}

/// The lives of all passes of a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    /// One for each pass that somebody was given.
    pub(super) lives: Vec<Life>,
}

impl Passes {
    /// Reads them out of the stories.
    #[must_use]
    pub(super) fn of(stories: &BTreeMap<&str, Story<'_>>, rules: &Rules) -> Self {
        Self { lives: stories.values().flat_map(|story| Life::all_of(story, rules)).collect() }
    }

    /// How many passes surely lived, at most at once.
    #[must_use]
    pub(super) fn sure_peak(&self) -> Peak {
        peak(&levels(self.lives.iter().map(|life| (life.minted_by, life.sure_until))))
    }

    /// How many passes may have lived at once, at most.
    #[must_use]
    pub(super) fn possible_peak(&self) -> Peak {
        peak(&levels(self.lives.iter().map(|life| (life.minted_from, life.over_by))))
    }

    /// The most passes that were surely minted within one second, by the answers that gave them.
    #[must_use]
    pub(super) fn fastest_second(&self) -> Vec<usize> {
        let spans: Vec<_> =
            self.lives.iter().map(|life| (life.minted_from, life.minted_by, life.granted)).collect();
        most_within(&spans, SECOND)
    }

    /// The share of capacity in use while anyone waits, from the first time that the room was full; after an outage,
    /// from when it was full again, at the latest after twice the time that its rate needs to fill it.
    #[must_use]
    pub(super) fn utilisation(&self, waits: &[(u64, u64)], outages: &Outages, rules: &Rules) -> Option<f64> {
        let levels = levels(self.lives.iter().map(|life| (life.minted_by, life.likely_until)));
        let full_from = |at: u64| levels.iter().find(|(from, count)| *from >= at && *count >= rules.capacity);
        let full_at = full_from(0)?.0;
        let fills_within = (2.0 * rules.capacity as f64 / rules.rate * SECOND as f64) as u64;
        let filling = outages.lasting_until(|end| {
            let latest = end.saturating_add(fills_within);
            full_from(end).map_or(latest, |(full, _)| latest.min(*full))
        });
        let since: Vec<(u64, u64)> = waits.iter().map(|&(from, to)| (from.max(full_at), to)).collect();
        let (time, weighted) = weigh(&levels, &filling.cut_out(&since), rules.capacity);
        (time > 0).then(|| weighted / (time as f64 * rules.capacity as f64))
    }

    /// Lines 3 and 4.
    #[must_use]
    pub(super) fn judge(&self, log: &EventLog, rules: &Rules) -> Vec<Violation> {
        let mut violations = Vec::new();
        let capacity = rules.capacity.max(log.greatest_capacity().unwrap_or(0));
        let most = self.sure_peak();
        if most.count > capacity {
            let alive = |life: &&Life| life.minted_by <= most.at && most.at < life.sure_until;
            violations.push(Violation::new(
                3,
                format!("{} passes lived at {} us, capacity is {capacity}", most.count, most.at),
                self.lives.iter().filter(alive).map(|life| life.granted),
            ));
        }
        violations.extend(rules.lowered.iter().flat_map(|lowered| self.minted_beyond(*lowered)));
        let fastest = self.fastest_second();
        if fastest.len() as f64 > rules.most_mints() {
            violations.push(Violation::new(
                4,
                format!(
                    "{} passes were minted within one second, {:.2} are allowed",
                    fastest.len(),
                    rules.most_mints()
                ),
                fastest,
            ));
        }
        violations
    }

    /// Passes that were surely minted while a lower capacity was in effect, and others took all of it.
    fn minted_beyond(&self, lowered: Lowered) -> impl Iterator<Item = Violation> + '_ {
        let Lowered { from_us, to_us, capacity } = lowered;
        let within = move |life: &&Life| from_us < life.minted_from && life.minted_by <= to_us;
        self.lives.iter().filter(within).filter_map(move |minted| {
            let beside =
                |life: &&Life| life.minted_by <= minted.minted_from && minted.minted_by < life.sure_until;
            let others: Vec<usize> = self.lives.iter().filter(beside).map(|life| life.granted).collect();
            (others.len() as u64 >= capacity).then(|| {
                let what = format!(
                    "a pass was minted at {} us beside {} others, capacity had been lowered to {capacity}",
                    minted.minted_by,
                    others.len()
                );
                Violation::new(3, what, [minted.granted].into_iter().chain(others))
            })
        })
    }

    /// Line 8: with slots free and somebody waiting, admissions go on.
    #[must_use]
    pub(super) fn judge_stalls(
        &self,
        stories: &BTreeMap<&str, Story<'_>>,
        outages: &Outages,
        rules: &Rules,
    ) -> Vec<Violation> {
        let waits = waits(stories);
        let full = levels(self.lives.iter().map(|life| (life.minted_from, life.over_by)));
        let mut quiet: Vec<u64> = self.lives.iter().map(|life| life.minted_by).collect();
        quiet.sort_unstable();
        let ends = quiet.iter().copied().skip(1).chain([u64::MAX]);
        let mut violations = Vec::new();
        for (&from, to) in quiet.iter().zip(ends) {
            for &(wait_from, wait_to) in &waits {
                let (start, end) = (from.max(wait_from), to.min(wait_to));
                if end.saturating_sub(start) <= rules.stall_us {
                    continue;
                }
                let mut idle = idle_spans(&full, rules.capacity, start, end);
                idle.retain(|&(a, b)| {
                    let away = outages.within(a, b, rules.stall_us);
                    (b - a).saturating_sub(away) > rules.stall_us
                });
                if let Some((a, b)) = idle.first().copied() {
                    let proof = stories.values().filter_map(|story| {
                        story.uncalled().map(|(at, r)| (at, r.t_sent_us)).find(|&(_, t)| t > a && t <= b)
                    });
                    violations.push(Violation::new(
                        8,
                        format!(
                            "nobody was admitted for {:.1} s from {a} us on, with slots free and somebody waiting",
                            (b - a) as f64 / SECOND as f64
                        ),
                        proof.map(|(at, _)| at).take(3),
                    ));
                }
            }
        }
        violations
    }
}

impl Life {
    /// Each turn that ran out unused, and the last one.
    pub(super) fn all_of(story: &Story<'_>, rules: &Rules) -> Vec<Self> {
        let Some((granted, grant)) = story.admitted() else { return Vec::new() };
        let mut last = (granted, story.minted_from().unwrap_or(grant.t_sent_us), grant.t_answered_us);
        let mut lives = Vec::new();
        for ((granted, grant), end) in story.missed_turns() {
            lives.push(Self {
                granted,
                minted_from: last.1.min(grant.t_answered_us),
                minted_by: grant.t_answered_us,
                sure_until: end.saturating_sub(CLOCK_MARGIN),
                likely_until: end,
                over_by: end.saturating_add(CLOCK_MARGIN + RELEASE_GUARD),
            });
            let next = story.granted_after(end);
            last = next.map_or(last, |(at, r)| (at, end, r.t_answered_us));
        }
        lives.push(Self::of(story, last, rules));
        lives
    }

    fn of(story: &Story<'_>, (granted, minted_from, minted_by): (usize, u64, u64), rules: &Rules) -> Self {
        let told = story.told_expiry(None, u64::MAX, rules.session_us);
        let left = story.left().map(|(_, r)| r);
        let last_use = story.uses().map(|(_, r)| r.t_sent_us).max();
        let refused = story.refusals().map(|(_, r)| r.t_sent_us).min();

        let sure = told.map_or(minted_by, |t| t.saturating_sub(CLOCK_MARGIN)).max(last_use.unwrap_or(0));
        let stop = left.map(|r| r.t_sent_us).unwrap_or(u64::MAX).min(refused.unwrap_or(u64::MAX));
        let sure_until = sure.min(stop);

        let unclaimed = told.unwrap_or_else(|| minted_by.saturating_add(rules.claim_us));
        let ceiling = minted_by.saturating_add(rules.session_max_us).saturating_add(rules.claim_us);
        let mut likely: Option<u64> = None;
        for (_, used) in story.uses() {
            let renewed = used.t_answered_us.saturating_add(rules.session_us);
            let left = likely.map(|end| end.saturating_sub(used.t_answered_us));
            if left.is_none_or(|left| left < rules.session_us / 3 * 2) {
                likely = Some(renewed);
            }
        }
        let ended_by = left.filter(|r| r.is_answered()).map_or(u64::MAX, |r| r.t_answered_us);
        let likely_until = likely.unwrap_or(unclaimed).min(ceiling).min(ended_by);
        let last_sign = story.records.iter().map(|(_, r)| r.t_answered_us).max().unwrap_or(minted_by);
        let over = likely
            .map_or(unclaimed, |end| end.max(unclaimed))
            .max(last_sign.min(ceiling).saturating_add(rules.session_us).min(ceiling))
            .saturating_add(CLOCK_MARGIN + RELEASE_GUARD);
        let over_by = match left.filter(|r| r.is_answered()) {
            Some(r) => over.min(r.t_answered_us.saturating_add(CLOCK_MARGIN + RELEASE_GUARD)),
            None => over,
        };
        Self { granted, minted_from, minted_by, sure_until, likely_until, over_by }
    }
}

/// When anybody surely waited, uncalled.
#[must_use]
pub(super) fn waits(stories: &BTreeMap<&str, Story<'_>>) -> Vec<(u64, u64)> {
    union(stories.values().filter_map(|story| {
        let first = story.uncalled().map(|(_, r)| r.t_answered_us).min()?;
        let last = story.uncalled().map(|(_, r)| r.t_sent_us).max()?;
        Some((first, last))
    }))
}

fn idle_spans(levels: &[(u64, u64)], capacity: u64, from: u64, to: u64) -> Vec<(u64, u64)> {
    let ends = levels.iter().skip(1).map(|&(at, _)| at).chain([u64::MAX]);
    let mut idle: Vec<(u64, u64)> = Vec::new();
    for (&(start, level), end) in levels.iter().zip(ends) {
        let (a, b) = (start.max(from), end.min(to));
        if level >= capacity || b <= a {
            continue;
        }
        match idle.last_mut() {
            Some(last) if last.1 == a => last.1 = b,
            _ => idle.push((a, b)),
        }
    }
    idle
}

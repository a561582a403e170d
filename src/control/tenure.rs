//! From when a tenure's time runs: from what edges have heard of fleet time, or from clocks where nobody has heard of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::lead::Callers;
use super::streams::{Streams, ToLeader};
use crate::model::exchange::Report;
use crate::model::ledger::Span;
use crate::model::time::{FleetTime, TICK};

/// How long a leader waits for somebody who has heard of fleet time, or for the clocks of most others: the whole fleet
/// has started anew, or cannot be reached, and a second more is better than the word of one clock.
const CLOCKS_WITHIN: Duration = Duration::from_secs(1);

/// Where fleet time is when a tenure begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the median of what is known of it, which one wrong clock cannot move.
    Known(FleetTime),
    /// Nobody who was asked has heard the last leader: at the median of the clocks.
    Guessed(FleetTime),
}

impl Start {
    /// By the reports that came first.
    pub(super) fn of(reports: &[Report]) -> Option<Self> {
        let (known, guessed): (Vec<&Report>, _) = reports.iter().partition(|report| has_heard(report));
        let sorted = |reports: Vec<&Report>| {
            let mut times: Vec<FleetTime> = reports.iter().map(|report| report.upper).collect();
            times.sort_unstable();
            times
        };
        let (known, guessed) = (sorted(known), sorted(guessed));
        // Of two clocks the earlier one: fleet time can catch up, and never goes back.
        let guess = || guessed.get(guessed.len().saturating_sub(1) / 2).copied().map(Self::Guessed);
        known.get(known.len() / 2).copied().map(Self::Known).or_else(guess)
    }

    pub(super) const fn at(self) -> FleetTime {
        match self {
            Self::Known(at) | Self::Guessed(at) => at,
        }
    }

    /// What everybody is to be forgiven: the time since the last commit, in which there was nobody to hear them, or
    /// which a wrong clock has made up.
    pub(super) fn absence(self, committed: FleetTime) -> Option<Span> {
        match self {
            Self::Guessed(to) if committed > FleetTime(0) && to > committed => {
                Some(Span { node: None, from: committed, to })
            }
            Self::Guessed(_) | Self::Known(_) => None,
        }
    }
}

/// The reports of this node and of edges that call at once, one of each: a tick is waited for them, and longer while
/// nobody has heard of fleet time.
pub(super) async fn first_reports(
    own: Report,
    others: usize,
    streams: &mut Streams,
    callers: &mut Callers,
) -> Vec<Report> {
    let began = Instant::now();
    let mut reports = BTreeMap::from([(own.run, own)]);
    while 2 * reports.len() <= others + 1 {
        let patience = if reports.values().any(has_heard) { TICK } else { CLOCKS_WITHIN };
        tokio::select! {
            Some(caller) = callers.recv() => streams.open(caller),
            ToLeader { report, .. } = streams.next() => {
                reports.insert(report.run, report);
            }
            () = tokio::time::sleep_until(began + patience) => break,
        }
    }
    reports.into_values().collect()
}

/// Whether a node knows of fleet time more than its own clock.
fn has_heard(report: &Report) -> bool {
    report.pulse_seen.is_some()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::model::exchange::EdgeStage;
    use crate::model::ids::{Generation, LogIndex, NodeId, NodeRun, Tenure};
    use crate::model::time::BootTime;

    const COMMITTED: FleetTime = FleetTime(1_800_000_000_000);
    const DOWN: Duration = Duration::from_secs(1);
    const WRONG: Duration = Duration::from_secs(34);

    fn report(node: u16, upper: FleetTime, pulse_seen: Option<(Tenure, u64)>) -> Report {
        Report {
            run: NodeRun { node: NodeId(NonZeroU16::new(node).unwrap()), generation: Generation(1) },
            number: 1,
            sent: BootTime(0),
            upper,
            pulse_seen,
            live_index: LogIndex(0),
            keys_version: 0,
            stage: EdgeStage::Serving,
            events: Vec::new(),
        }
    }

    fn clock(node: u16, shows: FleetTime) -> Report {
        report(node, shows, None)
    }

    #[test]
    fn one_wrong_clock_does_not_move_fleet_time_though_nobody_has_heard_of_it() {
        let right = COMMITTED.after(DOWN);
        let wrong = COMMITTED.after(WRONG);
        let starts = [
            Start::of(&[clock(3, wrong), clock(1, right)]),
            Start::of(&[clock(3, wrong), clock(1, right), clock(2, right)]),
            Start::of(&[clock(3, wrong), clock(1, right), clock(2, right), clock(4, right)]),
        ];
        assert_eq!(starts, [Some(Start::Guessed(right)); 3]);
    }

    #[test]
    fn what_one_has_heard_is_worth_more_than_any_clock() {
        let heard = report(5, COMMITTED.after(DOWN), Some((Tenure::default(), 9)));
        let start = Start::of(&[clock(3, COMMITTED.after(WRONG)), heard, clock(1, COMMITTED)]);
        assert_eq!(start, Some(Start::Known(COMMITTED.after(DOWN))));
        assert_eq!(start.unwrap().absence(COMMITTED), None);
    }

    #[test]
    fn whoever_waits_is_forgiven_what_a_clock_alone_says_has_passed() {
        let start = Start::of(&[clock(3, COMMITTED.after(WRONG))]).unwrap();
        let span = Span { node: None, from: COMMITTED, to: COMMITTED.after(WRONG) };
        assert_eq!(start.absence(COMMITTED), Some(span));
    }

    #[test]
    fn a_clock_that_is_late_and_a_new_ledger_give_nothing_to_forgive() {
        let start = Start::Guessed(COMMITTED.before(DOWN));
        assert_eq!(start.absence(COMMITTED), None);
        assert_eq!(start.absence(FleetTime(0)), None);
    }
}

//! How well an edge hears the leader.

use crate::model::exchange::Pulse;
use crate::model::ids::Tenure;
use crate::model::time::{BootTime, FRESH, FleetBounds, FleetReckoning, FleetTime, ISOLATION};
use crate::model::words::words;

words! {
    /// How well an edge hears the leader.
    Contact {
        /// The last pulse answers a report sent at most three ticks ago: joins are keyed, passes are minted.
        Fresh = "fresh",
        /// It does not, but the stream may be alive: what needs the leader waits.
        Stale = "stale",
        /// No pulse for so long that the edge is cut off.
        CutOff = "cut_off",
        /// No pulse was heard since the start: nothing is known, nothing is honoured.
        Unheard = "unheard",
    }
}

/// What an edge remembers of the pulses that it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    bounds: FleetBounds,
    reckoning: FleetReckoning,
    newest: Option<(Tenure, u64)>,
    answered: u64,
    echo: BootTime,
    round_trip_ms: u64,
}

impl Link {
    /// Begins with a guess of fleet time at `now`, for an edge that has to do without a leader; a pulse corrects it.
    pub fn guess(&mut self, fleet: FleetTime, now: BootTime) {
        if self.newest.is_none() {
            self.bounds = FleetBounds { pulse_now: fleet, echo: now };
            self.reckoning = FleetReckoning { pulse_now: fleet, received: now };
        }
    }

    /// Takes a pulse received at `now`; `false`, and nothing changed, if a newer one was taken before.
    pub fn take(&mut self, pulse: &Pulse, now: BootTime) -> bool {
        let number = (pulse.tenure, pulse.number);
        if self.newest.is_some_and(|newest| number <= newest) {
            return false;
        }
        if self.newest.is_none() {
            self.bounds = FleetBounds::default();
        }
        let same_leader = self.newest.is_some_and(|(tenure, _)| tenure == pulse.tenure);
        self.newest = Some(number);
        if same_leader {
            self.bounds.tighten(pulse.now, pulse.echo, now);
            self.reckoning.tighten(pulse.now, now);
            self.echo = self.echo.max(pulse.echo);
        } else {
            // What an earlier leader's pulse echoed says nothing of this one: an old echo makes its first pulse stale.
            self.bounds.take(pulse.now, pulse.echo);
            self.reckoning = FleetReckoning { pulse_now: pulse.now, received: now };
            self.echo = pulse.echo;
        }
        self.answered = self.answered.max(pulse.report);
        let measured = now.since(pulse.echo);
        self.round_trip_ms = (self.round_trip_ms * 7 + crate::model::time::as_millis(measured)) / 8;
        true
    }

    /// How well the leader is heard at `now`.
    #[must_use]
    pub fn contact(&self, now: BootTime) -> Contact {
        let silence = now.since(self.echo);
        match self.newest {
            None => Contact::Unheard,
            Some(_) if silence <= FRESH => Contact::Fresh,
            Some(_) if silence <= ISOLATION => Contact::Stale,
            Some(_) => Contact::CutOff,
        }
    }

    /// How long ago the report was sent that the newest pulse answers; `None` before the first pulse.
    #[must_use]
    pub fn silence(&self, now: BootTime) -> Option<std::time::Duration> {
        self.newest.map(|_| now.since(self.echo))
    }

    /// The latest that fleet time can be at `now`.
    #[must_use]
    pub fn upper(&self, now: BootTime) -> FleetTime {
        self.bounds.upper(now)
    }

    /// What fleet time is about at `now`; never above the latest that it can be.
    #[must_use]
    pub fn reckoned(&self, now: BootTime) -> FleetTime {
        self.reckoning.read(now).min(self.upper(now))
    }

    /// Whose the newest pulse is, and its number.
    #[must_use]
    pub fn newest(&self) -> Option<(Tenure, u64)> {
        self.newest
    }

    /// The newest report that a pulse has answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// How long an answer takes, smoothed, in milliseconds.
    #[must_use]
    pub fn round_trip_ms(&self) -> u64 {
        self.round_trip_ms
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::sync::Arc;

    use super::*;
    use crate::model::ids::{Generation, LedgerEpoch, LogIndex, NodeId, NodeRun, Term};

    fn pulse(leader: u32, number: u64, now: FleetTime, echo: BootTime) -> Pulse {
        Pulse {
            tenure: Tenure { term: Term(1), generation: Generation(leader), began: BootTime(7) },
            number,
            run: NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(1) },
            index: LogIndex(1),
            now,
            report: number,
            echo,
            ledger: LedgerEpoch(1),
            keys: None,
            spans: Arc::default(),
            events: Vec::new(),
        }
    }

    #[test]
    fn the_clock_of_a_leader_that_leads_its_term_again_is_another_one() {
        let mut link = Link::default();
        assert!(link.take(&pulse(1, 900, FleetTime(100_000), BootTime(1_000)), BootTime(1_010)));
        // It has started again, and its clock has stepped by ten seconds.
        assert!(link.take(&pulse(2, 1, FleetTime(111_000), BootTime(2_000)), BootTime(2_010)));
        assert_eq!(link.upper(BootTime(2_000)), FleetTime(111_000));
        assert_eq!(link.reckoned(BootTime(2_010)), FleetTime(111_000));
        assert!(!link.take(&pulse(1, 901, FleetTime(101_250), BootTime(2_200)), BootTime(2_210)));
        assert_eq!(link.upper(BootTime(2_000)), FleetTime(111_000));
    }
}

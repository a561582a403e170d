//! The gate of an event: open, queue, reopening (design §3 *Express*).

use std::collections::BTreeMap;
use std::time::Duration;

use super::edges::{Edge, SILENCE};
use crate::model::ids::{EventId, NodeRun, Tenure};
use crate::model::ledger::Gate;
use crate::model::time::BootTime;

/// A reopening that takes longer has failed: newcomers do not wait any more.
const REOPENING_LIMIT: Duration = Duration::from_secs(3);

/// Who is on the way to opening the gate again.
#[derive(Clone, Debug, Default)]
pub(super) struct Doorman {
    reopening: Option<Reopening>,
}

#[derive(Clone, Debug)]
struct Reopening {
    since: BootTime,
    /// The first pulse to each edge that said so.
    told: BTreeMap<NodeRun, u64>,
}

/// What the gate follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) event: &'a EventId,
    pub(super) gate: Gate,
    /// Whether the schedule lets anybody in.
    pub(super) has_opened: bool,
    /// Whether anybody may be called and admitted at this moment.
    pub(super) admits: bool,
    /// Whether the counts can be relied on: no run of before may have tickets that nobody counts.
    pub(super) certain: bool,
    /// How many wait, the called ones included.
    pub(super) waiting: f64,
    /// How many wait uncalled.
    pub(super) uncalled: f64,
    /// How many could be served at this moment, by slots and rate.
    pub(super) serves: u32,
    /// How many slots are free.
    pub(super) free: u32,
    /// Whether an edge has put somebody in line.
    pub(super) put_in_line: bool,
    /// Whether somebody at an edge waits for a bucket to be keyed by.
    pub(super) wants_bucket: bool,
    /// Whether a lottery takes joins.
    pub(super) lottery_runs: bool,
    pub(super) boot: BootTime,
}

/// What is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The new gate, if it changes.
    pub(super) gate: Option<Gate>,
    /// Whether the line is over: its bucket closes and everybody in it is called.
    pub(super) calls_all: bool,
}

impl Doorman {
    /// Takes note of the first pulse that tells an edge of the reopening.
    pub(super) fn told(&mut self, run: NodeRun, pulse: u64, boot: BootTime) {
        let reopening =
            self.reopening.get_or_insert_with(|| Reopening { since: boot, told: BTreeMap::new() });
        reopening.told.entry(run).or_insert(pulse);
    }

    /// Whether a report's word of who wants a bucket counts: while reopening, only if the edge knows of it.
    pub(super) fn heeds(&self, run: NodeRun, edge: &Edge, tenure: Tenure) -> bool {
        self.reopening.as_ref().is_none_or(|reopening| reopening.is_confirmed(run, edge, tenure))
    }

    pub(super) fn decide<'a>(
        &mut self,
        facts: Facts<'_>,
        tenure: Tenure,
        edges: impl Iterator<Item = (&'a NodeRun, &'a Edge)>,
    ) -> Verdict {
        if facts.gate != Gate::Reopening {
            self.reopening = None;
        }
        match facts.gate {
            Gate::Open => {
                let line =
                    facts.put_in_line || facts.wants_bucket || facts.uncalled > 0.0 || !facts.has_opened;
                Verdict { gate: line.then_some(Gate::Queue), calls_all: false }
            }
            Gate::Queue => Verdict { gate: facts.may_reopen().then_some(Gate::Reopening), calls_all: false },
            Gate::Reopening => self.reopen(facts, tenure, edges),
        }
    }

    fn reopen<'a>(
        &mut self,
        facts: Facts<'_>,
        tenure: Tenure,
        mut edges: impl Iterator<Item = (&'a NodeRun, &'a Edge)>,
    ) -> Verdict {
        let since = self.reopening.as_ref().map_or(facts.boot, |reopening| reopening.since);
        let too_late = facts.boot.since(since) > REOPENING_LIMIT;
        if too_late || facts.wants_bucket || !facts.may_reopen() {
            return Verdict { gate: Some(Gate::Queue), calls_all: false };
        }
        let Some(reopening) = &self.reopening else { return Verdict::default() };
        let silent_count = facts.boot.since(reopening.since) > SILENCE;
        let confirmed = edges.all(|(run, edge)| {
            let silent = !edge.is_heard(facts.boot) && silent_count;
            // Whoever was put in line before the edge knew has to be counted first.
            let counted = !edge.events.get(facts.event).is_some_and(|report| report.put_in_line);
            silent || (counted && reopening.is_confirmed(*run, edge, tenure))
        });
        let opens = confirmed && facts.waiting <= f64::from(facts.free);
        Verdict { gate: opens.then_some(Gate::Open), calls_all: opens }
    }
}

impl Reopening {
    fn is_confirmed(&self, run: NodeRun, edge: &Edge, tenure: Tenure) -> bool {
        self.told.get(&run).is_some_and(|pulse| edge.has_seen(tenure, *pulse))
    }
}

impl Facts<'_> {
    /// Whether slots and rate would serve everybody who waits, so that the line can be over.
    fn may_reopen(&self) -> bool {
        let serves = self.waiting <= f64::from(self.serves) || self.waiting < 0.01;
        self.has_opened && self.admits && self.certain && !self.lottery_runs && serves
    }
}

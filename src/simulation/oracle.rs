//! The oracle: every honoured pass is covered by the ledger at every look, not only the sum.

use std::collections::{HashMap, HashSet, VecDeque};

use super::world::LOOK_MS;
use crate::model::ids::{Coordinates, LogIndex, TicketId};
use crate::model::ledger::{Event, LiveChange, Outcome};
use crate::model::order::OrderKey;

/// A breach of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in simulated milliseconds.
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The most passes honoured at once.
    pub max_live: usize,
    /// The most passes minted in any second.
    pub max_mints_per_s: usize,
    /// Visitors who were let in.
    pub admitted: u32,
    /// The share of slots in use while anybody waited, once the room had been full.
    pub utilisation: f64,
    /// Passes minted per second while anybody waited, from the tenth second of a line on.
    pub rate: f64,
    /// How often leaders changed.
    pub leader_changes: u32,
}

/// What the oracle remembers.
#[derive(Debug)]
pub(super) struct Oracle {
    capacity: usize,
    mints_allowed: usize,
    mints: VecDeque<u64>,
    watermark: OrderKey,
    consumed: HashSet<TicketId>,
    pub(super) violations: Vec<Violation>,
    pub(super) figures: Figures,
    used: u64,
    looked: u64,
    has_been_full: bool,
    /// Looks at which somebody waited, and passes minted since the tenth second of them.
    waited: u32,
    minted_waiting: u32,
}

/// A pass that some edge would let through at this moment.
pub(super) type Honoured = HashMap<TicketId, Coordinates>;

/// How many looks at a line make ten seconds.
const FORMED: u32 = (10_000 / LOOK_MS) as u32;

/// Enough to tell what is wrong; a broken run would go on without end.
const MOST_VIOLATIONS: usize = 20;

impl Oracle {
    pub(super) fn new(capacity: u32, mints_allowed: usize) -> Self {
        Self {
            capacity: capacity as usize,
            mints_allowed,
            mints: VecDeque::new(),
            watermark: OrderKey::default(),
            consumed: HashSet::new(),
            violations: Vec::new(),
            figures: Figures::default(),
            used: 0,
            looked: 0,
            has_been_full: false,
            waited: 0,
            minted_waiting: 0,
        }
    }

    pub(super) fn report(&mut self, at_ms: u64, what: String) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(Violation { at_ms, what });
        }
    }

    /// A pass was minted against a slot.
    pub(super) fn minted(&mut self, now: u64) {
        self.mints.push_back(now);
        self.minted_waiting += u32::from(self.waited > FORMED);
        while self.mints.front().is_some_and(|first| now - first >= 1_000) {
            self.mints.pop_front();
        }
        let in_second = self.mints.len();
        self.figures.max_mints_per_s = self.figures.max_mints_per_s.max(in_second);
        if in_second > self.mints_allowed {
            self.report(now, format!("{in_second} mints in a second, {} allowed", self.mints_allowed));
        }
    }

    /// An entry of the log was applied.
    pub(super) fn applied(&mut self, now: u64, event: Option<&Event>, outcome: &Outcome) {
        for (_, change) in &outcome.live {
            match change {
                LiveChange::Consumed(id, _) | LiveChange::Left(id, _) => {
                    self.consumed.insert(*id);
                }
                LiveChange::Live(id, _) if self.consumed.contains(id) => {
                    self.report(now, format!("the consumed id {id} is live again"));
                }
                LiveChange::Live(..) | LiveChange::Unclaimed(..) => {}
            }
        }
        let Some(event) = event else { return };
        if event.line.watermark < self.watermark {
            self.report(now, "the watermark went back".to_owned());
        }
        self.watermark = self.watermark.max(event.line.watermark);
        if event.pool.occupied() as usize > self.capacity {
            let occupied = event.pool.occupied();
            self.report(now, format!("{occupied} slots occupied at {:?}", LogIndex(outcome.index.0)));
        }
    }

    /// A look at everything that would be honoured.
    pub(super) fn look(&mut self, now: u64, event: &Event, honoured: &Honoured) {
        let live = honoured.len();
        self.figures.max_live = self.figures.max_live.max(live);
        if live > self.capacity {
            self.report(now, format!("{live} passes honoured, capacity {}", self.capacity));
        }
        for (id, at) in honoured {
            if !event.pool.covers(*id, *at) {
                self.report(now, format!("the pass {id} is honoured and not covered"));
            }
        }
    }

    /// How many visitors are inside while somebody waits.
    pub(super) fn utilise(&mut self, inside: usize, waiting: usize) {
        self.waited += u32::from(waiting > 0);
        let seconds = f64::from(self.waited.saturating_sub(FORMED)) * LOOK_MS as f64 / 1_000.0;
        if waiting > 0 && seconds > 0.0 {
            self.figures.rate = f64::from(self.minted_waiting) / seconds;
        }
        self.has_been_full |= inside * 100 >= self.capacity * 97;
        if self.has_been_full && waiting > 0 {
            self.used += inside as u64;
            self.looked += 1;
            self.figures.utilisation = self.used as f64 / (self.looked * self.capacity as u64) as f64;
        }
    }
}

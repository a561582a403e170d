//! A block: slots reserved by one entry, handed to runs, and settled number by number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::ids::{NodeRun, Weight};
use crate::model::time::FleetTime;

/// Slots reserved together. Each counts until it is settled, returned, or can no longer be honoured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Slots neither settled nor returned.
    pub remaining: u32,
    /// No unclaimed pass minted from this block outlives this.
    pub dead_at: FleetTime,
    shares: BTreeMap<NodeRun, Share>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Share {
    settled: BTreeMap<u32, Weight>,
    closed: Option<u32>,
}

/// What settling a number came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// The slots have left the block: they are the pass's now.
    New,
    /// The number was settled before, returned, or never reserved: nothing changed.
    Refused,
}

impl Block {
    /// A block of slots that nobody has spent.
    #[must_use]
    pub fn new(slots: u32, dead_at: FleetTime) -> Self {
        Self { remaining: slots, dead_at, shares: BTreeMap::new() }
    }

    /// Settles the slots `number..number + weight` of a run: a pass was minted from them. A number is settled once.
    pub fn settle(&mut self, run: NodeRun, number: u32, weight: Weight) -> Settling {
        let share = self.shares.entry(run).or_default();
        let is_taken = share.settled.contains_key(&number) || share.closed.is_some();
        if is_taken || self.remaining < weight.slots() {
            return Settling::Refused;
        }
        share.settled.insert(number, weight);
        self.remaining -= weight.slots();
        Settling::New
    }

    /// Closes a run's share of `given` slots: what it did not spend leaves the block. Returns how many that were.
    pub fn close(&mut self, run: NodeRun, given: u32) -> u32 {
        let share = self.shares.entry(run).or_default();
        if share.closed.is_some() {
            return 0;
        }
        share.closed = Some(given);
        let spent: u32 = share.settled.values().map(|weight| weight.slots()).sum();
        self.take_back(given.saturating_sub(spent))
    }

    /// Takes slots out that were never handed to anybody, at most what remains.
    pub fn take_back(&mut self, slots: u32) -> u32 {
        let returned = slots.min(self.remaining);
        self.remaining -= returned;
        returned
    }

    /// Whether the log has settled this number of the run.
    #[must_use]
    pub fn is_settled(&self, run: NodeRun, number: u32) -> bool {
        self.shares.get(&run).is_some_and(|share| share.settled.contains_key(&number))
    }

    /// Whether the run's share is closed.
    #[must_use]
    pub fn is_closed(&self, run: NodeRun) -> bool {
        self.shares.get(&run).is_some_and(|share| share.closed.is_some())
    }
}

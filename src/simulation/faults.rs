//! What goes wrong, and what is broken on purpose.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Whether the world is kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Nothing goes wrong.
    None,
    /// Nodes and leaders crash and come back, all at once too; the network is well.
    Restarts,
    /// Everything does: loss, duplication, delay, partition, crash, leaders deposed and frozen.
    All,
}

/// A defect that the oracle has to catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// No defect.
    None,
    /// The ledger reserves without a look at capacity.
    NoCapacityCheck,
    /// Edges hand back slots that they go on spending.
    SlotsHandedBackEarly,
    /// Grants do not bound the life of passes.
    NoExpMax,
    /// The counts that survive do not.
    RowsDropped,
    /// Consumed ids are forgotten at once.
    ConsumedForgotten,
    /// The ledger does not know that the clock of a leader has stepped.
    StepsUnknown,
}

impl Mutant {
    /// All defects.
    pub const ALL: [Self; 6] = [
        Self::NoCapacityCheck,
        Self::SlotsHandedBackEarly,
        Self::NoExpMax,
        Self::RowsDropped,
        Self::ConsumedForgotten,
        Self::StepsUnknown,
    ];
}

/// The dice of a run.
#[derive(Debug)]
pub(super) struct Dice(SmallRng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Whether something of this probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    /// A number in `low..high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..high.max(low + 1))
    }

    /// An index below `count`.
    pub(super) fn pick(&mut self, count: usize) -> usize {
        self.0.random_range(0..count.max(1))
    }

    /// 32 random bytes.
    pub(super) fn secret(&mut self) -> [u8; 32] {
        self.0.random()
    }
}

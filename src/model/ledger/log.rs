//! The event's own log: what an operator and the history checker can read of what was decided.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::command::Gate;
use crate::model::ids::{BlockId, LineEpoch, LogIndex};
use crate::model::order::{BucketStart, OrderKey};
use crate::model::policy::{Mode, Ordering};
use crate::model::time::FleetTime;

/// Records that are kept per event; older ones give way.
pub(super) const KEPT_RECORDS: usize = 20_000;

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// Where it stands in the control log.
    pub index: LogIndex,
    /// Fleet time, in unix milliseconds.
    pub at: FleetTime,
    /// What was decided.
    pub what: Decision,
}

/// What can be decided about an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The policy, where it bears on admission.
    Policy {
        /// `capacity`.
        capacity: u32,
        /// `max_admit_per_sec`.
        max_admit_per_sec: u32,
        /// `ordering`.
        ordering: Ordering,
        /// `mode`.
        mode: Mode,
        /// `paused`.
        paused: bool,
    },
    /// Tickets below this key are called.
    Watermark(OrderKey),
    /// From here on joins are keyed by this bucket; `None`: nobody waits.
    Bucket(Option<BucketStart>),
    /// The gate has changed.
    Gate(Gate),
    /// Slots were reserved.
    Reserved {
        /// The block.
        block: BlockId,
        /// How many.
        slots: u32,
    },
    /// So many sessions and places ended otherwise than by time in the line.
    Ended(u32),
    /// The operator asked to call so many more.
    Admit(u32),
    /// The line was reset; this is the new one.
    Reset(LineEpoch),
    /// The hash of a lottery's seed.
    Commitment([u8; 32]),
    /// The seed of a lottery that has closed, and the order that it came to.
    Drawn {
        /// The seed.
        seed: [u8; 32],
        /// `H(seed ‖ joins per node at close)`.
        order: [u8; 32],
    },
}

/// The newest [`KEPT_RECORDS`] decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventLog(VecDeque<LogRecord>);

impl EventLog {
    /// Adds a decision.
    pub fn push(&mut self, index: LogIndex, at: FleetTime, what: Decision) {
        if self.0.len() == KEPT_RECORDS {
            self.0.pop_front();
        }
        self.0.push_back(LogRecord { index, at, what });
    }

    /// The decisions after an index, oldest first.
    pub fn after(&self, index: LogIndex) -> impl Iterator<Item = &LogRecord> {
        let from = self.0.partition_point(|record| record.index <= index);
        self.0.range(from..)
    }
}

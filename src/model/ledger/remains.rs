//! What is left of an event that is gone: an event of its id may come back before everybody has heard.

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::lag::Abreast;
use super::pool::Pool;
use crate::model::ids::LineEpoch;
use crate::model::time::FleetTime;

/// The slots, the ended sessions and the line epoch of a deleted event.
///
/// An event made anew under the same id goes on from here, so that no slot is lost from the count, no block number is
/// used twice, and no ticket or pass of the old event is taken for one of the new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Remains {
    pool: Pool,
    line: LineEpoch,
    /// Until when a ticket of the event could still be valid.
    until: FleetTime,
}

impl Remains {
    pub(super) fn of(event: Event, now: FleetTime) -> Self {
        let until = now.after(event.policy.ticket_max).after(event.policy.session_max);
        Self { pool: event.pool, line: event.line.epoch, until }
    }

    pub(super) fn skip_blocks(&mut self, numbers: u64) {
        self.pool.skip_blocks(numbers);
    }

    /// What an event of the same id begins with.
    pub(super) fn into_next(self) -> (Pool, LineEpoch) {
        (self.pool, LineEpoch(self.line.0.wrapping_add(1)))
    }

    /// Whether they still matter now that every edge is so far, and tickets that were valid until `horizon` are over.
    pub(super) fn outlives(&mut self, edges: Abreast, horizon: FleetTime) -> bool {
        self.pool.outlive(edges);
        self.pool.forget_before(horizon);
        self.until >= horizon || self.pool.occupied() > 0
    }
}

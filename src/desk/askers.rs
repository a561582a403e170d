//! Called visitors who ask for their pass and have none yet: how many the watermark may let wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::estimate::FRONT_POLL;
use crate::model::ids::TicketId;
use crate::model::time::BootTime;

const SHARDS: usize = 16;

/// Called visitors by when they asked last; only they touch these locks, never those who wait.
#[derive(Debug, Default)]
pub(super) struct Askers {
    shards: [Mutex<HashMap<TicketId, BootTime>>; SHARDS],
}

/// Whether a visitor asks for the first time since it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    First,
    Again,
}

impl Askers {
    fn shard(&self, id: TicketId) -> Option<&Mutex<HashMap<TicketId, BootTime>>> {
        self.shards.get(usize::try_from(id.sequence).unwrap_or_default() % SHARDS)
    }

    /// A called visitor asks.
    pub(super) fn ask(&self, id: TicketId, now: BootTime) -> Asking {
        let Some(shard) = self.shard(id) else { return Asking::Again };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        match shard.entry(id) {
            Entry::Occupied(mut known) => {
                known.insert(now);
                Asking::Again
            }
            Entry::Vacant(unknown) => {
                unknown.insert(now);
                Asking::First
            }
        }
    }

    /// The visitor has its pass, or is gone.
    pub(super) fn remove(&self, id: TicketId) {
        if let Some(shard) = self.shard(id) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        }
    }

    /// How many asked within two of their poll intervals; forgets those silent for a minute.
    pub(super) fn count(&self, now: BootTime) -> u32 {
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, asked| now.since(*asked) < Duration::from_secs(60));
            count += shard.values().filter(|asked| now.since(**asked) <= 2 * FRONT_POLL).count();
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

//! Called visitors who ask for their pass and have none yet: how many the watermark may let wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::headcount::Signer;
use crate::model::ids::TicketId;
use crate::model::time::BootTime;

const SHARDS: usize = 16;

/// Called visitors by until when they count; only they touch these locks, never those who wait.
#[derive(Debug, Default)]
pub(super) struct Askers {
    shards: [Mutex<HashMap<TicketId, BootTime>>; SHARDS],
}

/// Whether a visitor asks for the first time since it was called, as far as this node remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    First,
    Again,
}

/// Who does not count any more is remembered so long.
const MEMORY: Duration = Duration::from_secs(60);

impl Askers {
    fn shard(&self, id: TicketId) -> Option<&Mutex<HashMap<TicketId, BootTime>>> {
        self.shards.get(usize::try_from(id.sequence).unwrap_or_default() % SHARDS)
    }

    /// A called visitor asks, or is answered; `signer` is of the ticket that it showed.
    pub(super) fn ask(&self, id: TicketId, signer: Signer, now: BootTime) -> Asking {
        let Some(shard) = self.shard(id) else { return Asking::Again };
        let until = now.after(signer.asks_for());
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).insert(id, until);
        if known.is_some() { Asking::Again } else { Asking::First }
    }

    /// The visitor has its pass, or is gone.
    pub(super) fn remove(&self, id: TicketId) {
        if let Some(shard) = self.shard(id) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        }
    }

    /// How many ask; forgets those who have not for long.
    pub(super) fn count(&self, now: BootTime) -> u32 {
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, until| now.since(*until) < MEMORY);
            count += shard.values().filter(|until| now <= **until).count();
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

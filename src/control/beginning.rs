//! How a controller with an empty log comes to take part.
//!
//! Raft takes a voter's word for what it promised before: its votes, and the entries that it acknowledged. A voter whose
//! disk was lost has forgotten both, and raft cannot tell it from a new one. If it voted, or took entries from the
//! middle of a term and then voted, two who know less than the fleet has promised could elect one of them. So a log that
//! has neither an entry nor a vote hears nothing of raft until another controller says that its part begins: when the
//! fleet is founded, and nothing was promised yet, or when it is added, and no vote of it counts until it has caught up.
//! Being told is not kept on disk: whoever forgets that has forgotten the rest too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openraft::Raft;

use super::storage::LogTypes;

/// Whether this controller was told that its part begins; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning(Arc<AtomicBool>);

impl Beginning {
    /// Whether raft may hear others: its log has begun, or is about to.
    pub(super) async fn admits(&self, raft: &Raft<LogTypes>) -> bool {
        if has_begun(raft).await {
            // Whoever loses the disk from now on has to be told anew.
            self.0.store(false, Ordering::Relaxed);
            return true;
        }
        self.0.load(Ordering::Relaxed)
    }

    /// Another controller says that the part of this one begins; false if it began long ago.
    pub(super) async fn tell(&self, raft: &Raft<LogTypes>) -> bool {
        if has_begun(raft).await {
            return false;
        }
        self.0.store(true, Ordering::Relaxed);
        true
    }
}

/// Whether the log holds an entry or a vote; one that cannot tell is no empty one.
pub(super) async fn has_begun(raft: &Raft<LogTypes>) -> bool {
    raft.is_initialized().await.unwrap_or(true)
}

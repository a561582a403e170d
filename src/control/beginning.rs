//! How a controller with an empty log comes to take part.
//!
//! Raft takes a voter's word for what it promised before: its votes, and the entries that it acknowledged. A voter whose
//! disk was lost has forgotten both, and raft cannot tell it from a new one. If it voted, or took entries from the
//! middle of a term and then voted, two who know less than the fleet has promised could elect one of them. So a log that
//! has neither an entry nor a vote hears nothing of raft until another controller says that its part begins: when the
//! fleet is founded, and nothing was promised yet, or when it is added, and no vote of it counts until it has caught up.
//! Being told is kept in the file of the log, so that a founding survives a restart, and is lost only with the rest.
//!
//! Whoever tells says too who is barred: the lost controllers of a fleet that was restored from one. Those that come
//! back with their old disks must find nobody to make a majority with, and an empty log knows nothing better than theirs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use openraft::Raft;

use serde::{Deserialize, Serialize};

use super::storage::{LogTypes, OpenError, SharedState, Storage};
use crate::model::ids::{LedgerEpoch, NodeId};

/// What a controller is told whose part begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Invitation {
    /// Who has no say in the log.
    barred: BTreeSet<NodeId>,
    /// The ledger to whose controllers it is added; `None`: the fleet is being founded.
    ledger: Option<LedgerEpoch>,
}

/// Whether this controller was told that its part begins; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    told: Arc<AtomicBool>,
    state: Arc<ArcSwap<SharedState>>,
    barred: Arc<ArcSwap<BTreeSet<NodeId>>>,
    log: Arc<ArcSwapOption<Storage>>,
}

impl Beginning {
    /// The log is open from now on.
    pub(super) fn open(&self, storage: &Storage) -> Result<(), OpenError> {
        self.told.store(storage.is_told()?, Ordering::Relaxed);
        self.barred.store(Arc::new(storage.barred()?));
        self.log.store(Some(Arc::new(storage.clone())));
        Ok(())
    }

    /// What the log comes to.
    pub(super) fn know(&self, state: &SharedState) {
        self.state.store(Arc::new(state.clone()));
    }

    /// The log is to be closed: nothing here holds its file any longer.
    pub(super) fn close(&self) {
        self.log.store(None);
    }

    /// Whether raft may hear others: its log has begun, or is about to.
    pub(super) async fn admits(&self, raft: &Raft<LogTypes>) -> bool {
        has_begun(raft).await || self.told.load(Ordering::Relaxed)
    }

    /// Who is barred as far as this controller's log goes: whoever its membership names is not.
    pub(super) fn barred(&self, raft: &Raft<LogTypes>) -> BTreeSet<NodeId> {
        let barred = self.barred.load();
        let metrics = raft.metrics();
        let seen = metrics.borrow();
        let membership = seen.membership_config.membership();
        let is_member = |node: &NodeId| membership.get_node(&u64::from(node.0.get())).is_some();
        barred.iter().copied().filter(|node| !is_member(node)).collect()
    }

    /// What this controller tells one that is to be added.
    pub(super) fn invitation(&self, raft: &Raft<LogTypes>) -> Invitation {
        Invitation { barred: self.barred(raft), ledger: self.ledger() }
    }

    fn ledger(&self) -> Option<LedgerEpoch> {
        self.state.load().read(|state| state.epoch)
    }

    /// Another controller says that the part of this one begins; false if it began long ago, `None` if it cannot be noted.
    pub(super) async fn tell(&self, raft: &Raft<LogTypes>, invitation: Invitation) -> Option<bool> {
        if has_begun(raft).await && !self.was_being_added(raft, invitation.ledger) {
            return Some(false);
        }
        let Invitation { barred, .. } = invitation;
        let storage = self.log.load_full()?;
        storage.note_told(barred.clone()).await.then(|| {
            self.barred.store(Arc::new(barred));
            self.told.store(true, Ordering::Relaxed);
            true
        })
    }

    /// Whether what is in the log came by being added to the controllers of this ledger before, and no vote of this node
    /// has ever counted: then nothing stands against going on with it.
    fn was_being_added(&self, raft: &Raft<LogTypes>, to: Option<LedgerEpoch>) -> bool {
        let metrics = raft.metrics();
        let seen = metrics.borrow();
        let votes = seen.membership_config.membership().voter_ids().any(|voter| voter == seen.id);
        let same = to.is_some() && self.ledger().is_none_or(|ledger| Some(ledger) == to);
        self.told.load(Ordering::Relaxed) && !votes && same
    }
}

/// Whether the log holds an entry or a vote; one that cannot tell is no empty one.
pub(super) async fn has_begun(raft: &Raft<LogTypes>) -> bool {
    raft.is_initialized().await.unwrap_or(true)
}

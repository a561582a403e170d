//! A log whose other voters are lost for good is made the only voter's.

use std::collections::{BTreeMap, BTreeSet};

use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{
    BasicNode, CommittedLeaderId, Membership, RaftLogReader, SnapshotMeta, StoredMembership, Vote,
};

use super::codec::encode;
use super::entries::{COMMITTED, PURGED, VOTE, on_disk};
use super::file::{FileError, LOG, META, OpenError, commit, put};
use super::machine::{SNAPSHOT, StoredSnapshot};
use super::{LogId, Storage, StorageError};
use crate::model::ids::{LogIndex, NodeId};
use crate::model::ledger::State;

/// Under which key the file keeps the voters that were lost before this log was made what it is.
pub(super) const BARRED: &str = "barred";

/// How many numbers are left out, of entries and of blocks: the lost voters may have agreed on entries that never came
/// here, and what visitors hold by those must not be taken for something of after them. It is what a busy fleet writes in
/// half a year.
const GAP: u64 = 1 << 32;

/// How many terms are left out: the lost voters may have elected each other for as long as nobody here heard of it, and
/// one that comes back does so ever again.
const TERMS: u64 = 1 << 32;

/// Why a log is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has no entry.
    #[error("this log is empty: restore at a controller that was in the fleet, or found a new one")]
    Empty,
    /// This node has no say in it.
    #[error("this node is no voter in its own log: restore at a controller")]
    NoVoter,
    /// Somebody else has, who was not named.
    #[error(
        "the other voters of this log are {voters}, and {named} named: name every one of them, once none of them will ever \
         start again with the disk that it had"
    )]
    Others {
        /// Who votes.
        voters: String,
        /// Who was named.
        named: String,
    },
    /// The file cannot be read or written.
    #[error("the log cannot be restored: {0}")]
    Failed(String),
}

impl From<StorageError> for RestoreError {
    fn from(error: StorageError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<FileError> for RestoreError {
    fn from(error: FileError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Storage {
    /// Who has no say in this log unless its membership names it: it may have the disk of a fleet that is gone.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(in crate::control) fn barred(&self) -> Result<BTreeSet<NodeId>, OpenError> {
        let barred = self.file.read(BARRED).map_err(|error| self.file.damaged(&error))?;
        Ok(barred.unwrap_or_default())
    }

    /// Makes `node` the only voter of everything in its log; `lost` are all others. Gives the number of the last entry
    /// that was in it.
    pub(in crate::control) async fn restore(
        &self,
        node: NodeId,
        lost: &BTreeSet<NodeId>,
    ) -> Result<LogIndex, RestoreError> {
        let owner = self.file.check_owner(node)?;
        let (mut entries, mut machine, state) = self.split()?;
        let next = machine.applied_state().await?.0.map_or(0, |applied| applied.index + 1);
        // Entries that are not known to be agreed on count: if they were, somebody may go by them.
        let rest = entries.try_get_log_entries(next..).await?;
        if rest.first().is_some_and(|first| first.log_id.index != next) {
            return Err(FileError::Hole { index: next }.into());
        }
        machine.apply(rest).await?;
        let (last, known) = machine.applied_state().await?;
        let last = last.ok_or(RestoreError::Empty)?;
        let voters: BTreeSet<u64> = known.membership().voter_ids().collect();
        if !voters.contains(&owner) {
            return Err(RestoreError::NoVoter);
        }
        let named: BTreeSet<u64> = lost.iter().map(|node| u64::from(node.0.get())).collect();
        let others: BTreeSet<u64> = voters.into_iter().filter(|voter| *voter != owner).collect();
        if named != others {
            return Err(RestoreError::Others { voters: listed(&others), named: listed(&named) });
        }
        let vote = entries.read_vote().await?.unwrap_or_default();
        let term = vote.leader_id.term.max(last.leader_id.term) + TERMS;
        let begun = LogId::new(CommittedLeaderId::new(term, owner), last.index + GAP);
        let address = known.membership().get_node(&owner).map(|node| node.addr.clone()).unwrap_or_default();
        let nodes = BTreeMap::from([(owner, BasicNode::new(address))]);
        let alone = Membership::new(vec![BTreeSet::from([owner])], nodes);
        let mut barred = self.barred()?;
        barred.extend(lost);
        barred.remove(&node);
        let mut state = state.read(State::clone);
        state.skip_blocks(GAP);
        state.index = LogIndex(begun.index);
        let snapshot = StoredSnapshot {
            meta: SnapshotMeta {
                last_log_id: Some(begun),
                last_membership: StoredMembership::new(Some(begun), alone),
                snapshot_id: begun.to_string(),
            },
            state: encode(&state).map_err(FileError::from)?,
        };
        on_disk(&self.file, move |file| {
            let txn = file.begin()?;
            txn.open_table(LOG)?.retain(|_, _| false)?;
            put(&txn, SNAPSHOT, &snapshot)?;
            put(&txn, VOTE, &Vote::new(term, owner))?;
            txn.open_table(META)?.insert(PURGED, encode(&begun)?.as_slice())?;
            put(&txn, COMMITTED, &begun)?;
            put(&txn, BARRED, &barred)?;
            commit(txn)
        })
        .await?;
        Ok(LogIndex(last.index))
    }
}

fn listed(nodes: &BTreeSet<u64>) -> String {
    match nodes.iter().map(u64::to_string).collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        some => some.join(", "),
    }
}

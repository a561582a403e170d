//! The state that the log decides: what raft calls the state machine. In memory, rebuilt from snapshot and log.

use std::io::Cursor;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use openraft::storage::RaftStateMachine;
use openraft::{
    BasicNode, Entry, EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StorageIOError, StoredMembership,
};
use serde::{Deserialize, Serialize};

use super::codec::{decode, encode};
use super::entries::on_disk;
use super::file::{LogFile, OpenError, commit, put};
use super::{LogId, LogTypes, StorageError};
use crate::model::ids::LogIndex;
use crate::model::ledger::{Outcome, State};

pub(super) const SNAPSHOT: &str = "snapshot";

/// A snapshot as the file keeps it.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredSnapshot {
    pub(super) meta: SnapshotMeta<u64, BasicNode>,
    pub(super) state: Vec<u8>,
}

/// The state, with how far in the log it is.
#[derive(Debug, Default)]
struct Applied {
    last: Option<LogId>,
    membership: StoredMembership<u64, BasicNode>,
    state: State,
}

/// The state of the log, for readers; the log alone changes it.
#[derive(Clone, Debug, Default)]
pub(in crate::control) struct SharedState(Arc<RwLock<Applied>>);

impl SharedState {
    /// Reads the state; entries wait meanwhile, so `look` is short.
    pub(in crate::control) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    fn lock(&self) -> RwLockReadGuard<'_, Applied> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_mut(&self) -> RwLockWriteGuard<'_, Applied> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state machine.
#[derive(Clone, Debug)]
pub(in crate::control) struct Machine {
    file: Arc<LogFile>,
    shared: SharedState,
}

impl Machine {
    pub(super) fn load(file: Arc<LogFile>) -> Result<Self, OpenError> {
        let stored: Option<StoredSnapshot> = file.read(SNAPSHOT).map_err(|error| file.damaged(&error))?;
        let mut applied = Applied::default();
        if let Some(stored) = stored {
            applied.state = decode(&stored.state).map_err(|error| file.damaged(&error))?;
            applied.last = stored.meta.last_log_id;
            applied.membership = stored.meta.last_membership;
        }
        Ok(Self { file, shared: SharedState(Arc::new(RwLock::new(applied))) })
    }

    pub(super) fn state(&self) -> SharedState {
        self.shared.clone()
    }

    async fn save(&self, stored: StoredSnapshot) -> Result<(), StorageError> {
        let signature = stored.meta.signature();
        let write = move |file: &LogFile| {
            let txn = file.begin()?;
            put(&txn, SNAPSHOT, &stored)?;
            commit(txn)
        };
        on_disk(&self.file, write)
            .await
            .map_err(|error| StorageIOError::write_snapshot(Some(signature), &error).into())
    }
}

impl RaftSnapshotBuilder<LogTypes> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<LogTypes>, StorageError> {
        let (meta, state) = {
            let applied = self.shared.lock();
            let last = applied.last;
            let snapshot_id = last.map_or_else(|| "empty".to_owned(), |last| last.to_string());
            let meta =
                SnapshotMeta { last_log_id: last, last_membership: applied.membership.clone(), snapshot_id };
            let state = encode(&applied.state).map_err(|error| StorageIOError::read_state_machine(&error))?;
            (meta, state)
        };
        self.save(StoredSnapshot { meta: meta.clone(), state: state.clone() }).await?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(state)) })
    }
}

impl RaftStateMachine<LogTypes> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId>, StoredMembership<u64, BasicNode>), StorageError> {
        let applied = self.shared.lock();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcome>, StorageError>
    where
        I: IntoIterator<Item = Entry<LogTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut applied = self.shared.lock_mut();
        let mut outcomes = Vec::new();
        for entry in entries {
            applied.last = Some(entry.log_id);
            let index = LogIndex(entry.log_id.index);
            outcomes.push(match entry.payload {
                EntryPayload::Blank => Outcome { index, ..Outcome::default() },
                EntryPayload::Normal(command) => applied.state.apply(index, &command),
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Outcome { index, ..Outcome::default() }
                }
            });
        }
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let bytes = snapshot.into_inner();
        let state: State =
            decode(&bytes).map_err(|error| StorageIOError::read_snapshot(Some(meta.signature()), &error))?;
        self.save(StoredSnapshot { meta: meta.clone(), state: bytes }).await?;
        let mut applied = self.shared.lock_mut();
        *applied = Applied { last: meta.last_log_id, membership: meta.last_membership.clone(), state };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<LogTypes>>, StorageError> {
        let stored: Option<StoredSnapshot> =
            self.file.read(SNAPSHOT).map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(stored.map(|stored| Snapshot { meta: stored.meta, snapshot: Box::new(Cursor::new(stored.state)) }))
    }
}

//! The control log on disk: one redb file that holds the vote, the entries and the snapshot.

mod codec;
mod entries;
mod file;
mod look;
mod machine;
#[cfg(test)]
mod platter;
#[cfg(test)]
mod power_cut;
mod restore;
#[cfg(test)]
mod restore_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use openraft::BasicNode;

pub(super) use entries::Entries;
use entries::on_disk;
pub use file::OpenError;
use file::{FILE_NAME, LogFile, commit, put};
pub(super) use machine::{Machine, SharedState};
use restore::BARRED;
pub use restore::RestoreError;

use crate::model::ids::{Generation, NodeId};
use crate::model::ledger::{Command, Outcome};
use crate::model::numbered::FIRST_GIVEN;

openraft::declare_raft_types!(
    /// The types that the control log is made of.
    pub LogTypes:
        D = Command,
        R = Outcome,
        NodeId = u64,
        Node = BasicNode,
        Entry = openraft::Entry<LogTypes>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = openraft::TokioRuntime,
);

/// Under which key the file says that another controller has said that the part of this one begins.
const TOLD: &str = "told";

type StorageError = openraft::StorageError<u64>;
type LogId = openraft::LogId<u64>;

/// An open control log, before raft runs on it; clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    file: Arc<LogFile>,
}

impl Storage {
    /// Opens the control log in a data directory, or makes both.
    ///
    /// # Errors
    /// See [`OpenError`]; a file that is not ours, or damaged, is left as it is.
    pub(super) fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Ok(Self { file: Arc::new(LogFile::open(data_dir)?) })
    }

    /// Whether there is a control log in a data directory; makes nothing.
    pub(super) fn is_in(data_dir: &Path) -> bool {
        data_dir.join(FILE_NAME).exists()
    }

    /// What opening the log of a node in a data directory would refuse; makes, writes and locks nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(super) fn look(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
        look::look(data_dir, node)
    }

    /// Removes the file of an edge that the leader numbered otherwise before: it holds no more than the count of its runs.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn clear_for(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
        if !node.is_given() {
            return Ok(());
        }
        match look::look(data_dir, node) {
            Err(OpenError::OtherNode { path, owner, .. }) if owner >= u64::from(FIRST_GIVEN) => {
                std::fs::remove_file(&path).map_err(|source| OpenError::Unreachable { path, source })
            }
            // What else is wrong is told by whoever opens it.
            _ => Ok(()),
        }
    }

    /// A control log on a storage of the caller's, or a new one if it is empty.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(super) fn on_backend(backend: impl redb::StorageBackend) -> Result<Self, OpenError> {
        Ok(Self { file: Arc::new(LogFile::on_backend(backend)?) })
    }

    /// Takes a generation for a new run of this node: greater than every earlier one, and on disk on return.
    ///
    /// # Errors
    /// When the log is another node's, or the file cannot be read or written.
    pub(super) fn next_generation(&self, node: NodeId, unix_seconds: u64) -> Result<Generation, OpenError> {
        self.file.next_generation(node, unix_seconds)
    }

    /// Whether another controller has said that the part of this one begins.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn is_told(&self) -> Result<bool, OpenError> {
        let told = self.file.read::<bool>(TOLD).map_err(|error| self.file.damaged(&error))?;
        Ok(told.unwrap_or_default())
    }

    /// Notes that, and whom it bars; whether it is on disk now.
    pub(super) async fn note_told(&self, barred: BTreeSet<NodeId>) -> bool {
        let note = move |file: &LogFile| {
            let txn = file.begin()?;
            put(&txn, TOLD, &true)?;
            put(&txn, BARRED, &barred)?;
            commit(txn)
        };
        on_disk(&self.file, note).await.is_ok()
    }

    /// What the disk last refused, if it did.
    pub(super) fn disk_failure(&self) -> Option<String> {
        self.file.failure()
    }

    /// The two halves that raft wants, and the state that the second keeps.
    ///
    /// # Errors
    /// When the snapshot cannot be read.
    pub(super) fn split(&self) -> Result<(Entries, Machine, SharedState), OpenError> {
        let machine = Machine::load(Arc::clone(&self.file))?;
        let state = machine.state();
        Ok((Entries::new(Arc::clone(&self.file)), machine, state))
    }
}

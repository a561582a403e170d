//! The entries and the vote: what raft calls the log storage.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{Entry, OptionalSend, RaftLogReader, StorageIOError, Vote};
use redb::ReadableTable;

use super::codec::{decode, encode};
use super::file::{FileError, LOG, LogFile, META, commit, put};
use super::{LogId, LogTypes, StorageError};

pub(super) const VOTE: &str = "vote";
pub(super) const COMMITTED: &str = "committed";
pub(super) const PURGED: &str = "purged";

/// The log storage; clones read and write the same file.
#[derive(Clone, Debug)]
pub(in crate::control) struct Entries {
    file: Arc<LogFile>,
    /// Written with the next entries: losing it costs nothing but a second look at the last ones.
    committed: Arc<Mutex<Option<LogId>>>,
}

impl Entries {
    pub(super) fn new(file: Arc<LogFile>) -> Self {
        Self { file, committed: Arc::default() }
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LogFile) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        on_disk(&self.file, work).await
    }

    fn committed(&self) -> Option<LogId> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` where waiting for the disk disturbs nobody, and remembers a failure.
pub(super) async fn on_disk<T: Send + 'static>(
    file: &Arc<LogFile>,
    work: impl FnOnce(&LogFile) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let file = Arc::clone(file);
    let work = move || work(&file).inspect_err(|error| file.note_failure(error));
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(FileError::Cancelled))
}

impl RaftLogReader<LogTypes> for Entries {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<LogTypes>>, StorageError> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        read_entries(&self.file, range).map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

fn read_entries(file: &LogFile, range: (Bound<u64>, Bound<u64>)) -> Result<Vec<Entry<LogTypes>>, FileError> {
    let table = file.reader()?.open_table(LOG)?;
    let mut entries: Vec<Entry<LogTypes>> = Vec::new();
    for row in table.range(range)? {
        let (index, record) = row?;
        let entry: Entry<LogTypes> = decode(record.value())?;
        let expected = entries.last().map_or(index.value(), |last| last.log_id.index + 1);
        if entry.log_id.index != index.value() || index.value() != expected {
            return Err(FileError::Hole { index: expected });
        }
        entries.push(entry);
    }
    Ok(entries)
}

impl RaftLogStorage<LogTypes> for Entries {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<LogTypes>, StorageError> {
        let read = || -> Result<LogState<LogTypes>, FileError> {
            let last_purged_log_id: Option<LogId> = self.file.read(PURGED)?;
            let table = self.file.reader()?.open_table(LOG)?;
            let last = match table.last()? {
                Some((_, record)) => Some(decode::<Entry<LogTypes>>(record.value())?.log_id),
                None => None,
            };
            Ok(LogState { last_purged_log_id, last_log_id: last.or(last_purged_log_id) })
        };
        read().map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError> {
        let vote = *vote;
        let save = move |file: &LogFile| {
            let txn = file.begin()?;
            put(&txn, VOTE, &vote)?;
            commit(txn)
        };
        self.on_disk(save).await.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError> {
        self.file.read(VOTE).map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        match self.committed() {
            Some(committed) => Ok(Some(committed)),
            None => self.file.read(COMMITTED).map_err(|error| StorageIOError::read_logs(&error).into()),
        }
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<LogTypes>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry<LogTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry<LogTypes>> = entries.into_iter().collect();
        let committed = self.committed();
        let write = move |file: &LogFile| {
            let txn = file.begin()?;
            {
                let mut table = txn.open_table(LOG)?;
                for entry in &entries {
                    table.insert(entry.log_id.index, encode(entry)?.as_slice())?;
                }
            }
            if let Some(committed) = committed {
                put(&txn, COMMITTED, &committed)?;
            }
            commit(txn)
        };
        match self.on_disk(write).await {
            Ok(()) => {
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(error) => {
                let failure = StorageIOError::write_logs(&error).into();
                callback.log_io_completed(Err(io::Error::other(error)));
                Err(failure)
            }
        }
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let cut = move |file: &LogFile| {
            let txn = file.begin()?;
            txn.open_table(LOG)?.retain_in(log_id.index.., |_, _| false)?;
            commit(txn)
        };
        self.on_disk(cut).await.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        // A purge that a power cut undoes is simply done again; one that is kept has its snapshot on disk already.
        let drop_old = move |file: &LogFile| {
            let txn = file.begin_lazy()?;
            txn.open_table(LOG)?.retain_in(..=log_id.index, |_, _| false)?;
            txn.open_table(META)?.insert(PURGED, encode(&log_id)?.as_slice())?;
            commit(txn)
        };
        self.on_disk(drop_old).await.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}

//! The redb file: opened with care, so that a foreign or damaged one is refused and never overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use openraft::Vote;
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, StorageBackend, TableDefinition,
    WriteTransaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::codec::{CodecError, decode, encode};
use super::entries::VOTE;
use crate::model::ids::{Generation, NodeId};
use crate::whole_file;

/// The name of the control log in the data directory.
pub(super) const FILE_NAME: &str = "control.redb";

/// Held for as long as the log is open.
const LOCK: &str = "lock";

/// The entries of the log.
pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

/// Everything else: see the keys below.
pub(super) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

const FORMAT_RECORD: &str = "format";
const GENERATION: &str = "generation";
const OWNER: &str = "node";

/// The pages that redb may keep in memory, in bytes: the log is written far more often than read.
const CACHE: usize = 8 << 20;

/// How a redb file begins.
const REDB_MAGIC: &[u8; 4] = b"redb";

/// Why the control log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or the file cannot be reached.
    #[error("{path}: {source}; give `node.data_dir` a directory that this user may write")]
    Unreachable {
        /// What was tried.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process holds the directory.
    #[error("{path} is in use by another Anteroom; every node needs a data directory of its own")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Another node's log is in the directory.
    #[error(
        "{path} is the log of node {owner}, and `node.id` is {asked}; set `node.id: {owner}` again, or give this node a \
         `node.data_dir` of its own"
    )]
    OtherNode {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u64,
        /// Who asked for it.
        asked: u64,
    },
    /// The file is something else.
    #[error(
        "{path} is not a control log of Anteroom; it was left as it is, move it away or set `node.data_dir`"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer version made the file.
    #[error(
        "{path} was written by Anteroom {version}, which is newer than this one; start that version or a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version that wrote it.
        version: String,
    },
    /// The disk takes nothing.
    #[error(
        "{path} cannot be written ({detail}); it is whole: make room on its disk or let this user write it"
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// The file is ours and cannot be read.
    #[error(
        "{path} is damaged ({detail}); it was not changed: put a backup in its place, or move it away to begin anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

/// Says which product and version made the file.
#[derive(Debug, Serialize, Deserialize)]
struct FormatRecord {
    product: String,
    /// Rises when an older version could not read the file any more.
    format: u32,
    version: String,
}

const PRODUCT: &str = "anteroom";
const FILE_FORMAT: u32 = 1;

impl FormatRecord {
    fn current() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { product: PRODUCT.to_owned(), format: FILE_FORMAT, version }
    }
}

/// An open control log file.
#[derive(Debug)]
pub(super) struct LogFile {
    database: Database,
    path: PathBuf,
    failure: Mutex<Option<String>>,
    /// Locked until it is dropped.
    _lock: Option<File>,
}

impl LogFile {
    /// Opens the log in `data_dir`; makes the directory (0700) and the file (0600) where they are missing.
    pub(super) fn open(data_dir: &Path) -> Result<Self, OpenError> {
        let unreachable = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Unreachable { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(unreachable(data_dir))?;
        let lock = lock(data_dir)?;
        let path = data_dir.join(FILE_NAME);
        if !path.try_exists().map_err(unreachable(&path))? {
            make(data_dir).map_err(unreachable(&path))?;
        }
        let mut file = private().open(&path).map_err(unreachable(&path))?;
        let mut magic = [0; REDB_MAGIC.len()];
        match file.read_exact(&mut magic) {
            Ok(()) if &magic == REDB_MAGIC => {}
            Ok(()) => return Err(OpenError::Foreign { path }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(OpenError::Foreign { path });
            }
            Err(source) => return Err(OpenError::Unreachable { path, source }),
        }
        let database = open_checked(&path, || {
            let backend = FileBackend::new(file)?;
            Database::builder().set_cache_size(CACHE).create_with_backend(backend)
        })?;
        let opened = Self { database, path, failure: Mutex::default(), _lock: Some(lock) };
        opened.check_format()?;
        Ok(opened)
    }

    /// A log in memory that begins as these bytes, which were read at `path`: nothing there is locked or written.
    pub(super) fn copied(path: &Path, bytes: &[u8]) -> Result<Self, OpenError> {
        let path = path.to_owned();
        if !bytes.starts_with(REDB_MAGIC) {
            return Err(OpenError::Foreign { path });
        }
        let database = open_checked(&path, || {
            let backend = InMemoryBackend::new();
            let filled = backend.set_len(bytes.len() as u64).and_then(|()| backend.write(0, bytes));
            filled.map_err(|error| DatabaseError::Storage(redb::StorageError::Io(error)))?;
            Database::builder().set_cache_size(CACHE).create_with_backend(backend)
        })?;
        let copied = Self { database, path, failure: Mutex::default(), _lock: None };
        copied.check_format()?;
        Ok(copied)
    }

    /// A log on a storage of the caller's, which is made if it is empty.
    pub(super) fn on_backend(backend: impl redb::StorageBackend) -> Result<Self, OpenError> {
        let path = PathBuf::from("(memory)");
        let database =
            open_checked(&path, || Database::builder().set_cache_size(CACHE).create_with_backend(backend))?;
        let opened = Self { database, path, failure: Mutex::default(), _lock: None };
        if opened.read::<FormatRecord>(FORMAT_RECORD).is_err() {
            opened.begin().and_then(|txn| found(&txn).map(|()| txn)).and_then(commit).map_err(|error| {
                OpenError::Damaged { path: opened.path.clone(), detail: error.to_string() }
            })?;
        }
        Ok(opened)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let path = self.path.clone();
        match self.read::<FormatRecord>(FORMAT_RECORD) {
            Ok(Some(record)) if record.product != PRODUCT => Err(OpenError::Foreign { path }),
            Ok(Some(record)) if record.format > FILE_FORMAT => {
                Err(OpenError::Newer { path, version: record.version })
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(FileError::Table(_)) => Err(OpenError::Foreign { path }),
            Err(error) => Err(self.damaged(&error)),
        }
    }

    pub(super) fn damaged(&self, error: &dyn std::fmt::Display) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), detail: error.to_string() }
    }

    /// Whose log it is; whoever voted in it, where an earlier version did not write it down.
    fn owner(&self) -> Result<Option<u64>, FileError> {
        let vote: Option<Vote<u64>> = self.read(VOTE)?;
        Ok(self.read(OWNER)?.or(vote.map(|vote| vote.leader_id.node_id)))
    }

    /// Refuses the log of another node; gives the owner that it has or shall have.
    pub(super) fn check_owner(&self, node: NodeId) -> Result<u64, OpenError> {
        let asked = u64::from(node.0.get());
        match self.owner().map_err(|error| self.damaged(&error))?.unwrap_or(asked) {
            owner if owner == asked => Ok(owner),
            owner => Err(OpenError::OtherNode { path: self.path.clone(), owner, asked }),
        }
    }

    /// Takes the log for a node, unless it is another's, and a new generation of that node.
    pub(super) fn next_generation(&self, node: NodeId, unix_seconds: u64) -> Result<Generation, OpenError> {
        let owner = self.check_owner(node)?;
        let take = || {
            let stored: Option<u32> = self.read(GENERATION)?;
            let seconds = u32::try_from(unix_seconds).unwrap_or(u32::MAX);
            let next = stored.map_or(seconds, |stored| seconds.max(stored.saturating_add(1)));
            let txn = self.begin()?;
            put(&txn, GENERATION, &next)?;
            put(&txn, OWNER, &owner)?;
            commit(txn)?;
            Ok(Generation(next))
        };
        take().map_err(|error: FileError| match error.refused_by_the_disk() {
            Some(refusal) => OpenError::Unwritable { path: self.path.clone(), detail: refusal.to_string() },
            None => self.damaged(&error),
        })
    }

    /// Keeps what went wrong, for the one line that tells the operator.
    pub(super) fn note_failure(&self, error: &FileError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| format!("{}: {error}", self.path.display()));
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A transaction that is on disk once it is committed.
    pub(super) fn begin(&self) -> Result<WriteTransaction, FileError> {
        Ok(self.database.begin_write()?)
    }

    /// A transaction that reaches the disk with the next one that [`LogFile::begin`] makes.
    pub(super) fn begin_lazy(&self) -> Result<WriteTransaction, FileError> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(Durability::None)?;
        Ok(txn)
    }

    pub(super) fn reader(&self) -> Result<ReadTransaction, FileError> {
        Ok(self.database.begin_read()?)
    }

    /// A record of the meta table.
    pub(super) fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, FileError> {
        let table = self.reader()?.open_table(META)?;
        let Some(bytes) = table.get(key)? else { return Ok(None) };
        Ok(Some(decode(bytes.value())?))
    }
}

/// Why the open file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Transaction(#[from] redb::TransactionError),
    #[error(transparent)]
    Table(#[from] redb::TableError),
    #[error(transparent)]
    Storage(#[from] redb::StorageError),
    #[error(transparent)]
    Commit(#[from] redb::CommitError),
    #[error(transparent)]
    Durability(#[from] redb::SetDurabilityError),
    #[error(transparent)]
    Record(#[from] CodecError),
    #[error("entry {index} is not where it belongs")]
    Hole { index: u64 },
    #[error("the log's writer was cancelled")]
    Cancelled,
}

impl FileError {
    /// The system's error, if it says that nothing can be written, and not that what was written is wrong.
    fn refused_by_the_disk(&self) -> Option<&io::Error> {
        let storage = match self {
            Self::Transaction(redb::TransactionError::Storage(error))
            | Self::Table(redb::TableError::Storage(error))
            | Self::Storage(error)
            | Self::Commit(redb::CommitError::Storage(error)) => error,
            _ => return None,
        };
        refusal(storage)
    }
}

fn refusal(error: &redb::StorageError) -> Option<&io::Error> {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let redb::StorageError::Io(error) = error else { return None };
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied)
        .then_some(error)
}

/// Writes a record of the meta table.
pub(super) fn put<T: Serialize>(txn: &WriteTransaction, key: &str, value: &T) -> Result<(), FileError> {
    txn.open_table(META)?.insert(key, encode(value)?.as_slice())?;
    Ok(())
}

pub(super) fn commit(txn: WriteTransaction) -> Result<(), FileError> {
    Ok(txn.commit()?)
}

fn found(txn: &WriteTransaction) -> Result<(), FileError> {
    txn.open_table(LOG)?;
    put(txn, FORMAT_RECORD, &FormatRecord::current())
}

/// Makes a whole, empty log, and only then gives it its name.
fn make(data_dir: &Path) -> io::Result<()> {
    whole_file::put(data_dir, FILE_NAME, |file| {
        let backend = FileBackend::new(file).map_err(io::Error::other)?;
        let database = Database::builder().create_with_backend(backend).map_err(io::Error::other)?;
        let txn = database.begin_write().map_err(io::Error::other)?;
        found(&txn).and_then(|()| commit(txn)).map_err(io::Error::other)
    })
}

fn lock(data_dir: &Path) -> Result<File, OpenError> {
    let path = data_dir.join(LOCK);
    let file = private()
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| OpenError::Unreachable { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::InUse { path: data_dir.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(OpenError::Unreachable { path, source }),
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Opens a database whose bytes may be anything: redb may answer damage with a panic as well as with an error.
fn open_checked(
    path: &Path,
    open: impl FnOnce() -> Result<Database, DatabaseError>,
) -> Result<Database, OpenError> {
    let path = path.to_owned();
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => {
            Err(OpenError::InUse { path: path.parent().map(Path::to_owned).unwrap_or(path) })
        }
        Ok(Err(error)) => Err(match &error {
            DatabaseError::Storage(storage) if refusal(storage).is_some() => {
                OpenError::Unwritable { path, detail: error.to_string() }
            }
            _ => OpenError::Damaged { path, detail: error.to_string() },
        }),
        Err(_) => Err(OpenError::Damaged { path, detail: "its pages contradict each other".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_damaged_file() {
        let open = |kind: io::ErrorKind| {
            let error = DatabaseError::Storage(redb::StorageError::Io(io::Error::from(kind)));
            open_checked(Path::new("control.redb"), || Err(error)).map(|_| ()).unwrap_err()
        };
        assert!(matches!(open(io::ErrorKind::StorageFull), OpenError::Unwritable { .. }));
        assert!(matches!(open(io::ErrorKind::UnexpectedEof), OpenError::Damaged { .. }));
        let commit = FileError::Commit(redb::CommitError::Storage(redb::StorageError::Io(io::Error::from(
            io::ErrorKind::StorageFull,
        ))));
        assert!(commit.refused_by_the_disk().is_some());
    }
}

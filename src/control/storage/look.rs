//! A look at a data directory that leaves it as it is: neither written nor locked, so that it can be had of a running node.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::Storage;
use super::file::{FILE_NAME, LogFile, OpenError};
use crate::model::ids::NodeId;

/// How often a file that changes while it is read is read again.
const TRIES: usize = 5;

/// What opening the log of `node` in `data_dir` would refuse.
pub(super) fn look(data_dir: &Path, node: NodeId) -> Result<(), OpenError> {
    let unreachable = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Unreachable { path, source }
    };
    if !can_be_made(data_dir).map_err(unreachable(data_dir))? {
        return Ok(());
    }
    let path = data_dir.join(FILE_NAME);
    if !path.try_exists().map_err(unreachable(&path))? {
        return Ok(());
    }
    access(&path, Access::READ_OK | Access::WRITE_OK)
        .map_err(|error| unreachable(&path)(io::Error::from(error)))?;
    let Some(bytes) = read_still(&path).map_err(unreachable(&path))? else { return Ok(()) };
    let file = Arc::new(LogFile::copied(&path, &bytes)?);
    file.check_owner(node)?;
    Storage { file }.split().map(drop)
}

/// Whether a directory is there; an error if this user could neither use nor make it.
fn can_be_made(directory: &Path) -> io::Result<bool> {
    match fs::metadata(directory) {
        Ok(known) if !known.is_dir() => Err(io::Error::from(ErrorKind::NotADirectory)),
        Ok(_) => {
            access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
            can_be_made(parent.unwrap_or(Path::new(".")))?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The bytes of a file once two readings are the same; `None` if it never rests: a node is at work on it.
fn read_still(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut before = fs::read(path)?;
    for _ in 0..TRIES {
        let bytes = fs::read(path)?;
        if bytes == before {
            return Ok(Some(bytes));
        }
        before = bytes;
    }
    Ok(None)
}

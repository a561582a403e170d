//! The new process's side: asks the one that runs for its place.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sockets::Sockets;
use super::wire::{self, HELLO, READY, SERVING, YOURS};
use crate::config::NodeSettings;

/// How long an answer to the first question may take.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// How long the other process may take to give up the control log: longer than it gives itself.
const GIVING_WAY: Duration = Duration::from_secs(30);

/// Why the process that runs cannot be followed; it goes on as before.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// Nobody answers.
    #[error(
        "no node that serves answers at {path} ({source}); start this one without --upgrade if none runs, else see what \
         that one says of `node.upgrade_sock`"
    )]
    Nobody {
        /// `node.upgrade_sock`.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process that runs has a reason.
    #[error("the node that runs does not give way: {0}")]
    Refused(String),
    /// It has ended, or has given its place to somebody else.
    #[error(
        "the node that runs ended before it gave way to this process: if another `anteroom run --upgrade` took its place, that \
         one serves and there is nothing to do, else start this one without --upgrade"
    )]
    Ended,
    /// It does not do as it should.
    #[error("the node that runs was not understood or did not give way in time ({0}); look at what it says")]
    Lost(io::Error),
}

impl From<io::Error> for TakeOverError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Self::Ended
            }
            _ => Self::Lost(error),
        }
    }
}

/// The process that runs, about to give way.
#[derive(Debug)]
pub(in crate::app) struct Predecessor {
    stream: UnixStream,
    /// The sockets that it listens at.
    pub(in crate::app) sockets: Sockets,
}

impl Predecessor {
    /// Asks for the sockets; nothing is given up by that.
    ///
    /// # Errors
    /// See [`TakeOverError`].
    pub(in crate::app) fn ask(node: &NodeSettings) -> Result<Self, TakeOverError> {
        let path = &node.upgrade_sock;
        let stream = UnixStream::connect(path)
            .map_err(|source| TakeOverError::Nobody { path: path.clone(), source })?;
        stream.set_read_timeout(Some(FIRST_ANSWER))?;
        stream.set_write_timeout(Some(FIRST_ANSWER))?;
        wire::say(&stream, &hello(node)?)?;
        let sockets = wire::receive(&stream)?.map_err(TakeOverError::Refused)?;
        Ok(Self { stream, sockets })
    }

    /// Says that this process lacks nothing but the control log, and waits until that is closed.
    ///
    /// # Errors
    /// If the other process does not close it.
    pub(in crate::app) fn await_way(&self) -> Result<(), TakeOverError> {
        self.stream.set_read_timeout(Some(GIVING_WAY))?;
        wire::say(&self.stream, READY)?;
        match wire::hear(&self.stream)? {
            line if line == YOURS => Ok(()),
            line => Err(TakeOverError::Refused(line)),
        }
    }

    /// Lets the other process end: this one serves.
    pub(in crate::app) fn release(self) {
        self.sockets.close();
        if let Err(error) = wire::say(&self.stream, SERVING) {
            tracing::warn!(%error, "the process that this one follows has ended already");
        }
    }
}

/// Who asks: only for the same node and directory does anybody give way.
pub(super) fn hello(node: &NodeSettings) -> io::Result<String> {
    Ok(format!("{HELLO} {} {}", node.id, real(&node.data_dir)?))
}

fn real(directory: &Path) -> io::Result<String> {
    Ok(directory.canonicalize()?.to_string_lossy().escape_default().to_string())
}

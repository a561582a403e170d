//! The old process's side: answers the one that shall take its place, and gives it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::predecessor::hello;
use super::sockets::Sockets;
use super::wire::{self, NO, READY, SERVING, YOURS};
use crate::config::NodeSettings;
use crate::desk::Desk;
use crate::model::edge::Contact;

/// How long whoever asks may take for what it says.
const PATIENCE: Duration = Duration::from_secs(10);

/// The place of this process, on offer to the next one.
#[derive(Debug)]
pub(in crate::app) struct Offer {
    listener: StdListener,
    terms: Arc<Terms>,
}

/// To whom the place is given.
#[derive(Debug)]
struct Terms {
    hello: String,
    sockets: Sockets,
    desk: Arc<Desk>,
    /// There is one place.
    place: Arc<Semaphore>,
}

impl Offer {
    /// Answers at `node.upgrade_sock` from now on; what an earlier process left there is replaced.
    ///
    /// # Errors
    /// When the socket cannot be made there.
    pub(in crate::app) fn make(node: &NodeSettings, sockets: Sockets, desk: Arc<Desk>) -> io::Result<Self> {
        let listener = listen(&node.upgrade_sock)?;
        let place = Arc::new(Semaphore::new(1));
        Ok(Self { listener, terms: Arc::new(Terms { hello: hello(node)?, sockets, desk, place }) })
    }

    /// Tells of everybody who is ready to take over, until the answer is dropped. Must be called within a runtime.
    ///
    /// # Errors
    /// When the system cannot make the listener wait.
    pub(in crate::app) fn open(&self) -> io::Result<Candidates> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let (ready, candidates) = mpsc::channel(1);
        let terms = Arc::clone(&self.terms);
        let answering = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(PATIENCE).await;
                    continue;
                };
                let (terms, ready) = (Arc::clone(&terms), ready.clone());
                tokio::spawn(async move {
                    let greet = move || terms.greet(stream.into_std()?);
                    let greeted = tokio::task::spawn_blocking(greet).await;
                    match greeted.unwrap_or_else(|error| Err(io::Error::other(error))) {
                        Ok(Some(successor)) => drop(ready.send(successor).await),
                        Ok(None) => {}
                        Err(error) => {
                            tracing::warn!("who asked for the place of this process went away: {error}")
                        }
                    }
                });
            }
        });
        Ok(Candidates { answering: answering.abort_handle(), candidates })
    }
}

/// Those who are ready to take over; nobody is answered any more once this is dropped.
#[derive(Debug)]
pub(in crate::app) struct Candidates {
    answering: tokio::task::AbortHandle,
    candidates: mpsc::Receiver<Successor>,
}

impl Candidates {
    /// The next one.
    pub(in crate::app) async fn next(&mut self) -> Successor {
        match self.candidates.recv().await {
            Some(successor) => successor,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Terms {
    /// Sends the sockets to whoever may have them; `None`: it may not.
    fn greet(&self, stream: StdStream) -> io::Result<Option<Successor>> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let said = wire::hear(&stream)?;
        let place = Arc::clone(&self.place).try_acquire_owned();
        let refusal = if said != self.hello {
            Some("it is another node, has another data directory, or another version of this exchange")
        } else if self.desk.contact() != Contact::Fresh {
            Some("it hears no leader at this moment, so nobody would be served in between")
        } else if place.is_err() {
            Some("another process is taking its place already: wait until that one serves or has ended")
        } else {
            None
        };
        if let Some(why) = refusal {
            tracing::warn!("this process keeps its place: {why}");
            wire::say(&stream, &format!("{NO} {why}"))?;
            return Ok(None);
        }
        let place = place.map_err(io::Error::other)?;
        wire::send(&stream, &self.sockets)?;
        match wire::hear(&stream)? {
            line if line == READY => Ok(Some(Successor { stream, _place: Some(place) })),
            _ => Ok(None),
        }
    }
}

/// A process that is ready to take over.
#[derive(Debug)]
pub(in crate::app) struct Successor {
    stream: StdStream,
    /// Nobody else is let as far while this one is here.
    _place: Option<OwnedSemaphorePermit>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app) enum Verdict {
    /// It serves.
    Serves,
    /// It has ended, and the place is this process's again.
    Gone,
}

impl Successor {
    /// Ends when the other process does, which has nothing to say before it has the place. Must be called within a
    /// runtime.
    pub(in crate::app) async fn gone(&self) {
        let Ok(stream) = self.stream() else { return };
        let mut byte = [0];
        loop {
            if stream.readable().await.is_err() {
                return;
            }
            match stream.try_read(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Gives it the place, and waits until it serves or is gone. Must be called within a runtime.
    pub(in crate::app) async fn take_place(&self) -> Verdict {
        let taken = async {
            let mut stream = BufReader::new(self.stream()?);
            stream.write_all(format!("{YOURS}\n").as_bytes()).await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            io::Result::Ok(line)
        };
        match taken.await {
            Ok(line) if line.trim_end() == SERVING => Verdict::Serves,
            Ok(_) | Err(_) => Verdict::Gone,
        }
    }

    fn stream(&self) -> io::Result<UnixStream> {
        let stream = self.stream.try_clone()?;
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }
}

/// A socket at a path, for its owner only. It gets its name when it is so, and in place of whatever socket had it.
fn listen(path: &Path) -> io::Result<StdListener> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something else than a socket is there",
            ));
        }
        _ => {}
    }
    let mut unfinished = OsString::from(path);
    unfinished.push(".new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(&unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
    fs::rename(&unfinished, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_its_owners_and_takes_the_place_of_a_stale_one_but_of_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("upgrade.sock");
        drop(listen(&path).unwrap());
        let _listener = listen(&path).unwrap();
        StdStream::connect(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let file = dir.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(listen(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }

    #[tokio::test]
    async fn a_successor_serves_once_it_says_so_and_is_gone_once_it_ends() {
        let (old, new) = StdStream::pair().unwrap();
        let successor = Successor { stream: old, _place: None };
        let other = std::thread::spawn(move || {
            assert_eq!(wire::hear(&new).unwrap(), YOURS);
            wire::say(&new, SERVING).unwrap();
            assert_eq!(wire::hear(&new).unwrap(), YOURS);
        });
        assert_eq!(successor.take_place().await, Verdict::Serves);
        assert_eq!(successor.take_place().await, Verdict::Gone);
        other.join().unwrap();
        successor.gone().await;
    }
}

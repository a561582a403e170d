//! The sockets that a process listens at, by their addresses: those that it may hand on, or those handed to it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Sockets that listen; clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::app) struct Sockets(Arc<Mutex<Vec<(SocketAddr, TcpListener)>>>);

impl Sockets {
    /// Another handle of the socket at this address: it listens until all of them are closed.
    ///
    /// # Errors
    /// When the system gives no handle.
    pub(in crate::app) fn keep(&self, address: SocketAddr, listener: &TcpListener) -> io::Result<()> {
        let kept = listener.try_clone()?;
        self.with(|open| open.push((address, kept)));
        Ok(())
    }

    /// The socket at this address, if there is one: it is here no more.
    pub(in crate::app) fn take(&self, address: SocketAddr) -> Option<TcpListener> {
        self.with(|open| {
            let at = open.iter().position(|(known, _)| *known == address)?;
            Some(open.swap_remove(at).1)
        })
    }

    /// Closes the handles that are here.
    pub(in crate::app) fn close(&self) {
        self.with(Vec::clear);
    }

    /// Calls `send` with the addresses and handles.
    pub(super) fn lend<T>(&self, send: impl FnOnce(&[SocketAddr], &[BorrowedFd<'_>]) -> T) -> T {
        self.with(|open| {
            let addresses: Vec<_> = open.iter().map(|(address, _)| *address).collect();
            let handles: Vec<_> = open.iter().map(|(_, listener)| listener.as_fd()).collect();
            send(&addresses, &handles)
        })
    }

    /// Sockets that came with these addresses.
    ///
    /// # Errors
    /// If one of them is at another address.
    pub(super) fn received(addresses: Vec<SocketAddr>, handles: Vec<OwnedFd>) -> io::Result<Self> {
        let sockets = Self::default();
        if addresses.len() != handles.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not every socket came through"));
        }
        for (address, handle) in addresses.into_iter().zip(handles) {
            let listener = TcpListener::from(handle);
            if listener.local_addr()? != address {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("no socket of {address} came"),
                ));
            }
            sockets.with(|open| open.push((address, listener)));
        }
        Ok(sockets)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<(SocketAddr, TcpListener)>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

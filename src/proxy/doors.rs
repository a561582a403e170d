//! The visitors' service on sockets that were bound before: Pingora would bind late, and tell nobody when it fails.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;

use async_trait::async_trait;
use pingora::listeners::tls::TlsSettings;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service as PingoraService;
use pingora::services::listening::Service;

use super::front::Front;
use super::front_desk::FrontDesk;

/// A service and the sockets that it accepts visitors at.
pub struct Doors<D: FrontDesk> {
    service: Service<Front<D>>,
    sockets: Vec<(String, TcpListener)>,
    opened: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl<D: FrontDesk> Doors<D> {
    /// A service without a door; `opened` is called once it accepts at all that are added.
    #[must_use]
    pub fn new(service: Service<Front<D>>, opened: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { service, sockets: Vec::new(), opened: Some(Box::new(opened)) }
    }

    /// Accepts at a socket of this address; `None`: without TLS.
    pub fn add(&mut self, address: SocketAddr, socket: TcpListener, tls: Option<TlsSettings>) {
        let name = address.to_string();
        match tls {
            Some(tls) => self.service.add_tls_with_settings(&name, None, tls),
            None => self.service.add_tcp(&name),
        }
        self.sockets.push((name, socket));
    }
}

#[async_trait]
impl<D: FrontDesk> PingoraService for Doors<D> {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
    ) {
        if let Some(fds) = &fds {
            let mut known = fds.lock();
            // Where Pingora finds a socket under the name of an address, it does not bind one.
            self.sockets.drain(..).for_each(|(name, socket)| known.add(name, socket.into_raw_fd()));
        }
        // The system keeps whoever comes from here on until the service, which knows no failure any more, takes them.
        self.opened.take().into_iter().for_each(|opened| opened());
        self.service.start_service(fds, shutdown, listeners_per_fd).await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        PingoraService::threads(&self.service)
    }

    fn listen_addresses(&self) -> Option<Vec<String>> {
        self.service.listen_addresses()
    }
}

//! The visitors' side of a node, from the first listener to the last.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, available_parallelism};

use async_trait::async_trait;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};

use super::{Node, Prepared};
use crate::app::ending::{Ending, LONGEST_FLIGHT, Over};
use crate::app::hand_over::{Offer, Predecessor};
use crate::app::signals::Signals;
use crate::app::systemd;
use crate::desk::Desk;
use crate::lifecycle::Lifecycle;
use crate::proxy::{self, Doors, Gate};

/// How much longer Pingora may take over its own end than anything else may, in seconds.
const GRACE_S: u64 = 60;

impl Node {
    pub(super) fn serve(&mut self, signals: &Signals, prepared: Prepared) -> anyhow::Result<Over> {
        let settings = self.reloader.settings.load_full();
        let conf = ServerConf {
            threads: available_parallelism().map_or(1, usize::from),
            // Requests are short and alike, and connections many: threads that look after their own lose less.
            work_stealing: false,
            grace_period_seconds: Some(settings.node.farewell.max(LONGEST_FLIGHT).as_secs() + GRACE_S),
            graceful_shutdown_timeout_seconds: Some(1),
            ..ServerConf::default()
        };
        let mut server = Server::new_with_opt_and_conf(None, conf);
        server.bootstrap();
        let opening = Opening {
            listeners: self.listeners.clone(),
            lifecycle: Arc::clone(&self.lifecycle),
            predecessor: self.predecessor.take(),
        };
        let service = proxy::service(&server.configuration, self.gate.clone());
        let mut visitors = Doors::new(service, move || opening.tell());
        let reserved = std::mem::take(&mut self.reserved);
        let listeners = settings.listeners.iter().zip(&self.reloader.certificates).zip(reserved);
        for ((listener, certificate), reserved) in listeners {
            let tls = match (&listener.tls, certificate) {
                (Some(files), Some(certificate)) => {
                    Some(certificate.settings(files).map_err(|error| anyhow::anyhow!("{error}"))?)
                }
                _ => None,
            };
            let address = reserved.address;
            visitors.add(address, reserved.listen(&self.sockets)?, tls);
        }
        server.add_service(visitors);
        server.add_service(background_service("origins", Tending(self.gate.clone())));
        if prepared == Prepared::Alone {
            server.add_service(background_service("events", self.learning()));
        }
        let (over, until_over) = mpsc::channel();
        let ending = Ending {
            over: over.clone(),
            signals: signals.clone(),
            reloader: Arc::clone(&self.reloader),
            desk: Arc::clone(&self.desk),
            lifecycle: Arc::clone(&self.lifecycle),
            drained: self.control.drained(),
            sockets: self.sockets.clone(),
            offer: self.offer(),
        };
        thread::Builder::new().name("server".to_owned()).spawn(move || {
            server.run(RunArgs { shutdown_signal: Box::new(ending) });
            let _ = over.send(Over::Ended);
        })?;
        // The server has ended, or there is nothing to wait for.
        Ok(until_over.recv().unwrap_or(Over::Ended))
    }

    /// This node's place for another process, which would read the file anew.
    fn offer(&self) -> Option<Offer> {
        self.reloader.file.as_ref()?;
        let node = self.reloader.settings.load().node.clone();
        let offer = Offer::make(&node, self.sockets.clone(), Arc::clone(&self.desk));
        let warn = |error: &io::Error| {
            tracing::warn!(
                "no other process can take over from this one: `node.upgrade_sock` {} cannot be had ({error})",
                node.upgrade_sock.display()
            );
        };
        offer.inspect_err(warn).ok()
    }
}

/// Resolves and probes origins.
struct Tending(Gate<Desk>);

#[async_trait]
impl BackgroundService for Tending {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.0.tend() => {}
            _ = shutdown.changed() => {}
        }
    }
}

/// Who is to know once visitors are served.
struct Opening {
    listeners: Vec<SocketAddr>,
    lifecycle: Arc<Lifecycle>,
    predecessor: Option<Predecessor>,
}

impl Opening {
    fn tell(self) {
        self.lifecycle.serve();
        let at: Vec<_> = self.listeners.iter().map(ToString::to_string).collect();
        tracing::info!("the node serves visitors at {}", at.join(", "));
        systemd::serves();
        self.predecessor.into_iter().for_each(Predecessor::release);
    }
}

//! The servers behind the waiting room: addresses resolved off the request path, in turn, the silent ones left out.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::upstreams::peer::HttpPeer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::{HealthSettings, OriginSettings, ServerAddress};
use crate::model::time::BootTime;

/// A server that could not be reached is left out for this long, if others can be.
const REST: Duration = Duration::from_secs(5);

/// How often names are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// A connection that no request uses is closed after this long.
const IDLE: Duration = Duration::from_secs(60);

/// The longest wait for an origin to take some bytes.
const WRITE: Duration = Duration::from_secs(30);

/// One server.
pub(super) struct Server {
    name: ServerAddress,
    address: SocketAddr,
    /// Boot time in milliseconds until which it is left out; `u64::MAX`: until a probe succeeds.
    rests_until: AtomicU64,
}

/// One origin.
pub(super) struct Origin {
    settings: OriginSettings,
    servers: ArcSwap<Vec<Arc<Server>>>,
    turn: AtomicUsize,
}

impl Origin {
    /// Resolves the servers of an origin; blocks while it asks the resolver.
    fn open(settings: &OriginSettings) -> Self {
        let servers = resolve(&settings.servers, &[]);
        Self {
            settings: settings.clone(),
            servers: ArcSwap::from_pointee(servers),
            turn: AtomicUsize::new(0),
        }
    }

    /// The next server whose turn it is; one that rests only if all do.
    pub(super) fn next(&self, now: BootTime) -> Option<Arc<Server>> {
        let servers = self.servers.load();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let at = |step: usize| servers.get(turn.wrapping_add(step) % servers.len().max(1));
        let awake = (0..servers.len()).filter_map(at).find(|server| !server.rests(now));
        awake.or_else(|| at(0)).cloned()
    }

    /// How many servers there are.
    pub(super) fn breadth(&self) -> usize {
        self.servers.load().len()
    }

    /// How a server is reached; an upgraded connection may be silent for long.
    pub(super) fn peer(&self, server: &Server, upgrade: bool) -> HttpPeer {
        let mut peer = HttpPeer::new(server.address, false, String::new());
        let options = &mut peer.options;
        options.connection_timeout = Some(self.settings.connect_timeout);
        options.total_connection_timeout = Some(self.settings.connect_timeout);
        options.read_timeout = (!upgrade).then_some(self.settings.read_timeout);
        options.write_timeout = Some(WRITE);
        options.idle_timeout = Some(IDLE);
        peer
    }
}

impl Server {
    fn rests(&self, now: BootTime) -> bool {
        now.0 < self.rests_until.load(Ordering::Relaxed)
    }

    /// The server could not be reached.
    pub(super) fn failed(&self, now: BootTime) {
        self.rests_until.fetch_max(now.after(REST).0, Ordering::Relaxed);
    }

    fn probed(&self, healthy: bool) {
        let until = if healthy { 0 } else { u64::MAX };
        if self.rests_until.swap(until, Ordering::Relaxed) != until && !healthy {
            tracing::warn!(server = %self.name, "the origin server does not answer its health check");
        }
    }
}

/// Servers with the addresses that their names have now; known ones keep what is known of them.
fn resolve(names: &[ServerAddress], known: &[Arc<Server>]) -> Vec<Arc<Server>> {
    let mut servers = Vec::new();
    for name in names {
        let before = || known.iter().filter(|server| server.name == *name).cloned();
        let addresses = match (name.host.as_str(), name.port.get()).to_socket_addrs() {
            Ok(addresses) => addresses,
            Err(error) => {
                tracing::warn!(server = %name, %error, "the name of an origin server cannot be resolved");
                servers.extend(before());
                continue;
            }
        };
        for address in addresses {
            let same = before().find(|server| server.address == address);
            servers.push(same.unwrap_or_else(|| {
                Arc::new(Server { name: name.clone(), address, rests_until: AtomicU64::new(0) })
            }));
        }
    }
    servers
}

/// All origins by name.
pub(super) struct Origins(BTreeMap<String, Arc<Origin>>);

impl Origins {
    /// Resolves every origin; blocks while it asks the resolver.
    pub(super) fn open(settings: &BTreeMap<String, OriginSettings>) -> Self {
        Self(settings.iter().map(|(name, origin)| (name.clone(), Arc::new(Origin::open(origin)))).collect())
    }

    /// One origin.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Origin>> {
        self.0.get(name).cloned()
    }

    /// Resolves names again and probes servers, whichever is due `elapsed` after the start of the tending.
    pub(super) async fn tend(&self, elapsed: Duration) {
        for origin in self.0.values() {
            if elapsed.as_secs().is_multiple_of(RESOLVE_EVERY.as_secs()) {
                let (names, known) = (origin.settings.servers.clone(), origin.servers.load_full());
                if let Ok(servers) = tokio::task::spawn_blocking(move || resolve(&names, &known)).await {
                    origin.servers.store(Arc::new(servers));
                }
            }
            let Some(health) = &origin.settings.health else { continue };
            if !elapsed.as_secs().is_multiple_of(health.interval.as_secs().max(1)) {
                continue;
            }
            for server in origin.servers.load_full().iter() {
                let (server, health) = (Arc::clone(server), health.clone());
                let limit = origin.settings.connect_timeout;
                tokio::spawn(async move {
                    let answer = tokio::time::timeout(limit * 2, probe(&server, &health)).await;
                    server.probed(matches!(answer, Ok(Ok(true))));
                });
            }
        }
    }
}

/// Asks a server for its health page; true for any 2xx.
async fn probe(server: &Server, health: &HealthSettings) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(server.address).await?;
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", health.path, server.name);
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(head.starts_with(b"HTTP/1.") && head.get(9) == Some(&b'2'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(servers: &[&str]) -> Origin {
        Origin::open(&OriginSettings {
            servers: servers.iter().map(|server| server.parse().unwrap()).collect(),
            health: None,
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(1),
        })
    }

    fn ports(origin: &Origin, now: u64) -> Vec<u16> {
        (0..4).map(|_| origin.next(BootTime(now)).unwrap().address.port()).collect()
    }

    #[test]
    fn servers_take_turns_and_one_that_failed_rests() {
        let origin = origin(&["127.0.0.1:1", "127.0.0.1:2"]);
        assert_eq!(ports(&origin, 0), [1, 2, 1, 2]);
        origin.servers.load()[0].failed(BootTime(0));
        assert_eq!(ports(&origin, 4_999), [2, 2, 2, 2]);
        assert_eq!(ports(&origin, 5_000), [1, 2, 1, 2]);
    }

    #[test]
    fn when_all_rest_they_are_tried_all_the_same() {
        let origin = origin(&["127.0.0.1:1"]);
        origin.servers.load()[0].probed(false);
        assert_eq!(ports(&origin, 9), [1, 1, 1, 1]);
        origin.servers.load()[0].probed(true);
        assert!(!origin.servers.load()[0].rests(BootTime(9)));
    }
}

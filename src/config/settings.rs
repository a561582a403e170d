//! What a configuration file comes to, typed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use super::cluster::ClusterSettings;
use crate::model::ids::{EventId, NodeId};
use crate::model::policy::{Fields, Policy};

/// Everything that a configuration file states; every value is in range and what refers to another part finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `node`.
    pub node: NodeSettings,
    /// `listeners`: where visitors are served, at least one.
    pub listeners: Vec<ListenerSettings>,
    /// `trusted_proxies`: whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// `admin`.
    pub admin: AdminSettings,
    /// `metrics`.
    pub metrics: MetricsSettings,
    /// `public_path`: the path that the waiting room lives below, without a `/` at its end.
    pub public_path: String,
    /// `default_origin`: who serves requests that no event matches; `None`: 404.
    pub default_origin: Option<String>,
    /// `origins` by name.
    pub origins: BTreeMap<String, OriginSettings>,
    /// `events`, in the order of the file.
    pub events: Vec<EventSettings>,
    /// `limits`.
    pub limits: Limits,
    /// `cluster`; `None`: one node, alone.
    pub cluster: Option<ClusterSettings>,
}

/// `node`: who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// `id`.
    pub id: OwnNumber,
    /// `data_dir`: where the control log and what the node makes for itself are kept.
    pub data_dir: PathBuf,
    /// `upgrade_sock`: where a process that shall take this one's place asks for it; `upgrade.sock` in the data
    /// directory unless given.
    pub upgrade_sock: PathBuf,
    /// `farewell_s`: the longest that connections may last here once another process has taken over, 1..=86,400 (300).
    pub farewell: Duration,
}

/// `node.id`: the number of a node, or where it gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnNumber {
    /// 1..=9999, unique in the fleet.
    Configured(NodeId),
    /// `auto`: the leader of the fleet gives one, from 10,000 on; never to a controller.
    Auto,
}

impl OwnNumber {
    /// The number, if the configuration has it.
    #[must_use]
    pub fn configured(self) -> Option<NodeId> {
        match self {
            Self::Configured(node) => Some(node),
            Self::Auto => None,
        }
    }
}

impl fmt::Display for OwnNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured(node) => node.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// One of `listeners`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// `address`.
    pub address: SocketAddr,
    /// `tls`; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
}

/// A certificate chain and its key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `certificate`.
    pub certificate: PathBuf,
    /// `key`.
    pub key: PathBuf,
}

/// `admin`: the operator's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// `address`.
    pub address: SocketAddr,
    /// `token_file`: who shows its content may do everything; `admin.token` in the data directory unless given.
    pub token_file: PathBuf,
}

/// `metrics`: `/metrics`, `/livez` and `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// `address`.
    pub address: SocketAddr,
}

/// One of `origins`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSettings {
    /// `servers`: who shares the load, at least one.
    pub servers: Vec<ServerAddress>,
    /// `health`; `None`: every server counts as healthy.
    pub health: Option<HealthSettings>,
    /// `connect_timeout_ms`: 1..=60,000 (2000).
    pub connect_timeout: Duration,
    /// `read_timeout_ms`: the longest silence of an origin, 1..=3,600,000 (30,000).
    pub read_timeout: Duration,
}

/// `health`: how an origin's servers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// `path`: what is asked for; 2xx is healthy.
    pub path: String,
    /// `interval_s`: 1..=3600 (5).
    pub interval: Duration,
}

/// One of `events`: its id, its fields as the file states them, and the policy that they come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// `id`.
    pub id: EventId,
    /// Every other key, for the control log.
    pub fields: Fields,
    /// What they come to.
    pub policy: Policy,
}

/// `limits`: what a node takes from the world before it says 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `joins_per_sec`: on this node, 1..=1,000,000 (20,000).
    pub joins_per_sec: NonZeroU32,
    /// `per_address.joins_per_min`: 1..=1,000,000 (600).
    pub joins_per_min: NonZeroU32,
    /// `per_address.strangers_per_min`: requests without a valid token, 1..=1,000,000 (600).
    pub strangers_per_min: NonZeroU32,
}

/// A host (a name or an address) and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: NonZeroU16,
}

/// Why a text is no [`ServerAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server is a host and a port, as 127.0.0.1:3000, [::1]:3000 or shop.internal:80")]
pub struct InvalidServerAddress;

impl FromStr for ServerAddress {
    type Err = InvalidServerAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidServerAddress)?;
        let port = port.parse().map_err(|_| InvalidServerAddress)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Self { host: inner.to_owned(), port })
            }
            None if !host.is_empty() && host.chars().all(name) => Ok(Self { host: host.to_owned(), port }),
            _ => Err(InvalidServerAddress),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The longest path of a socket, in bytes: what Linux lets an address hold, less what the one in the making adds.
const LONGEST_SOCKET_PATH: usize = 100;

impl Settings {
    /// What an operator should know about settings that are not at fault.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for event in &self.events {
            let told = event.policy.warnings().into_iter().chain(self.warnings_of(&event.id, &event.policy));
            warnings.extend(told.map(|warning| format!("event {}: {warning}", event.id)));
        }
        for (name, address) in [("admin", self.admin.address), ("metrics", self.metrics.address)] {
            if !address.ip().is_loopback() {
                warnings.push(format!(
                    "`{name}.address` {address} can be reached from other machines, without TLS: keep it on loopback or \
                     behind a firewall"
                ));
            }
        }
        let upgrade_sock = &self.node.upgrade_sock;
        if upgrade_sock.as_os_str().len() > LONGEST_SOCKET_PATH {
            warnings.push(format!(
                "`node.upgrade_sock` {} is longer than {LONGEST_SOCKET_PATH} bytes, so no other process can take over from this \
                 node: name a shorter path",
                upgrade_sock.display()
            ));
        }
        warnings.extend(super::files::exposed(self));
        let unused = |name: &&String| {
            self.default_origin.as_ref() != Some(*name)
                && !self.events.iter().any(|event| event.policy.origin.as_ref() == Some(*name))
        };
        for name in self.origins.keys().filter(unused) {
            warnings
                .push(format!("origin {name} is used by no event of this file and is not `default_origin`"));
        }
        warnings
    }

    /// Makes relative paths start at the directory of the file.
    pub(super) fn start_paths_at(&mut self, directory: &Path) {
        let tls = self.listeners.iter_mut().filter_map(|listener| listener.tls.as_mut());
        let tls = tls.flat_map(|files| [&mut files.certificate, &mut files.key]);
        let peer = self.cluster.iter_mut().flat_map(ClusterSettings::paths_mut);
        let node = [&mut self.node.data_dir, &mut self.node.upgrade_sock];
        for path in tls.chain(peer).chain(node).chain([&mut self.admin.token_file]) {
            // The parts are put together anew so that `./data` leaves no `.` in the middle.
            *path = directory.join(path.as_path()).components().collect();
        }
    }
}

//! `cluster`: how the nodes of a fleet find and know each other.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::read::{milliseconds, required_address, required_path};
use super::settings::{InvalidServerAddress, OwnNumber, ServerAddress, Settings};
use crate::model::ids::NodeId;
use crate::model::policy::{Fault, Reader};

/// `cluster`: how this node takes part in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `listen`: where other nodes reach this one, by mutual TLS.
    pub listen: SocketAddr,
    /// `advertise`: where other nodes are to call this one; `None`: at `listen`, which then is one address.
    pub advertise: Option<ServerAddress>,
    /// `tls`.
    pub tls: PeerFiles,
    /// `controllers`: who keeps the control log and where; 1, 3 or 5 of them, no two at one address.
    pub controllers: BTreeMap<NodeId, ServerAddress>,
    /// `numbering`: what a controller certifies the numbers of edges with; `None`: none are given here.
    pub numbering: Option<SignerFiles>,
    /// `heartbeat_ms`: between two heartbeats of the leading controller, 50..=1000 ms (100).
    pub heartbeat: Duration,
}

/// What a node shows to others and knows them by, all PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    /// `ca`: who signs the certificates of the fleet's nodes.
    pub ca: PathBuf,
    /// `certificate`: this node's.
    pub certificate: PathBuf,
    /// `key`: its private key.
    pub key: PathBuf,
}

/// What a controller signs certificates of numbered edges with, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerFiles {
    /// `certificate`: signed by the fleet's CA.
    pub certificate: PathBuf,
    /// `key`: its private key.
    pub key: PathBuf,
}

impl ClusterSettings {
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let numbering = self.numbering.iter_mut().flat_map(|files| [&mut files.certificate, &mut files.key]);
        self.tls.paths_mut().into_iter().chain(numbering)
    }

    /// `listen`, if others may call this node there.
    fn listen_address(&self) -> Option<ServerAddress> {
        let port = NonZeroU16::new(self.listen.port())?;
        (!self.listen.ip().is_unspecified())
            .then(|| ServerAddress { host: self.listen.ip().to_string(), port })
    }
}

impl PeerFiles {
    fn paths_mut(&mut self) -> [&mut PathBuf; 3] {
        [&mut self.ca, &mut self.certificate, &mut self.key]
    }
}

/// The section; `None` if it could not be read, in which case there is a fault.
pub(super) fn read_cluster(reader: &mut Reader<'_>) -> Option<ClusterSettings> {
    let listen = required_address(reader, "listen", "10.0.0.1:7946");
    let advertise = read_advertise(reader);
    let before = reader.fault_count();
    let tls = reader.object("tls", |reader| PeerFiles {
        ca: required_path(reader, "ca"),
        certificate: required_path(reader, "certificate"),
        key: required_path(reader, "key"),
    });
    if tls.is_none() && reader.fault_count() == before {
        let form = "{ ca: ca.crt, certificate: node.crt, key: node.key }";
        reader.fault("tls", format!("is missing; write {form}, as `anteroom certs` makes them"));
    }
    let controllers = read_controllers(reader);
    let numbering = reader.object("numbering", |reader| SignerFiles {
        certificate: required_path(reader, "certificate"),
        key: required_path(reader, "key"),
    });
    let heartbeat = milliseconds(reader, "heartbeat_ms", 50..=1000, 100);
    Some(ClusterSettings { listen: listen?, advertise, tls: tls?, controllers, numbering, heartbeat })
}

fn read_advertise(reader: &mut Reader<'_>) -> Option<ServerAddress> {
    const KEY: &str = "advertise";
    let text = reader.text(KEY)?;
    match text.parse::<ServerAddress>() {
        Ok(address) if address.host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()) => {
            reader.fault(KEY, format!("nobody can call {text}; write the address that other nodes reach"));
            None
        }
        Ok(address) => Some(address),
        Err(error) => {
            reader.fault(KEY, format!("\"{text}\" is no server: {error}"));
            None
        }
    }
}

fn read_controllers(reader: &mut Reader<'_>) -> BTreeMap<NodeId, ServerAddress> {
    const KEY: &str = "controllers";
    const FORM: &str = r#"{ 1: "10.0.0.1:7946" }"#;
    let map = match reader.take(KEY) {
        Some(Value::Object(map)) => map,
        Some(other) => {
            reader.fault(KEY, format!("{other} is not a set of node ids and addresses; write it as {FORM}"));
            return BTreeMap::new();
        }
        None => {
            reader.fault(KEY, format!("is missing; give 1, 3 or 5 nodes and their addresses, as {FORM}"));
            return BTreeMap::new();
        }
    };
    if !matches!(map.len(), 1 | 3 | 5) {
        let count = map.len();
        reader.fault(KEY, format!("{count} are given; a fleet has 1, 3 or 5, so that a majority can decide"));
    }
    let mut controllers = BTreeMap::new();
    let mut at = BTreeMap::new();
    for (name, value) in map {
        let path = format!("{KEY}.{name}");
        let id = node_id(&name);
        if id.is_none() {
            reader.fault(
                &path,
                format!("\"{name}\" is no controller's node id; write 1 to 9999, without zeros in front"),
            );
        }
        let address = match server(&value) {
            Ok(address) => address,
            Err(problem) => {
                reader.fault(&path, problem);
                continue;
            }
        };
        if let Some(first) = at.insert(one_spelling(&address), name) {
            reader.fault(&path, format!("{address} is the address of controller {first} already"));
        }
        if let Some(id) = id {
            controllers.insert(id, address);
        }
    }
    controllers
}

/// Finds where the addresses of a node contradict what `controllers` says of it, or of another.
pub(super) fn check_cluster(settings: &Settings, faults: &mut Vec<Fault>) {
    // Of a node whose number could not be read nothing is known.
    if faults.iter().any(|fault| fault.path == "node.id") {
        return;
    }
    let Some(cluster) = &settings.cluster else {
        if settings.node.id == OwnNumber::Auto {
            let problem =
                "`auto` needs a `cluster`, whose leader gives the number; write one, or a number from 1 on";
            faults.push(Fault { path: "node.id".to_owned(), problem: problem.to_owned() });
        }
        return;
    };
    let me = settings.node.id.configured();
    let ClusterSettings { advertise, controllers, .. } = cluster;
    if me.is_some() && cluster.listen.ip().is_unspecified() && is_left_out(advertise, faults) {
        let problem = "is missing: `listen` stands for every address of the machine, and others must know where to \
                       call; write a host and a port, as \"10.0.0.1:7946\"";
        faults.push(Fault { path: "cluster.advertise".to_owned(), problem: problem.to_owned() });
    }
    if cluster.numbering.is_some() && !me.is_some_and(|me| controllers.contains_key(&me)) {
        let problem =
            "is for controllers alone, and this node is none: leave it out, and the key off this machine";
        faults.push(Fault { path: "cluster.numbering".to_owned(), problem: problem.to_owned() });
    }
    let listen = cluster.listen_address();
    let own = [("listen", listen.as_ref()), ("advertise", advertise.as_ref())];
    let own = own.into_iter().filter_map(|(key, address)| Some((key, address?)));
    for (key, address) in own.clone() {
        let is_there = |(node, at): &(&NodeId, &ServerAddress)| Some(**node) != me && is_same(at, address);
        if let Some((other, _)) = controllers.iter().find(is_there) {
            let problem = match me {
                Some(me) => format!(
                    "{address} is the address of controller {other} in `controllers`, and this is node {me}; write the \
                     address of this node, or its `node.id`"
                ),
                None => format!(
                    "{address} is the address of controller {other} in `controllers`, and the leader numbers no controller: \
                     write `node.id: {other}` in place of `auto`, or the address of this node"
                ),
            };
            faults.push(Fault { path: format!("cluster.{key}"), problem });
        }
    }
    let Some((me, stated)) = me.and_then(|me| Some((me, controllers.get(&me)?))) else { return };
    let Some((key, reached)) = own.clone().next_back() else { return };
    if own.into_iter().all(|(_, address)| !may_be_same(stated, address)) {
        let problem = format!(
            "{stated} is not where this node, which is node {me}, says that it is reached: that is {reached} by `{key}`; \
             write one address in both places, or mend `node.id`"
        );
        faults.push(Fault { path: format!("cluster.controllers.{me}"), problem });
    }
}

/// Whether an address that could be advertised is not stated, rather than stated badly.
fn is_left_out(advertise: &Option<ServerAddress>, faults: &[Fault]) -> bool {
    advertise.is_none() && !faults.iter().any(|fault| fault.path == "cluster.advertise")
}

fn is_same(one: &ServerAddress, other: &ServerAddress) -> bool {
    one_spelling(one) == one_spelling(other)
}

/// Whether two addresses may lead to one node: a name may be that of any address.
fn may_be_same(one: &ServerAddress, other: &ServerAddress) -> bool {
    let is_ip = |address: &ServerAddress| address.host.parse::<IpAddr>().is_ok();
    is_same(one, other) || (one.port == other.port && is_ip(one) != is_ip(other))
}

/// The id that a key spells; one spelling per id (no `01`), so that no controller is given twice.
fn node_id(name: &str) -> Option<NodeId> {
    let id = name.parse::<NonZeroU16>().ok()?;
    (id.to_string() == name).then_some(NodeId(id)).filter(|node| !node.is_given())
}

fn server(value: &Value) -> Result<ServerAddress, String> {
    match value {
        Value::String(text) => {
            text.parse().map_err(|error: InvalidServerAddress| format!("\"{text}\" is no server: {error}"))
        }
        Value::Null => Err("is missing; write a host and a port, as \"10.0.0.1:7946\"".to_owned()),
        other => Err(format!("{other} is not a text; write a host and a port, as \"10.0.0.1:7946\"")),
    }
}

/// An address in the spelling by which it is compared: names regardless of case, IPv6 in its short form.
fn one_spelling(address: &ServerAddress) -> (String, NonZeroU16) {
    let host = address.host.trim_end_matches('.').to_ascii_lowercase();
    let host = host.parse::<IpAddr>().map_or(host, |ip| ip.to_string());
    (host, address.port)
}

//! From keys and values to settings: every key, its range, its default, and the rules between keys.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::cluster::{check_cluster, read_cluster};
use super::settings::{
    AdminSettings, EventSettings, HealthSettings, Limits, ListenerSettings, MetricsSettings, NodeSettings,
    OriginSettings, OwnNumber, Settings, TlsFiles,
};
use crate::model::ids::{EventId, NodeId};
use crate::model::numbered::FIRST_GIVEN;
use crate::model::policy::{Fault, Fields, Policy, Reader, RouteMatch, SameSite};
use crate::model::route::is_same_route;

/// Settings made of what could be read, and every fault; they are of use only if there is none.
pub(super) fn read(map: Map<String, Value>) -> (Settings, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut reader = Reader::new("", map, &mut faults);
    let (draft, event_faults) = read_draft(&mut reader);
    reader.finish();
    faults.extend(event_faults);
    check_references(&draft, &mut faults);
    check_addresses(&draft, &mut faults);
    check_cluster(&draft.settings, &mut faults);
    check_events(&draft, &mut faults);
    (draft.settings, faults)
}

/// Settings in which what could not be read is left out; so that later faults have the right path, it is known where in
/// its list everything stood.
struct Draft {
    settings: Settings,
    listeners_at: Vec<usize>,
    events_at: Vec<usize>,
}

impl Draft {
    fn events(&self) -> impl Iterator<Item = (String, &EventSettings)> {
        let path = self.events_at.iter().map(|at| format!("events[{at}]"));
        path.zip(&self.settings.events)
    }
}

fn read_draft(reader: &mut Reader<'_>) -> (Draft, Vec<Fault>) {
    let node = reader.object("node", read_node);
    let node = node.unwrap_or_else(default_node);
    let before = reader.fault_count();
    let listeners = reader.objects("listeners", read_listener).into_iter().enumerate();
    let (listeners_at, listeners): (Vec<_>, Vec<_>) =
        listeners.filter_map(|(at, listener)| Some((at, listener?))).unzip();
    if listeners.is_empty() && reader.fault_count() == before {
        reader.fault("listeners", "is missing; give at least one, as `- address: 0.0.0.0:8080`");
    }
    let trusted_proxies = read_networks(reader, "trusted_proxies");
    let admin = reader.object("admin", |reader| {
        (address(reader, loopback(9900)), reader.text("token_file").map(PathBuf::from))
    });
    let (admin_address, token_file) = admin.unwrap_or((loopback(9900), None));
    let metrics = reader.object("metrics", |reader| address(reader, loopback(9901)));
    let public_path = read_public_path(reader);
    let default_origin = reader.text("default_origin");
    let origins = reader.named_objects("origins", read_origin);
    for (name, _) in &origins {
        if name.parse::<EventId>().is_err() {
            reader.fault(&format!("origins.{name}"), "an origin's name is made of a-z, 0-9 and '-'");
        }
    }
    let (events, event_faults) = read_events(reader);
    let (events_at, events) = events.into_iter().unzip();
    let limits = reader.object("limits", read_limits).unwrap_or_else(default_limits);
    let cluster = reader.object("cluster", read_cluster).flatten();
    reader.refuse(
        "keys",
        "signing keys from files are not in this version yet; leave it out: keys are made on first start and kept in \
         the control log",
    );
    reader.refuse("seal_key_file", "sealing signing keys is not in this version yet; leave it out");
    let settings = Settings {
        admin: AdminSettings {
            address: admin_address,
            token_file: token_file.unwrap_or_else(|| node.data_dir.join("admin.token")),
        },
        node,
        listeners,
        trusted_proxies,
        metrics: MetricsSettings { address: metrics.unwrap_or(loopback(9901)) },
        public_path,
        default_origin,
        origins: origins.into_iter().collect(),
        events,
        limits,
        cluster,
    };
    (Draft { settings, listeners_at, events_at }, event_faults)
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn address(reader: &mut Reader<'_>, default: SocketAddr) -> SocketAddr {
    reader.parsed("address", "an address and a port, as 127.0.0.1:9900 or [::1]:9900").unwrap_or(default)
}

fn read_node(reader: &mut Reader<'_>) -> NodeSettings {
    let id = read_own_number(reader);
    let data_dir = PathBuf::from(reader.text("data_dir").unwrap_or_else(|| "data".to_owned()));
    let upgrade_sock = reader.text("upgrade_sock").map(PathBuf::from);
    NodeSettings {
        id,
        upgrade_sock: upgrade_sock.unwrap_or_else(|| data_dir.join("upgrade.sock")),
        data_dir,
        farewell: Duration::from_secs(reader.number("farewell_s", 1..=86_400).unwrap_or(300)),
    }
}

fn read_own_number(reader: &mut Reader<'_>) -> OwnNumber {
    let first = OwnNumber::Configured(NodeId(NonZeroU16::MIN));
    let highest = FIRST_GIVEN - 1;
    let Some(value) = reader.take("id") else { return first };
    if value == "auto" {
        return OwnNumber::Auto;
    }
    let number = value.as_u64().filter(|id| (1..=u64::from(highest)).contains(id));
    let number = number.and_then(|id| u16::try_from(id).ok()).and_then(NonZeroU16::new);
    if number.is_none() {
        let problem = format!(
            "{value} is not a whole number from 1 to {highest}, nor `auto` for an edge that the leader numbers"
        );
        reader.fault("id", problem);
    }
    number.map_or(first, |number| OwnNumber::Configured(NodeId(number)))
}

fn default_node() -> NodeSettings {
    let mut faults = Vec::new();
    read_node(&mut Reader::new("node", Map::new(), &mut faults))
}

fn read_listener(reader: &mut Reader<'_>) -> Option<ListenerSettings> {
    let address = required_address(reader, "address", "0.0.0.0:8080");
    let tls = reader.object("tls", |reader| TlsFiles {
        certificate: required_path(reader, "certificate"),
        key: required_path(reader, "key"),
    });
    if reader.flag("proxy_protocol") == Some(true) {
        reader.fault(
            "proxy_protocol",
            "the PROXY protocol is not in this version yet; have the balancer send X-Forwarded-For and name it in \
             `trusted_proxies`",
        );
    }
    Some(ListenerSettings { address: address?, tls })
}

/// An address and a port; `example` shows how to write them.
pub(super) fn required_address(
    reader: &mut Reader<'_>,
    key: &'static str,
    example: &str,
) -> Option<SocketAddr> {
    let before = reader.fault_count();
    let address = reader.parsed(key, &format!("an address and a port, as {example} or [::]:8080"));
    if address.is_none() && reader.fault_count() == before {
        reader.fault(key, format!("is missing; write an address and a port, as {example}"));
    }
    address
}

pub(super) fn required_path(reader: &mut Reader<'_>, key: &'static str) -> PathBuf {
    let before = reader.fault_count();
    let path = reader.text(key).unwrap_or_default();
    if path.is_empty() && reader.fault_count() == before {
        reader.fault(key, "is missing; write the path of a PEM file");
    }
    path.into()
}

fn read_networks(reader: &mut Reader<'_>, key: &'static str) -> Vec<ipnet::IpNet> {
    let mut networks = Vec::new();
    for (at, text) in reader.texts(key).iter().enumerate() {
        match text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(Into::into)) {
            Ok(network) => networks.push(network),
            Err(_) => reader.fault(
                &format!("{key}[{at}]"),
                format!("\"{text}\" is no network; write it as 10.0.0.0/8 or 2001:db8::/32"),
            ),
        }
    }
    networks
}

fn read_public_path(reader: &mut Reader<'_>) -> String {
    let Some(path) = reader.text("public_path") else { return "/waitingroom".to_owned() };
    let named = |segment: &str| {
        !segment.is_empty() && segment.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if path.len() > 64 || path.strip_prefix('/').is_none_or(|rest| !rest.split('/').all(named)) {
        reader.fault(
            "public_path",
            format!(
                "\"{path}\" is not a path such as /waitingroom: a-z, 0-9, '-' and '_', no '/' at the end"
            ),
        );
    }
    path
}

fn read_origin(reader: &mut Reader<'_>) -> OriginSettings {
    let before = reader.fault_count();
    let mut servers = Vec::new();
    for (at, text) in reader.texts("servers").iter().enumerate() {
        match text.parse() {
            Ok(server) => servers.push(server),
            Err(error) => {
                let error: super::InvalidServerAddress = error;
                reader.fault(&format!("servers[{at}]"), format!("\"{text}\" is no server: {error}"));
            }
        }
    }
    if servers.is_empty() && reader.fault_count() == before {
        reader.fault("servers", "is missing; give at least one, as [127.0.0.1:3000]");
    }
    OriginSettings {
        servers,
        health: reader.object("health", read_health),
        connect_timeout: milliseconds(reader, "connect_timeout_ms", 1..=60_000, 2000),
        read_timeout: milliseconds(reader, "read_timeout_ms", 1..=3_600_000, 30_000),
    }
}

fn read_health(reader: &mut Reader<'_>) -> HealthSettings {
    let path = reader.text("path").unwrap_or_else(|| "/".to_owned());
    if !path.starts_with('/') || !path.chars().all(|c| c.is_ascii_graphic()) {
        reader.fault("path", format!("\"{path}\" is no path; write it as /healthz"));
    }
    let interval = Duration::from_secs(reader.number("interval_s", 1..=3600).unwrap_or(5));
    HealthSettings { path, interval }
}

pub(super) fn milliseconds(
    reader: &mut Reader<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
    default: u64,
) -> Duration {
    Duration::from_millis(reader.number(key, range).unwrap_or(default))
}

fn default_limits() -> Limits {
    let mut faults = Vec::new();
    read_limits(&mut Reader::new("limits", Map::new(), &mut faults))
}

fn read_limits(reader: &mut Reader<'_>) -> Limits {
    let joins_per_sec = rate(reader, "joins_per_sec", 20_000);
    let per_address = reader.object("per_address", |reader| {
        (rate(reader, "joins_per_min", 600), rate(reader, "strangers_per_min", 600))
    });
    let default = NonZeroU32::MIN.saturating_add(599);
    let (joins_per_min, strangers_per_min) = per_address.unwrap_or((default, default));
    Limits { joins_per_sec, joins_per_min, strangers_per_min }
}

fn rate(reader: &mut Reader<'_>, key: &'static str, default: u32) -> NonZeroU32 {
    let given = reader.number(key, 1..=1_000_000).and_then(|rate| u32::try_from(rate).ok());
    NonZeroU32::new(given.unwrap_or(default)).unwrap_or(NonZeroU32::MIN)
}

/// The events, each with the faults of its policy under `events[n]`.
fn read_events(reader: &mut Reader<'_>) -> (Vec<(usize, EventSettings)>, Vec<Fault>) {
    let (mut events, mut faults) = (Vec::new(), Vec::new());
    for (at, value) in reader.list("events").into_iter().enumerate() {
        let path = format!("events[{at}]");
        let Value::Object(mut map) = value else {
            reader.fault(&path, "is not a set of keys and values");
            continue;
        };
        // A key without a value counts as left out, so it must not be submitted to the log as one that was stated.
        map.retain(|_, value| !value.is_null());
        let id = match map.remove("id") {
            Some(Value::String(id)) => id.parse::<EventId>().map_err(|error| format!("\"{id}\": {error}")),
            Some(other) => Err(format!("{other} is not a text")),
            None => Err("is missing; it names the event, as spring-tour".to_owned()),
        };
        let fields = Fields::from(map);
        let (policy, policy_faults) = Policy::read(&fields);
        let id_fault =
            id.as_ref().err().map(|problem| Fault { path: "id".to_owned(), problem: problem.clone() });
        let all = id_fault.into_iter().chain(policy_faults);
        faults.extend(all.map(|fault| Fault { path: format!("{path}.{}", fault.path), ..fault }));
        // What is at fault is kept, so that what else is wrong with it is told at the same time.
        if let Ok(id) = id.or_else(|_| "unnamed".parse()) {
            events.push((at, EventSettings { id, fields, policy }));
        }
    }
    (events, faults)
}

fn check_references(draft: &Draft, faults: &mut Vec<Fault>) {
    let settings = &draft.settings;
    let known: Vec<_> = settings.origins.keys().map(String::as_str).collect();
    let known = known.join(", ");
    let mut check = |path: String, name: &str| {
        if !settings.origins.contains_key(name) {
            let known = if known.is_empty() { "none are given" } else { &known };
            let problem = format!("there is no origin \"{name}\" in `origins` ({known})");
            faults.push(Fault { path, problem });
        }
    };
    if let Some(name) = &settings.default_origin {
        check("default_origin".to_owned(), name);
    }
    for (path, event) in draft.events() {
        if let Some(name) = &event.policy.origin {
            check(format!("{path}.origin"), name);
        }
    }
}

fn check_addresses(draft: &Draft, faults: &mut Vec<Fault>) {
    let settings = &draft.settings;
    let listeners = draft.listeners_at.iter().zip(&settings.listeners);
    let listeners = listeners.map(|(at, listener)| (format!("listeners[{at}].address"), listener.address));
    let own = [("admin.address", settings.admin.address), ("metrics.address", settings.metrics.address)];
    let peers = settings.cluster.as_ref().map(|cluster| ("cluster.listen", cluster.listen));
    let own = own.into_iter().chain(peers);
    let mut seen = BTreeMap::new();
    for (path, address) in listeners.chain(own.map(|(path, address)| (path.to_owned(), address))) {
        if address.port() == 0 {
            // Port 0 is a port of the system's choice: two of them never clash.
            continue;
        }
        if let Some(first) = seen.insert(address, path.clone()) {
            faults.push(Fault { path, problem: format!("{address} is taken by `{first}` already") });
        }
    }
}

fn check_events(draft: &Draft, faults: &mut Vec<Fault>) {
    let settings = &draft.settings;
    let mut ids = BTreeSet::new();
    let mut routes: Vec<(&RouteMatch, &EventId)> = Vec::new();
    let plain_only = settings.listeners.iter().all(|listener| listener.tls.is_none());
    for (at, event) in draft.events() {
        let has_id = faults.iter().all(|fault| fault.path != format!("{at}.id"));
        let mut fault = |path: String, problem: String| {
            let path = format!("{at}.{path}");
            // What could not be read is not missing.
            if faults.iter().all(|known| known.path != path) {
                faults.push(Fault { path, problem });
            }
        };
        if has_id && !ids.insert(&event.id) {
            fault("id".to_owned(), format!("there is an event \"{}\" above already", event.id));
        }
        if event.policy.origin.is_none() && settings.default_origin.is_none() {
            let problem = "is missing, and there is no `default_origin`; name one of `origins`";
            fault("origin".to_owned(), problem.to_owned());
        }
        if event.policy.cookie.same_site == SameSite::None
            && plain_only
            && settings.trusted_proxies.is_empty()
        {
            let problem =
                "none needs TLS: no listener has it, and no proxy that could is in `trusted_proxies`";
            fault("cookie.same_site".to_owned(), problem.to_owned());
        }
        for (number, route) in event.policy.routes.iter().enumerate() {
            if let Some(problem) = settings.reserved(&route.path) {
                fault(format!("match[{number}].path"), problem);
            }
            let same = |(other, _): &&(&RouteMatch, &EventId)| is_same_route(route, other);
            if let Some((_, first)) = routes.iter().find(same) {
                let problem = format!("event {first} matches the same host and path already");
                fault(format!("match[{number}]"), problem);
            }
            routes.push((route, &event.id));
        }
    }
}

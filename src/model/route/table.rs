//! The routes of all events, most specific first.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::path::{below, normalise};
use super::{NormalPath, Refused};
use crate::model::ids::EventId;
use crate::model::policy::{Policy, RouteMatch};

/// Whose requests are whose: an exact host goes before a suffix, a longer suffix before a shorter one, both before any
/// host; under one host the longer path goes first. Paths are compared without regard to ASCII case, since the origin
/// may not regard it either. A route whose path is no path is left out. Of two events with the same route the first
/// one given has it.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    exact: HashMap<Box<str>, Vec<Route>>,
    /// Suffixes with their leading dot, longest first.
    suffixes: Vec<(Box<str>, Vec<Route>)>,
    any: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Route {
    path: Box<[u8]>,
    event: EventId,
}

/// Whether two routes stand for the same requests.
#[must_use]
pub fn is_same_route(one: &RouteMatch, other: &RouteMatch) -> bool {
    let host = |route: &RouteMatch| route.host.clone().filter(|host| host != "*");
    let path = |route: &RouteMatch| {
        let path = normalise(route.path.as_bytes()).ok()?;
        let path = path.plain();
        Some(path.strip_suffix(b"/").unwrap_or(path).to_ascii_lowercase())
    };
    host(one) == host(other) && path(one).is_some() && path(one) == path(other)
}

/// Whether every path that lies below `inner` lies below `outer`; both are paths of routes or rules.
#[must_use]
pub fn covers(outer: &str, inner: &str) -> bool {
    covers_bytes(outer.as_bytes(), inner.as_bytes())
}

fn covers_bytes(outer: &[u8], inner: &[u8]) -> bool {
    below(inner, outer, <[u8]>::eq_ignore_ascii_case)
}

impl RouteTable {
    /// The table of these events.
    #[must_use]
    pub fn build<'p>(events: impl IntoIterator<Item = (EventId, &'p Policy)>) -> Self {
        let mut table = Self::default();
        let mut suffixes: HashMap<Box<str>, Vec<Route>> = HashMap::new();
        for (event, policy) in events {
            for route in &policy.routes {
                let Ok(path) = normalise(route.path.as_bytes()) else { continue };
                let path = path.plain().into();
                let entry = Route { path, event: event.clone() };
                match route.host.as_deref() {
                    None | Some("*") => table.any.push(entry),
                    Some(host) => match host.strip_prefix('*') {
                        Some(suffix) => suffixes.entry(suffix.into()).or_default().push(entry),
                        None => table.exact.entry(host.into()).or_default().push(entry),
                    },
                }
            }
        }
        table.suffixes = suffixes.into_iter().collect();
        table.suffixes.sort_by_key(|(suffix, _)| Reverse(suffix.len()));
        let lists = table.exact.values_mut().chain(table.suffixes.iter_mut().map(|(_, routes)| routes));
        for routes in lists.chain([&mut table.any]) {
            routes.sort_by_key(|route| Reverse(route.path.len()));
        }
        table
    }

    /// The event that guards a path of a host (as [`super::normalise_host`] gives it); `None`: no event does.
    ///
    /// # Errors
    /// [`Refused::Ambiguous`] if two events would each guard a reading of the path.
    pub fn find(&self, host: Option<&str>, path: &NormalPath<'_>) -> Result<Option<&EventId>, Refused> {
        let mut found: Option<&EventId> = None;
        for event in path.readings().filter_map(|reading| self.find_reading(host, reading)) {
            if found.is_some_and(|other| other != event) {
                return Err(Refused::Ambiguous);
            }
            found = Some(event);
        }
        Ok(found)
    }

    /// Whether an event guards all that this route stands for.
    #[must_use]
    pub fn has(&self, route: &RouteMatch) -> bool {
        let list = match route.host.as_deref() {
            None | Some("*") => Some(&self.any),
            Some(host) => match host.strip_prefix('*') {
                Some(suffix) => self.suffixes.iter().find(|(own, _)| **own == *suffix).map(|(_, list)| list),
                None => self.exact.get(host),
            },
        };
        let guards = |list: &[Route]| list.iter().any(|own| covers_bytes(&own.path, route.path.as_bytes()));
        guards(&self.any) || list.is_some_and(|list| guards(list))
    }

    /// Whether requests of this host can match routes of more than one event.
    #[must_use]
    pub fn shares_host(&self, host: Option<&str>) -> bool {
        let mut events = self.lists(host).flatten().map(|route| &route.event);
        let first = events.next();
        events.any(|event| Some(event) != first)
    }

    fn find_reading(&self, host: Option<&str>, path: &[u8]) -> Option<&EventId> {
        self.lists(host)
            .flatten()
            .find(|route| below(path, &route.path, <[u8]>::eq_ignore_ascii_case))
            .map(|route| &route.event)
    }

    /// The routes that a host can match, most specific host first.
    fn lists<'t>(&'t self, host: Option<&str>) -> impl Iterator<Item = &'t [Route]> {
        let exact = host.and_then(|host| self.exact.get(host));
        let suffixes = self.suffixes.iter().filter(move |(suffix, _)| {
            host.is_some_and(|host| host.len() > suffix.len() && host.ends_with(suffix.as_ref()))
        });
        exact
            .into_iter()
            .chain(suffixes.map(|(_, routes)| routes))
            .map(Vec::as_slice)
            .chain(std::iter::once(self.any.as_slice()))
    }
}

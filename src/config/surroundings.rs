//! What a configuration file makes of an event that it need not hold itself: the surroundings of every policy.

use serde_json::Value;

use super::settings::Settings;
use crate::model::ids::EventId;
use crate::model::policy::{Fault, Fields, Policy, RouteMatch, SameSite};
use crate::model::route::{covers, normalise};

impl Settings {
    /// What the file has against fields of an event, each of which would leave visitors without an answer.
    #[must_use]
    pub fn faults_of(&self, fields: &Fields) -> Vec<Fault> {
        let stated = fields.to_map();
        let mut faults = Vec::new();
        if let Some(name) = stated.get("origin").and_then(Value::as_str)
            && !self.origins.contains_key(name)
        {
            let problem =
                format!("there is no origin \"{name}\" in the configuration file; add it there and reload");
            faults.push(Fault { path: "origin".to_owned(), problem });
        }
        let routes = stated.get("match").and_then(Value::as_array).into_iter().flatten().enumerate();
        for (at, route) in routes {
            let path = route.get("path").and_then(Value::as_str).unwrap_or("/");
            faults.extend(
                self.reserved(path).map(|problem| Fault { path: format!("match[{at}].path"), problem }),
            );
        }
        faults
    }

    /// What is wrong with a route to a path that the waiting room itself answers at.
    pub(super) fn reserved(&self, path: &str) -> Option<String> {
        let public = self.public_path.as_str();
        let below = normalise(path.as_bytes()).is_ok_and(|path| path.is_below(public));
        below.then(|| format!("lies below `public_path` ({public}), which is never gated"))
    }

    /// What an operator should know of a policy in these surroundings.
    #[must_use]
    pub fn warnings_of(&self, event: &EventId, policy: &Policy) -> Vec<String> {
        let mut warnings = Vec::new();
        if policy.origin.is_none() && self.default_origin.is_none() {
            let warning = "no `origin` is named and the configuration file has no `default_origin`: nobody serves the \
                           visitors";
            warnings.push(warning.to_owned());
        }
        if policy.cookie.same_site == SameSite::None {
            let plain = self.listeners.iter().filter(|listener| listener.tls.is_none());
            warnings.extend(plain.map(|listener| {
                format!(
                    "`cookie.same_site: none` needs TLS, and the listener {} has none: browsers drop such cookies on \
                     plain HTTP",
                    listener.address
                )
            }));
        }
        // Of a change or a file it is a fault; but the path may be another one than when the event was made.
        let reserved = policy.routes.iter().filter_map(|route| Some((route, self.reserved(&route.path)?)));
        warnings.extend(reserved.map(|(route, problem)| format!("{} {problem}", route.path)));
        warnings.extend(policy.routes.iter().filter_map(|route| self.detour(event, policy, route)));
        warnings
    }

    /// How a visitor passes the gate of a route by naming another host, if that is so.
    fn detour(&self, event: &EventId, policy: &Policy, route: &RouteMatch) -> Option<String> {
        let host = route.host.as_deref()?;
        let default = self.default_origin.as_ref()?;
        let servers = |name: &String| self.origins.get(name).map(|origin| origin.servers.as_slice());
        let own = servers(policy.origin.as_ref().unwrap_or(default)).unwrap_or_default();
        let open = servers(default).unwrap_or_default();
        if !own.iter().any(|server| open.contains(server)) {
            return None;
        }
        let others = self.events.iter().filter(|other| other.id != *event).map(|other| &other.policy);
        let mut routes = others.chain([policy]).flat_map(|policy| &policy.routes);
        let gated = routes.any(|other| other.host.is_none() && covers(&other.path, &route.path));
        (!gated).then(|| {
            format!(
                "{} is guarded for the host {host} only, and `default_origin` leads every other host to the same \
                 servers: whoever names another host passes the gate, unless those servers refuse it. Leave out \
                 `host` or `default_origin`",
                route.path
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::config::parse;

    const TOUR: &str = "capacity: 1, max_admit_per_sec: 1, origin: shop";

    /// A file in which `default_origin` and the event's origin share a server.
    fn settings(default: &str, events: &[&str]) -> Settings {
        let events: Vec<_> = events.iter().map(|event| format!("  - {{ {TOUR}, {event} }}\n")).collect();
        let text = format!(
            "listeners: [ {{ address: 127.0.0.1:8080 }} ]\n{default}\norigins:\n  shop: {{ servers: [127.0.0.1:3000] }}\n  \
             same: {{ servers: [127.0.0.1:3001, 127.0.0.1:3000] }}\n  other: {{ servers: [127.0.0.1:3001] }}\n\
             events:\n{}",
            events.concat()
        );
        parse(&text, Path::new("/")).unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn detours(settings: &Settings) -> usize {
        settings.warnings().iter().filter(|warning| warning.contains("passes the gate")).count()
    }

    #[test]
    fn a_gate_that_another_host_name_leads_around_is_warned_of() {
        let bound = "id: tour, match: [ { host: a.example, path: /buy }, { host: '*.b.example' } ]";
        assert_eq!(detours(&settings("default_origin: shop", &[bound])), 2);
        assert_eq!(detours(&settings("default_origin: same", &[bound])), 2, "one server in common is enough");
        assert_eq!(detours(&settings("default_origin: other", &[bound])), 0);
        assert_eq!(detours(&settings("", &[bound])), 0);
        let any = "id: tour, match: [ { path: /buy } ]";
        assert_eq!(detours(&settings("default_origin: shop", &[any])), 0);
        let rest = "id: rest, match: [ { path: /buy } ]";
        assert_eq!(detours(&settings("default_origin: shop", &[bound, rest])), 1, "/buy is guarded anyway");
        let rest = "id: rest, match: [ { path: /buy/now } ]";
        assert_eq!(detours(&settings("default_origin: shop", &[bound, rest])), 2);
    }

    #[test]
    fn cookies_that_need_tls_are_warned_of_where_a_listener_has_none() {
        let event = "id: tour, match: [ { path: /buy } ], cookie: { same_site: none }";
        let mut settings = settings("trusted_proxies: [10.0.0.0/8]", &[event]);
        let warned = |settings: &Settings| {
            settings.warnings().iter().filter(|warning| warning.contains("same_site")).count()
        };
        assert_eq!(warned(&settings), 1);
        let file = std::path::PathBuf::from("x.pem");
        settings.listeners[0].tls = Some(crate::config::TlsFiles { certificate: file.clone(), key: file });
        assert_eq!(warned(&settings), 0);
    }

    #[test]
    fn fields_that_would_leave_visitors_without_an_answer_are_at_fault() {
        let settings = settings("", &["id: tour, match: [ { path: /buy } ]"]);
        let stated = json!({ "origin": "shopp", "match": [
            { "path": "/waitingrooms" }, { "path": "/waitingroom" }, { "path": "/waitingroom/x" }, {}, { "path": "/" },
        ] });
        let faults = settings.faults_of(&Fields::from(stated.as_object().unwrap().clone()));
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["origin", "match[1].path", "match[2].path"]);
    }
}

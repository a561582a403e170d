//! What an operator should know about a policy that is not at fault.

use super::{BypassRule, Mode, NameValue, OwnCookie, Policy, RouteMatch};
use crate::model::route::covers;

impl Policy {
    /// What an operator should know about a policy that is not at fault.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |condition: bool, text: &str| {
            if condition {
                warnings.push(text.to_owned());
            }
        };
        warn(self.routes.is_empty(), "no request matches this event until `match` is given");
        warn(
            self.schedule.opening_bucket_seconds > 0,
            "`schedule.opening_bucket_seconds` leaves the origin idle for that long after the opening",
        );
        warn(self.mode == Mode::Observe, "`mode: observe` lets everybody through");
        warn(self.mode == Mode::Bypass, "`mode: bypass` lets everybody through");
        if let Some(domain) = &self.cookie.domain
            && self.routes.iter().any(|route| route.host.is_none())
        {
            warnings.push(format!(
                "`cookie.domain` is {domain}, and a route has no `host`: visitors of hosts outside of that domain can \
                 keep no cookie, and cannot wait"
            ));
        }
        for (at, rule) in self.bypass.iter().enumerate() {
            if let Some(why) = never_holds(rule, &self.routes) {
                warnings.push(format!("`bypass[{at}]` lets nobody through: {why}"));
            } else if always_holds(rule, &self.routes) {
                warnings.push(format!(
                    "`bypass[{at}]` lets everybody through; give it a condition that only some requests meet"
                ));
            }
        }
        warnings
    }
}

/// Why no request can ever meet a rule, if that is plain to see.
fn never_holds(rule: &BypassRule, routes: &[RouteMatch]) -> Option<String> {
    if *rule == (BypassRule { count: rule.count, ..BypassRule::default() }) {
        return Some("it states no condition".to_owned());
    }
    if let Some(path) = &rule.path
        && !routes.is_empty()
        && !routes.iter().any(|route| covers(&route.path, path) || covers(path, &route.path))
    {
        return Some(format!("the event matches nothing at {path}"));
    }
    if !rule.methods.is_empty() && !rule.methods.iter().any(|method| is_token(method)) {
        return Some(format!("there is no method {}", rule.methods.join(", ")));
    }
    let headers = rule.header.iter().filter_map(|header| odd_pair("header", header, is_header_value));
    let cookies = rule.cookie.iter().filter_map(|cookie| {
        let own = OwnCookie::read(&cookie.name);
        let kept = own.map(|_| format!("the cookie {} is the waiting room's own", cookie.name));
        kept.or_else(|| odd_pair("cookie", cookie, is_cookie_value))
    });
    headers.chain(cookies).next()
}

fn odd_pair(kind: &str, pair: &NameValue, is_value: fn(&str) -> bool) -> Option<String> {
    if !is_token(&pair.name) {
        return Some(format!("no {kind} can be named {:?}", pair.name));
    }
    let value = pair.value.as_deref().filter(|value| !is_value(value))?;
    Some(format!("no {kind} can have the value {value:?}"))
}

/// Whether every request of the event meets a rule, or all from addresses of one kind.
fn always_holds(rule: &BypassRule, routes: &[RouteMatch]) -> bool {
    let everywhere = rule.path.as_deref().is_none_or(|path| {
        path == "/" || (!routes.is_empty() && routes.iter().all(|route| covers(path, &route.path)))
    });
    let from_anywhere = rule.networks.is_empty() || rule.networks.iter().any(|net| net.prefix_len() == 0);
    everywhere && from_anywhere && rule.methods.is_empty() && rule.header.is_none() && rule.cookie.is_none()
}

/// Whether a text can be the name of a method, a header or a cookie (RFC 9110, `token`).
fn is_token(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}

fn is_header_value(text: &str) -> bool {
    text == text.trim_matches([' ', '\t']) && !text.chars().any(|c| c.is_control() && c != '\t')
}

fn is_cookie_value(text: &str) -> bool {
    is_header_value(text) && !text.contains(';')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::policy::Fields;

    fn warnings(rule: &serde_json::Value) -> Vec<String> {
        let fields = json!({
            "capacity": 1, "max_admit_per_sec": 1, "match": [{ "path": "/buy" }, { "path": "/pay" }], "bypass": [rule],
        });
        Policy::from_fields(&Fields::from(fields.as_object().unwrap().clone())).unwrap().warnings()
    }

    #[test]
    fn a_rule_that_lets_nobody_through_is_warned_of() {
        for rule in [
            json!({}),
            json!({ "count": true }),
            json!({ "path": "/healthz" }),
            json!({ "path": "/buyer" }),
            json!({ "methods": ["G T"] }),
            json!({ "header": { "name": "x y" } }),
            json!({ "header": { "name": "x", "value": "a\nb" } }),
            json!({ "cookie": { "name": "wr_pass" } }),
            json!({ "cookie": { "name": "wr_line_tour" } }),
            json!({ "cookie": { "name": "a", "value": "1; b=2" } }),
        ] {
            let told = warnings(&rule);
            assert!(told.len() == 1 && told[0].contains("`bypass[0]` lets nobody"), "{rule}: {told:?}");
        }
    }

    #[test]
    fn a_rule_that_lets_everybody_through_is_warned_of() {
        for rule in [
            json!({ "path": "/" }),
            json!({ "networks": ["0.0.0.0/0"] }),
            json!({ "path": "/", "networks": ["10.0.0.0/8", "::/0"] }),
        ] {
            let told = warnings(&rule);
            assert!(told.len() == 1 && told[0].contains("`bypass[0]` lets everybody"), "{rule}: {told:?}");
        }
    }

    #[test]
    fn a_rule_that_some_requests_meet_is_not_warned_of() {
        for rule in [
            json!({ "path": "/buy" }),
            json!({ "path": "/BUY/healthz" }),
            json!({ "methods": ["get"] }),
            json!({ "path": "/", "methods": ["GET"] }),
            json!({ "networks": ["10.0.0.0/8"] }),
            json!({ "header": { "name": "X-Key", "value": "a b" } }),
            json!({ "cookie": { "name": "wr_passport" } }),
        ] {
            assert_eq!(warnings(&rule), Vec::<String>::new(), "{rule}");
        }
    }

    #[test]
    fn a_cookie_domain_beside_a_route_of_any_host_is_warned_of() {
        let fields = json!({
            "capacity": 1, "max_admit_per_sec": 1, "match": [{ "path": "/" }], "cookie": { "domain": "example.com" },
        });
        let policy = Policy::from_fields(&Fields::from(fields.as_object().unwrap().clone())).unwrap();
        assert!(policy.warnings()[0].contains("`cookie.domain` is example.com"));
    }
}

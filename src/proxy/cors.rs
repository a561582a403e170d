//! Which scripts of other origins may read what Anteroom itself answers.

use http::uri::Authority;
use http::{StatusCode, header};

use super::answer::Answer;
use super::asked::{Asked, FetchSite};
use super::cookies::Transport;
use super::names::{ANTEROOM_PASS, ANTEROOM_TICKET};
use crate::model::policy::Policy;
use crate::model::route::normalise_host;

/// With what lets the page's script read the answer, if its origin may.
pub(super) fn readable(answer: Answer, asked: &Asked, policy: &Policy) -> Answer {
    match allowed_origin(asked, policy) {
        Some(origin) => answer
            .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin)
            .header(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")
            .header(header::ACCESS_CONTROL_EXPOSE_HEADERS, "Retry-After")
            .header(header::VARY, "Origin"),
        None => answer,
    }
}

/// The answer to a preflight of a call to the waiting room.
pub(super) fn preflight(asked: &Asked, policy: &Policy, methods: &'static str) -> Answer {
    let answer = Answer::empty(StatusCode::NO_CONTENT).header(header::ALLOW, methods);
    match allowed_origin(asked, policy) {
        Some(origin) => answer
            .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin)
            .header(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")
            .header(header::ACCESS_CONTROL_ALLOW_METHODS, methods)
            .header(
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                format!("Content-Type, {ANTEROOM_TICKET}, {ANTEROOM_PASS}"),
            )
            .header(header::ACCESS_CONTROL_MAX_AGE, "600")
            .header(header::VARY, "Origin"),
        None => answer,
    }
}

/// Whether a page of another site has its visitor's browser ask this: cookies come along, and the visitor may not know.
/// Programs state no origin, and browsers say of their own accord where a request comes from.
pub(super) fn is_forged(asked: &Asked, policy: &Policy) -> bool {
    match (asked.fetch_site, &asked.origin) {
        (FetchSite::SameOrigin, _) => false,
        (_, Some(_)) => allowed_origin(asked, policy).is_none(),
        (site, None) => site == FetchSite::CrossSite,
    }
}

/// An origin or a host with its port.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    host: String,
    port: u16,
}

impl Site {
    fn read(scheme: &str, authority: &str) -> Option<Self> {
        let parsed: Authority = authority.parse().ok()?;
        let host = normalise_host(authority).ok()?.into_owned();
        Some(Self { host, port: parsed.port_u16().unwrap_or(default_port(scheme)?) })
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// The page's origin, if its scripts may read the answer: on the same host and port, or within the cookies' domain on
/// the same port or its scheme's own. Another port may be somebody else's server, and cookies do not tell ports apart.
fn allowed_origin(asked: &Asked, policy: &Policy) -> Option<String> {
    let origin = asked.origin.as_deref()?;
    let (scheme, authority) = origin.split_once("://")?;
    let site = Site::read(scheme, authority)?;
    if asked.transport == Transport::Secure && scheme != "https" {
        return None;
    }
    let here = asked.named_host.as_deref().and_then(|host| Site::read(asked.transport.scheme(), host));
    let within = policy.cookie.domain.as_deref().is_some_and(|domain| {
        let domain = domain.trim_start_matches('.');
        site.host == domain || site.host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    });
    let same_port = here.as_ref().is_some_and(|here| here.port == site.port);
    let sibling = within && (same_port || default_port(scheme) == Some(site.port));
    // Where TLS ends before a proxy that does not say so, `https` is asked in plain text.
    let same = here.as_ref() == Some(&site)
        || here.is_some_and(|here| here.host == site.host && here.port == 80 && site.port == 443);
    (same || sibling).then(|| origin.to_owned())
}

//! What a request asks and who asks it, read once.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use ipnet::IpNet;
use pingora::http::RequestHeader;
use pingora::http::authority::raw_target_authority;
use pingora_proxy::Session;

use super::accept::Accepted;
use super::cookies::{Shown, Transport};
use super::names::{OTHER_METHODS, PROXIES_ONLY, PURPOSES, SEC_FETCH_DEST, SEC_FETCH_MODE, SEC_FETCH_SITE};
use super::way::Way;
use crate::model::language::Language;
use crate::model::route::{Refused, normalise_host};
use crate::page::preferred_language;

/// How a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// A page that a person goes to: may be sent elsewhere.
    Navigation,
    /// An `Upgrade`, as of a WebSocket.
    Upgrade,
    /// A CORS preflight.
    Preflight,
    /// Anything else: scripts, programs, forms.
    Call,
}

/// Whether somebody may be looking at what is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attention {
    /// As far as can be told.
    Somebody,
    /// It was asked for ahead of time, as a part of another page, or for its head alone.
    Nobody,
}

/// Whose page asks, as browsers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchSite {
    /// One of the very origin that is asked.
    SameOrigin,
    /// One of another site.
    CrossSite,
    /// One of the same site, none, or nobody says.
    Other,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    /// Path and query as sent.
    pub(super) target: String,
    /// The host as it is compared; `None`: not sent (HTTP/1.0).
    pub(super) host: Option<String>,
    /// The visitor's address, as far as it can be believed.
    pub(super) address: IpAddr,
    pub(super) transport: Transport,
    pub(super) manner: Manner,
    pub(super) attention: Attention,
    pub(super) accepted: Accepted,
    pub(super) shown: Shown,
    /// The `Origin` header; empty if it is no text.
    pub(super) origin: Option<String>,
    pub(super) fetch_site: FetchSite,
    /// The host, with its port if it has one, that the visitor asked, as far as it can be believed.
    pub(super) named_host: Option<String>,
    /// The `Accept-Language` header: read only where a page is shown.
    languages: Option<HeaderValue>,
    way: Way,
}

impl Asked {
    /// Reads a request; a host that is none is refused, and the path is left to be read by its readings.
    pub(super) fn read(session: &Session, trusted: &[IpNet]) -> Result<Self, Refused> {
        let request = session.req_header();
        let target = target_of(request)?;
        let raw_host = raw_host_of(request)?;
        let says_host = raw_host.is_some() && request.headers.contains_key(header::HOST);
        if !says_host && request.version == Version::HTTP_11 {
            return Err(Refused::NotAHost);
        }
        let host = match raw_host {
            None => None,
            Some(host) => Some(normalise_host(host)?.into_owned()),
        };
        let peer = session
            .client_addr()
            .and_then(|address| address.as_inet())
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip().to_canonical());
        let tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
        let headers = &request.headers;
        let way = Way::new(peer, if tls { Transport::Secure } else { Transport::Plain }, trusted);
        let accepted = Accepted::read(text(headers, &header::ACCEPT));
        let manner = manner_of(session, accepted);
        // A page fetched ahead of time is shown to nobody, perhaps: it shall not take a place.
        let ahead = is_ahead(headers);
        Ok(Self {
            method: request.method.clone(),
            host,
            address: way.visitor(headers, trusted),
            transport: way.transport(headers),
            manner: if ahead && manner == Manner::Navigation { Manner::Call } else { manner },
            attention: if ahead { Attention::Nobody } else { attention_of(request, accepted) },
            accepted,
            shown: Shown::read(headers),
            origin: headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default().to_owned()),
            fetch_site: match text(headers, &SEC_FETCH_SITE) {
                Some("same-origin") => FetchSite::SameOrigin,
                Some("cross-site") => FetchSite::CrossSite,
                _ => FetchSite::Other,
            },
            languages: headers.get(header::ACCEPT_LANGUAGE).cloned(),
            named_host: way.named_host(headers, raw_host).map(str::to_owned),
            way,
            target,
        })
    }

    /// Makes the origin see the very path and host that were judged, whatever form they came in; `sent` is the request
    /// that was read.
    pub(super) fn state_target(
        &self,
        sent: &RequestHeader,
        request: &mut RequestHeader,
    ) -> pingora::Result<()> {
        if request.raw_path() != self.target.as_bytes() {
            request.set_raw_path(self.target.as_bytes())?;
        }
        match raw_host_of(sent) {
            Ok(Some(host)) if text(&request.headers, &header::HOST) != Some(host) => {
                request.insert_header(header::HOST, host)
            }
            _ => Ok(()),
        }
    }

    /// Takes off what the origin would believe of a proxy, unless a trusted one said it.
    pub(super) fn take_off_hearsay(&self, request: &mut RequestHeader) {
        if !self.way.is_believed() {
            for name in &PROXIES_ONLY {
                request.remove_header(name);
            }
        }
    }

    /// The addresses on the way here, as the origin is told them; `headers` are those of the request that was read.
    pub(super) fn addresses(&self, headers: &HeaderMap) -> String {
        self.way.addresses(headers)
    }

    /// The language that pages are shown in: the one that was chosen, or else the browser's, or else the event's.
    pub(super) fn language(&self, of_event: Language) -> Language {
        let of_browser = || preferred_language(self.languages.as_ref()?.to_str().ok()?);
        self.shown.language.or_else(of_browser).unwrap_or(of_event)
    }

    /// The path as sent.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The value of a parameter of the query, decoded; the first one counts.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| decode(value))
    }
}

/// Path and query of a request. Of a whole URL Pingora has cut them out; any other target that does not begin with `/`
/// is read differently by every origin.
fn target_of(request: &RequestHeader) -> Result<String, Refused> {
    let raw = request.raw_path();
    let scheme = raw.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_web = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    let is_url = is_web && raw_target_authority(raw).authority().is_some();
    let target = match (raw.first(), request.uri.path_and_query()) {
        (Some(b'/'), _) => raw,
        (_, Some(target)) if is_url => target.as_str().as_bytes(),
        _ => return Err(Refused::NotAPath),
    };
    String::from_utf8(target.to_vec()).map_err(|_| Refused::NotAPath)
}

fn raw_host_of(request: &RequestHeader) -> Result<Option<&str>, Refused> {
    if let Some(authority) = request.uri.authority() {
        return Ok(Some(authority.as_str()));
    }
    // A URL with a host is as good as the header, which HTTP/1.0 may leave out; Pingora refuses two that differ.
    let header = request.headers.get(header::HOST).map(|host| host.as_bytes());
    let Some(host) = header.or_else(|| raw_target_authority(request.raw_path()).authority()) else {
        return Ok(None);
    };
    let host = std::str::from_utf8(host).map_err(|_| Refused::NotAHost)?;
    Ok((!host.is_empty()).then_some(host))
}

/// The value of a header, if it is text.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn manner_of(session: &Session, accepted: Accepted) -> Manner {
    let request = session.req_header();
    let headers = &request.headers;
    if session.is_upgrade_req() {
        return Manner::Upgrade;
    }
    if is_preflight(request) {
        return Manner::Preflight;
    }
    let reads = request.method == Method::GET || request.method == Method::HEAD;
    let goes = text(headers, &SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate");
    if reads && goes && accepted.names_html() { Manner::Navigation } else { Manner::Call }
}

/// Whether a request is a CORS preflight and nothing more: it has no body, and asks for no other method to be meant.
fn is_preflight(request: &RequestHeader) -> bool {
    let headers = &request.headers;
    request.method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && text(headers, &header::CONTENT_LENGTH).is_none_or(|length| length.trim() == "0")
        && !headers.contains_key(header::TRANSFER_ENCODING)
        && !OTHER_METHODS.iter().any(|name| headers.contains_key(name))
}

/// Whether a browser fetches a page that nobody has gone to yet.
fn is_ahead(headers: &HeaderMap) -> bool {
    PURPOSES.iter().any(|name| text(headers, name).is_some_and(|purpose| purpose.contains("prefetch")))
}

fn attention_of(request: &RequestHeader, accepted: Accepted) -> Attention {
    let headers = &request.headers;
    // By Fetch metadata, and else by what can be made of the answer: a picture takes neither a page nor JSON.
    let part = text(headers, &SEC_FETCH_DEST)
        .is_some_and(|dest| !matches!(dest, "document" | "iframe" | "frame" | "fencedframe" | "empty"));
    let unseen = request.method == Method::HEAD || part || accepted.takes_neither();
    if unseen { Attention::Nobody } else { Attention::Somebody }
}

/// Undoes the percent-encoding of a value in a query; `None` if it is no text then.
fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let pair = after.first_chunk::<2>().filter(|_| first == b'%');
        let escaped = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => bytes.push(first),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes a value for a query: all but letters, digits, `-`, `.`, `_`, `~` and `/`.
pub(super) fn encode(value: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte))
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_survives_the_query(value: String) {
            prop_assert_eq!(decode(&encode(&value)), Some(value));
        }

        #[test]
        fn any_query_value_is_decoded_or_refused(value: String) {
            let _ = decode(&value);
        }
    }
}

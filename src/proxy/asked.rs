//! What a request asks and who asks it, read once.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue, Method, Version, header};
use ipnet::IpNet;
use pingora::http::RequestHeader;
use pingora_proxy::Session;

use super::accept::Accepted;
use super::cookies::{Shown, Transport};
use crate::model::route::{Refused, normalise, normalise_host};

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
    /// The `Origin` header.
    pub(super) origin: Option<String>,
    /// What is known of the way here, for the origin.
    pub(super) forwarded: Forwarded,
}

/// The headers that tell the origin how a request came.
#[derive(Clone, Debug)]
pub(super) struct Forwarded {
    /// `X-Forwarded-For`.
    pub(super) addresses: String,
    /// `X-Forwarded-Proto`.
    pub(super) proto: String,
    /// `X-Forwarded-Host`.
    pub(super) host: Option<String>,
}

impl Asked {
    /// Reads a request; the path is checked, and what no origin should see is refused.
    pub(super) fn read(session: &Session, trusted: &[IpNet]) -> Result<Self, Refused> {
        let request = session.req_header();
        let target = target_of(request)?;
        normalise(target.as_bytes())?;
        let raw_host = raw_host_of(request)?;
        if raw_host.is_none() && request.version == Version::HTTP_11 {
            return Err(Refused::NotAHost);
        }
        let host = match raw_host.as_deref() {
            None => None,
            Some(host) => Some(normalise_host(host)?.into_owned()),
        };
        let peer = session
            .client_addr()
            .and_then(|address| address.as_inet())
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip().to_canonical());
        let tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
        let headers = &request.headers;
        let way = Way { peer, believed: trusted.iter().any(|net| net.contains(&peer)), trusted };
        let (address, forwarded) = way.read(headers, if tls { "https" } else { "http" }, raw_host.as_deref());
        let accepted = Accepted::read(text(headers, header::ACCEPT.as_str()));
        Ok(Self {
            method: request.method.clone(),
            host,
            address,
            transport: if forwarded.proto == "https" { Transport::Secure } else { Transport::Plain },
            manner: manner_of(session, accepted),
            attention: attention_of(request, accepted),
            accepted,
            shown: Shown::read(headers),
            origin: text(headers, header::ORIGIN.as_str()).map(str::to_owned),
            forwarded,
            target,
        })
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
    let scheme = raw.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
    let target = match (raw.first(), request.uri.path_and_query()) {
        (Some(b'/'), _) => raw,
        (_, Some(target)) if matches!(scheme.as_slice(), b"http" | b"https") => target.as_str().as_bytes(),
        _ => return Err(Refused::NotAPath),
    };
    String::from_utf8(target.to_vec()).map_err(|_| Refused::NotAPath)
}

fn raw_host_of(request: &RequestHeader) -> Result<Option<String>, Refused> {
    let authority = request.uri.authority().map(|authority| authority.as_str().to_owned());
    if authority.is_some() {
        return Ok(authority);
    }
    let Some(host) = request.headers.get(header::HOST) else { return Ok(None) };
    let host = host.to_str().map_err(|_| Refused::NotAHost)?;
    Ok((!host.is_empty()).then(|| host.to_owned()))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
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
    let goes = text(headers, "sec-fetch-mode").is_none_or(|mode| mode == "navigate");
    // A page fetched ahead of time is shown to nobody, perhaps: it shall not take a place.
    let ahead = is_ahead(headers);
    if reads && goes && !ahead && accepted.names_html() { Manner::Navigation } else { Manner::Call }
}

/// Whether a request is a CORS preflight and nothing more: it has no body, and asks for no other method to be meant.
fn is_preflight(request: &RequestHeader) -> bool {
    let headers = &request.headers;
    let asks_more =
        [header::TRANSFER_ENCODING.as_str(), "x-http-method-override", "x-method-override", "x-http-method"];
    request.method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && text(headers, header::CONTENT_LENGTH.as_str()).is_none_or(|length| length.trim() == "0")
        && !asks_more.iter().any(|name| headers.contains_key(*name))
}

/// Whether a browser fetches a page that nobody has gone to yet.
fn is_ahead(headers: &HeaderMap) -> bool {
    ["sec-purpose", "purpose", "x-moz"]
        .iter()
        .any(|name| text(headers, name).is_some_and(|purpose| purpose.contains("prefetch")))
}

fn attention_of(request: &RequestHeader, accepted: Accepted) -> Attention {
    let headers = &request.headers;
    // By Fetch metadata, and else by what can be made of the answer: a picture takes neither a page nor JSON.
    let part = text(headers, "sec-fetch-dest")
        .is_some_and(|dest| !matches!(dest, "document" | "iframe" | "frame" | "fencedframe" | "empty"));
    let unseen = request.method == Method::HEAD || is_ahead(headers) || part || accepted.takes_neither();
    if unseen { Attention::Nobody } else { Attention::Somebody }
}

/// The way that a request came.
struct Way<'a> {
    peer: IpAddr,
    believed: bool,
    trusted: &'a [IpNet],
}

impl Way<'_> {
    /// The visitor's address, and what the origin is told.
    fn read(&self, headers: &HeaderMap, scheme: &str, host: Option<&str>) -> (IpAddr, Forwarded) {
        if !self.believed {
            let (proto, host) = (scheme.to_owned(), host.map(str::to_owned));
            return (self.peer, Forwarded { addresses: self.peer.to_string(), proto, host });
        }
        let lines = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
        let hops: Vec<Hop> =
            lines.flat_map(|line| line.split(|byte| *byte == b',')).filter_map(Hop::read).collect();
        let mut address = self.peer;
        // From the nearest hop on: the first one that is not ours is the visitor, as far as we can know.
        for hop in hops.iter().rev() {
            address = hop.0.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            if !self.trusted.iter().any(|net| net.contains(&address)) {
                break;
            }
        }
        let named = hops.iter().map(Hop::to_string).chain([self.peer.to_string()]);
        let addresses = named.collect::<Vec<_>>().join(", ");
        let proto = match text(headers, "x-forwarded-proto") {
            Some("https") => "https",
            Some("http") => "http",
            _ => scheme,
        };
        let host = text(headers, "x-forwarded-host").or(host).map(str::to_owned);
        (address, Forwarded { addresses, proto: proto.to_owned(), host })
    }
}

/// One hop of `X-Forwarded-For`; `None`: it names nobody whom we know, so it is never taken for one of ours.
struct Hop(Option<IpAddr>);

impl Hop {
    /// Reads an address, which may carry a port; blanks are no hop.
    fn read(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return None;
        }
        let text = std::str::from_utf8(text).unwrap_or_default();
        let bracketed =
            text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(inside, _)| inside);
        let parsed: Option<IpAddr> = bracketed.unwrap_or(text).parse().ok();
        let address =
            parsed.or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()));
        Some(Self(address.map(|address| address.to_canonical())))
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
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

    fn seen(peer: &str, lines: &[(&'static str, &'static str)]) -> (String, Forwarded) {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let headers = lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap()))
            .collect();
        let peer: IpAddr = peer.parse().unwrap();
        let way = Way { peer, believed: trusted.iter().any(|net| net.contains(&peer)), trusted: &trusted };
        let (address, forwarded) = way.read(&headers, "http", Some("shop.test"));
        (address.to_string(), forwarded)
    }

    #[test]
    fn a_stranger_cannot_say_where_it_comes_from() {
        let (address, forwarded) = seen(
            "203.0.113.9",
            &[("x-forwarded-for", "10.1.1.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "evil")],
        );
        assert_eq!(address, "203.0.113.9");
        assert_eq!(forwarded.addresses, "203.0.113.9");
        assert_eq!(forwarded.proto, "http");
        assert_eq!(forwarded.host.as_deref(), Some("shop.test"));
    }

    #[test]
    fn a_trusted_proxy_is_believed_up_to_the_first_stranger() {
        let cases = [
            ("198.51.100.7", "198.51.100.7"),
            ("1.1.1.1, 198.51.100.7", "198.51.100.7"),
            ("1.1.1.1, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("198.51.100.7:4711", "198.51.100.7"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:198.51.100.7", "198.51.100.7"),
            ("10.0.0.3", "10.0.0.3"),
            ("198.51.100.7, unknown", "0.0.0.0"),
            ("unknown", "0.0.0.0"),
            ("\u{ff}", "0.0.0.0"),
            ("\u{ff}, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("", "10.0.0.1"),
        ];
        for (header, expected) in cases {
            let (address, _) = seen("10.0.0.1", &[("x-forwarded-for", header)]);
            assert_eq!(address, expected, "{header}");
        }
        let (_, forwarded) =
            seen("10.0.0.1", &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")]);
        assert_eq!(forwarded.addresses, "1.1.1.1, 10.0.0.1");
        assert_eq!(forwarded.proto, "https");
    }

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

//! The way that a request came: whose address counts, and what of the proxies before us is believed.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use super::asked::text;
use super::cookies::Transport;
use super::names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};

/// The last step of the way, from whoever is connected to this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    peer: IpAddr,
    transport: Transport,
    /// Whether the peer is a trusted proxy: what it says of the visitor is believed.
    believed: bool,
}

impl Way {
    /// The way of a request from this peer.
    pub(super) fn new(peer: IpAddr, transport: Transport, trusted: &[IpNet]) -> Self {
        Self { peer, transport, believed: trusted.iter().any(|net| net.contains(&peer)) }
    }

    /// Whether whoever is connected to this node is a trusted proxy.
    pub(super) fn is_believed(&self) -> bool {
        self.believed
    }

    /// The visitor's address: from the nearest hop on, the first one that is not ours, as far as we can know.
    pub(super) fn visitor(&self, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
        if !self.believed {
            return self.peer;
        }
        let mut address = self.peer;
        for hop in named_hops(headers).iter().rev() {
            address = hop.0.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            if !trusted.iter().any(|net| net.contains(&address)) {
                break;
            }
        }
        address
    }

    /// How the visitor came to the first proxy that is believed, or to this node.
    pub(super) fn transport(&self, headers: &HeaderMap) -> Transport {
        let told = if self.believed { text(headers, &X_FORWARDED_PROTO) } else { None };
        match told {
            Some("https") => Transport::Secure,
            Some("http") => Transport::Plain,
            _ => self.transport,
        }
    }

    /// The host that the visitor asked; `host` is the one that the request names.
    pub(super) fn named_host<'h>(&self, headers: &'h HeaderMap, host: Option<&'h str>) -> Option<&'h str> {
        let told = if self.believed { text(headers, &X_FORWARDED_HOST) } else { None };
        told.or(host)
    }

    /// All addresses on the way, the visitor's first, as `X-Forwarded-For` names them.
    pub(super) fn addresses(&self, headers: &HeaderMap) -> String {
        let named = if self.believed { named_hops(headers) } else { Vec::new() };
        let mut addresses = String::with_capacity(48);
        for hop in named {
            // Writing to a string cannot fail.
            let _ = write!(addresses, "{hop}, ");
        }
        let _ = write!(addresses, "{}", self.peer);
        addresses
    }
}

/// The hops that `X-Forwarded-For` names, the visitor's first.
fn named_hops(headers: &HeaderMap) -> Vec<Hop> {
    let lines = headers.get_all(&X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    lines.flat_map(|line| line.split(|byte| *byte == b',')).filter_map(Hop::read).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).unwrap();
        lines.iter().map(|(name, text)| (name.parse().unwrap(), value(text))).collect()
    }

    /// The way of a request in plain text, and the visitor's address.
    fn seen(peer: &str, headers: &HeaderMap) -> (Way, String) {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let way = Way::new(peer.parse().unwrap(), Transport::Plain, &trusted);
        (way, way.visitor(headers, &trusted).to_string())
    }

    #[test]
    fn a_stranger_cannot_say_where_it_comes_from() {
        let headers = headers(&[
            ("x-forwarded-for", "10.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
        ]);
        let (way, address) = seen("203.0.113.9", &headers);
        assert_eq!(address, "203.0.113.9");
        assert_eq!(way.addresses(&headers), "203.0.113.9");
        assert_eq!(way.transport(&headers), Transport::Plain);
        assert_eq!(way.named_host(&headers, Some("shop.test")), Some("shop.test"));
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
            let headers = headers(&[("x-forwarded-for", header)]);
            let (_, address) = seen("10.0.0.1", &headers);
            assert_eq!(address, expected, "{header}");
        }
        let headers = headers(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")]);
        let (way, _) = seen("10.0.0.1", &headers);
        assert_eq!(way.addresses(&headers), "1.1.1.1, 10.0.0.1");
        assert_eq!(way.transport(&headers), Transport::Secure);
    }
}

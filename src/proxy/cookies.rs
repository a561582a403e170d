//! The cookies and headers that carry tokens: reading, setting, and taking them off before the origin sees them.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName};

use super::names::{ANTEROOM_PASS, ANTEROOM_TICKET};
use crate::model::ids::EventId;
use crate::model::language::Language;
use crate::model::policy::{
    CookiePolicy, LANGUAGE_COOKIE, LINE_COOKIE, OwnCookie, PASS_COOKIE, SameSite, TICKET_COOKIE,
};

/// No more tickets than this are tried per request: browsers send those of the longest path and the oldest first.
const MOST_TICKETS: usize = 4;

/// A language is chosen for a year.
const LANGUAGE_LIFE: Duration = Duration::from_secs(365 * 86_400);

/// What a visitor shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// `wr_ticket`: more than one after a change of the cookies' domain.
    pub(super) tickets: Vec<String>,
    /// `Anteroom-Ticket`: goes before the cookie.
    pub(super) ticket_header: Option<String>,
    /// `Anteroom-Pass`, then `wr_pass*`.
    pub(super) passes: Vec<String>,
    /// Whether a pass came by header.
    pub(super) pass_header: bool,
    /// The events whose marker is shown.
    pub(super) lines: Vec<String>,
    /// The language that the visitor chose.
    pub(super) language: Option<Language>,
    /// Every other cookie, for bypass rules.
    pub(super) others: Vec<(String, String)>,
}

impl Shown {
    /// Reads the headers of a request.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let header = |name: &HeaderName| {
            let value = headers.get(name)?.to_str().ok()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let mut shown = Self { ticket_header: header(&ANTEROOM_TICKET), ..Self::default() };
        if let Some(pass) = header(&ANTEROOM_PASS) {
            shown.passes.push(pass);
            shown.pass_header = true;
        }
        for line in headers.get_all(COOKIE) {
            // Cookies of the site may be no text; ours are.
            let pairs = line.as_bytes().split(|byte| *byte == b';');
            let texts = pairs.filter_map(|pair| std::str::from_utf8(pair).ok());
            for (name, value) in texts.filter_map(|pair| pair.trim().split_once('=')) {
                match OwnCookie::read(name) {
                    Some(OwnCookie::Ticket) if shown.tickets.len() < MOST_TICKETS => {
                        shown.tickets.push(value.to_owned())
                    }
                    Some(OwnCookie::Ticket) => {}
                    Some(OwnCookie::Pass) => shown.passes.push(value.to_owned()),
                    Some(OwnCookie::Line(event)) => shown.lines.push(event.to_owned()),
                    Some(OwnCookie::Language) => shown.language = shown.language.or(value.parse().ok()),
                    None => shown.others.push((name.to_owned(), value.to_owned())),
                }
            }
        }
        shown
    }

    /// The tickets and seats, the header's before the cookies'.
    pub(super) fn tickets(&self) -> Vec<&str> {
        self.ticket_header.iter().chain(&self.tickets).map(String::as_str).collect()
    }

    /// The passes, to be tried in this order.
    pub(super) fn passes(&self) -> Vec<&str> {
        self.passes.iter().map(String::as_str).collect()
    }

    /// Whether the visitor stands in the line of an event, or says so.
    pub(super) fn stands_in_line(&self, event: &EventId) -> bool {
        self.ticket_header.is_some() || self.is_marked(event)
    }

    /// Whether the marker of an event's line is shown.
    pub(super) fn is_marked(&self, event: &EventId) -> bool {
        self.lines.iter().any(|line| line == event.as_str())
    }

    /// Whether any cookie at all is shown.
    pub(super) fn shows_cookies(&self) -> bool {
        !self.tickets.is_empty()
            || self.passes.len() > usize::from(self.pass_header)
            || !self.lines.is_empty()
            || self.language.is_some()
            || !self.others.is_empty()
    }
}

/// The value of a `Cookie` header without our cookies; `None`: nothing is left. Bytes that are no text stay as they are.
pub(super) fn without_ours(line: &[u8]) -> Option<Vec<u8>> {
    let ours = |pair: &&[u8]| {
        let name = pair.trim_ascii().split(|byte| *byte == b'=').next().unwrap_or_default();
        std::str::from_utf8(name).is_ok_and(|name| OwnCookie::read(name.trim()).is_some())
    };
    let kept: Vec<&[u8]> = line.split(|byte| *byte == b';').filter(|pair| !ours(pair)).collect();
    let kept = kept.join(&b';');
    let kept = kept.trim_ascii();
    (!kept.is_empty()).then(|| kept.to_vec())
}

/// Whether cookies may only go over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// The visitor came by TLS.
    Secure,
    /// The visitor came in plain text.
    Plain,
}

impl Transport {
    /// The scheme of addresses that are reached so.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Secure => "https",
            Self::Plain => "http",
        }
    }
}

/// Writes the `Set-Cookie` lines of one event for one visitor.
pub(super) struct Writer<'a> {
    pub(super) policy: &'a CookiePolicy,
    pub(super) transport: Transport,
    pub(super) event: &'a EventId,
    /// The event's path in the waiting room.
    pub(super) room: &'a str,
    /// Whether other events have routes on this host.
    pub(super) shares_host: bool,
}

impl Writer<'_> {
    /// Sets the ticket, or the seat before it.
    pub(super) fn ticket(&self, token: &str, life: Duration) -> String {
        self.line(TICKET_COOKIE, token, self.room, Some(life))
    }

    /// Takes the ticket away.
    pub(super) fn no_ticket(&self) -> String {
        self.line(TICKET_COOKIE, "", self.room, None)
    }

    /// Sets the pass.
    pub(super) fn pass(&self, token: &str, life: Duration) -> String {
        self.line(&self.pass_name(), token, "/", Some(life))
    }

    /// Takes the pass away.
    pub(super) fn no_pass(&self) -> String {
        self.line(&self.pass_name(), "", "/", None)
    }

    /// Sets the marker that says "in line".
    pub(super) fn marker(&self, life: Duration) -> String {
        self.line(&format!("{LINE_COOKIE}{}", self.event), "1", "/", Some(life))
    }

    /// Takes the marker away.
    pub(super) fn no_marker(&self) -> String {
        self.line(&format!("{LINE_COOKIE}{}", self.event), "", "/", None)
    }

    /// Sets the language that pages are shown in: on protected paths too, where notices are.
    pub(super) fn language(&self, language: Language) -> String {
        self.line(LANGUAGE_COOKIE, language.as_str(), "/", Some(LANGUAGE_LIFE))
    }

    fn pass_name(&self) -> String {
        // With a domain the cookie is seen on other hosts, where other events may be.
        if self.shares_host || self.policy.domain.is_some() {
            format!("{PASS_COOKIE}_{}", self.event)
        } else {
            PASS_COOKIE.to_owned()
        }
    }

    fn line(&self, name: &str, value: &str, path: &str, life: Option<Duration>) -> String {
        let same_site = match (self.policy.same_site, self.transport) {
            (SameSite::Strict, _) => "Strict",
            (SameSite::None, Transport::Secure) => "None",
            // Browsers drop `None` without `Secure`.
            (SameSite::Lax, _) | (SameSite::None, Transport::Plain) => "Lax",
        };
        let seconds = life.map_or(0, |life| life.as_secs()).to_string();
        let parts =
            [name, "=", value, "; Path=", path, "; Max-Age=", &seconds, "; HttpOnly; SameSite=", same_site];
        let mut line = parts.concat();
        if let Some(domain) = &self.policy.domain {
            line.push_str("; Domain=");
            line.push_str(domain);
        }
        if self.transport == Transport::Secure {
            line.push_str("; Secure");
            if self.policy.partitioned {
                line.push_str("; Partitioned");
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_cookie_of_the_site_that_is_no_text_hides_none_of_ours() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_bytes(b"name=J\xf6rg; wr_pass=p; wr_ticket=t").unwrap());
        let shown = Shown::read(&headers);
        assert_eq!((shown.passes(), shown.tickets()), (vec!["p"], vec!["t"]));
    }

    #[test]
    fn every_pass_that_is_shown_is_tried() {
        let line: String = (0..40).map(|n| format!("wr_pass_e{n}=p{n}; ")).collect();
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, line.parse().unwrap());
        assert_eq!(Shown::read(&headers).passes().len(), 40);
    }

    #[test]
    fn every_token_is_found_wherever_it_is_shown() {
        let shown = Shown::read(&headers(&[
            ("cookie", "a=1; wr_pass=p1;wr_line_tour=1"),
            ("cookie", "wr_pass_tour=p2; wr_ticket=t=="),
            ("anteroom-pass", "p0"),
            ("anteroom-ticket", "t0"),
        ]));
        assert_eq!(shown.passes(), ["p0", "p1", "p2"]);
        assert_eq!(shown.tickets(), ["t0", "t=="]);
        assert_eq!(shown.others, [("a".to_owned(), "1".to_owned())]);
        assert!(shown.stands_in_line(&"tour".parse().unwrap()));
    }

    #[test]
    fn a_marker_is_of_one_event() {
        let shown = Shown::read(&headers(&[("cookie", "wr_line_tour=1")]));
        assert!(shown.stands_in_line(&"tour".parse().unwrap()));
        assert!(!shown.stands_in_line(&"tou".parse().unwrap()));
        assert!(shown.shows_cookies());
        assert!(!Shown::read(&headers(&[("anteroom-pass", "x")])).shows_cookies());
    }

    #[test]
    fn our_cookies_are_taken_off_and_others_left_alone() {
        let cut = |line: &str| without_ours(line.as_bytes()).map(|line| String::from_utf8(line).unwrap());
        assert_eq!(cut("wr_pass=x"), None);
        assert_eq!(cut("a=1; wr_pass=x; b=2"), Some("a=1; b=2".into()));
        assert_eq!(cut("wr_ticket=x;a=1;wr_line_e=1; wr_pass_e=y"), Some("a=1".into()));
        assert_eq!(cut(" wr_pass =x; a=\"q;r\""), Some("a=\"q;r\"".into()));
        assert_eq!(cut("wr_passport=1"), Some("wr_passport=1".into()));
        assert_eq!(without_ours(b"a=\xff; wr_pass=x"), Some(b"a=\xff".to_vec()));
    }

    #[test]
    fn a_cookie_is_http_only_and_secure_behind_tls() {
        let event = "tour".parse().unwrap();
        let policy = CookiePolicy { domain: Some("example.com".into()), ..CookiePolicy::default() };
        let mut writer = Writer {
            policy: &policy,
            transport: Transport::Secure,
            event: &event,
            room: "/waitingroom/tour",
            shares_host: false,
        };
        assert_eq!(
            writer.pass("t", Duration::from_secs(5)),
            "wr_pass_tour=t; Path=/; Max-Age=5; HttpOnly; SameSite=Lax; Domain=example.com; Secure"
        );
        writer.transport = Transport::Plain;
        writer.shares_host = true;
        assert_eq!(
            writer.no_pass(),
            "wr_pass_tour=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Domain=example.com"
        );
        assert!(writer.ticket("t", Duration::from_secs(5)).contains("; Path=/waitingroom/tour;"));
    }
}

//! A browser tab, or an app: sends one request, and writes down what it saw.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HOST};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;

use super::jar::Jar;
use super::seen::{Seen, note};
use crate::clock::Clock;
use crate::history::{Kind, Record, Recorder, Role};
use crate::token::{Says, peek};
use crate::wire::{Connection, Edges, Lost};

/// What all visitors of a rush share.
#[derive(Clone, Debug)]
pub struct World {
    /// Where they go.
    pub edges: Edges,
    /// When it is.
    pub clock: Clock,
    /// Who writes it down.
    pub recorder: Recorder,
    /// Whether connections are closed before a wait.
    pub idle: Idle,
    /// Whether each visitor comes from an address of its own, by `X-Forwarded-For`.
    pub addresses: Addresses,
}

/// What becomes of a connection while its visitor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It is kept.
    Keep,
    /// It is closed.
    Close,
}

/// From where visitors come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All from this machine.
    One,
    /// Each from its own, as a trusted proxy would say.
    Many,
}

/// How tokens are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In cookies.
    Cookies,
    /// In headers.
    Headers,
    /// Not at all.
    None,
}

/// A request of a visitor.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What for.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Whether it holds its turn.
    pub hold: bool,
    /// A token that is shown as a pass, in place of the right ones: what it is, and whether it was tampered with.
    pub instead: Option<Instead>,
}

/// A token that is no right one.
#[derive(Clone, Debug)]
pub struct Instead {
    /// The cookie that it is shown in.
    pub name: String,
    /// The token.
    pub token: String,
    /// Whether it was tampered with.
    pub forged: bool,
}

impl Ask {
    /// A plain request.
    #[must_use]
    pub fn new(kind: Kind, method: Method, path: impl Into<String>) -> Self {
        Self { kind, method, path: path.into(), hold: false, instead: None }
    }
}

/// One tab of one visitor.
#[derive(Debug)]
pub struct Browser {
    /// What it shares with all others.
    pub world: Arc<World>,
    /// Who.
    pub visitor: u64,
    /// Which of its tabs.
    pub number: u16,
    /// Of what kind.
    pub role: Role,
    /// How it carries tokens.
    pub transport: Transport,
    /// Its cookies.
    pub jar: Jar,
    /// The ticket of an app.
    pub ticket: Option<String>,
    /// The pass of an app.
    pub pass: Option<String>,
    /// How often it has turned to another edge.
    turn: usize,
    connection: Option<Connection>,
}

impl Browser {
    /// A new tab.
    #[must_use]
    pub fn new(world: Arc<World>, visitor: u64, role: Role, transport: Transport) -> Self {
        let connection = world.edges.seat(visitor, 0).map(|site| Connection::new(Arc::clone(site)));
        Self {
            world,
            visitor,
            number: 0,
            role,
            transport,
            jar: Jar::default(),
            ticket: None,
            pass: None,
            turn: 0,
            connection,
        }
    }

    /// Another tab of the same visitor, with what it carries now.
    #[must_use]
    pub fn tab(&self, number: u16) -> Self {
        let mut tab = Self::new(Arc::clone(&self.world), self.visitor, self.role, self.transport);
        tab.number = number;
        tab.jar = self.jar.clone();
        tab.ticket = self.ticket.clone();
        tab.pass = self.pass.clone();
        tab
    }

    /// Closes the connection if this rush saves them.
    pub fn rest(&mut self) {
        if self.world.idle == Idle::Close {
            self.connection.iter_mut().for_each(Connection::close);
        }
    }

    /// Sends the request and records what came of it.
    pub async fn ask(&mut self, ask: Ask) -> Seen {
        let mut record = Record::new(self.visitor, self.role, ask.kind, self.world.clock.now_us());
        record.tab = self.number;
        record.hold = ask.hold;
        let Ok(request) = self.request(&ask, &mut record) else { return Seen::nothing() };
        record.t_sent_us = self.world.clock.now_us();
        let outcome = match &mut self.connection {
            Some(connection) => connection.exchange(request).await,
            None => Err(Lost::Connect("there is no edge".to_owned())),
        };
        if outcome.is_err() || self.world.edges.roam() {
            self.turn_elsewhere();
        }
        record.t_answered_us = self.world.clock.now_us();
        let seen = match outcome {
            Ok(answer) => {
                let cookies = match self.transport {
                    Transport::None => Jar::default().take(&answer.headers, &ask.path),
                    _ if ask.instead.is_some() => Jar::default().take(&answer.headers, &ask.path),
                    _ => self.jar.take(&answer.headers, &ask.path),
                };
                let seen = note(&mut record, &answer, &cookies);
                if self.transport == Transport::Headers && ask.instead.is_none() {
                    self.ticket = seen.ticket.clone().or(self.ticket.take());
                    self.pass = seen.pass.clone().or(self.pass.take());
                }
                seen
            }
            Err(lost) => {
                record.error = Some(lost.to_string());
                Seen::nothing()
            }
        };
        self.world.recorder.take(record);
        seen
    }

    fn turn_elsewhere(&mut self) {
        self.turn += 1;
        let site = self.world.edges.seat(self.visitor, self.turn);
        self.connection = site.map(|site| Connection::new(Arc::clone(site)));
    }

    fn request(&self, ask: &Ask, record: &mut Record) -> http::Result<Request<Full<Bytes>>> {
        let accept = match ask.kind {
            Kind::Navigate | Kind::Page | Kind::Use => "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(ask.path.as_str())
            .header(HOST, self.world.edges.authority())
            .header(ACCEPT, accept);
        if matches!(ask.kind, Kind::Navigate | Kind::Page | Kind::Use) {
            request = request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
        }
        if self.world.addresses == Addresses::Many {
            let [.., a, b, c] = self.visitor.to_be_bytes();
            request = request.header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
        }
        if let Some(instead) = &ask.instead {
            record.forged = instead.forged;
            shown(record, &instead.token);
            return request
                .header(COOKIE, format!("{}={}", instead.name, instead.token))
                .body(Full::default());
        }
        match self.transport {
            Transport::Cookies => {
                let cookies = self.jar.shown(&ask.path);
                cookies.iter().for_each(|(_, value)| shown(record, value));
                if !cookies.is_empty() {
                    let line: Vec<String> =
                        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    request = request.header(COOKIE, line.join("; "));
                }
            }
            Transport::Headers => {
                for (name, token) in [("anteroom-ticket", &self.ticket), ("anteroom-pass", &self.pass)] {
                    if let Some(token) = token {
                        shown(record, token);
                        request = request.header(name, HeaderValue::from_str(token)?);
                    }
                }
            }
            Transport::None => {}
        }
        if ask.method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = if ask.method == Method::POST { Bytes::from_static(b"{}") } else { Bytes::new() };
        request.body(Full::new(body))
    }
}

fn shown(record: &mut Record, token: &str) {
    if let Some(peek) = peek(token) {
        let shown = match peek.says {
            Says::Ticket(_) => &mut record.shown_ticket,
            Says::Pass(_) => &mut record.shown_pass,
            Says::Seat => &mut record.shown_seat,
        };
        *shown = Some(peek.id);
    }
}

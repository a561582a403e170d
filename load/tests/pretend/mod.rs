//! A small waiting room that keeps the contract, or breaks it in one way, to try the visitors and the checker on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom_load::clock::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How the room breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not at all.
    None,
    /// It lets in more than fit.
    Overfull,
    /// It lets tickets through to the origin.
    TicketsOpen,
    /// It calls the last in line first.
    LastFirst,
    /// It forgets every place once, after three seconds.
    Forgets,
}

pub(crate) const CAPACITY: usize = 8;
pub(crate) const SESSION_MS: u64 = 6_000;
pub(crate) const HEARTBEAT_MS: u64 = 4_000;

/// One life of the room's listener; dropping it breaks every connection, as `kill -9` would.
pub(crate) struct Listening {
    _tasks: JoinSet<()>,
}

/// What the room knows; it survives its listener.
pub(crate) struct Room {
    fault: Fault,
    clock: Clock,
    began_us: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    forgot: bool,
    line: BTreeMap<u64, Place>,
    inside: HashMap<u64, u64>,
    consumed: HashSet<u64>,
}

struct Place {
    seen_ms: u64,
    called: bool,
}

impl Room {
    pub(crate) fn new(fault: Fault) -> Arc<Self> {
        let clock = Clock::start();
        Arc::new(Self { fault, clock, began_us: clock.now_us(), state: Mutex::default() })
    }

    /// Listens; port 0 takes a free one.
    pub(crate) async fn listen(self: &Arc<Self>, port: u16) -> (u16, Listening) {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        let room = Arc::clone(self);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let room = Arc::clone(&room);
                connections.spawn(async move {
                    let service = service_fn(|request| {
                        let answer = room.answer(&request);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (port, Listening { _tasks: tasks })
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_us() / 1000
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let now = self.now_ms();
        let shown = shown(request.headers());
        let mut state = self.state.lock().unwrap();
        if self.fault == Fault::Forgets && !state.forgot && self.clock.now_us() - self.began_us > 3_000_000 {
            state.forgot = true;
            state.line.clear();
        }
        state.expire(now);
        let pass = shown.pass.filter(|id| state.inside.contains_key(id));
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        match (request.method(), path) {
            (&Method::POST, "/waitingroom/tour/leave") | (&Method::DELETE, "/waitingroom/tour/ticket") => {
                for id in [shown.ticket, shown.pass].into_iter().flatten() {
                    state.line.remove(&id);
                    state.inside.remove(&id);
                    state.consumed.insert(id);
                }
                plain(StatusCode::NO_CONTENT)
            }
            (_, "/waitingroom/tour/join") => {
                let id =
                    shown.ticket.filter(|id| state.line.contains_key(id)).unwrap_or_else(|| state.number());
                state.join(id, now);
                waiting(id, false, None)
            }
            (_, "/waitingroom/tour/status") => {
                state.status(shown.ticket, now, self.fault, query.contains("hold"))
            }
            (_, "/waitingroom/tour") => match (pass, shown.ticket, shown.seat) {
                (Some(_), _, _) => moved("/buy"),
                (None, Some(id), _) if state.line.contains_key(&id) => {
                    drop(state.status(Some(id), now, self.fault, false));
                    match state.inside.get(&id) {
                        Some(end) => {
                            with_cookie(moved("/buy"), &format!("wr_pass={}; Path=/", pass_token(id, *end)))
                        }
                        None => page(id),
                    }
                }
                (None, _, Some(id)) if !state.consumed.contains(&id) => {
                    state.join(id, now);
                    page(id)
                }
                _ => {
                    let seat = token(3, state.number(), &[0; 4]);
                    with_cookie(
                        moved("/waitingroom/tour?to=/buy&j=1"),
                        &format!("wr_seat={seat}; Path=/waitingroom/tour"),
                    )
                }
            },
            _ if pass.is_some() || (self.fault == Fault::TicketsOpen && shown.any) => {
                if let Some(end) = pass.and_then(|id| state.inside.get_mut(&id)) {
                    *end = now + SESSION_MS;
                }
                let mut answer = plain(StatusCode::OK);
                answer.headers_mut().insert("x-anteroom-load-origin", "1".parse().unwrap());
                answer
            }
            _ => moved("/waitingroom/tour?to=/buy"),
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn expire(&mut self, now: u64) {
        let over: Vec<u64> = self.inside.iter().filter(|(_, end)| **end <= now).map(|(id, _)| *id).collect();
        for id in over {
            self.inside.remove(&id);
            self.consumed.insert(id);
        }
        self.line.retain(|_, place| now - place.seen_ms <= HEARTBEAT_MS * 5 / 4);
    }

    fn join(&mut self, id: u64, now: u64) {
        self.line.entry(id).or_insert(Place { seen_ms: now, called: false }).seen_ms = now;
    }

    fn status(&mut self, ticket: Option<u64>, now: u64, fault: Fault, hold: bool) -> Response<Full<Bytes>> {
        let Some(id) = ticket else {
            return json_answer(StatusCode::UNAUTHORIZED, &json!({"state": "invalid"}));
        };
        if let Some(end) = self.inside.get(&id) {
            return admitted(id, *end);
        }
        let room = CAPACITY + if fault == Fault::Overfull { 4 } else { 0 };
        let mut free =
            room.saturating_sub(self.inside.len() + self.line.values().filter(|place| place.called).count());
        let mut order: Vec<(&u64, &mut Place)> = self.line.iter_mut().collect();
        if fault == Fault::LastFirst {
            order.reverse();
        }
        for (_, place) in order {
            if !place.called && free > 0 {
                place.called = true;
                free -= 1;
            }
        }
        let Some(place) = self.line.get_mut(&id) else {
            let reason = if self.consumed.contains(&id) { "used" } else { "missed_heartbeat" };
            return json_answer(StatusCode::GONE, &json!({"state": "expired", "reason": reason}));
        };
        place.seen_ms = now;
        if place.called && !hold {
            self.line.remove(&id);
            self.inside.insert(id, now + SESSION_MS);
            return admitted(id, now + SESSION_MS);
        }
        let ahead = self.line.range(..id).count();
        let called = self.line.get(&id).is_some_and(|place| place.called);
        waiting(id, called, Some(ahead))
    }
}

struct Shown {
    ticket: Option<u64>,
    pass: Option<u64>,
    seat: Option<u64>,
    any: bool,
}

/// The ids in cookies and headers; what was altered no longer ends in our signature and is not read.
fn shown(headers: &HeaderMap) -> Shown {
    let mut shown = Shown { ticket: None, pass: None, seat: None, any: false };
    let cookies = headers.get("cookie").and_then(|line| line.to_str().ok()).unwrap_or_default();
    let pairs = cookies.split("; ").filter_map(|pair| pair.split_once('='));
    let header = |name: &str| headers.get(name).and_then(|token| token.to_str().ok()).map(str::to_owned);
    let named = [("wr_ticket", header("anteroom-ticket")), ("wr_pass", header("anteroom-pass"))];
    let given = named.iter().filter_map(|(name, token)| Some((*name, token.as_deref()?)));
    for (name, token) in pairs.chain(given) {
        let Some((payload, mac)) = token.split_once('.') else { continue };
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(payload) else { continue };
        if mac != signature(payload) {
            continue;
        }
        shown.any = true;
        let at = if bytes[1] == 1 { 15 + 4 + 6 } else { 15 + 6 };
        let id = bytes[at..at + 6].iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
        match (name, bytes[1]) {
            ("wr_ticket", 1) => shown.ticket = Some(id),
            ("wr_pass", 2) => shown.pass = Some(id),
            ("wr_seat", 3) => shown.seat = Some(id),
            _ => {}
        }
    }
    shown
}

fn signature(payload: &str) -> String {
    let sum = payload.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    format!("{sum:016x}")
}

fn token(kind: u8, id: u64, rest: &[u8]) -> String {
    let mut payload = vec![1, kind, 0, 0, 0, 1, 4];
    payload.extend(b"tour");
    payload.extend([0, 0, 0, 7]);
    if kind == 1 {
        payload.extend([0; 4]);
    }
    payload.extend([0, 1, 0, 0, 0, 1]);
    payload.extend(&id.to_be_bytes()[2..]);
    payload.extend(rest);
    let payload = URL_SAFE_NO_PAD.encode(payload);
    let mac = signature(&payload);
    format!("{payload}.{mac}")
}

fn ticket(id: u64) -> String {
    token(1, id, &[0, 0, 0, 9, 2, 0, 0, 0, 5, 0, 0, 0, 0])
}

fn pass_token(id: u64, end: u64) -> String {
    let mut rest = vec![0; 31];
    rest.extend(end.to_be_bytes());
    token(2, id, &rest)
}

fn waiting(id: u64, called: bool, ahead: Option<usize>) -> Response<Full<Bytes>> {
    let ahead = ahead.unwrap_or(0);
    json_answer(
        StatusCode::OK,
        &json!({"state": "waiting", "called": called, "position_range": [ahead, ahead + 1], "poll_after_ms": 200,
            "phase": "queueing", "ticket": ticket(id)}),
    )
}

fn admitted(id: u64, end: u64) -> Response<Full<Bytes>> {
    let token = pass_token(id, end);
    let answer =
        json_answer(StatusCode::OK, &json!({"state": "admitted", "pass": token, "expires_at": end / 1000}));
    with_cookie(answer, &format!("wr_pass={token}; Path=/"))
}

fn page(id: u64) -> Response<Full<Bytes>> {
    with_cookie(plain(StatusCode::OK), &format!("wr_ticket={}; Path=/waitingroom/tour", ticket(id)))
}

fn moved(to: &str) -> Response<Full<Bytes>> {
    let mut answer = plain(StatusCode::FOUND);
    answer.headers_mut().insert("location", to.parse().unwrap());
    answer
}

fn with_cookie(mut answer: Response<Full<Bytes>>, cookie: &str) -> Response<Full<Bytes>> {
    answer.headers_mut().append("set-cookie", cookie.parse().unwrap());
    answer
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::default()).unwrap()
}

fn json_answer(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

/// How long a listener stays away in a test of outages.
pub(crate) const AWAY: Duration = Duration::from_millis(1_500);

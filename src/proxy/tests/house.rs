//! A gate on a port, with what stands on both sides of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::Guard;
use async_trait::async_trait;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::config::{Limits, OriginSettings};
use crate::desk::{
    Activity, Attendance, Beat, Carried, ExpressAnswer, ExpressKind, IssuedPass, JoinAnswer, PassAnswer,
    StatusAnswer, Waiting,
};
use crate::metrics::Metrics;
use crate::model::edge::Phase;
use crate::model::estimate::Estimate;
use crate::model::ids::{EventId, TicketId};
use crate::model::policy::{Fields, Policy};
use crate::model::route::RouteTable;
use crate::model::time::FleetTime;
use crate::proxy::{FrontDesk, Gate, ProxySettings, service};

/// The fleet time of every test.
const NOW: FleetTime = FleetTime(1_000_000_000);

const ID: TicketId = TicketId { node: 1, generation: 2, sequence: 3 };

/// A desk that answers as it was told, and keeps what it was asked.
pub(super) struct Script {
    pub(super) fields: Value,
    /// `pass` and `renewable` open; the second one is renewed, as urgently as this says.
    pub(super) urgency: crate::desk::RenewalUrgency,
    pub(super) pass_unavailable: bool,
    /// Has not heard which events there are.
    pub(super) deaf: bool,
    pub(super) express: ExpressAnswer,
    pub(super) join: JoinAnswer,
    pub(super) status: StatusAnswer,
    pub(super) asked: Mutex<Vec<String>>,
    /// Passes given on the spot whose responses have ended.
    pub(super) answered: Mutex<Vec<TicketId>>,
    pub(super) over: Notify,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            fields: json!({
                "capacity": 1, "max_admit_per_sec": 1, "origin": "shop",
                "match": [{ "path": "/buy" }],
            }),
            urgency: crate::desk::RenewalUrgency::Now,
            pass_unavailable: false,
            deaf: false,
            express: ExpressAnswer::Line,
            join: JoinAnswer::Retry(Duration::from_secs(1)),
            status: StatusAnswer::Invalid,
            asked: Mutex::default(),
            answered: Mutex::default(),
            over: Notify::new(),
        }
    }
}

pub(super) fn pass(token: &str) -> IssuedPass {
    IssuedPass { token: token.to_owned(), id: ID, expires: NOW.after(Duration::from_secs(120)) }
}

pub(super) fn waiting() -> Box<Waiting> {
    Box::new(Waiting {
        ticket: "ticket2".into(),
        id: ID,
        estimate: Estimate { position: (10, 20), progress: 0.5, ..Estimate::default() },
        phase: Phase::Queueing,
        poll_after: Duration::from_secs(5),
        turn: None,
        message: Some("Doors at <eight>".into()),
        opens_at: None,
        heartbeat_ttl: Duration::from_secs(90),
        beat: Beat::Again,
    })
}

impl Script {
    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn event() -> EventId {
        "tour".parse().unwrap()
    }

    fn read_policy(&self) -> Policy {
        let Value::Object(fields) = self.fields.clone() else { panic!("fields are an object") };
        Policy::from_fields(&Fields::from(fields)).unwrap()
    }
}

impl FrontDesk for Script {
    fn routes(&self) -> Option<Guard<Arc<RouteTable>>> {
        let policy = self.read_policy();
        (!self.deaf).then(|| Guard::from_inner(Arc::new(RouteTable::build([(Self::event(), &policy)]))))
    }

    fn policy(&self, event: &EventId) -> Option<Arc<Policy>> {
        (!self.deaf && *event == Self::event()).then(|| Arc::new(self.read_policy()))
    }

    fn now(&self) -> FleetTime {
        NOW
    }

    fn seat_token(&self, _: &EventId) -> Option<String> {
        Some("seat".into())
    }

    fn carried(&self, _: &EventId, token: &str) -> Carried {
        match token {
            "seat" => Carried::Seat,
            "ticket" => Carried::Ticket(ID),
            "ended" => Carried::Ended(ID),
            _ => Carried::Nothing,
        }
    }

    async fn join(&self, _: &EventId, shown: Option<&str>) -> JoinAnswer {
        self.note(format!("join {shown:?}"));
        self.join.clone()
    }

    async fn status(&self, _: &EventId, ticket: &str, attendance: Attendance) -> StatusAnswer {
        self.note(format!("status {ticket} {attendance:?}"));
        if ticket == "seat" { StatusAnswer::Invalid } else { self.status.clone() }
    }

    async fn leave(&self, _: &EventId, tickets: &[&str], passes: &[&str]) {
        self.note(format!("leave {tickets:?} {passes:?}"));
    }

    async fn check_pass(&self, _: &EventId, tokens: &[&str], activity: Activity) -> PassAnswer {
        self.note(format!("check {tokens:?} {activity:?}"));
        if self.pass_unavailable {
            return PassAnswer::Unavailable(Duration::from_millis(1_500));
        }
        let opens = tokens.iter().find(|token| matches!(**token, "pass" | "renewable"));
        match opens {
            None => PassAnswer::None,
            Some(token) => PassAnswer::Valid {
                id: ID,
                expires: NOW.after(Duration::from_secs(120)),
                renewed: (*token == "renewable").then(|| pass("renewed")),
                urgency: self.urgency,
            },
        }
    }

    async fn express(&self, _: &EventId, kind: ExpressKind) -> ExpressAnswer {
        self.note(format!("express {kind:?}"));
        self.express.clone()
    }

    fn response_ended(&self, _: &EventId, id: TicketId) {
        self.answered.lock().unwrap().push(id);
    }

    async fn pass_ended(&self, _: &EventId, _: TicketId, _: FleetTime) {
        self.over.notified().await;
    }
}

struct StopOn(Arc<Notify>);

#[async_trait]
impl ShutdownSignalWatch for StopOn {
    async fn recv(&self) -> ShutdownSignal {
        self.0.notified().await;
        ShutdownSignal::FastShutdown
    }
}

/// A gate that serves on a port of its own until dropped.
pub(super) struct House {
    pub(super) desk: Arc<Script>,
    pub(super) gate: Gate<Script>,
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
    stop: Arc<Notify>,
    server: Option<JoinHandle<()>>,
}

impl House {
    pub(super) fn new(script: Script) -> Self {
        Self::with(script, |_| {})
    }

    pub(super) fn with(script: Script, change: impl FnOnce(&mut ProxySettings)) -> Self {
        let (origin, seen) = origin();
        let mut settings = settings(&origin);
        change(&mut settings);
        let desk = Arc::new(script);
        let gate = Gate::new(Arc::clone(&desk), settings, Metrics::new().unwrap(), Clock::start()).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let stop = Arc::new(Notify::new());
        let (serving, listening, watch) = (gate.clone(), address.clone(), StopOn(Arc::clone(&stop)));
        let server = std::thread::spawn(move || {
            let conf = ServerConf { threads: 1, ..ServerConf::default() };
            let mut server = Server::new_with_opt_and_conf(None, conf);
            let mut visitors = service(&server.configuration, serving);
            visitors.add_tcp(&listening);
            server.add_service(visitors);
            server.bootstrap();
            server.run(RunArgs { shutdown_signal: Box::new(watch) });
        });
        for _ in 0..500 {
            if TcpStream::connect(&address).is_ok() {
                return Self { desk, gate, address, seen, stop, server: Some(server) };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the gate does not listen");
    }

    /// What the origin was sent, head and body, since the last call.
    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// What the desk was asked since the last call.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.desk.asked.lock().unwrap())
    }

    /// Waits for what the gate does on its own time.
    pub(super) fn until(&self, what: &str, holds: impl Fn(&Script) -> bool) {
        for _ in 0..500 {
            if holds(&self.desk) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not in time: {what}");
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// One request on a connection of its own; lines are separated by `\n` and need no end.
    pub(super) fn ask(&self, request: &str) -> Reply {
        ask_on(&mut self.connect(), request)
    }

    /// A browser's navigation.
    pub(super) fn go(&self, path: &str, cookies: &str) -> Reply {
        self.ask(&format!(
            "GET {path} HTTP/1.1\nHost: shop.test\nAccept: text/html,*/*;q=0.8\nSec-Fetch-Mode: navigate\nCookie: {cookies}"
        ))
    }

    /// A script's request.
    pub(super) fn fetch(&self, method: &str, path: &str, more: &str) -> Reply {
        let more = if more.is_empty() { String::new() } else { format!("\n{more}") };
        self.ask(&format!("{method} {path} HTTP/1.1\nHost: shop.test\nAccept: application/json{more}"))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Sends a request on a connection that may go on.
pub(super) fn ask_on(stream: &mut TcpStream, request: &str) -> Reply {
    let head_only = request.starts_with("HEAD");
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let head = head.lines().map(|line| format!("{line}\r\n")).collect::<String>();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    Reply::read(stream, head_only)
}

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Bytes of head and body.
    pub(super) size: usize,
}

impl Reply {
    fn read(stream: &mut TcpStream, head_only: bool) -> Self {
        let mut reader = BufReader::new(stream);
        let mut size = 0;
        let mut line = || {
            let mut line = String::new();
            size += reader.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let first = line();
        let status =
            first.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {first:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Self { status, headers, body: String::new(), size };
        if status == 101 || head_only {
            return reply;
        }
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            reply.size += body.len();
            reply.body = String::from_utf8(body).unwrap();
        }
        reply
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The `Set-Cookie` line of a cookie.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let lines = self.headers.iter().filter(|(known, _)| known == "set-cookie");
        lines.map(|(_, line)| line.as_str()).find(|line| line.split('=').next() == Some(name))
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// Settings whose origin answers nothing.
pub(super) fn settings_of_nowhere() -> ProxySettings {
    settings("127.0.0.1:9")
}

fn settings(origin: &str) -> ProxySettings {
    let many = 1_000.try_into().unwrap();
    let shop = OriginSettings {
        servers: vec![origin.parse().unwrap()],
        health: None,
        connect_timeout: Duration::from_secs(2),
        read_timeout: Duration::from_secs(5),
    };
    ProxySettings {
        public_path: "/waitingroom".into(),
        trusted_proxies: Vec::new(),
        default_origin: Some("shop".into()),
        origins: [("shop".to_owned(), shop)].into(),
        limits: Limits { joins_per_sec: many, joins_per_min: many, strangers_per_min: many },
    }
}

/// A site that answers everything with what the query asks for, and keeps what it was sent.
fn origin() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let keep = Arc::clone(&keep);
            std::thread::spawn(move || serve(stream, &keep));
        }
    });
    (address, seen)
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(length) if length > 0) {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line.replace('\r', ""));
        }
        let lower = head.to_ascii_lowercase();
        let length =
            lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        seen.lock().unwrap().push(format!("{head}\n{}", String::from_utf8_lossy(&body)));
        if lower.contains("upgrade: websocket") {
            let _ = writer.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            let mut byte = [0];
            while matches!(reader.read(&mut byte), Ok(1)) {
                let _ = writer.write_all(&byte);
            }
            return;
        }
        let more = if head.contains("cache=public") {
            "Cache-Control: public, max-age=60\r\nCDN-Cache-Control: max-age=60\r\nSurrogate-Control: x\r\nExpires: x\r\n"
        } else {
            "Alt-Svc: h3=\":443\"\r\n"
        };
        let body = if lower.starts_with("head") { "" } else { "origin" };
        let _ =
            writer.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n{more}\r\n{body}").as_bytes());
    }
}

//! A control log that only pretends, and an API over it.

use std::sync::Mutex;

use async_trait::async_trait;
use http::header::{AUTHORIZATION, IF_MATCH};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::super::*;
use crate::clock::Clock;
use crate::config::{self, Position};
use crate::desk::{Changed, FleetDeed, Tried};
use crate::model::ids::{EventId, Generation, KeyId, LogIndex, NodeId, NodeRun, TicketId};
use crate::model::ledger::{ChangeKind, ChangeOutcome, Condition};
use crate::model::policy::{Fault, Fields, Policy};

pub(super) const TOKEN: &str = "a-token-that-nobody-knows";

/// A control log of one event's fields and version, that writes down what it is asked.
#[derive(Default)]
pub(super) struct Pretended {
    pub(super) asked: Mutex<Vec<(ChangeKind, Condition)>>,
    pub(super) deeds: Mutex<Vec<FleetDeed>>,
    pub(super) fields: Mutex<Option<(u64, Fields)>>,
    pub(super) fails: Mutex<Option<ControlError>>,
}

impl Pretended {
    pub(super) fn with(fields: Value) -> Arc<Self> {
        let pretended = Self::default();
        *pretended.fields.lock().unwrap() = Some((5, Fields::from(fields.as_object().unwrap().clone())));
        Arc::new(pretended)
    }

    pub(super) fn asked(&self) -> Vec<(ChangeKind, Condition)> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn deeds(&self) -> Vec<FleetDeed> {
        self.deeds.lock().unwrap().clone()
    }

    fn check(&self) -> Result<(), ControlError> {
        self.fails.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl ControlPort for Pretended {
    async fn change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Changed, ControlError> {
        self.check()?;
        self.asked.lock().unwrap().push((kind.clone(), condition));
        let Tried { outcome, fields, warnings, .. } = self.try_change(event, kind, condition).await?;
        *self.fields.lock().unwrap() = fields.map(|fields| (6, fields));
        Ok(Changed { index: LogIndex(6), version: 6, outcome, merged: None, warnings })
    }

    async fn try_change(
        &self,
        _: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Tried, ControlError> {
        self.check()?;
        let kept = self.fields.lock().unwrap().clone();
        let version = kept.as_ref().map(|(version, _)| *version);
        match (condition, version) {
            (Condition::Version(seen), Some(current)) if current != seen => {
                return Err(ControlError::VersionMismatch { current });
            }
            (Condition::Absent, Some(current)) => return Err(ControlError::Exists { current }),
            (Condition::Exists, None) => return Err(ControlError::Missing),
            _ => {}
        }
        let outcome = if kept.is_some() { ChangeOutcome::Updated } else { ChangeOutcome::Created };
        let mut after = kept.clone().map(|(_, fields)| fields).unwrap_or_default();
        match kind {
            ChangeKind::Patch(_) if kept.is_none() => return Err(ControlError::NoSuchEvent),
            ChangeKind::Put(fields) | ChangeKind::Patch(fields) => after.0.extend(fields.0),
            _ => {}
        }
        let warnings = Policy::from_fields(&after).map_err(ControlError::Faults)?.warnings();
        Ok(Tried { version, outcome, merged: None, fields: Some(after), warnings })
    }

    async fn try_changes(&self, _: Vec<(EventId, ChangeKind)>) -> Vec<Result<Tried, ControlError>> {
        Vec::new()
    }

    async fn rotate_key(&self) -> Result<(KeyId, LogIndex), ControlError> {
        self.check()?;
        Ok((KeyId(3), LogIndex(8)))
    }

    async fn try_rotate_key(&self) -> Result<KeyId, ControlError> {
        self.check()?;
        Ok(KeyId(3))
    }

    async fn describe(&self, event: EventId) -> Result<Value, ControlError> {
        let kept = self.fields.lock().unwrap().clone().ok_or(ControlError::NoSuchEvent)?;
        Ok(json!({ "id": event, "version": kept.0, "policy": kept.1.to_map() }))
    }

    async fn list(&self) -> Result<Vec<Value>, ControlError> {
        Ok(vec![self.describe("tour".parse().unwrap()).await?])
    }

    async fn event_log(&self, _: EventId, after: LogIndex, limit: usize) -> Result<Vec<Value>, ControlError> {
        let records = [1, 2, 2, 3].into_iter().filter(|index| *index > after.0);
        Ok(records.map(|index| json!({ "index": index })).take(limit).collect())
    }

    async fn explain(&self, _: EventId, ticket: TicketId) -> Result<Value, ControlError> {
        Ok(json!({ "standing": "admitted", "ticket": ticket.to_string() }))
    }

    async fn fleet(&self, deed: FleetDeed) -> Result<Value, ControlError> {
        self.check()?;
        self.deeds.lock().unwrap().push(deed);
        Ok(json!({ "alone": false, "index": 7, "controllers": [], "nodes": [] }))
    }

    fn leads(&self) -> bool {
        true
    }
}

/// A process that knows one origin, `shop`, and refuses to reload.
pub(super) struct Process;

#[async_trait]
impl Assembly for Process {
    async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let problem = "0 is not a whole number from 1 to 65535".to_owned();
        let position = Some(Position { line: 2, column: 3 });
        Err(ReloadError::Refused(vec![config::Fault { path: "node.id".to_owned(), problem, position }]))
    }

    async fn try_reload(&self) -> Result<ReloadTried, ReloadError> {
        let tried = ReloadTried {
            dry_run: true,
            changed: vec!["limits"],
            events: std::collections::BTreeMap::new(),
            warnings: Vec::new(),
        };
        Ok(tried)
    }

    fn faults(&self, fields: &Fields) -> Vec<Fault> {
        let known = fields.get("origin").is_none_or(|origin| origin == "\"shop\"");
        let fault = Fault { path: "origin".to_owned(), problem: "is not known".to_owned() };
        if known { Vec::new() } else { vec![fault] }
    }

    fn warnings(&self, _: &EventId, policy: &Policy) -> Vec<String> {
        policy.origin.is_none().then(|| "no `origin` is named".to_owned()).into_iter().collect()
    }
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(super) fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

pub(super) struct Api {
    pub(super) address: std::net::SocketAddr,
}

pub(super) fn desk() -> Arc<Desk> {
    let node = NodeId(std::num::NonZeroU16::MIN);
    Desk::new(NodeRun { node, generation: Generation(1) }, Clock::start())
}

pub(super) async fn api(control: Option<Arc<Pretended>>) -> Api {
    let desk = desk();
    if let Some(control) = control {
        desk.set_control(control);
    }
    let token = Arc::new(AdminToken::new(TOKEN).unwrap());
    let admin = Admin { desk, token, assembly: Arc::new(Process) };
    assert!(!format!("{admin:?}").contains(TOKEN));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, admin, std::future::pending()));
    Api { address }
}

pub(super) async fn ask(address: std::net::SocketAddr, request: Request<Full<bytes::Bytes>>) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

impl Api {
    pub(super) async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask_seen(method, path, body, None).await
    }

    pub(super) async fn ask_seen(&self, method: &str, path: &str, body: Value, seen: Option<&str>) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header("host", "admin")
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"));
        if let Some(seen) = seen {
            request = request.header(IF_MATCH, seen);
        }
        ask(self.address, request.body(Full::from(text)).unwrap()).await
    }
}

pub(super) fn fields(value: Value) -> Fields {
    Fields::from(value.as_object().unwrap().clone())
}

pub(super) fn small() -> Value {
    json!({ "capacity": 10, "max_admit_per_sec": 2, "origin": "shop", "match": [{ "path": "/" }] })
}

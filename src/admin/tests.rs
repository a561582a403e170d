use std::sync::Mutex;

use async_trait::async_trait;
use http::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER,
};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::*;
use crate::clock::Clock;
use crate::desk::{Changed, Tried};
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::model::ids::{EventId, Generation, KeyId, LogIndex, NodeId, NodeRun, TicketId};
use crate::model::ledger::{ChangeKind, ChangeOutcome, Condition};
use crate::model::policy::{Fault, Fields, Policy};

const TOKEN: &str = "a-token-that-nobody-knows";

/// A control log of one event's fields and version, that writes down what it is asked.
#[derive(Default)]
struct Pretended {
    asked: Mutex<Vec<(ChangeKind, Condition)>>,
    fields: Mutex<Option<(u64, Fields)>>,
    fails: Mutex<Option<ControlError>>,
}

impl Pretended {
    fn with(fields: Value) -> Arc<Self> {
        let pretended = Self::default();
        *pretended.fields.lock().unwrap() = Some((5, Fields::from(fields.as_object().unwrap().clone())));
        Arc::new(pretended)
    }

    fn asked(&self) -> Vec<(ChangeKind, Condition)> {
        self.asked.lock().unwrap().clone()
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
}

/// A process that knows one origin, `shop`, and refuses to reload.
struct Process;

#[async_trait]
impl Assembly for Process {
    async fn reload(&self) -> Result<Reloaded, String> {
        Err("anteroom.yaml:1:1: node.id: 0 is not a whole number from 1 to 65535".to_owned())
    }

    async fn try_reload(&self) -> Result<ReloadTried, String> {
        let tried = ReloadTried {
            dry_run: true,
            changed: vec!["limits"],
            events: std::collections::BTreeMap::new(),
            refused: std::collections::BTreeMap::new(),
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

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

struct Api {
    address: std::net::SocketAddr,
}

fn desk() -> Arc<Desk> {
    let node = NodeId(std::num::NonZeroU16::MIN);
    Desk::new(NodeRun { node, generation: Generation(1) }, Clock::start())
}

async fn api(control: Option<Arc<Pretended>>) -> Api {
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

async fn ask(address: std::net::SocketAddr, request: Request<Full<bytes::Bytes>>) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

impl Api {
    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask_seen(method, path, body, None).await
    }

    async fn ask_seen(&self, method: &str, path: &str, body: Value, seen: Option<&str>) -> Answer {
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

fn fields(value: Value) -> Fields {
    Fields::from(value.as_object().unwrap().clone())
}

fn small() -> Value {
    json!({ "capacity": 10, "max_admit_per_sec": 2, "origin": "shop", "match": [{ "path": "/" }] })
}

#[tokio::test]
async fn without_the_token_nothing_is_told_or_done() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    for (method, path) in
        [("GET", "/admin/events"), ("POST", "/admin/events/tour/pause"), ("GET", "/nowhere"), ("PUT", "/")]
    {
        for header in [None, Some("Bearer wrong-token-of-some-length"), Some("Basic YTpi")] {
            let mut request = Request::builder().method(method).uri(path).header("host", "admin");
            if let Some(header) = header {
                request = request.header(AUTHORIZATION, header);
            }
            let answer = ask(api.address, request.body(Full::default()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
            assert_eq!(answer.header(http::header::WWW_AUTHENTICATE), "Bearer");
            assert!(!answer.text.contains("wrong-token"));
        }
    }
    assert_eq!(control.asked(), []);
}

#[tokio::test]
async fn events_are_listed_and_read_with_their_version() {
    let api = api(Some(Pretended::with(small()))).await;
    let list = api.ask("GET", "/admin/events", Value::Null).await;
    assert_eq!(list.json()["events"][0]["id"], "tour");
    let one = api.ask("GET", "/admin/events/tour", Value::Null).await;
    assert_eq!((one.status, one.header(ETAG)), (StatusCode::OK, "\"5\""));
    assert_eq!(one.json()["policy"]["capacity"], 10);
    assert_eq!(one.header(http::header::CACHE_CONTROL), "no-store");
}

#[tokio::test]
async fn put_creates_and_says_what_is_missing_yet() {
    let control = Arc::new(Pretended::default());
    let api = api(Some(Arc::clone(&control))).await;
    let body = json!({ "id": "tour", "capacity": 10, "max_admit_per_sec": 2 });
    let made = api.ask("PUT", "/admin/events/tour", body).await;
    assert_eq!((made.status, made.header(ETAG)), (StatusCode::CREATED, "\"6\""));
    assert_eq!(made.header(LOCATION), "/admin/events/tour");
    let told = made.json();
    assert_eq!((&told["index"], &told["outcome"]), (&json!(6), &json!("created")));
    let warnings = told["warnings"].to_string();
    assert!(warnings.contains("`match`") && warnings.contains("`origin`"), "{warnings}");
    let wanted = ChangeKind::Put(fields(json!({ "capacity": 10, "max_admit_per_sec": 2 })));
    assert_eq!(control.asked(), [(wanted, Condition::Always)]);
}

#[tokio::test]
async fn all_faults_are_told_at_once() {
    let api = api(Some(Pretended::with(small()))).await;
    let body = json!({ "capacity": 0, "orderin": "fifo", "schedule": { "opens_at": "soon" } });
    let refused = api.ask("PATCH", "/admin/events/tour", body).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.header(CONTENT_TYPE), "application/problem+json");
    let faults = refused.json()["faults"].as_array().unwrap().clone();
    let mut paths: Vec<_> = faults.iter().map(|fault| fault["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    assert_eq!(paths, ["capacity", "orderin", "schedule.opens_at"]);
}

#[tokio::test]
async fn an_origin_that_the_node_does_not_know_is_refused() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let refused = api.ask("PATCH", "/admin/events/tour", json!({ "origin": "shopp" })).await;
    assert_eq!(refused.json()["faults"][0]["path"], "origin");
    assert_eq!(control.asked(), []);
}

#[tokio::test]
async fn a_change_of_a_version_that_is_gone_is_refused() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let body = json!({ "capacity": 11 });
    let stale = api.ask_seen("PATCH", "/admin/events/tour", body.clone(), Some("\"4\"")).await;
    assert_eq!((stale.status, stale.header(ETAG)), (StatusCode::PRECONDITION_FAILED, "\"5\""));
    for malformed in ["5", "W/\"5\"", "\"4\", \"5\""] {
        let wrong = api.ask_seen("PATCH", "/admin/events/tour", body.clone(), Some(malformed)).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{malformed}");
    }
    let good = api.ask_seen("PATCH", "/admin/events/tour", body, Some("\"5\"")).await;
    assert_eq!((good.status, good.header(ETAG)), (StatusCode::OK, "\"6\""));
}

#[tokio::test]
async fn a_dry_run_tells_and_does_nothing() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let path = "/admin/events/tour?dry_run=true";
    let told = api.ask("PATCH", path, json!({ "capacity": 11, "mode": "observe" })).await;
    assert_eq!((told.status, &told.json()["outcome"]), (StatusCode::OK, &json!("updated")));
    assert_eq!(told.json()["policy"]["capacity"], 11);
    assert!(told.json()["warnings"].to_string().contains("observe"));
    let refused = api.ask("PUT", path, json!({ "capacity": 0 })).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let stale = api.ask_seen("PUT", path, json!({}), Some("\"4\"")).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    let typo = api.ask("PUT", "/admin/events/tour?dryrun=true", json!({ "capacity": 1 })).await;
    assert_eq!(typo.status, StatusCode::BAD_REQUEST, "a misspelt dry run must not be a real one");
    assert_eq!(control.asked(), []);
}

/// Every request that changes something, and a body that it takes.
fn mutations() -> Vec<(&'static str, &'static str, Value)> {
    let none = Value::Null;
    vec![
        ("PUT", "/admin/events/tour", json!({ "capacity": 11 })),
        ("PATCH", "/admin/events/tour", json!({ "capacity": 11 })),
        ("DELETE", "/admin/events/tour", none.clone()),
        ("POST", "/admin/events/tour/pause", none.clone()),
        ("POST", "/admin/events/tour/resume", none.clone()),
        ("POST", "/admin/events/tour/open", none.clone()),
        ("POST", "/admin/events/tour/close", none.clone()),
        ("POST", "/admin/events/tour/reset", none.clone()),
        ("POST", "/admin/events/tour/admit", json!({ "count": 2 })),
        ("PUT", "/admin/events/tour/inventory", json!({ "inventory": 7 })),
        ("PUT", "/admin/events/tour/message", json!({ "message": "Soon." })),
        ("DELETE", "/admin/events/tour/passes/1-2-3", none.clone()),
        ("POST", "/admin/keys/rotate", none.clone()),
        ("POST", "/admin/reload", none),
    ]
}

#[test]
fn the_list_of_mutations_is_whole() {
    let routes = include_str!("mod.rs");
    let count = |handler: &str| routes.matches(handler).count();
    let all = [" post(", " put(", ".put(", ".patch(", " delete(", ".delete("].map(count);
    assert_eq!(all.iter().sum::<usize>(), mutations().len(), "{all:?}");
}

#[tokio::test]
async fn every_mutation_can_be_tried_and_none_takes_an_unknown_query() {
    for (method, path, body) in mutations() {
        let control = Pretended::with(small());
        let api = api(Some(Arc::clone(&control))).await;
        let dry = format!("{path}?dry_run=true");
        let told = api.ask(method, &dry, body.clone()).await;
        assert_eq!(told.status, StatusCode::OK, "{method} {path}: {}", told.text);
        assert_eq!(told.json()["dry_run"], true, "{method} {path}: {}", told.text);
        for query in ["dryrun=true", "dry_run=1", "dry_run=true&x=1", "dry_run", "force=true"] {
            let refused = api.ask(method, &format!("{path}?{query}"), body.clone()).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{method} {path}?{query}");
        }
        assert_eq!(control.asked(), [], "{method} {path}");
    }
}

#[tokio::test]
async fn a_change_can_ask_that_an_event_exists_or_does_not() {
    let control = Arc::new(Pretended::default());
    let api = api(Some(Arc::clone(&control))).await;
    let ask = async |name, value: &str| {
        let request = Request::builder()
            .method("PUT")
            .uri("/admin/events/tour")
            .header("host", "admin")
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(name, value);
        let answer = ask(api.address, request.body(Full::from(small().to_string())).unwrap()).await;
        (answer.status.as_u16(), answer.json()["state"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask(IF_MATCH, "*").await, (412, "no_such_event".to_owned()));
    assert_eq!(ask(IF_NONE_MATCH, "*").await.0, 201);
    assert_eq!(ask(IF_NONE_MATCH, "*").await, (412, "exists".to_owned()));
    assert_eq!(ask(IF_NONE_MATCH, "\"6\"").await, (400, "malformed".to_owned()));
    assert_eq!(ask(IF_MATCH, "*").await.0, 200);
}

#[tokio::test]
async fn every_verb_puts_its_change_into_the_log() {
    let patch = |value| ChangeKind::Patch(fields(value));
    let ticket: TicketId = "1-2-3".parse().unwrap();
    let rows = [
        ("POST", "pause", Value::Null, patch(json!({ "paused": true }))),
        ("POST", "resume", Value::Null, patch(json!({ "paused": false }))),
        ("POST", "close", Value::Null, patch(json!({ "mode": "closed" }))),
        ("POST", "reset", Value::Null, ChangeKind::Reset),
        ("POST", "admit", json!({ "count": 25 }), ChangeKind::Admit(25)),
        ("PUT", "inventory", json!({ "inventory": 40 }), patch(json!({ "inventory": 40 }))),
        ("PUT", "inventory", json!({ "inventory": null }), patch(json!({ "inventory": null }))),
        ("PUT", "message", json!({ "message": "Soon." }), patch(json!({ "message": "Soon." }))),
        ("DELETE", "passes/1-2-3", Value::Null, ChangeKind::EndPass(ticket)),
        ("DELETE", "", Value::Null, ChangeKind::Delete),
    ];
    for (method, verb, body, wanted) in rows {
        let control = Pretended::with(small());
        let api = api(Some(Arc::clone(&control))).await;
        let path = format!("/admin/events/tour/{verb}");
        let answer = api.ask_seen(method, path.trim_end_matches('/'), body, Some("\"5\"")).await;
        assert_eq!((answer.status, &answer.json()["index"]), (StatusCode::OK, &json!(6)), "{verb}");
        assert_eq!(control.asked(), [(wanted, Condition::Version(5))], "{verb}");
    }
}

#[tokio::test]
async fn opening_moves_a_schedule_that_stands_in_the_way() {
    let mut stated = small();
    stated["schedule"] = json!({
        "prequeue_at": "2999-01-01T09:00:00Z", "opens_at": "2999-01-01T10:00:00Z", "closes_at": "2999-01-02T10:00:00Z",
    });
    let control = Pretended::with(stated);
    let api = api(Some(Arc::clone(&control))).await;
    let answer = api.ask("POST", "/admin/events/tour/open", Value::Null).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let asked = control.asked();
    let [(ChangeKind::Patch(patched), Condition::Version(5))] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(patched.get("mode"), Some("\"enforce\""));
    let schedule: Value = serde_json::from_str(patched.get("schedule").unwrap()).unwrap();
    assert_eq!(schedule["closes_at"], "2999-01-02T10:00:00Z");
    assert!(
        schedule.get("prequeue_at").is_none() && schedule["opens_at"] != "2999-01-01T10:00:00Z",
        "{schedule}"
    );
}

#[tokio::test]
async fn one_visitor_is_explained_from_the_log_and_from_this_node() {
    let api = api(Some(Pretended::with(small()))).await;
    let told = api.ask("GET", "/admin/events/tour/tickets/1-2-3", Value::Null).await.json();
    assert_eq!((&told["ledger"]["standing"], &told["made_by"]["node"]), (&json!("admitted"), &json!(1)));
    let odd = api.ask("GET", "/admin/events/tour/tickets/nobody", Value::Null).await;
    assert_eq!(odd.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_log_is_read_page_by_page() {
    let api = api(Some(Pretended::with(small()))).await;
    let first = api.ask("GET", "/admin/events/tour/log?limit=2", Value::Null).await.json();
    assert_eq!((first["records"].as_array().unwrap().len(), &first["next_after"]), (1, &json!(1)));
    let rest = api.ask("GET", "/admin/events/tour/log?after=1&limit=9", Value::Null).await.json();
    assert_eq!((rest["records"].as_array().unwrap().len(), &rest["next_after"]), (3, &json!(3)));
    for wrong in ["limit=0", "limit=20001", "after=x", "from=1"] {
        let path = format!("/admin/events/tour/log?{wrong}");
        assert_eq!(api.ask("GET", &path, Value::Null).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn the_node_is_told_its_keys_are_rotated_and_a_bad_file_is_refused() {
    let api = api(Some(Pretended::with(small()))).await;
    assert_eq!(api.ask("GET", "/admin/node", Value::Null).await.json()["contact"], "unheard");
    let rotated = api.ask("POST", "/admin/keys/rotate", Value::Null).await.json();
    assert_eq!(rotated, json!({ "key": 3, "index": 8 }));
    let refused = api.ask("POST", "/admin/reload", Value::Null).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.json()["detail"].as_str().unwrap().contains("node.id"));
}

#[tokio::test]
async fn nothing_is_changed_by_get() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    for path in ["events/tour/pause", "events/tour/admit", "events/tour/message", "keys/rotate", "reload"] {
        let answer = api.ask("GET", &format!("/admin/{path}"), Value::Null).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert!(matches!(answer.header(ALLOW), "POST" | "PUT"), "{path}");
        assert_eq!(answer.json()["state"], "method_not_allowed");
    }
    assert_eq!(control.asked(), []);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let rows = [
        ("POST", "/admin/events/tour/admit", json!({ "count": 0 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("POST", "/admin/events/tour/admit", json!({ "count": -1 }), StatusCode::BAD_REQUEST),
        ("POST", "/admin/events/tour/admit", json!({ "cnt": 1 }), StatusCode::BAD_REQUEST),
        ("POST", "/admin/events/tour/admit", Value::Null, StatusCode::BAD_REQUEST),
        ("PUT", "/admin/events/tour", json!([1]), StatusCode::BAD_REQUEST),
        ("PUT", "/admin/events/Tour", json!({}), StatusCode::NOT_FOUND),
        ("PUT", "/admin/events/tour/message", json!({ "message": 5 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "/admin/events/tour", json!("x".repeat(70_000)), StatusCode::PAYLOAD_TOO_LARGE),
        ("GET", "/admin", Value::Null, StatusCode::NOT_FOUND),
    ];
    for (method, path, body, wanted) in rows {
        let answer = api.ask(method, path, body).await;
        assert_eq!(answer.status, wanted, "{method} {path}: {}", answer.text);
        assert_eq!(answer.header(CONTENT_TYPE), "application/problem+json", "{method} {path}");
    }
}

#[tokio::test]
async fn a_field_that_is_stated_twice_is_refused() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let request = Request::builder()
        .method("PATCH")
        .uri("/admin/events/tour")
        .header("host", "admin")
        .header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    let body = r#"{"capacity": 5, "capacity": 500}"#;
    let answer = ask(api.address, request.body(Full::from(body)).unwrap()).await;
    assert_eq!((answer.status, control.asked()), (StatusCode::BAD_REQUEST, vec![]), "{}", answer.text);
}

#[tokio::test]
async fn what_the_log_does_not_take_is_told_apart() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let rows = [
        (ControlError::Conflict("not now; reset".to_owned()), StatusCode::CONFLICT, "conflict"),
        (ControlError::Unavailable("no leader".to_owned()), StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        (ControlError::Unknown, StatusCode::GATEWAY_TIMEOUT, "unknown"),
        (ControlError::NoSuchEvent, StatusCode::NOT_FOUND, "no_such_event"),
    ];
    for (error, status, state) in rows {
        *control.fails.lock().unwrap() = Some(error);
        let answer = api.ask("POST", "/admin/events/tour/pause", Value::Null).await;
        assert_eq!((answer.status, answer.json()["state"].as_str().unwrap()), (status, state));
        let retry = if status == StatusCode::SERVICE_UNAVAILABLE { "1" } else { "" };
        assert_eq!(answer.header(RETRY_AFTER), retry);
    }
}

#[tokio::test]
async fn a_node_that_starts_takes_no_changes_yet() {
    let answer = api(None).await.ask("GET", "/admin/events", Value::Null).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn probes_tell_starting_from_cut_off_from_draining() {
    let lifecycle = Arc::new(Lifecycle::default());
    let probes = Probes { desk: desk(), metrics: Metrics::new().unwrap(), lifecycle: Arc::clone(&lifecycle) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_probes(listener, probes, std::future::pending()));
    let get = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "probe").body(Full::default()).unwrap();
        let answer = ask(address, request).await;
        (answer.status.as_u16(), answer.text)
    };
    assert_eq!(get("/readyz").await, (503, "starting\n".to_owned()));
    lifecycle.serve();
    assert_eq!(get("/readyz").await, (503, "cut off from the leader\n".to_owned()));
    lifecycle.drain();
    assert_eq!(get("/readyz").await, (503, "draining\n".to_owned()));
    assert_eq!(get("/livez").await, (200, "alive\n".to_owned()));
    let (status, text) = get("/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("anteroom_leader_contact{state=\"unheard\"} 1"), "{text}");
}

#[test]
fn every_path_is_documented() {
    let page = include_str!("../../docs/operating.md");
    let routes = include_str!("mod.rs");
    let literals = routes.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split('"').next());
    let paths: Vec<_> = literals.filter(|path| *path != "/").collect();
    assert!(paths.len() > 14, "{paths:?}");
    for path in paths {
        let path = path.replace("{id}", "{ref}");
        let full = if path.starts_with("/admin") { path } else { format!("/admin/events/{{event}}{path}") };
        assert!(page.contains(&full), "{full} in docs/operating.md");
    }
}

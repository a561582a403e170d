//! What changes something: as asked, under a condition, or only tried.

use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::super::*;
use super::house::*;
use crate::model::ids::TicketId;
use crate::model::ledger::{ChangeKind, Condition};

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

/// Every request that changes something but the fleet, and a body that it takes.
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
    let routes = include_str!("../mod.rs");
    let count = |handler: &str| routes.matches(handler).count();
    let all = [" post(", " put(", ".put(", ".patch(", " delete(", ".delete("].map(count);
    let known = mutations().len() + super::fleet::mutations().len();
    assert_eq!(all.iter().sum::<usize>(), known, "{all:?}");
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
async fn nothing_is_changed_by_get() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    for path in [
        "events/tour/pause",
        "events/tour/admit",
        "events/tour/message",
        "keys/rotate",
        "reload",
        "cluster/init",
    ] {
        let answer = api.ask("GET", &format!("/admin/{path}"), Value::Null).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert!(matches!(answer.header(ALLOW), "POST" | "PUT"), "{path}");
        assert_eq!(answer.json()["state"], "method_not_allowed");
    }
    assert_eq!(control.asked(), []);
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

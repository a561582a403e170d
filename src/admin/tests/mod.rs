mod changes;
mod fleet;
mod house;

use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::*;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::peer::{Refusal, Refusals};
use house::*;

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
    let fault = json!({
        "path": "node.id", "problem": "0 is not a whole number from 1 to 65535", "line": 2, "column": 3,
    });
    assert_eq!(refused.json()["faults"], json!([fault]));
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let control = Pretended::with(small());
    let api = api(Some(Arc::clone(&control))).await;
    let rows = [
        ("POST", "/admin/events/tour/admit", json!({ "count": 0 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("POST", "/admin/events/tour/admit", json!({ "count": -1 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("POST", "/admin/events/tour/admit", json!({ "cnt": 1 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "/admin/events/tour/inventory", json!(5), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "/admin/events/tour/message", json!({}), StatusCode::UNPROCESSABLE_ENTITY),
        ("POST", "/admin/events/tour/admit", Value::Null, StatusCode::BAD_REQUEST),
        ("PUT", "/admin/events/tour", json!([1]), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "/admin/events/Tour", json!({}), StatusCode::NOT_FOUND),
        ("PUT", "/admin/events/tour/message", json!({ "message": 5 }), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "/admin/events/tour", json!("x".repeat(70_000)), StatusCode::PAYLOAD_TOO_LARGE),
        ("GET", "/admin", Value::Null, StatusCode::NOT_FOUND),
    ];
    for (method, path, body, wanted) in rows {
        let answer = api.ask(method, path, body).await;
        assert_eq!(answer.status, wanted, "{method} {path}: {}", answer.text);
        assert_eq!(answer.header(CONTENT_TYPE), "application/problem+json", "{method} {path}");
        let at_fault = answer.status == StatusCode::UNPROCESSABLE_ENTITY;
        assert_eq!(answer.json()["faults"].is_array(), at_fault, "{}", answer.text);
        assert!(!answer.text.contains("struct") && !answer.text.contains("u32"), "{}", answer.text);
    }
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
    let (desk, refusals) = (desk(), Arc::new(Refusals::default()));
    refusals.note(Refusal::SameNode, &"a caller at 10.0.0.2");
    let probes = Probes {
        desk: Arc::clone(&desk),
        metrics: Metrics::new().unwrap(),
        lifecycle: Arc::clone(&lifecycle),
        refusals,
    };
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
    for why in Refusal::ALL {
        let wanted = u8::from(why == Refusal::SameNode);
        let line = format!("anteroom_peers_refused_total{{reason=\"{}\"}} {wanted}\n", why.as_str());
        assert!(text.contains(&line), "{line} in {text}");
        assert!(
            include_str!("../../../docs/operating.md").contains(&format!("`{}`", why.as_str())),
            "{why:?}"
        );
    }
    assert!(text.contains("anteroom_leads 0\n"), "{text}");
    desk.set_control(Arc::new(Pretended::default()));
    assert!(get("/metrics").await.1.contains("anteroom_leads 1\n"));
}

#[test]
fn every_path_is_documented() {
    let page = include_str!("../../../docs/operating.md");
    let routes = include_str!("../mod.rs");
    let literals = routes.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split('"').next());
    let paths: Vec<_> = literals.filter(|path| *path != "/").collect();
    assert!(paths.len() > 14, "{paths:?}");
    for path in paths {
        let path = path.replace("{id}", "{ref}");
        let full = if path.starts_with("/admin") { path } else { format!("/admin/events/{{event}}{path}") };
        assert!(page.contains(&full), "{full} in docs/operating.md");
    }
}

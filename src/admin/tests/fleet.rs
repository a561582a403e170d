//! Who is in the fleet: looked at and changed.

use std::num::NonZeroU16;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::super::*;
use super::house::*;
use crate::desk::FleetDeed;
use crate::model::ids::NodeId;

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

/// Every request that changes the fleet, a body that it takes, and what it asks for.
pub(super) fn mutations() -> Vec<(&'static str, &'static str, Value, FleetDeed)> {
    let add = FleetDeed::AddController { node: node(4), address: "edge-4.example:7946".to_owned() };
    let body = json!({ "address": "edge-4.example:7946" });
    vec![
        ("POST", "/admin/cluster/init", Value::Null, FleetDeed::Found),
        ("PUT", "/admin/cluster/controllers/4", body, add),
        (
            "DELETE",
            "/admin/cluster/controllers/4",
            Value::Null,
            FleetDeed::RemoveController { node: node(4) },
        ),
        ("DELETE", "/admin/cluster/nodes/65535", Value::Null, FleetDeed::Expel { node: node(65_535) }),
    ]
}

#[tokio::test]
async fn the_fleet_is_told_as_the_log_knows_it() {
    let control = Arc::new(Pretended::default());
    let told = api(Some(Arc::clone(&control))).await.ask("GET", "/admin/cluster", Value::Null).await;
    assert_eq!((told.status, &told.json()["index"]), (StatusCode::OK, &json!(7)));
    assert_eq!(told.json()["gossip"], json!({ "watermarks": {}, "neighbours": [] }));
    assert_eq!(control.deeds(), [FleetDeed::Look]);
}

#[tokio::test]
async fn every_change_of_the_fleet_is_asked_of_the_log_and_answered_with_the_fleet() {
    for (method, path, body, wanted) in mutations() {
        let control = Arc::new(Pretended::default());
        let answer = api(Some(Arc::clone(&control))).await.ask(method, path, body).await;
        assert_eq!((answer.status, &answer.json()["index"]), (StatusCode::OK, &json!(7)), "{method} {path}");
        assert_eq!(control.deeds(), [wanted], "{method} {path}");
    }
}

#[tokio::test]
async fn what_cannot_be_tried_is_not_done_for_a_dry_run() {
    for (method, path, body, _) in mutations() {
        let control = Arc::new(Pretended::default());
        let api = api(Some(Arc::clone(&control))).await;
        for query in ["dry_run=true", "dryrun=true", "force=true"] {
            let refused = api.ask(method, &format!("{path}?{query}"), body.clone()).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{method} {path}?{query}");
        }
        assert_eq!(control.deeds(), [], "{method} {path}");
    }
}

#[tokio::test]
async fn what_names_no_node_and_no_address_is_refused() {
    let control = Arc::new(Pretended::default());
    let api = api(Some(Arc::clone(&control))).await;
    let good = json!({ "address": "10.0.0.4:7946" });
    let rows = [
        ("PUT", "controllers/0", good.clone(), StatusCode::NOT_FOUND),
        ("PUT", "controllers/65536", good.clone(), StatusCode::NOT_FOUND),
        ("PUT", "controllers/four", good, StatusCode::NOT_FOUND),
        ("DELETE", "controllers/-1", Value::Null, StatusCode::NOT_FOUND),
        ("DELETE", "nodes/0", Value::Null, StatusCode::NOT_FOUND),
        ("PUT", "controllers/4", Value::Null, StatusCode::BAD_REQUEST),
        ("PUT", "controllers/4", json!({}), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "controllers/4", json!({ "adress": "10.0.0.4:7946" }), StatusCode::UNPROCESSABLE_ENTITY),
        (
            "PUT",
            "controllers/4",
            json!({ "address": "a:1", "votes": true }),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        ("PUT", "controllers/4", json!({ "address": "10.0.0.4" }), StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", "controllers/4", json!({ "address": "http://a:1" }), StatusCode::UNPROCESSABLE_ENTITY),
    ];
    for (method, path, body, wanted) in rows {
        let answer = api.ask(method, &format!("/admin/cluster/{path}"), body).await;
        assert_eq!(answer.status, wanted, "{method} {path}: {}", answer.text);
        assert_eq!(answer.header(CONTENT_TYPE), "application/problem+json", "{method} {path}");
    }
    assert_eq!(control.deeds(), []);
}

#[tokio::test]
async fn a_change_of_the_fleet_that_the_log_refuses_is_told_with_its_reason() {
    let control = Arc::new(Pretended::default());
    let reason = "node 4 is no controller".to_owned();
    *control.fails.lock().unwrap() = Some(ControlError::Conflict(reason.clone()));
    let api = api(Some(control)).await;
    for (method, path, body, _) in mutations() {
        let refused = api.ask(method, path, body).await;
        assert_eq!(
            (refused.status, &refused.json()["detail"]),
            (StatusCode::CONFLICT, &json!(reason)),
            "{path}"
        );
    }
}

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::model::time::FleetTime;

fn fields(value: Value) -> Fields {
    let Value::Object(map) = value else { panic!("an object") };
    Fields::from(map)
}

fn faults(value: Value) -> Vec<Fault> {
    Policy::from_fields(&fields(value)).expect_err("at fault")
}

#[test]
fn what_is_left_out_has_its_default() {
    let policy = Policy::from_fields(&fields(json!({"capacity": 8000, "max_admit_per_sec": 25}))).unwrap();
    assert_eq!(policy.ordering, Ordering::BucketedRandom);
    assert_eq!(policy.bucket, Duration::from_secs(60));
    assert_eq!(policy.heartbeat_window(), Duration::from_secs(45));
    assert_eq!(policy.queue_limit, None);
    let fifo = json!({"capacity": 1, "max_admit_per_sec": 1, "ordering": "fifo", "queue_limit": 0});
    assert_eq!(Policy::from_fields(&fields(fifo)).unwrap().bucket, Duration::from_secs(1));
}

#[test]
fn a_message_is_made_of_what_can_be_seen() {
    let read = |message: &str| {
        let stated = json!({"capacity": 1, "max_admit_per_sec": 1, "message": message});
        Policy::from_fields(&fields(stated)).map(|policy| policy.message)
    };
    for message in ["a\u{0}b", "a\u{1b}[31m", "\u{202e}gnp", "\u{2066}x", "a\u{85}b", "a\tb"] {
        assert_eq!(read(message).expect_err(message)[0].path, "message", "{message:?}");
    }
    for message in ["Soon.\n", "שלום\u{200f}", "Ünïcode 🎫"] {
        assert_eq!(read(message), Ok(Some(message.to_owned())));
    }
}

#[test]
fn every_fault_is_told_at_once_with_its_path() {
    let found = faults(json!({
        "capacity": 0,
        "orderin": "fifo",
        "match": [{"host": "a.example"}, {"host": "a b", "path": "buy"}],
        "schedule": {"prequeue_at": "tomorrow", "opens_at": "2027-01-01T00:00:00Z", "closes_at": "2026-01-01T00:00:00Z"},
        "bypass": [{"networks": ["10.0.0.0/8", "x"]}],
        "cookie": {"domain": "co.uk"},
        "session_ttl_s": 700, "session_max_s": 600,
        "challenge": {"kind": "turnstile"},
        "paused": "yes",
        "language": "pt",
    }));
    let mut paths: Vec<_> = found.iter().map(|fault| fault.path.as_str()).collect();
    paths.sort_unstable();
    let wanted = [
        "bypass[0].networks[1]",
        "capacity",
        "challenge.kind",
        "cookie.domain",
        "language",
        "match[1].host",
        "match[1].path",
        "max_admit_per_sec",
        "orderin",
        "paused",
        "schedule.closes_at",
        "schedule.prequeue_at",
        "session_max_s",
    ];
    assert_eq!(paths, wanted);
}

#[test]
fn a_host_is_one_that_a_request_can_name() {
    let refused = |host: &str| {
        let value = json!({"capacity": 1, "max_admit_per_sec": 1, "match": [{"host": host}]});
        Policy::from_fields(&fields(value)).is_err()
    };
    assert!(!["a.example", "*.a.example", "A.example", "[::1]", "10.0.0.1", "a_b"].into_iter().any(refused));
    assert!(
        ["a.example:8080", "[::1]:80", "a.example.", ".a", "*.", "", "a b", "::1", "*"]
            .into_iter()
            .all(refused)
    );
}

#[test]
fn a_cookie_domain_covers_every_host_of_the_event() {
    let value = json!({
        "capacity": 1, "max_admit_per_sec": 1, "cookie": {"domain": "example.com"},
        "match": [{"host": "a.example.com"}, {"host": "unrelated.com"}],
    });
    let found = faults(value);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].path == "cookie.domain" && found[0].problem.contains("unrelated.com"), "{found:?}");
}

#[test]
fn times_are_read_with_an_offset_or_a_zone() {
    let at = |text: &str| {
        let value = json!({"capacity": 1, "max_admit_per_sec": 1, "schedule": {"opens_at": text}});
        Policy::from_fields(&fields(value)).map(|policy| policy.schedule.opens_at)
    };
    let noon = Ok(Some(FleetTime::from_unix_seconds(1_793_534_400)));
    assert_eq!(at("2026-11-01T12:00:00Z"), noon);
    assert_eq!(at("2026-11-01T13:00:00+01:00"), noon);
    assert_eq!(at("2026-11-01T13:00:00[Europe/Paris]"), noon);
    assert!(at("2026-11-01T12:00:00").is_err());
}

#[test]
fn fields_are_canonical_so_that_equal_values_are_equal_text() {
    let one = fields(json!({"cookie": {"same_site": "lax", "domain": "example.com"}}));
    let other =
        fields(serde_json::from_str(r#"{"cookie":{"domain":"example.com",  "same_site":"lax"}}"#).unwrap());
    assert_eq!(one, other);
    assert_eq!(fields(Value::Object(one.to_map())), one);
}

#[test]
fn a_policy_that_matches_nothing_warns() {
    let policy = Policy::from_fields(&fields(json!({"capacity": 1, "max_admit_per_sec": 1}))).unwrap();
    assert!(policy.warnings().iter().any(|warning| warning.contains("`match`")));
}

#[test]
fn the_fields_in_effect_are_all_there_are_and_make_the_same_policy() {
    let least = json!({ "capacity": 5, "max_admit_per_sec": 2, "ordering": "fifo" });
    let all = json!({
        "match": [{ "host": "*.example.com", "path": "/buy" }, { "path": "/" }], "origin": "shop",
        "capacity": 5, "max_admit_per_sec": 2, "ordering": "random", "bucket_seconds": 7, "session_ttl_s": 8,
        "session_max_s": 9, "pass_claim_s": 10, "claim_hold_s": 11, "heartbeat_ttl_s": 12, "ticket_max_s": 61,
        "queue_limit": 13, "mode": "observe", "inventory": 14, "paused": true, "renew_on": "navigation",
        "schedule": {
            "prequeue_at": "2027-01-01T00:00:00Z", "opens_at": "2027-01-01T10:00:00.250+01:00",
            "closes_at": "2027-01-02T00:00:00Z", "opening_bucket_seconds": 30,
        },
        "challenge": { "kind": "none" }, "message": "Soon.", "language": "pt-BR",
        "bypass": [
            { "path": "/healthz" },
            { "methods": ["post"], "header": { "name": "X-Pay", "value": "1" }, "cookie": { "name": "staff" },
              "networks": ["203.0.113.0/24", "2001:db8::1"], "count": true },
        ],
        "cookie": { "domain": "example.com", "same_site": "none", "partitioned": true },
    });
    for stated in [least, all] {
        let policy = Policy::from_fields(&fields(stated.clone())).unwrap();
        let effective = policy.effective();
        assert_eq!(Policy::from_fields(&Fields::from(effective.clone())), Ok(policy));
        let told: Vec<_> = effective.keys().collect();
        let mut faults = Policy::from_fields(&fields(json!({ "no_such": 1 }))).unwrap_err();
        let known = faults.pop().unwrap().problem;
        let known = known.strip_prefix("unknown key; known are ").unwrap();
        assert!(known.split(", ").all(|name| told.contains(&&name.to_owned())), "{known}: {told:?}");
    }
}

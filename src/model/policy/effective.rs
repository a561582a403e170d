//! From a policy back to fields: all of them, with the values that are in force, also those that nobody stated.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{BypassRule, Count, NameValue, Policy};
use crate::model::schedule::Schedule;
use crate::model::time::FleetTime;

impl Policy {
    /// Every field as an operator would state it; `null` where there is no value.
    #[must_use]
    pub fn effective(&self) -> Map<String, Value> {
        let seconds = |duration: Duration| Value::from(duration.as_secs());
        let routes = self.routes.iter().map(|route| json!({ "host": route.host, "path": route.path }));
        let cookie = &self.cookie;
        let fields = [
            ("match", routes.collect()),
            ("origin", json!(self.origin)),
            ("capacity", json!(self.capacity)),
            ("max_admit_per_sec", json!(self.max_admit_per_sec)),
            ("ordering", json!(self.ordering)),
            ("bucket_seconds", seconds(self.bucket)),
            ("session_ttl_s", seconds(self.session_ttl)),
            ("session_max_s", seconds(self.session_max)),
            ("pass_claim_s", seconds(self.pass_claim)),
            ("claim_hold_s", seconds(self.claim_hold)),
            ("heartbeat_ttl_s", seconds(self.heartbeat_ttl)),
            ("ticket_max_s", seconds(self.ticket_max)),
            ("queue_limit", self.queue_limit.map_or(0, std::num::NonZeroU32::get).into()),
            ("mode", json!(self.mode)),
            ("schedule", schedule(&self.schedule)),
            ("inventory", json!(self.inventory)),
            ("paused", self.paused.into()),
            ("renew_on", json!(self.renew_on)),
            ("challenge", json!({ "kind": self.challenge })),
            ("bypass", self.bypass.iter().map(bypass).collect()),
            (
                "cookie",
                json!({
                    "domain": cookie.domain,
                    "same_site": cookie.same_site,
                    "partitioned": cookie.partitioned,
                }),
            ),
            ("message", json!(self.message)),
            ("language", json!(self.language)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn schedule(schedule: &Schedule) -> Value {
    json!({
        "prequeue_at": schedule.prequeue_at.and_then(time),
        "opens_at": schedule.opens_at.and_then(time),
        "closes_at": schedule.closes_at.and_then(time),
        "opening_bucket_seconds": schedule.opening_bucket_seconds,
    })
}

/// A time as RFC 3339 has it; `None` if no calendar reaches that far.
fn time(time: FleetTime) -> Option<String> {
    let milliseconds = i64::try_from(time.0).ok()?;
    Some(jiff::Timestamp::from_millisecond(milliseconds).ok()?.to_string())
}

fn bypass(rule: &BypassRule) -> Value {
    let pair = |pair: &NameValue| json!({ "name": pair.name, "value": pair.value });
    json!({
        "path": rule.path,
        "methods": rule.methods,
        "header": rule.header.as_ref().map(pair),
        "cookie": rule.cookie.as_ref().map(pair),
        "networks": rule.networks,
        "count": rule.count == Count::Counted,
    })
}

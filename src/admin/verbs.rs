//! What an operator does to a running event in one word.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Admin;
use super::events::{set_fields, stated_fields, version_of};
use super::problem::Problem;
use super::wire::{body, changed, event_id, if_match};
use crate::model::ledger::ChangeKind;
use crate::model::policy::{Fault, Policy};
use crate::model::time::FleetTime;

/// A request that does something to an event.
type Call = (State<Admin>, Path<String>, HeaderMap);

/// The same with a body.
type CallWithBody = (State<Admin>, Path<String>, HeaderMap, Result<Bytes, BytesRejection>);

pub(super) async fn pause(call: Call) -> Result<Response, Problem> {
    set(call, json!({ "paused": true })).await
}

pub(super) async fn resume(call: Call) -> Result<Response, Problem> {
    set(call, json!({ "paused": false })).await
}

pub(super) async fn close(call: Call) -> Result<Response, Problem> {
    set(call, json!({ "mode": "closed" })).await
}

/// Opens: gate up, and whatever of the schedule stands in the way of now is moved or dropped.
pub(super) async fn open((State(admin), Path(event), headers): Call) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let described = admin.control()?.describe(event.clone()).await?;
    let policy = Policy::from_fields(&stated_fields(&described)).map_err(Problem::faults)?;
    let mut fields = Map::from_iter([("mode".to_owned(), json!("enforce"))]);
    if let Some(schedule) = open_schedule(&stated_fields(&described).to_map(), &policy, admin.desk.now()) {
        fields.insert("schedule".to_owned(), schedule);
    }
    // What was read decides what is written, so the version read must still be the one.
    let version = if_match(&headers)?.or_else(|| version_of(&described));
    let done = set_fields(&admin, &event, fields, version).await?;
    Ok(changed(&event, &done))
}

/// The schedule of an event that opens now; `None` if it says nothing against that.
fn open_schedule(stated: &Map<String, Value>, policy: &Policy, now: FleetTime) -> Option<Value> {
    let schedule = policy.schedule;
    let mut map = stated.get("schedule")?.as_object()?.clone();
    let before = map.clone();
    if schedule.opens_at.is_some_and(|opens| opens > now) {
        map.insert("opens_at".to_owned(), Value::from(written(now)?));
    }
    if schedule.prequeue_at.is_some_and(|prequeue| prequeue >= now) {
        map.remove("prequeue_at");
    }
    if schedule.closes_at.is_some_and(|closes| closes <= now) {
        map.remove("closes_at");
    }
    (map != before).then_some(Value::Object(map))
}

fn written(time: FleetTime) -> Option<String> {
    let milliseconds = i64::try_from(time.0).ok()?;
    Some(jiff::Timestamp::from_millisecond(milliseconds).ok()?.to_string())
}

pub(super) async fn reset(call: Call) -> Result<Response, Problem> {
    change(call, ChangeKind::Reset).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Admit {
    count: u32,
}

pub(super) async fn admit((state, path, headers, bytes): CallWithBody) -> Result<Response, Problem> {
    let Admit { count } = body(bytes)?;
    if !(1..=1_000_000).contains(&count) {
        let problem = format!("{count} is not a whole number from 1 to 1000000");
        return Err(Problem::faults(vec![Fault { path: "count".to_owned(), problem }]));
    }
    change((state, path, headers), ChangeKind::Admit(count)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inventory {
    inventory: Value,
}

pub(super) async fn inventory((state, path, headers, bytes): CallWithBody) -> Result<Response, Problem> {
    let Inventory { inventory } = body(bytes)?;
    set((state, path, headers), json!({ "inventory": inventory })).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    message: Value,
}

pub(super) async fn message((state, path, headers, bytes): CallWithBody) -> Result<Response, Problem> {
    let Message { message } = body(bytes)?;
    set((state, path, headers), json!({ "message": message })).await
}

async fn set((State(admin), Path(event), headers): Call, fields: Value) -> Result<Response, Problem> {
    let Value::Object(fields) = fields else { return Err(Problem::failed("fields are an object")) };
    let event = event_id(&event)?;
    let done = set_fields(&admin, &event, fields, if_match(&headers)?).await?;
    Ok(changed(&event, &done))
}

async fn change((State(admin), Path(event), headers): Call, kind: ChangeKind) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let done = admin.control()?.change(event.clone(), kind, if_match(&headers)?).await?;
    Ok(changed(&event, &done))
}

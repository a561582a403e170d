//! What an operator does to a running event in one word.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::Admin;
use super::events::{change, stated_fields, version_of};
use super::problem::Problem;
use super::wire::{Terms, event_id, only_field};
use crate::model::ledger::{ChangeKind, Condition};
use crate::model::policy::{Fault, Fields, Policy};
use crate::model::time::FleetTime;

/// A request that does something to an event.
type Call = (State<Admin>, Path<String>, Terms);

/// The same with a body.
type CallWithBody = (State<Admin>, Path<String>, Terms, Result<Bytes, BytesRejection>);

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
pub(super) async fn open((State(admin), Path(event), terms): Call) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let described = admin.control()?.describe(event.clone()).await?;
    let policy = Policy::from_fields(&stated_fields(&described)).map_err(Problem::faults)?;
    let mut fields = Map::from_iter([("mode".to_owned(), json!("enforce"))]);
    if let Some(schedule) = open_schedule(&stated_fields(&described).to_map(), &policy, admin.desk.now()) {
        fields.insert("schedule".to_owned(), schedule);
    }
    // What was read decides what is written, so the version read must still be the one.
    let read = version_of(&described).map(Condition::Version);
    let condition = match terms.condition {
        Condition::Always | Condition::Exists => read.unwrap_or_default(),
        stated => stated,
    };
    change(&admin, event, ChangeKind::Patch(Fields::from(fields)), Terms { condition, ..terms }).await
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
    do_to_event(call, ChangeKind::Reset).await
}

pub(super) async fn admit((state, path, terms, bytes): CallWithBody) -> Result<Response, Problem> {
    let stated = only_field(bytes, "count")?;
    let count = stated.as_u64().and_then(|count| u32::try_from(count).ok());
    let Some(count) = count.filter(|count| (1..=1_000_000).contains(count)) else {
        let problem = format!("{stated} is not a whole number from 1 to 1000000");
        return Err(Problem::faults(vec![Fault { path: "count".to_owned(), problem }]));
    };
    do_to_event((state, path, terms), ChangeKind::Admit(count)).await
}

pub(super) async fn inventory((state, path, terms, bytes): CallWithBody) -> Result<Response, Problem> {
    let inventory = only_field(bytes, "inventory")?;
    set((state, path, terms), json!({ "inventory": inventory })).await
}

pub(super) async fn message((state, path, terms, bytes): CallWithBody) -> Result<Response, Problem> {
    let message = only_field(bytes, "message")?;
    set((state, path, terms), json!({ "message": message })).await
}

async fn set(call: Call, fields: Value) -> Result<Response, Problem> {
    let Value::Object(fields) = fields else { return Err(Problem::failed("fields are an object")) };
    do_to_event(call, ChangeKind::Patch(Fields::from(fields))).await
}

async fn do_to_event(
    (State(admin), Path(event), terms): Call,
    kind: ChangeKind,
) -> Result<Response, Problem> {
    change(&admin, event_id(&event)?, kind, terms).await
}

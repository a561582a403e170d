//! Events: read, made, changed, removed.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::Admin;
use super::problem::Problem;
use super::wire::{self, Run, Terms, answer, event_id, object};
use crate::model::ids::EventId;
use crate::model::ledger::ChangeKind;
use crate::model::policy::{Fields, Policy};

pub(super) async fn list(State(admin): State<Admin>) -> Result<Response, Problem> {
    let events = admin.control()?.list().await?;
    Ok(answer(StatusCode::OK, &json!({ "events": events }), None))
}

pub(super) async fn read(State(admin): State<Admin>, Path(event): Path<String>) -> Result<Response, Problem> {
    let described = admin.control()?.describe(event_id(&event)?).await?;
    Ok(answer(StatusCode::OK, &described, version_of(&described)))
}

pub(super) async fn put(
    State(admin): State<Admin>,
    Path(event): Path<String>,
    terms: Terms,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let fields = fields(&event, bytes)?;
    change(&admin, event, ChangeKind::Put(fields), terms).await
}

pub(super) async fn patch(
    State(admin): State<Admin>,
    Path(event): Path<String>,
    terms: Terms,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let fields = fields(&event, bytes)?;
    change(&admin, event, ChangeKind::Patch(fields), terms).await
}

pub(super) async fn delete(
    State(admin): State<Admin>,
    Path(event): Path<String>,
    terms: Terms,
) -> Result<Response, Problem> {
    change(&admin, event_id(&event)?, ChangeKind::Delete, terms).await
}

/// The fields of a body, which may name its event once more.
fn fields(event: &EventId, bytes: Result<Bytes, BytesRejection>) -> Result<Fields, Problem> {
    let mut map = object(bytes)?;
    if map.get("id").is_some_and(|id| id == event.as_str()) {
        map.remove("id");
    }
    Ok(Fields::from(map))
}

/// Makes or tries a change of an event: the one way by which the API changes any.
pub(super) async fn change(
    admin: &Admin,
    event: EventId,
    kind: ChangeKind,
    Terms { run, condition }: Terms,
) -> Result<Response, Problem> {
    let stated = match &kind {
        ChangeKind::Put(fields) | ChangeKind::Patch(fields) => Some(fields),
        _ => None,
    };
    let faults = stated.map(|fields| admin.assembly.faults(fields)).unwrap_or_default();
    if !faults.is_empty() {
        return Err(Problem::faults(faults));
    }
    let states_fields = stated.is_some();
    let around = |fields: Option<&Fields>| {
        let policy = fields.filter(|_| states_fields).and_then(|fields| Policy::from_fields(fields).ok());
        policy.map(|policy| admin.assembly.warnings(&event, &policy)).unwrap_or_default()
    };
    let control = admin.control()?;
    match run {
        Run::Dry => {
            let mut tried = control.try_change(event.clone(), kind, condition).await?;
            tried.warnings.extend(around(tried.fields.as_ref()));
            Ok(wire::tried(&tried))
        }
        Run::Real => {
            let mut done = control.change(event.clone(), kind, condition).await?;
            let described = control.describe(event.clone()).await.ok();
            done.warnings.extend(around(described.as_ref().map(stated_fields).as_ref()));
            Ok(wire::changed(&event, &done))
        }
    }
}

/// The fields in effect, of what the control log tells of an event.
pub(super) fn stated_fields(described: &Value) -> Fields {
    let stated = described.get("policy").and_then(Value::as_object);
    stated.cloned().map(Fields::from).unwrap_or_default()
}

pub(super) fn version_of(described: &Value) -> Option<u64> {
    described.get("version").and_then(Value::as_u64)
}

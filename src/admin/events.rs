//! Events: read, made, changed, removed.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::problem::Problem;
use super::wire::{answer, body, changed, event_id, if_match};
use crate::desk::{Changed, ControlError};
use crate::model::ids::EventId;
use crate::model::ledger::{ChangeKind, ChangeOutcome};
use crate::model::policy::{Fault, Fields, Policy};

pub(super) async fn list(State(admin): State<Admin>) -> Result<Response, Problem> {
    let events = admin.control()?.list().await?;
    Ok(answer(StatusCode::OK, &json!({ "events": events }), None))
}

pub(super) async fn read(State(admin): State<Admin>, Path(event): Path<String>) -> Result<Response, Problem> {
    let described = admin.control()?.describe(event_id(&event)?).await?;
    Ok(answer(StatusCode::OK, &described, version_of(&described)))
}

/// A request that states fields of an event.
type Edition = (State<Admin>, Path<String>, RawQuery, HeaderMap, Result<Bytes, BytesRejection>);

pub(super) async fn put(edition: Edition) -> Result<Response, Problem> {
    edit(edition, Edit::PutOrMake).await
}

pub(super) async fn patch(edition: Edition) -> Result<Response, Problem> {
    edit(edition, Edit::Change).await
}

pub(super) async fn delete(
    State(admin): State<Admin>,
    Path(event): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let done = admin.control()?.change(event.clone(), ChangeKind::Delete, if_match(&headers)?).await?;
    Ok(changed(&event, &done))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    PutOrMake,
    Change,
}

/// Whether a change is only tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Dry,
    Real,
}

async fn edit(
    (State(admin), Path(event), RawQuery(query), headers, bytes): Edition,
    edit: Edit,
) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let version = if_match(&headers)?;
    let run = run_of(query.as_deref())?;
    let mut map: Map<String, Value> = body(bytes)?;
    if map.get("id").is_some_and(|id| id == event.as_str()) {
        map.remove("id");
    }
    check_origin(&admin, &map)?;
    let fields = Fields::from(map);
    if run == Run::Dry {
        return try_out(&admin, &event, fields, version, edit).await;
    }
    let kind = match edit {
        Edit::PutOrMake => ChangeKind::Put(fields),
        Edit::Change => ChangeKind::Patch(fields),
    };
    let mut done = admin.control()?.change(event.clone(), kind, version).await?;
    let effective = admin.control()?.describe(event.clone()).await.ok();
    done.warnings.extend(effective.and_then(|described| origin_warning(&admin, &stated_fields(&described))));
    Ok(changed(&event, &done))
}

fn run_of(query: Option<&str>) -> Result<Run, Problem> {
    match query.unwrap_or_default() {
        "" | "dry_run=false" => Ok(Run::Real),
        "dry_run=true" => Ok(Run::Dry),
        other => Err(Problem::malformed(format!("?{other}: known is dry_run=true"))),
    }
}

/// An origin that this node does not know would answer every visitor of the event with an error.
fn check_origin(admin: &Admin, map: &Map<String, Value>) -> Result<(), Problem> {
    match map.get("origin").and_then(Value::as_str) {
        Some(name) if !admin.assembly.has_origin(name) => {
            let problem =
                format!("there is no origin \"{name}\" in the configuration file; add it there and reload");
            Err(Problem::faults(vec![Fault { path: "origin".to_owned(), problem }]))
        }
        _ => Ok(()),
    }
}

fn origin_warning(admin: &Admin, fields: &Fields) -> Option<String> {
    let named = fields.get("origin").is_some_and(|origin| origin != "null");
    let warning =
        "no `origin` is named and the configuration file has no `default_origin`: nobody serves the visitors";
    (!named && !admin.assembly.has_default_origin()).then(|| warning.to_owned())
}

/// The fields in effect, of what the control log tells of an event.
pub(super) fn stated_fields(described: &Value) -> Fields {
    let stated = described.get("policy").and_then(Value::as_object);
    stated.cloned().map(Fields::from).unwrap_or_default()
}

pub(super) fn version_of(described: &Value) -> Option<u64> {
    described.get("version").and_then(Value::as_u64)
}

/// What a change would do. Says the same as the change itself would, but for what the log alone decides later on.
async fn try_out(
    admin: &Admin,
    event: &EventId,
    fields: Fields,
    version: Option<u64>,
    edit: Edit,
) -> Result<Response, Problem> {
    let described = match admin.control()?.describe(event.clone()).await {
        Ok(described) => Some(described),
        Err(ControlError::NoSuchEvent) if edit == Edit::PutOrMake && version.is_none() => None,
        Err(error) => return Err(error.into()),
    };
    let current = described.as_ref().and_then(version_of);
    if let (Some(seen), Some(current)) = (version, current)
        && seen != current
    {
        return Err(ControlError::VersionMismatch { current }.into());
    }
    let before = described.as_ref().map(stated_fields).unwrap_or_default();
    let mut after = before.clone();
    after.0.extend(fields.0);
    let policy = Policy::from_fields(&after).map_err(Problem::faults)?;
    check_ordering(admin, event, &policy)?;
    let mut warnings = policy.warnings();
    warnings.extend(origin_warning(admin, &after));
    let outcome = match described {
        None => ChangeOutcome::Created,
        Some(_) if after == before => ChangeOutcome::Unchanged,
        Some(_) => ChangeOutcome::Updated,
    };
    let told = json!({ "dry_run": true, "outcome": outcome, "policy": after.to_map(), "warnings": warnings });
    Ok(answer(StatusCode::OK, &told, current))
}

fn check_ordering(admin: &Admin, event: &EventId, policy: &Policy) -> Result<(), Problem> {
    let reorders = admin.desk.event(event).is_some_and(|now| now.policy.ordering != policy.ordering);
    let waits = |figures: &crate::desk::EventFigures| figures.event == *event && figures.waiting > 0;
    if reorders && admin.desk.figures().events.iter().any(waits) {
        let reason = "`ordering` cannot change while anyone waits; reset the event's line first";
        return Err(ControlError::Conflict(reason.to_owned()).into());
    }
    Ok(())
}

/// Changes fields of an event that exists.
pub(super) async fn set_fields(
    admin: &Admin,
    event: &EventId,
    map: Map<String, Value>,
    version: Option<u64>,
) -> Result<Changed, Problem> {
    Ok(admin.control()?.change(event.clone(), ChangeKind::Patch(Fields::from(map)), version).await?)
}

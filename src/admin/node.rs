//! This node: what it knows, its keys, its configuration.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::Admin;
use super::problem::Problem;
use super::wire::{Run, answer};

pub(super) async fn read(State(admin): State<Admin>) -> Response {
    let figures = admin.desk.figures();
    let told = json!({
        "run": admin.desk.run().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "contact": figures.contact,
        "index": figures.index,
        "pulse_age_ms": figures.pulse_age.map(crate::model::time::as_millis),
        "round_trip_ms": figures.round_trip_ms,
        "events": figures.events.iter().map(|event| json!({
            "id": event.event,
            "phase": event.phase,
            "gate": event.gate,
            "capacity": event.capacity,
            "live_passes": event.live_passes,
            "slots_free": event.slots_free,
            "waiting": event.waiting,
            "admit_rate": event.admit_rate,
        })).collect::<Vec<_>>(),
    });
    answer(StatusCode::OK, &told, None)
}

pub(super) async fn rotate_key(State(admin): State<Admin>, run: Run) -> Result<Response, Problem> {
    let control = admin.control()?;
    if run == Run::Dry {
        let key = control.try_rotate_key().await?;
        return Ok(answer(StatusCode::OK, &json!({ "dry_run": true, "key": key }), None));
    }
    let (key, index) = control.rotate_key().await?;
    tracing::info!(%key, "a new signing key is in the control log");
    Ok(answer(StatusCode::OK, &json!({ "key": key, "index": index }), None))
}

pub(super) async fn reload(State(admin): State<Admin>, run: Run) -> Result<Response, Problem> {
    if run == Run::Dry {
        let told = admin.assembly.try_reload().await?;
        return Ok(answer(StatusCode::OK, &told, None));
    }
    let reloaded = admin.assembly.reload().await?;
    Ok(answer(StatusCode::OK, &reloaded, None))
}

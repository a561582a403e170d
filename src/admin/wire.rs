//! What requests and answers have in common: ids, versions, JSON bodies.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::desk::Changed;
use crate::model::ids::EventId;
use crate::model::ledger::ChangeOutcome;

/// The event that a path names.
pub(super) fn event_id(text: &str) -> Result<EventId, Problem> {
    text.parse().map_err(|error| Problem::not_found(format!("\"{text}\": {error}")))
}

/// The version that the asker has seen, of an `If-Match` header; `*` and no header are any.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let version = inner.and_then(|inner| inner.parse().ok());
    let wrong = || Problem::malformed("If-Match holds one ETag, as GET answered it: `If-Match: \"42\"`");
    version.map(Some).ok_or_else(wrong)
}

/// The ETag of a version; 0 stands for an event that is gone.
pub(super) fn etag(version: u64) -> Option<HeaderValue> {
    if version == 0 { None } else { HeaderValue::try_from(format!("\"{version}\"")).ok() }
}

/// A JSON body.
pub(super) fn body<T: DeserializeOwned>(bytes: Result<Bytes, BytesRejection>) -> Result<T, Problem> {
    let bytes = bytes.map_err(|rejection| Problem::body_refused(rejection.status()))?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::malformed(format!("the body: {error}")))
}

/// A JSON answer, with the version of the event that it tells of.
pub(super) fn answer(status: StatusCode, body: &impl Serialize, version: Option<u64>) -> Response {
    let Ok(text) = serde_json::to_string(body) else {
        return Problem::failed("the answer cannot be written as JSON").into_response();
    };
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(etag) = version.and_then(etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// The answer to a change: 201 where it made the event.
pub(super) fn changed(event: &EventId, changed: &Changed) -> Response {
    let created = changed.outcome == ChangeOutcome::Created;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = answer(status, changed, Some(changed.version));
    if created && let Ok(location) = HeaderValue::try_from(format!("/admin/events/{event}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

//! What requests and answers have in common: ids, versions, JSON bodies.

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::duplicates::WithoutDuplicates;
use super::problem::Problem;
use crate::desk::{Changed, Tried};
use crate::model::ids::EventId;
use crate::model::ledger::{ChangeOutcome, Condition};
use crate::model::policy::{Fault, Fields};

/// The event that a path names.
pub(super) fn event_id(text: &str) -> Result<EventId, Problem> {
    text.parse().map_err(|error| Problem::not_found(format!("\"{text}\": {error}")))
}

/// Whether a change is made or only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Real,
    Dry,
}

impl Run {
    /// What the query of a change says. A misspelt dry run must never be a real one, so anything else is refused.
    pub(super) fn of(query: Option<&str>) -> Result<Self, Problem> {
        match query.unwrap_or_default() {
            "" | "dry_run=false" => Ok(Self::Real),
            "dry_run=true" => Ok(Self::Dry),
            other => {
                Err(Problem::malformed(format!("?{other}: a change knows dry_run=true and nothing else")))
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Run {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(parts.uri.query())
    }
}

/// How a change of an event is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) run: Run,
    /// What must hold of the event.
    pub(super) condition: Condition,
}

impl<S: Sync> FromRequestParts<S> for Terms {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let run = Run::from_request_parts(parts, state).await?;
        Ok(Self { run, condition: condition(&parts.headers)? })
    }
}

/// What `If-Match` and `If-None-Match` ask for.
fn condition(headers: &HeaderMap) -> Result<Condition, Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (None, None) => Ok(Condition::Always),
        (Some("*"), None) => Ok(Condition::Exists),
        (None, Some("*")) => Ok(Condition::Absent),
        (Some(etag), None) => {
            let inner = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
            let version = inner.and_then(|inner| inner.parse().ok()).map(Condition::Version);
            let wrong = "If-Match holds one ETag, as GET answered it, or `*`: `If-Match: \"42\"`";
            version.ok_or_else(|| Problem::malformed(wrong))
        }
        (None, Some(_)) => Err(Problem::malformed("of a change `If-None-Match` can only be `*`")),
        (Some(_), Some(_)) => Err(Problem::malformed("give If-Match or If-None-Match, not both")),
    }
}

/// The ETag of a version; 0 stands for an event that is gone.
pub(super) fn etag(version: u64) -> Option<HeaderValue> {
    if version == 0 { None } else { HeaderValue::try_from(format!("\"{version}\"")).ok() }
}

/// The fields of a JSON body.
pub(super) fn object(bytes: Result<Bytes, BytesRejection>) -> Result<Map<String, Value>, Problem> {
    match body(bytes)? {
        Value::Object(map) => Ok(map),
        _ => {
            let problem = "the body is no JSON object of fields and values".to_owned();
            Err(Problem::faults(vec![Fault { path: String::new(), problem }]))
        }
    }
}

/// The only field of a JSON body, which may be `null`.
pub(super) fn only_field(bytes: Result<Bytes, BytesRejection>, name: &str) -> Result<Value, Problem> {
    let mut map = object(bytes)?;
    let value = map.remove(name);
    let fault = |path: &str, problem: String| Fault { path: path.to_owned(), problem };
    let mut faults: Vec<_> =
        map.keys().map(|key| fault(key, format!("unknown key; known is {name}"))).collect();
    match value {
        Some(value) if faults.is_empty() => return Ok(value),
        Some(_) => {}
        None => faults.push(fault(name, "is missing".to_owned())),
    }
    Err(Problem::faults(faults))
}

/// A JSON body.
pub(super) fn body<T: DeserializeOwned>(bytes: Result<Bytes, BytesRejection>) -> Result<T, Problem> {
    let bytes = bytes.map_err(|rejection| Problem::body_refused(rejection.status()))?;
    let malformed = |error| Problem::malformed(format!("the body: {error}"));
    let WithoutDuplicates = serde_json::from_slice(&bytes).map_err(malformed)?;
    serde_json::from_slice(&bytes).map_err(malformed)
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

/// The answer to a change that was only tried.
pub(super) fn tried(tried: &Tried) -> Response {
    let Tried { version, outcome, merged, fields, warnings } = tried;
    let told = json!({
        "dry_run": true,
        "outcome": outcome,
        "merged": merged,
        "policy": fields.as_ref().map(Fields::to_map),
        "warnings": warnings,
    });
    answer(StatusCode::OK, &told, *version)
}

//! Errors, as RFC 9457 problem details with a `state` and every fault.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::ReloadError;
use super::wire::etag;
use crate::config;
use crate::desk::ControlError;
use crate::model::policy::Fault;

/// Why the API did not do as asked.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    state: &'static str,
    detail: String,
    faults: Vec<config::Fault>,
    version: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, state: &'static str, detail: impl Into<String>) -> Self {
        Self { status, state, detail: detail.into(), faults: Vec::new(), version: None }
    }

    pub(super) fn unauthorised() -> Self {
        let detail = "show the token of `admin.token_file`, as `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "this path knows other methods, see the Allow header; nothing is changed by GET";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
    }

    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    pub(super) fn body_refused(status: StatusCode) -> Self {
        Self::new(status, "malformed", "the body cannot be read; it may have up to 65536 bytes")
    }

    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", detail)
    }

    pub(super) fn faults(faults: Vec<Fault>) -> Self {
        let of_body = |Fault { path, problem }| config::Fault { path, problem, position: None };
        Self::faults_at(faults.into_iter().map(of_body).collect())
    }

    fn faults_at(faults: Vec<config::Fault>) -> Self {
        let detail = "nothing was changed; see `faults`";
        Self { faults, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "faults", detail) }
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let detail = error.to_string();
        match error {
            ControlError::NoSuchTicket => Self::new(StatusCode::NOT_FOUND, "no_such_ticket", detail),
            ControlError::NoSuchEvent => Self::new(StatusCode::NOT_FOUND, "no_such_event", detail),
            ControlError::VersionMismatch { current } => {
                let problem = Self::new(StatusCode::PRECONDITION_FAILED, "version_mismatch", detail);
                Self { version: Some(current), ..problem }
            }
            ControlError::Missing => Self::new(StatusCode::PRECONDITION_FAILED, "no_such_event", detail),
            ControlError::Exists { current } => {
                let problem = Self::new(StatusCode::PRECONDITION_FAILED, "exists", detail);
                Self { version: Some(current), ..problem }
            }
            ControlError::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", detail),
            ControlError::Faults(faults) => Self::faults(faults),
            ControlError::Unavailable(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail),
            ControlError::Unknown => Self::new(StatusCode::GATEWAY_TIMEOUT, "unknown", detail),
        }
    }
}

impl From<ReloadError> for Problem {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Refused(faults) => Self { state: "refused", ..Self::faults_at(faults) },
            ReloadError::Partly(faults) => {
                let detail = "the file is in use, but for events that the control log refuses; see `faults`";
                Self { faults, ..Self::new(StatusCode::CONFLICT, "conflict", detail) }
            }
            ReloadError::Control(error) => error.into(),
            ReloadError::Failed(_) => Self::failed(error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "state": self.state,
            "detail": self.detail,
        });
        if let Value::Object(body) = &mut body
            && !self.faults.is_empty()
        {
            body.insert("faults".to_owned(), json!(self.faults));
        }
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(etag) = self.version.and_then(etag) {
            headers.insert(ETAG, etag);
        }
        response
    }
}

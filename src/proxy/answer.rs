//! Answers that the gate gives by itself.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use pingora::http::ResponseHeader;
use pingora_proxy::Session;
use serde::Serialize;
use serde_json::{Value, json};

use super::names::X_ROBOTS_TAG;
use crate::page::{Asset, CONTENT_SECURITY_POLICY};

/// More of an unread body than this is not waited for, in bytes.
const MOST_DRAINED: usize = 64 * 1024;

/// Most JSON is shorter, in bytes.
const USUAL_JSON: usize = 512;

static NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

static NOINDEX: HeaderValue = HeaderValue::from_static("noindex");

static PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");

static BY_ACCEPT_AND_COOKIE: HeaderValue = HeaderValue::from_static("Accept, Cookie");

static BY_LANGUAGE: HeaderValue = HeaderValue::from_static("Accept-Language");

/// Room for the headers of most answers and those that Pingora adds.
const USUAL_HEADERS: usize = 12;

/// A response, ready to be sent.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// An answer that is one visitor's own.
    fn new(status: StatusCode, media_type: Option<&'static str>, body: Bytes) -> Self {
        Self::bare(status, media_type, body)
            .with(header::CACHE_CONTROL, PRIVATE.clone())
            .with(header::VARY, BY_ACCEPT_AND_COOKIE.clone())
    }

    fn bare(status: StatusCode, media_type: Option<&'static str>, body: Bytes) -> Self {
        let answer = Self { status, headers: HeaderMap::with_capacity(USUAL_HEADERS), body }
            .with(X_ROBOTS_TAG.clone(), NOINDEX.clone())
            .with(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF.clone());
        match media_type {
            Some(name) => answer.with(header::CONTENT_TYPE, HeaderValue::from_static(name)),
            None => answer,
        }
    }

    /// JSON.
    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let mut body = Vec::with_capacity(USUAL_JSON);
        if let Err(error) = serde_json::to_writer(&mut body, value) {
            tracing::error!(%error, "an answer cannot be written as JSON");
        }
        Self::new(status, Some("application/json"), body.into())
    }

    /// An error as RFC 9457 has it; `more` is an object of further members.
    pub(super) fn problem(status: StatusCode, state: &str, detail: &str, more: Value) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        let mut body = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail, "state": state });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        Self::new(status, Some("application/problem+json"), body.to_string().into())
    }

    /// A page.
    pub(super) fn page(status: StatusCode, html: String) -> Self {
        Self::new(status, Some("text/html; charset=utf-8"), html.into())
            .with(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY))
            .with(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"))
            .with(header::VARY, BY_LANGUAGE.clone())
    }

    /// A redirection: 302 keeps a lost place findable by the back button, 303 turns a form into a page.
    pub(super) fn redirect(status: StatusCode, location: String) -> Self {
        Self::new(status, None, Bytes::new()).header(header::LOCATION, location)
    }

    /// Nothing to say.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self::new(status, None, Bytes::new())
    }

    /// A file whose address changes with its content.
    pub(super) fn asset(asset: Asset) -> Self {
        Self::bare(StatusCode::OK, Some(asset.media_type), asset.content)
            .with(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"))
    }

    /// With a `Set-Cookie` line.
    pub(super) fn cookie(self, line: String) -> Self {
        self.header(header::SET_COOKIE, line)
    }

    /// With `Set-Cookie` lines.
    pub(super) fn cookies(self, lines: impl IntoIterator<Item = String>) -> Self {
        lines.into_iter().fold(self, Self::cookie)
    }

    /// With a header; one that cannot be written is left out.
    pub(super) fn header(self, name: HeaderName, value: impl Into<String>) -> Self {
        match HeaderValue::try_from(value.into()) {
            Ok(value) => self.with(name, value),
            Err(error) => {
                tracing::error!(%name, %error, "a header of an answer cannot be written and is left out");
                self
            }
        }
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// With `Retry-After`, in whole seconds, at least one.
    pub(super) fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_millis().div_ceil(1000).max(1);
        self.header(header::RETRY_AFTER, seconds.to_string())
    }

    /// Sends the answer in place of the origin's.
    pub(super) async fn send(mut self, session: &mut Session) -> pingora::Result<()> {
        let bodiless = self.status == StatusCode::NO_CONTENT;
        if !bodiless {
            self.headers.insert(header::CONTENT_LENGTH, self.body.len().into());
        }
        let (mut head, ()) = http::Response::new(()).into_parts();
        (head.status, head.headers) = (self.status, self.headers);
        drain(session).await;
        let only_head = session.req_header().method == http::Method::HEAD || bodiless;
        session.write_response_header(Box::new(ResponseHeader::from(head)), only_head).await?;
        if !only_head {
            session.write_response_body(Some(self.body), true).await?;
        }
        Ok(())
    }
}

/// Reads what is left of a small body, so that the connection can go on and the client reads the answer; a longer one,
/// or one that waits to be asked for, is left, and the connection closes after the answer.
async fn drain(session: &mut Session) {
    if session.is_body_done() || session.is_upgrade_req() {
        return;
    }
    let headers = &session.req_header().headers;
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if headers.contains_key(header::EXPECT) || announced.is_some_and(|length| length > MOST_DRAINED) {
        return;
    }
    let read = async {
        let mut left = MOST_DRAINED;
        while let Ok(Some(chunk)) = session.downstream_session.read_request_body().await {
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
}

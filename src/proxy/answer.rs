//! Answers that the gate gives by itself.

use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header};
use pingora::http::ResponseHeader;
use pingora_proxy::Session;
use serde_json::{Value, json};

use crate::page::{Asset, CONTENT_SECURITY_POLICY};

/// More of an unread body than this is not waited for, in bytes.
const MOST_DRAINED: usize = 64 * 1024;

/// A response, ready to be sent.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    cookies: Vec<String>,
    body: Bytes,
}

impl Answer {
    fn new(status: StatusCode, media_type: Option<&str>, body: Bytes) -> Self {
        let mut headers = vec![
            ("cache-control", "private, no-store".to_owned()),
            ("vary", "Accept, Cookie".to_owned()),
            ("x-robots-tag", "noindex".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ];
        headers.extend(media_type.map(|name| ("content-type", name.to_owned())));
        Self { status, headers, cookies: Vec::new(), body }
    }

    /// JSON.
    pub(super) fn json(status: StatusCode, value: &Value) -> Self {
        Self::new(status, Some("application/json"), value.to_string().into())
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
        let mut answer = Self::new(status, Some("text/html; charset=utf-8"), html.into());
        answer.headers.push(("content-security-policy", CONTENT_SECURITY_POLICY.to_owned()));
        answer.headers.push(("referrer-policy", "same-origin".to_owned()));
        answer
    }

    /// A redirection: 302 keeps a lost place findable by the back button, 303 turns a form into a page.
    pub(super) fn redirect(status: StatusCode, location: String) -> Self {
        let mut answer = Self::new(status, None, Bytes::new());
        answer.headers.push(("location", location));
        answer
    }

    /// Nothing to say.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self::new(status, None, Bytes::new())
    }

    /// A file whose address changes with its content.
    pub(super) fn asset(asset: Asset) -> Self {
        let content = Bytes::from_static(asset.content.as_bytes());
        Self {
            status: StatusCode::OK,
            headers: vec![
                ("content-type", asset.media_type.to_owned()),
                ("cache-control", "public, max-age=31536000, immutable".to_owned()),
                ("x-content-type-options", "nosniff".to_owned()),
                ("x-robots-tag", "noindex".to_owned()),
            ],
            cookies: Vec::new(),
            body: content,
        }
    }

    /// With a `Set-Cookie` line.
    pub(super) fn cookie(mut self, line: String) -> Self {
        self.cookies.push(line);
        self
    }

    /// With `Set-Cookie` lines.
    pub(super) fn cookies(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.cookies.extend(lines);
        self
    }

    /// With a header.
    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With `Retry-After`, in whole seconds, at least one.
    pub(super) fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_millis().div_ceil(1000).max(1);
        self.header("retry-after", seconds.to_string())
    }

    /// Sends the answer in place of the origin's.
    pub(super) async fn send(self, session: &mut Session) -> pingora::Result<()> {
        let mut head =
            ResponseHeader::build_no_case(self.status, Some(self.headers.len() + self.cookies.len() + 1))?;
        for (name, value) in self.headers {
            head.append_header(name, value)?;
        }
        for line in self.cookies {
            head.append_header(header::SET_COOKIE, line)?;
        }
        let bodiless = self.status == StatusCode::NO_CONTENT;
        if !bodiless {
            head.set_content_length(self.body.len())?;
        }
        drain(session).await;
        let only_head = session.req_header().method == http::Method::HEAD || bodiless;
        session.write_response_header(Box::new(head), only_head).await?;
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

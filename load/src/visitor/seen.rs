//! What an answer says, put into a record.

use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use serde_json::Value;

use super::jar::Cookie;
use crate::history::{Kind, Record, Saw};
use crate::token::{Says, peek};
use crate::wire::Answer;

/// The header by which the origin stand-in shows that it was reached.
pub const ORIGIN_HEADER: &str = "x-anteroom-load-origin";

/// What a visitor goes on with after an answer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it saw.
    pub saw: Saw,
    /// Where it was sent.
    pub location: Option<String>,
    /// Why the line is as it is.
    pub phase: Option<String>,
    /// When to ask again.
    pub after_ms: Option<u64>,
    /// Whether its ticket has been called.
    pub called: bool,
    /// A ticket in the body or a header.
    pub ticket: Option<String>,
    /// A pass in the body or a header.
    pub pass: Option<String>,
}

impl Seen {
    /// Nothing came back.
    #[must_use]
    pub(super) fn nothing() -> Self {
        Self {
            saw: Saw::Nothing,
            location: None,
            phase: None,
            after_ms: None,
            called: false,
            ticket: None,
            pass: None,
        }
    }
}

/// Fills in what the answer says, and sums it up.
pub(super) fn note(record: &mut Record, answer: &Answer, cookies: &[Cookie]) -> Seen {
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let body: Value = match header(CONTENT_TYPE.as_str()) {
        Some(kind) if kind.contains("json") => serde_json::from_slice(&answer.body).unwrap_or_default(),
        _ => Value::Null,
    };
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let ticket = text("ticket").or_else(|| header("anteroom-ticket").map(str::to_owned));
    let pass = text("pass").or_else(|| header("anteroom-pass").map(str::to_owned));

    record.http = answer.status.as_u16();
    record.state = text("state");
    record.reason = text("reason");
    record.phase = text("phase");
    let given = cookies.iter().map(|cookie| cookie.value.as_str());
    for token in given.chain(ticket.as_deref()).chain(pass.as_deref()) {
        match peek(token).map(|peek| (peek.id, peek.says)) {
            Some((id, Says::Ticket(base))) => {
                record.ticket = Some(id);
                record.bucket = base.map(|base| base.bucket);
                record.floor = base.map(|base| f64::from(base.floor) / f64::from(u32::MAX));
            }
            Some((id, Says::Pass(until_ms))) => {
                record.pass = Some(id);
                record.expires_ms = Some(until_ms);
            }
            Some((_, Says::Seat)) | None => {}
        }
    }
    record.saw = saw(record, answer, &body, header(ORIGIN_HEADER).is_some());
    if record.saw != Saw::Origin {
        record.called = body.get("called").and_then(Value::as_bool);
        record.position_range = pair(&body, "position_range", Value::as_u64);
        record.eta_min = body.get("eta_min").and_then(Value::as_f64);
        record.eta_range_min = pair(&body, "eta_range_min", Value::as_f64);
        record.expires_at = body.get("expires_at").and_then(Value::as_u64);
        record.poll_after_ms = body.get("poll_after_ms").and_then(Value::as_u64);
    }
    if record.saw == Saw::Waiting && record.ticket.is_none() {
        record.ticket = record.shown_ticket.clone().or_else(|| text("id")).or_else(|| text("reference"));
    }
    if record.saw == Saw::Admitted && record.pass.is_none() {
        record.pass = record.shown_ticket.clone().or_else(|| text("id")).or_else(|| text("reference"));
    }
    let retry_after = header("retry-after").and_then(|text| text.parse::<u64>().ok()).map(|s| s * 1000);
    Seen {
        saw: record.saw,
        location: header(LOCATION.as_str()).map(str::to_owned),
        phase: record.phase.clone(),
        after_ms: record
            .poll_after_ms
            .or_else(|| body.get("retry_after_ms").and_then(Value::as_u64))
            .or(retry_after),
        called: record.called == Some(true),
        ticket,
        pass,
    }
}

fn saw(record: &Record, answer: &Answer, body: &Value, by_origin: bool) -> Saw {
    if by_origin {
        return Saw::Origin;
    }
    match (answer.status, body.get("state").and_then(Value::as_str)) {
        (StatusCode::OK, Some("waiting")) => Saw::Waiting,
        (StatusCode::OK, Some("admitted")) => Saw::Admitted,
        (StatusCode::UNAUTHORIZED, _) => Saw::Invalid,
        (StatusCode::GONE, _) | (_, Some("expired")) => Saw::Ended,
        (StatusCode::TOO_MANY_REQUESTS, Some("retry")) => Saw::Retry,
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN, _) => Saw::Refused,
        (StatusCode::SERVICE_UNAVAILABLE, _) => Saw::Unavailable,
        (status, _) if status.is_redirection() => Saw::Moved,
        (status, _) if status.is_success() && record.kind == Kind::Leave => Saw::Left,
        (StatusCode::OK, _) if record.kind == Kind::Page => Saw::Page,
        _ => Saw::Other,
    }
}

fn pair<T: Copy>(body: &Value, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<[T; 2]> {
    match body.get(name)?.as_array()?.as_slice() {
        [from, to] => Some([read(from)?, read(to)?]),
        _ => None,
    }
}

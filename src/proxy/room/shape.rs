//! The JSON of the visitor API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::desk::{IssuedPass, Waiting};
use crate::model::estimate::{told_down, told_up};
use crate::model::time::as_millis;

/// A longer message is cut in status answers, in bytes as JSON has them: the answer must fit one TCP segment.
const LONGEST_MESSAGE: usize = 300;

/// What a visitor who waits is told.
#[derive(Debug, Serialize)]
pub(super) struct Place<'a> {
    state: &'static str,
    position_range: (u32, u32),
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_min: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_range_min: Option<(Value, Value)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sold_out_likelihood: Option<f64>,
    poll_after_ms: u64,
    phase: &'static str,
    progress: f64,
    called: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<u64>,
    message: Option<Cow<'a, str>>,
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<&'a str>,
}

/// What a visitor who waits is told; the ticket only where it did not come by cookie.
pub(super) fn waiting<'a>(waiting: &'a Waiting, ticket: Option<&'a str>) -> Place<'a> {
    let estimate = &waiting.estimate;
    Place {
        state: "waiting",
        position_range: estimate.position,
        eta_min: estimate.eta.map(|eta| minutes(told_up(eta))),
        eta_range_min: estimate
            .eta_range
            .map(|(least, most)| (minutes(told_down(least)), minutes(told_up(most)))),
        sold_out_likelihood: estimate.sold_out_likelihood.map(rounded),
        poll_after_ms: as_millis(waiting.poll_after),
        phase: waiting.phase.as_str(),
        progress: rounded(estimate.progress),
        called: waiting.turn.is_some(),
        claim_by: waiting.turn.map(|turn| turn.claim_by.unix_seconds()),
        opens_at: waiting.opens_at.map(|opens_at| opens_at.unix_seconds()),
        message: waiting.message.as_deref().map(shortened),
        reference: waiting.id.to_string(),
        ticket,
    }
}

/// What a visitor who is let in is told.
pub(super) fn admitted(pass: &IssuedPass) -> Value {
    json!({ "state": "admitted", "pass": pass.token, "expires_at": pass.expires.unix_seconds() })
}

/// As short as a number can be.
fn minutes(seconds: u64) -> Value {
    if seconds.is_multiple_of(60) { Value::from(seconds / 60) } else { Value::from(seconds as f64 / 60.0) }
}

/// Three digits are enough, and short.
fn rounded(share: f32) -> f64 {
    let share = f64::from(share.clamp(0.0, 1.0));
    (share * 1000.0).round() / 1000.0
}

fn shortened(message: &str) -> Cow<'_, str> {
    let mut length = 0;
    for (at, c) in message.char_indices() {
        length += if (c as u32) < 0x20 { 6 } else { c.len_utf8() + usize::from(matches!(c, '"' | '\\')) };
        if length > LONGEST_MESSAGE {
            return Cow::Owned(format!("{}…", message.get(..at).unwrap_or_default()));
        }
    }
    Cow::Borrowed(message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::desk::Turn;
    use crate::model::edge::Phase;
    use crate::model::estimate::Estimate;
    use crate::model::ids::TicketId;
    use crate::model::time::FleetTime;

    fn longest() -> Waiting {
        Waiting {
            ticket: "t".repeat(280),
            id: TicketId { node: u16::MAX, generation: u32::MAX, sequence: TicketId::SEQUENCE_LIMIT - 1 },
            estimate: Estimate {
                position: (u32::MAX, u32::MAX),
                eta: Some(Duration::from_secs(86_400 * 99)),
                eta_range: Some((Duration::from_secs(86_400 * 99), Duration::from_secs(86_400 * 999))),
                progress: 0.123_456,
                sold_out_likelihood: Some(0.987_654),
            },
            phase: Phase::SoldOut,
            poll_after: Duration::from_secs(999),
            turn: Some(Turn { claim_by: FleetTime::from_unix_seconds(u64::from(u32::MAX)) }),
            message: Some("\u{1}ä\"".repeat(2_000)),
            opens_at: Some(FleetTime::from_unix_seconds(u64::from(u32::MAX))),
            heartbeat_ttl: Duration::from_secs(90),
            beat: crate::desk::Beat::First,
        }
    }

    fn told(waiting: &Waiting) -> Value {
        serde_json::to_value(super::waiting(waiting, None)).unwrap()
    }

    #[test]
    fn the_longest_status_leaves_room_for_its_headers_in_one_segment() {
        let waiting = longest();
        // The ticket goes in the body or in a cookie, whose attributes take some 130 bytes; other headers some 330.
        let body = serde_json::to_string(&super::waiting(&waiting, Some(&waiting.ticket))).unwrap();
        assert!(body.len() + 130 + 330 <= 1_460, "{}", body.len());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut quiet = longest();
        quiet.estimate = Estimate { position: (3, 7), ..Estimate::default() };
        quiet.turn = None;
        quiet.message = None;
        let body = told(&quiet);
        for name in ["eta_min", "eta_range_min", "sold_out_likelihood", "claim_by", "ticket"] {
            assert!(body.get(name).is_none(), "{name}");
        }
        assert_eq!(body["position_range"], json!([3, 7]));
        assert_eq!(body["called"], json!(false));
        assert_eq!(body["message"], Value::Null);
    }

    #[test]
    fn waits_are_rounded_outward() {
        let mut near = longest();
        near.estimate.eta = Some(Duration::from_secs(61));
        near.estimate.eta_range = Some((Duration::from_secs(59), Duration::from_secs(61)));
        assert_eq!(told(&near)["eta_min"], json!(1.25));
        assert_eq!(told(&near)["eta_range_min"], json!([0.9, 1.25]));
    }
}

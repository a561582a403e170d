//! The JSON of the visitor API.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::desk::{IssuedPass, Waiting};
use crate::model::time::as_millis;

/// A longer message is cut in status answers, in bytes as JSON has them: the answer must fit one TCP segment.
const LONGEST_MESSAGE: usize = 300;

/// What a visitor who waits is told; the ticket only where it did not come by cookie.
pub(super) fn waiting(waiting: &Waiting, ticket: Option<&str>) -> Value {
    let estimate = &waiting.estimate;
    let (low, high) = estimate.position;
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("state", "waiting".into());
    put("position_range", json!([low, high]));
    if let Some(eta) = estimate.eta {
        put("eta_min", minutes_up(eta).into());
    }
    if let Some((least, most)) = estimate.eta_range {
        put("eta_range_min", json!([least.as_secs() / 60, minutes_up(most)]));
    }
    if let Some(likelihood) = estimate.sold_out_likelihood {
        put("sold_out_likelihood", rounded(likelihood));
    }
    put("poll_after_ms", as_millis(waiting.poll_after).into());
    put("phase", waiting.phase.as_str().into());
    put("progress", rounded(estimate.progress));
    put("called", waiting.turn.is_some().into());
    if let Some(turn) = waiting.turn {
        put("claim_by", turn.claim_by.unix_seconds().into());
    }
    if let Some(opens_at) = waiting.opens_at {
        put("opens_at", opens_at.unix_seconds().into());
    }
    put("message", waiting.message.as_deref().map(shortened).into());
    put("reference", waiting.id.to_string().into());
    if let Some(ticket) = ticket {
        put("ticket", ticket.into());
    }
    Value::Object(body)
}

/// What a visitor who is let in is told.
pub(super) fn admitted(pass: &IssuedPass) -> Value {
    json!({ "state": "admitted", "pass": pass.token, "expires_at": pass.expires.unix_seconds() })
}

fn minutes_up(span: Duration) -> u64 {
    span.as_secs().div_ceil(60)
}

/// Three digits are enough, and short.
fn rounded(share: f32) -> Value {
    let share = f64::from(share.clamp(0.0, 1.0));
    json!((share * 1000.0).round() / 1000.0)
}

fn shortened(message: &str) -> String {
    let mut length = 0;
    let mut short = String::new();
    for c in message.chars() {
        length += if (c as u32) < 0x20 { 6 } else { c.len_utf8() + usize::from(matches!(c, '"' | '\\')) };
        if length > LONGEST_MESSAGE {
            short.push('…');
            break;
        }
        short.push(c);
    }
    short
}

#[cfg(test)]
mod tests {
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
        }
    }

    #[test]
    fn the_longest_status_leaves_room_for_its_headers_in_one_segment() {
        let waiting = longest();
        // The ticket goes in the body or in a cookie, whose attributes take some 130 bytes; other headers some 330.
        let body = super::waiting(&waiting, Some(&waiting.ticket)).to_string();
        assert!(body.len() + 130 + 330 <= 1_460, "{}", body.len());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut quiet = longest();
        quiet.estimate = Estimate { position: (3, 7), ..Estimate::default() };
        quiet.turn = None;
        quiet.message = None;
        let body = waiting(&quiet, None);
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
        assert_eq!(waiting(&near, None)["eta_min"], json!(2));
        assert_eq!(waiting(&near, None)["eta_range_min"], json!([0, 2]));
    }
}

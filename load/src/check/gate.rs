//! Lines 1, 2 and 11: nothing reaches the origin without a pass, and a ticket opens nothing.

use std::collections::BTreeMap;

use super::Violation;
use super::story::Story;
use crate::history::{Kind, Record, Saw};

/// Judges every request that the origin answered.
#[must_use]
pub(super) fn judge(records: &[Record], stories: &BTreeMap<&str, Story<'_>>) -> Vec<Violation> {
    let reached = records.iter().enumerate().filter(|(_, r)| r.saw == Saw::Origin);
    reached.filter_map(|(at, record)| judge_one(at, record, stories)).collect()
}

fn judge_one(at: usize, record: &Record, stories: &BTreeMap<&str, Story<'_>>) -> Option<Violation> {
    if let Some(ticket) = record.shown_ticket.as_deref().filter(|_| record.pass.is_some())
        && record.shown_pass.is_none()
        && let Some((waited, _)) = waits_around(stories.get(ticket)?, record)
    {
        let what = format!("a request that showed the waiting ticket {ticket} was let in by express");
        return Some(Violation::new(2, what, [waited, at]));
    }
    if record.pass.is_some() {
        return None;
    }
    if record.forged {
        return Some(Violation::new(11, "a token that had been tampered with opened the origin", [at]));
    }
    let Some(pass) = record.shown_pass.as_deref() else {
        return Some(match record.shown_ticket.as_deref() {
            Some(ticket) => Violation::new(2, format!("ticket {ticket} opened the origin"), [at]),
            None => Violation::new(1, "a request without a pass reached the origin", [at]),
        });
    };
    let granted = stories.get(pass).is_some_and(|story| {
        story
            .records
            .iter()
            .any(|(_, r)| r.pass.as_deref() == Some(pass) && r.t_sent_us <= record.t_answered_us)
    });
    (!granted)
        .then(|| Violation::new(1, format!("pass {pass} opened the origin, but nobody was given it"), [at]))
}

/// An answer that shows the ticket waiting, uncalled, after the request: then it waited at the request too.
fn waits_around<'a>(story: &'a Story<'_>, record: &Record) -> Option<(usize, &'a Record)> {
    let before = story.joined().is_some_and(|(_, joined)| joined.t_answered_us <= record.t_sent_us);
    let mut after =
        story.uncalled().filter(|(_, r)| r.kind != Kind::Leave && r.t_sent_us >= record.t_answered_us);
    if before { after.next() } else { None }
}

//! Line 7: one identity, one place; one ticket, one session.

use std::collections::BTreeMap;

use super::Violation;
use super::passes::Life;
use super::rules::{Rules, SECOND};
use super::story::Story;
use crate::history::{Kind, Record, Saw};

/// How long it may take until every part of one edge knows that a session has ended.
const HEARD_AFTER: u64 = 3 * SECOND / 2;

/// Judges what came of showing a ticket, and what came of a ticket whose session was over.
#[must_use]
pub(super) fn judge(
    records: &[Record],
    stories: &BTreeMap<&str, Story<'_>>,
    rules: &Rules,
) -> Vec<Violation> {
    let mut violations: Vec<Violation> = records
        .iter()
        .enumerate()
        .filter_map(|(at, record)| changed_ticket(at, record, stories, rules))
        .collect();
    violations.extend(stories.values().filter_map(|story| second_session(story, rules)));
    violations
}

/// A ticket that lived was shown, and another one, or another's pass, came back.
fn changed_ticket(
    at: usize,
    record: &Record,
    stories: &BTreeMap<&str, Story<'_>>,
    rules: &Rules,
) -> Option<Violation> {
    let asks = matches!(record.kind, Kind::Page | Kind::Join | Kind::Poll);
    let given = record.pass.as_deref().or(record.ticket.as_deref()).filter(|_| asks && !record.forged)?;
    let shown = record.shown_ticket.as_deref().or(record.shown_seat.as_deref())?;
    if given == shown {
        return None;
    }
    let story = stories.get(shown)?;
    let before = |r: &Record| r.t_answered_us <= record.t_sent_us;
    let over = story.records.iter().any(|(_, r)| {
        let ends = matches!(r.saw, Saw::Ended | Saw::Left | Saw::Invalid)
            || r.pass.as_deref() == Some(shown)
            || r.kind == Kind::Leave;
        ends && r.t_sent_us <= record.t_answered_us
    });
    let seen = story.records.iter().filter(|(_, r)| before(r) && matches!(r.saw, Saw::Waiting | Saw::Page));
    let (last, seen) =
        seen.filter(|(_, r)| r.ticket.as_deref() == Some(shown)).max_by_key(|(_, r)| r.t_sent_us)?;
    let alive = record.t_answered_us.saturating_sub(seen.t_sent_us) < rules.heartbeat_us;
    (alive && !over).then(|| {
        let what = format!("ticket {shown} was shown while it lived, and {given} came back");
        Violation::new(7, what, [*last, at])
    })
}

/// A pass was given again, or the ticket waited again, after its session was over.
fn second_session(story: &Story<'_>, rules: &Rules) -> Option<Violation> {
    let (granted, _) = story.admitted()?;
    let left = story.left().filter(|(_, r)| r.is_answered());
    let used = story.uses().next().is_some();
    let told = story.records.iter().find(|(_, r)| r.saw == Saw::Ended && r.reason.as_deref() == Some("used"));
    let ends = [
        left.map(|(at, r)| (r.t_answered_us.saturating_add(HEARD_AFTER), at)),
        told.map(|(at, r)| (r.t_answered_us, *at)),
        Life::all_of(story, rules).last().filter(|_| used).map(|life| (life.over_by, life.granted)),
    ];
    let (end, proof) = ends.into_iter().flatten().min()?;
    let end = end.saturating_add(rules.slack_us);
    let again = story.records.iter().find(|(_, r)| {
        let gives = r.pass.as_deref() == Some(story.id)
            || (r.saw == Saw::Waiting && r.ticket.as_deref() == Some(story.id));
        gives && r.t_sent_us > end
    })?;
    let what = format!("ticket {} bought a second session", story.id);
    Some(Violation::new(7, what, [granted, proof, again.0]))
}

//! Fleet time beside the clock of this machine, by which the history's times are: when a node's clock was set wrong,
//! fleet time was steered after it, and what visitors were told must be read by it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::rules::{FleetTime, Rules};
use crate::history::{Kind, Record, Saw};

/// So many passes minted about the same time tell how far fleet time is off: any one of them may have been minted some
/// time before its answer.
const AROUND: usize = 5;

/// The records, with the ends of passes as this machine's clock will show them.
#[must_use]
pub(super) fn by_our_clock<'a>(records: &'a [Record], rules: &Rules) -> Cow<'a, [Record]> {
    match rules.fleet_time {
        FleetTime::AsHere => Cow::Borrowed(records),
        FleetTime::Steered => {
            let offsets = offsets(records, rules);
            Cow::Owned(records.iter().map(|record| translated(record, &offsets)).collect())
        }
    }
}

/// How far fleet time was ahead, in microseconds, by each pass when it was given first: it ends `claim_us` after its mint.
fn offsets(records: &[Record], rules: &Rules) -> Vec<(u64, i64)> {
    let mut known = BTreeSet::new();
    let mut answers: Vec<&Record> = records.iter().filter(|r| r.pass.is_some() && !r.forged).collect();
    answers.sort_by_key(|r| r.t_answered_us);
    let mut offsets = Vec::new();
    for record in answers {
        let fresh = matches!(
            (record.kind, record.saw),
            (Kind::Poll, Saw::Admitted) | (Kind::Navigate, Saw::Origin) | (Kind::Page, Saw::Moved)
        );
        let (Some(pass), Some(expires)) = (&record.pass, record.expires_us()) else { continue };
        if known.insert(pass) && fresh {
            let minted = expires.saturating_sub(rules.claim_us);
            offsets.push((record.t_answered_us, minted.cast_signed() - record.t_answered_us.cast_signed()));
        }
    }
    offsets
}

fn translated(record: &Record, offsets: &[(u64, i64)]) -> Record {
    let mut record = record.clone();
    if let (Some(expires), Some(ahead)) = (record.expires_us(), offset_at(record.t_answered_us, offsets)) {
        record.expires_ms = Some(expires.saturating_add_signed(-ahead) / 1000);
    }
    record
}

/// The middle of those that were given about then.
fn offset_at(at_us: u64, offsets: &[(u64, i64)]) -> Option<i64> {
    let next = offsets.partition_point(|(at, _)| *at < at_us);
    let from = next.saturating_sub(AROUND / 2 + 1).min(offsets.len().saturating_sub(AROUND));
    let mut around: Vec<i64> = offsets.iter().skip(from).take(AROUND).map(|(_, offset)| *offset).collect();
    around.sort_unstable();
    around.get(around.len() / 2).copied()
}

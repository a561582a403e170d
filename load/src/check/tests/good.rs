//! A run that keeps the contract, made by a small honest waiting room.

use crate::check::{EventLog, Ordering, Rules, SECOND};
use crate::history::{Kind, Record, Role, Saw};

/// When the run begins, in seconds.
pub(super) const START: u64 = 1_800_000_000;

/// How many come.
pub(super) const VISITORS: u64 = 120;

/// Slots.
pub(super) const CAPACITY: u64 = 10;

/// How long a session is, in seconds.
const SESSION: u64 = 5;

/// A run, ready to be doctored.
pub(super) struct Run {
    pub(super) records: Vec<Record>,
    pub(super) log: EventLog,
    pub(super) rules: Rules,
}

impl Run {
    /// Judges it and tells the lines that were broken.
    pub(super) fn broken(mut self) -> Vec<u8> {
        self.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
        let verdict = crate::check::judge(&self.records, &self.log, &self.rules);
        let mut lines: Vec<u8> = verdict.violations.iter().map(|v| v.line).collect();
        lines.dedup();
        lines
    }

    /// The records of one visitor, in the order of sending.
    pub(super) fn of(&mut self, visitor: u64) -> Vec<&mut Record> {
        self.records.iter_mut().filter(|r| r.visitor == visitor).collect()
    }

    /// The records of one visitor that did and saw this.
    pub(super) fn those(&mut self, visitor: u64, kind: Kind, saw: Saw) -> Vec<&mut Record> {
        self.of(visitor).into_iter().filter(|r| r.kind == kind && r.saw == saw).collect()
    }

    /// Adds a record, `seconds` after the start.
    pub(super) fn add(&mut self, visitor: u64, kind: Kind, saw: Saw, seconds: f64) -> &mut Record {
        self.records.push(record(visitor, kind, saw, at(seconds)));
        self.records.last_mut().unwrap()
    }
}

/// So many seconds after the start.
pub(super) fn at(seconds: f64) -> u64 {
    (START * SECOND).checked_add_signed((seconds * SECOND as f64) as i64).unwrap()
}

/// The ticket of a visitor.
pub(super) fn ticket(visitor: u64) -> String {
    format!("1-1-{visitor}")
}

fn record(visitor: u64, kind: Kind, saw: Saw, sent: u64) -> Record {
    let mut record = Record::new(visitor, Role::Ordinary, kind, sent);
    record.t_answered_us = sent + 2_000;
    record.saw = saw;
    record.http = match saw {
        Saw::Ended => 410,
        Saw::Invalid => 401,
        Saw::Moved => 302,
        Saw::Nothing => 0,
        _ => 200,
    };
    record
}

/// By which key a visitor is called.
fn key(visitor: u64, ordering: Ordering) -> u64 {
    let draw = |n: u64| {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
    };
    match ordering {
        Ordering::Fifo => visitor,
        Ordering::BucketedRandom => bucket(visitor) << 33 | draw(visitor),
        Ordering::Random => draw(visitor),
    }
}

/// Half come in the first second, half in the eleventh, which is another bucket.
pub(super) fn arrival(visitor: u64) -> f64 {
    let half = VISITORS / 2;
    let second = if visitor <= half { 0.0 } else { 10.0 };
    second + (visitor % half.max(1)) as f64 * 0.015 + if visitor.is_multiple_of(half) { 0.9 } else { 0.0 }
}

fn bucket(visitor: u64) -> u64 {
    START + if visitor <= VISITORS / 2 { 0 } else { 10 }
}

/// A run by the rules: ten slots, sessions of five seconds, polls every half second, two admissions a second.
pub(super) fn run(ordering: Ordering) -> Run {
    let mut rules = Rules::new(CAPACITY, 4.0, ordering);
    rules.bucket_us = 10 * SECOND;
    rules.heartbeat_us = 4 * SECOND;
    rules.session_us = 8 * SECOND;
    rules.session_max_us = 30 * SECOND;
    rules.claim_us = 8 * SECOND;
    rules.stall_us = 6 * SECOND;
    let mut run = Run { records: Vec::new(), log: EventLog::default(), rules };
    let mut waiting: Vec<u64> = Vec::new();
    let mut inside: Vec<f64> = Vec::new();
    let mut next = 1;
    for step in 0..2_000u64 {
        let now = step as f64 * 0.5;
        while next <= VISITORS && arrival(next) < now {
            join(&mut run, next);
            waiting.push(next);
            next += 1;
        }
        waiting.sort_by_key(|visitor| key(*visitor, ordering));
        inside.retain(|end| *end > now);
        let mut free = (CAPACITY as usize - inside.len()).min(1);
        waiting.retain(|&visitor| {
            let settled = arrival(visitor) + 2.5 < now;
            if free > 0 && settled {
                free -= 1;
                visit(&mut run, visitor, now);
                inside.push(now + SESSION as f64 + 1.0);
                return false;
            }
            let poll = run.add(visitor, Kind::Poll, Saw::Waiting, now);
            poll.called = Some(false);
            poll.shown_ticket = Some(ticket(visitor));
            poll.ticket = Some(ticket(visitor));
            poll.bucket = Some(bucket(visitor));
            true
        });
    }
    assert!(waiting.is_empty());
    run
}

fn join(run: &mut Run, visitor: u64) {
    run.add(visitor, Kind::Navigate, Saw::Moved, arrival(visitor) - 0.01);
    let page = run.add(visitor, Kind::Page, Saw::Page, arrival(visitor));
    page.ticket = Some(ticket(visitor));
    page.bucket = Some(bucket(visitor));
}

fn visit(run: &mut Run, visitor: u64, now: f64) {
    let granted = run.add(visitor, Kind::Poll, Saw::Admitted, now);
    granted.state = Some("admitted".to_owned());
    granted.shown_ticket = Some(ticket(visitor));
    granted.pass = Some(ticket(visitor));
    granted.expires_at = Some(START + now as u64 + 8);
    for step in 0..SESSION {
        let used = run.add(visitor, Kind::Use, Saw::Origin, now + 0.1 + step as f64);
        used.shown_pass = Some(ticket(visitor));
    }
    let left = run.add(visitor, Kind::Leave, Saw::Left, now + SESSION as f64);
    left.shown_pass = Some(ticket(visitor));
}

//! The line: watermark, buckets, rows, lottery, and the log of decisions.

use super::*;
use crate::model::order::{BucketStart, Fraction, OrderKey};
use sha2::{Digest, Sha256};

const SECOND: u32 = (START / 1000) as u32;

fn key_in(bucket: u32) -> OrderKey {
    OrderKey::new(BucketStart(bucket), Fraction(0))
}

fn row(node: u16, bucket: u32, joined: u32, alive: u32) -> Row {
    Row { run: run(node, 1), bucket: BucketStart(bucket), joined, alive }
}

fn decisions(ledger: &Ledger, after: LogIndex) -> Vec<Decision> {
    ledger.event().log.after(after).map(|record| record.what).collect()
}

#[test]
fn the_watermark_only_grows_and_takes_the_rows_behind_it_along() {
    let mut ledger = Ledger::small();
    ledger.tick(|tick| tick.rows.extend([row(1, 5, 2, 2), row(2, 5, 3, 3), row(1, 9, 1, 1)]));
    ledger.tick(|tick| tick.watermark = key_in(9));
    ledger.tick(|tick| tick.watermark = key_in(4));
    assert_eq!(ledger.event().line.watermark, key_in(9));
    let left: Vec<_> = ledger.event().line.rows.keys().copied().collect();
    assert_eq!(left, [(BucketStart(9), run(1, 1))]);
}

#[test]
fn a_new_bucket_starts_later_than_every_one_before_it() {
    let mut ledger = Ledger::small();
    let buckets = |ledger: &Ledger| ledger.event().line.buckets.clone();
    for (start, open) in
        [(10, vec![10]), (9, vec![10]), (10, vec![10]), (12, vec![10, 12]), (13, vec![12, 13])]
    {
        ledger.tick(|tick| tick.bucket = Some(Some(BucketStart(start))));
        assert_eq!(buckets(&ledger), open.into_iter().map(BucketStart).collect::<Vec<_>>());
    }
    ledger.tick(|tick| tick.bucket = Some(None));
    assert_eq!(buckets(&ledger), []);
    ledger.tick(|tick| tick.bucket = Some(Some(BucketStart(13))));
    assert_eq!(buckets(&ledger), [], "a bucket that was closed is not reopened");
}

#[test]
fn a_row_stated_while_its_bucket_was_open_is_marked() {
    let mut ledger = Ledger::small();
    ledger.tick(|tick| tick.bucket = Some(Some(BucketStart(SECOND))));
    ledger.tick(|tick| tick.rows.extend([row(1, SECOND - 5, 4, 0), row(1, SECOND, 4, 0)]));
    let open = |bucket| ledger.event().line.rows[&(BucketStart(bucket), run(1, 1))].stated_open;
    assert!(!open(SECOND - 5) && open(SECOND));
}

#[test]
fn rows_of_a_run_are_dropped_when_they_have_had_their_time() {
    let mut ledger = Ledger::small();
    ledger.tick(|tick| tick.rows.extend([row(1, 5, 2, 2), row(2, 5, 3, 3)]));
    ledger.tick(|tick| tick.drop_rows.push(run(1, 1)));
    assert_eq!(ledger.event().line.rows.len(), 1);
}

#[test]
fn the_order_cannot_change_while_anyone_waits() {
    let fifo = || ChangeKind::Patch(fields(serde_json::json!({ "ordering": "fifo" })));
    let mut ledger = Ledger::small();
    ledger.tick(|tick| tick.gate = Some(Gate::Queue));
    let refused = ledger.change(fifo());
    assert!(matches!(&refused, Err(ChangeError::Conflict(why)) if why.contains("reset")), "{refused:?}");
    assert_eq!(ledger.event().policy.ordering, crate::model::policy::Ordering::BucketedRandom);
    ledger.change(ChangeKind::Reset).unwrap();
    assert!(ledger.change(fifo()).is_ok());
}

#[test]
fn a_reset_makes_a_new_line_and_leaves_the_passes() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    ledger.tick(|tick| {
        tick.rows.push(row(1, SECOND, 2, 2));
        tick.bucket = Some(Some(BucketStart(SECOND)));
        tick.watermark = key_in(SECOND);
        tick.gate = Some(Gate::Queue);
    });
    let before = ledger.event().line.clone();
    let change = Change {
        now: ledger.now,
        event: event(),
        condition: Condition::Always,
        entropy: [6; 32],
        kind: ChangeKind::Reset,
    };
    ledger.apply(&Command::Change(change));
    let line = &ledger.event().line;
    assert!(line.epoch > before.epoch && line.draw_secret != before.draw_secret);
    assert_eq!((line.watermark, line.gate, line.rows.len()), (OrderKey::default(), Gate::Open, 0));
    assert_eq!(ledger.live().len(), 1);
}

#[test]
fn extra_calls_are_kept_until_they_are_served() {
    let mut ledger = Ledger::small();
    ledger.change(ChangeKind::Admit(7)).unwrap();
    ledger.change(ChangeKind::Admit(u32::MAX)).unwrap();
    assert_eq!(ledger.event().line.admit_pending, u32::MAX);
    ledger.tick(|tick| tick.admitted = u32::MAX - 2);
    assert_eq!(ledger.event().line.admit_pending, 2);
    ledger.tick(|tick| tick.admitted = 5);
    assert_eq!(ledger.event().line.admit_pending, 0);
}

fn scheduled() -> Ledger {
    let at =
        |seconds: u64| jiff::Timestamp::from_second((START / 1000 + seconds) as i64).unwrap().to_string();
    Ledger::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40,
        "schedule": { "prequeue_at": at(60), "opens_at": at(120) } }))
}

#[test]
fn a_lottery_is_committed_to_before_it_begins_and_revealed_when_it_is_drawn() {
    let mut ledger = scheduled();
    let lottery = ledger.event().line.lottery.clone().unwrap();
    assert_eq!(lottery.bucket, BucketStart(SECOND + 60));
    let commitment: [u8; 32] = Sha256::digest(lottery.seed).into();
    assert_eq!((lottery.commitment, lottery.order), (commitment, None));
    assert!(decisions(&ledger, LogIndex(0)).contains(&Decision::Commitment(commitment)));
    ledger.wait(120_000);
    ledger.tick(|tick| {
        tick.rows.extend([row(1, SECOND + 60, 40, 40), row(2, SECOND + 60, 2, 2)]);
        tick.draw_lottery = true;
    });
    let order = ledger.event().line.lottery.as_ref().unwrap().order.unwrap();
    let drawn = Decision::Drawn { seed: lottery.seed, order };
    assert!(decisions(&ledger, LogIndex(0)).contains(&drawn));
    ledger.tick(|tick| {
        tick.rows.push(row(1, SECOND + 60, 41, 41));
        tick.draw_lottery = true;
    });
    assert_eq!(ledger.event().line.lottery.as_ref().unwrap().order, Some(order), "it is drawn once");
}

#[test]
fn the_order_of_a_lottery_hangs_on_who_joined_where() {
    let order = |first: u32, second: u32| {
        let mut ledger = scheduled();
        ledger.tick(|tick| {
            tick.rows.extend([row(1, SECOND + 60, first, 0), row(2, SECOND + 60, second, 0)]);
            tick.draw_lottery = true;
        });
        ledger.event().line.lottery.as_ref().unwrap().order
    };
    assert_eq!(order(40, 2), order(40, 2));
    assert_ne!(order(40, 2), order(41, 2));
    assert_ne!(order(40, 2), order(2, 40));
}

#[test]
fn once_a_lottery_has_begun_an_edit_moves_only_its_end() {
    let mut ledger = scheduled();
    let before = ledger.event().line.lottery.clone();
    ledger.wait(61_000);
    let schedule = |seconds: u64| {
        let at = |s: u64| jiff::Timestamp::from_second((START / 1000 + s) as i64).unwrap().to_string();
        fields(serde_json::json!({ "schedule": { "prequeue_at": at(seconds), "opens_at": at(400) } }))
    };
    ledger.change(ChangeKind::Patch(schedule(200))).unwrap();
    assert_eq!(ledger.event().line.lottery, before);
}

#[test]
fn the_log_of_an_event_keeps_the_newest_twenty_thousand_decisions() {
    let mut ledger = Ledger::small();
    for _ in 0..super::log::KEPT_RECORDS + 10 {
        ledger.change(ChangeKind::Admit(1)).unwrap();
    }
    let indexes: Vec<_> = ledger.event().log.after(LogIndex(0)).map(|record| record.index).collect();
    assert_eq!(indexes.len(), super::log::KEPT_RECORDS);
    assert_eq!(indexes.last(), Some(&ledger.state.index));
    assert!(indexes.is_sorted());
    let after = LogIndex(ledger.state.index.0 - 3);
    assert_eq!(decisions(&ledger, after).len(), 3);
}

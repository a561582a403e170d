//! What operators and files change.

use std::collections::BTreeSet;

use super::*;
use crate::model::policy::Submission;

#[test]
fn a_put_creates_once_and_keeps_the_fields_it_leaves_out() {
    let mut ledger = Ledger::small();
    let version = ledger.event().version;
    let put = |json| ChangeKind::Put(fields(json));
    let again = ledger.change(put(serde_json::json!({ "capacity": 10 }))).unwrap();
    assert_eq!((again.outcome, again.version), (ChangeOutcome::Unchanged, version));
    let more = ledger.change(put(serde_json::json!({ "capacity": 12 }))).unwrap();
    assert_eq!((more.outcome, more.version), (ChangeOutcome::Updated, ledger.state.index.0));
    assert_eq!(ledger.event().policy.capacity.get(), 12);
    assert_eq!(ledger.event().policy.max_admit_per_sec.get(), 40);
}

#[test]
fn a_change_at_fault_is_refused_whole() {
    let mut ledger = Ledger::small();
    let before = ledger.event().clone();
    let bad = fields(serde_json::json!({ "capacity": 0, "session_ttl_s": 30, "no_such": 1 }));
    let refused = ledger.change(ChangeKind::Patch(bad));
    assert!(matches!(&refused, Err(ChangeError::Faults(faults)) if faults.len() >= 2), "{refused:?}");
    assert_eq!(ledger.event(), &before);
}

#[test]
fn who_has_not_seen_the_newest_version_is_refused() {
    let mut ledger = Ledger::small();
    let version = ledger.event().version;
    let patch = || ChangeKind::Patch(fields(serde_json::json!({ "capacity": 11 })));
    let refused = ledger.change_if(Some(version - 1), patch());
    assert_eq!(refused, Err(ChangeError::VersionMismatch(version)));
    assert!(ledger.change_if(Some(version), patch()).is_ok());
}

#[test]
fn what_does_not_exist_is_not_changed() {
    let mut ledger = Ledger::small();
    ledger.change(ChangeKind::Delete).unwrap();
    let all = [
        ChangeKind::Patch(fields(serde_json::json!({ "capacity": 1 }))),
        ChangeKind::Delete,
        ChangeKind::Reset,
        ChangeKind::Admit(1),
        ChangeKind::EndPass(id(1)),
    ];
    for kind in all {
        assert_eq!(ledger.change(kind), Err(ChangeError::NoSuchEvent));
    }
}

#[test]
fn ending_a_pass_ends_it_and_consumes_its_ticket() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    for ended in [id(1), id(2)] {
        ledger.change(ChangeKind::EndPass(ended)).unwrap();
        assert!(ledger.live().is_consumed(ended));
    }
    assert!(ledger.live().is_empty());
}

#[test]
fn an_event_that_comes_back_goes_on_counting_from_what_was_left() {
    let mut ledger = Ledger::small();
    let block = ledger.block(3);
    let mints = [ledger.minted(1, id(1)), ledger.minted(2, id(2))];
    ledger.tick(|tick| tick.settle.push(settle(block, &mints, None)));
    let line = ledger.event().line.epoch;
    let deleted = ledger.change(ChangeKind::Delete).unwrap();
    assert_eq!((deleted.outcome, ledger.state.events.len()), (ChangeOutcome::Deleted, 0));
    let again = fields(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40 }));
    let created = ledger.change(ChangeKind::Put(again)).unwrap();
    assert_eq!(created.outcome, ChangeOutcome::Created);
    assert_eq!(ledger.occupied(), 3, "edges may not have heard that they are over");
    assert!(ledger.live().is_consumed(id(1)) && ledger.live().is_consumed(id(2)));
    assert!(ledger.event().line.epoch > line, "old tickets are over");
    ledger.wait(1_000);
    assert!(ledger.block(1) > block, "an old pass cannot name a new block");
}

#[test]
fn what_is_left_of_an_event_is_forgotten_with_its_last_ticket() {
    let mut ledger = Ledger::small();
    ledger.change(ChangeKind::Delete).unwrap();
    assert_eq!(ledger.state.remains.len(), 1);
    for _ in 0..24 * 60 + 5 {
        ledger.wait(60_000);
        ledger.apply(&Command::Tick(Tick { now: ledger.now, ..Tick::default() }));
    }
    assert_eq!(ledger.state.remains.len(), 0);
}

#[test]
fn a_file_never_undoes_a_live_change() {
    let mut ledger = Ledger::small();
    let controller = run(1, 1).node;
    let file = |capacity: u32| {
        let fields = fields(serde_json::json!({ "capacity": capacity, "max_admit_per_sec": 40 }));
        ChangeKind::Submit(Submission { controller, fields })
    };
    ledger.change(file(10)).unwrap();
    ledger.change(ChangeKind::Patch(fields(serde_json::json!({ "capacity": 50 })))).unwrap();
    ledger.change(file(10)).unwrap();
    assert_eq!(ledger.event().policy.capacity.get(), 50);
    ledger.change(file(20)).unwrap();
    assert_eq!(ledger.event().policy.capacity.get(), 20, "an edited line takes effect");
}

#[test]
fn a_batch_has_a_step_for_each_of_its_commands() {
    let mut ledger = Ledger::small();
    let tick = |slots| {
        let mut tick = EventTick::nothing(event());
        tick.reserve = slots;
        Command::Tick(Tick { now: FleetTime(START), events: vec![tick], ..Tick::default() })
    };
    let outcome = ledger.apply(&Command::Batch(vec![
        tick(2),
        Command::RotateKey { now: FleetTime(START), key: key() },
        Command::Batch(vec![tick(1)]),
    ]));
    let blocks: BTreeSet<_> = outcome
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Ticked(events) => events.iter().find_map(|event| event.reserved),
            _ => None,
        })
        .map(|reserved| reserved.block)
        .collect();
    assert_eq!((outcome.steps.len(), blocks.len(), ledger.occupied()), (3, 2, 3));
}

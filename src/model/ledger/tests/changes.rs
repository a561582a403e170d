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
    let refused = ledger.change_if(Condition::Version(version - 1), patch());
    assert_eq!(refused, Err(ChangeError::VersionMismatch(version)));
    assert!(ledger.change_if(Condition::Version(version), patch()).is_ok());
}

#[test]
fn a_change_can_ask_that_the_event_exists_or_does_not() {
    let mut ledger = Ledger::small();
    let version = ledger.event().version;
    let put = || ChangeKind::Put(fields(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40 })));
    assert_eq!(ledger.change_if(Condition::Absent, put()), Err(ChangeError::Exists(version)));
    assert!(ledger.change_if(Condition::Exists, put()).is_ok());
    ledger.change(ChangeKind::Delete).unwrap();
    for condition in [Condition::Exists, Condition::Version(version)] {
        assert_eq!(ledger.change_if(condition, put()), Err(ChangeError::Missing));
        assert_eq!(ledger.change_if(condition, ChangeKind::Reset), Err(ChangeError::NoSuchEvent));
    }
    assert_eq!(ledger.change_if(Condition::Absent, put()).unwrap().outcome, ChangeOutcome::Created);
}

#[test]
fn a_route_stays_with_the_event_that_had_it_first() {
    let mut ledger = Ledger::small();
    let routes = |json| fields(serde_json::json!({ "match": json }));
    let stated = serde_json::json!([{ "path": "/buy" }, { "host": "a.example", "path": "/" }]);
    ledger.change(ChangeKind::Patch(routes(stated))).unwrap();
    let other = |kind| Change {
        now: FleetTime(START),
        event: "other".parse().unwrap(),
        condition: Condition::Always,
        entropy: [5; 32],
        kind,
    };
    let make = |ledger: &mut Ledger, json| {
        let mut fields = routes(json);
        fields.set("capacity", &1.into());
        fields.set("max_admit_per_sec", &1.into());
        match ledger.apply(&Command::Change(other(ChangeKind::Put(fields)))).steps.pop() {
            Some(Step::Changed(result)) => result.map(|applied| applied.outcome),
            step => panic!("{step:?}"),
        }
    };
    let again = ["/buy", "/buy/", "/BUY"].map(|path| serde_json::json!([{ "path": "/x" }, { "path": path }]));
    for taken in again.into_iter().chain([serde_json::json!([{ "host": "A.example" }])]) {
        let refused = make(&mut ledger, taken.clone());
        let named = matches!(&refused, Err(ChangeError::Conflict(why)) if why.contains("event sale"));
        assert!(named, "{taken}: {refused:?}");
    }
    let free = serde_json::json!([{ "path": "/buy/vip" }, { "host": "b.example", "path": "/buy" }]);
    assert_eq!(make(&mut ledger, free), Ok(ChangeOutcome::Created));
    let taken = ledger.change(ChangeKind::Patch(routes(serde_json::json!([{ "path": "/buy/vip" }]))));
    assert!(matches!(&taken, Err(ChangeError::Conflict(why)) if why.contains("event other")), "{taken:?}");
    ledger.apply(&Command::Change(other(ChangeKind::Delete)));
    ledger.change(ChangeKind::Patch(routes(serde_json::json!([{ "path": "/buy/vip" }])))).unwrap();
}

#[test]
fn trying_a_change_tells_what_the_change_tells_and_changes_nothing() {
    let ledger = Ledger::small();
    let version = ledger.event().version;
    let patch = |capacity: u32| ChangeKind::Patch(fields(serde_json::json!({ "capacity": capacity })));
    let kinds = [patch(12), patch(10), patch(0), ChangeKind::Reset, ChangeKind::Admit(2), ChangeKind::Delete];
    for (kind, condition) in kinds.into_iter().flat_map(|kind| {
        [Condition::Always, Condition::Version(version), Condition::Absent].map(|when| (kind.clone(), when))
    }) {
        let before = ledger.state.clone();
        let change =
            Change { now: ledger.now, event: event(), condition, entropy: [5; 32], kind: kind.clone() };
        let tried = ledger.state.try_change(&change);
        assert_eq!(ledger.state, before);
        let mut copy = before.clone();
        let index = LogIndex(before.index.0 + 1);
        let done = copy.apply(index, &Command::Change(change)).steps.pop();
        let after = copy.events.get(&event()).map(|event| event.fields.clone());
        assert_eq!(done, Some(Step::Changed(tried.clone().map(|(applied, _)| applied))), "{kind:?}");
        assert!(tried.is_err() || tried.is_ok_and(|(_, fields)| fields == after));
    }
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
fn a_pass_is_ended_once_and_only_by_the_event_that_it_belongs_to() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    let other: EventId = "other".parse().unwrap();
    let made = fields(serde_json::json!({ "capacity": 1, "max_admit_per_sec": 1 }));
    let change = |event: &EventId, kind| Change {
        now: FleetTime(START),
        event: event.clone(),
        condition: Condition::Always,
        entropy: [1; 32],
        kind,
    };
    ledger.apply(&Command::Change(change(&other, ChangeKind::Put(made))));
    let end = |state: &State, of: &EventId, id| {
        state.try_change(&change(of, ChangeKind::EndPass(id))).map(|(applied, _)| applied.outcome)
    };
    let later = TicketId::of_run(run(1, 2), 1);
    assert_eq!(end(&ledger.state, &other, id(1)), Err(ChangeError::NoSuchTicket));
    assert_eq!(end(&ledger.state, &event(), later), Err(ChangeError::NoSuchTicket), "a run yet to come");
    assert_eq!(end(&ledger.state, &event(), id(7)), Ok(ChangeOutcome::Updated), "it may be waiting");
    ledger.change(ChangeKind::EndPass(id(1))).unwrap();
    assert_eq!(end(&ledger.state, &event(), id(1)), Ok(ChangeOutcome::Unchanged));
    assert_eq!(end(&ledger.state, &other, id(1)), Err(ChangeError::NoSuchTicket));
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

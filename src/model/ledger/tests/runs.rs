//! Runs of nodes, and the time that is forgiven.

use std::time::Duration;

use super::*;
use crate::model::presence::{Missing, forgiven};

fn register(ledger: &mut Ledger, run: NodeRun) -> Option<Registration> {
    let outcome = ledger.apply(&Command::Register { run, now: ledger.now });
    outcome.steps.into_iter().find_map(|step| match step {
        Step::Registered(registration) => Some(registration),
        _ => None,
    })
}

fn forgiven_s(ledger: &Ledger, node: u16, from: u64, to: u64) -> u64 {
    let missing = Missing::AtNode(Some(run(node, 1).node));
    let at = |seconds| FleetTime(START + seconds * 1000);
    forgiven(&ledger.state.spans, missing, at(from), at(to)).as_secs()
}

/// The leader tells of the time every minute.
fn pass_minutes(ledger: &mut Ledger, minutes: u64) {
    for _ in 0..minutes {
        ledger.wait(60_000);
        let heard = ledger.state.runs.keys().map(|run| (*run, ledger.now)).collect();
        ledger.apply(&Command::Tick(Tick { now: ledger.now, heard, ..Tick::default() }));
    }
}

#[test]
fn only_a_newer_run_of_a_node_is_registered() {
    let mut ledger = Ledger::small();
    assert_eq!(register(&mut ledger, run(1, 1)), Some(Registration::Outdated));
    assert_eq!(register(&mut ledger, run(1, 0)), Some(Registration::Outdated));
    assert_eq!(register(&mut ledger, run(1, 3)), Some(Registration::Accepted));
    assert_eq!(register(&mut ledger, run(1, 2)), Some(Registration::Outdated));
    let runs: Vec<_> = ledger.state.runs.keys().copied().collect();
    assert_eq!(runs, [run(1, 3), run(2, 1)]);
}

#[test]
fn what_a_dead_run_was_given_stays_counted_and_its_rows_stand() {
    let mut ledger = Ledger::small();
    let block = ledger.block(4);
    let bucket = crate::model::order::BucketStart(7);
    ledger.tick(|tick| tick.rows.push(Row { run: run(1, 1), bucket, joined: 5, alive: 5 }));
    register(&mut ledger, run(1, 2));
    assert_eq!(ledger.occupied(), 4);
    assert_eq!(ledger.event().line.rows[&(bucket, run(1, 1))].alive, 5);
    ledger.mint(block, 1, id(1));
    assert_eq!(ledger.live().len(), 1, "a late report of the old run still counts");
}

#[test]
fn the_visitors_of_a_node_are_forgiven_its_absence_and_the_time_to_come_back() {
    let mut ledger = Ledger::small();
    ledger.wait(50_000);
    register(&mut ledger, run(1, 2));
    assert_eq!(forgiven_s(&ledger, 1, 0, 200), 80, "50 s away, and the 30 s of a heartbeat");
    assert_eq!(forgiven_s(&ledger, 2, 0, 200), 0);
}

#[test]
fn a_clean_end_is_forgiven_the_way_back_too() {
    let mut ledger = Ledger::small();
    let ended = vec![run(1, 1)];
    ledger.apply(&Command::Tick(Tick { now: ledger.now, ended, ..Tick::default() }));
    assert_eq!(ledger.state.runs.len(), 1);
    ledger.wait(50_000);
    register(&mut ledger, run(1, 2));
    assert_eq!(forgiven_s(&ledger, 1, 50, 200), 30);
}

#[test]
fn a_silence_of_the_log_is_forgiven_to_everybody() {
    let mut ledger = Ledger::small();
    pass_minutes(&mut ledger, 3);
    assert!(ledger.state.spans.iter().all(|span| span.node.is_some()), "a led fleet is not away");
    ledger.wait(600_000);
    register(&mut ledger, run(1, 2));
    assert_eq!(forgiven_s(&ledger, 2, 0, 780), 600);
    assert_eq!(forgiven_s(&ledger, 1, 180, 900), 630, "to the start, and a heartbeat on");
}

#[test]
fn overlapping_spans_are_kept_as_one_until_no_ticket_can_ask() {
    let mut ledger = Ledger::small();
    let node = Some(run(2, 1).node);
    let span = |from: u64, to: u64| Span {
        node,
        from: FleetTime(START + from * 1000),
        to: FleetTime(START + to * 1000),
    };
    let before = ledger.state.spans.len();
    let spans = vec![span(10, 20), span(15, 30), span(30, 31)];
    ledger.apply(&Command::Tick(Tick { now: ledger.now, spans, ..Tick::default() }));
    assert_eq!(ledger.state.spans.len(), before + 1);
    pass_minutes(&mut ledger, 1);
    assert_eq!(forgiven_s(&ledger, 2, 0, 100), 21);
    pass_minutes(&mut ledger, 2);
    assert_eq!(forgiven_s(&ledger, 2, 0, 100), 0, "twice the heartbeat after its end nobody asks");
}

/// A week of absence, an hour of work, a week of absence: a ticket of a day's life is an hour old.
#[test]
fn consumed_ids_and_spans_outlast_an_absence_as_tickets_do() {
    let mut ledger = Ledger::small();
    ledger.tick(|tick| tick.revoke.push(ended(id(1))));
    let week = 7 * 24 * 3600 * 1000;
    for _ in 0..2 {
        ledger.wait(week);
        pass_minutes(&mut ledger, 60);
    }
    assert!(ledger.live().is_consumed(id(1)));
    let issued = FleetTime(START);
    let max = ledger.event().policy.ticket_max;
    let spans = &ledger.state.spans;
    assert!(!crate::model::presence::is_too_old(issued, ledger.now, max, spans), "{spans:?}");
    pass_minutes(&mut ledger, 24 * 60);
    assert!(!ledger.live().is_consumed(id(1)));
}

#[test]
fn a_run_that_is_not_heard_is_kept_as_long_as_it_may_honour_a_session() {
    let mut ledger = Ledger::small();
    for minute in 1..5 {
        ledger.wait(60_000);
        let heard = vec![(run(2, 1), ledger.now)];
        ledger.apply(&Command::Tick(Tick { now: ledger.now, heard, ..Tick::default() }));
        assert_eq!(ledger.state.runs.contains_key(&run(1, 1)), minute < 3, "{minute}");
    }
    assert!(ledger.state.runs.contains_key(&run(2, 1)));
}

#[test]
fn a_lower_ceiling_does_not_make_a_silent_run_forget_its_sessions() {
    let mut ledger = Ledger::small();
    pass_minutes(&mut ledger, 1);
    let shorter = fields(serde_json::json!({ "session_max_s": 10, "session_ttl_s": 10 }));
    ledger.change(ChangeKind::Patch(shorter)).unwrap();
    for seconds in [60, 120, 180] {
        ledger.wait(60_000);
        ledger.tick(|_| {});
        assert_eq!(ledger.state.runs.contains_key(&run(1, 1)), seconds < 180, "{seconds}");
    }
}

#[test]
fn fleet_time_never_goes_back() {
    let mut ledger = Ledger::small();
    ledger.wait(5_000);
    ledger.tick(|_| {});
    let was = ledger.state.now;
    ledger.now = FleetTime(START);
    ledger.tick(|_| {});
    register(&mut ledger, run(1, 2));
    ledger.change(ChangeKind::Admit(1)).unwrap();
    assert_eq!(ledger.state.now, was);
    assert_eq!(was.since(FleetTime(START)), Duration::from_secs(5));
}

#[test]
fn a_ledger_is_founded_once_and_an_old_entry_changes_nothing() {
    let mut ledger = Ledger::small();
    let again = Command::Found { epoch: LedgerEpoch(99), now: ledger.now, key: key() };
    ledger.apply(&again);
    assert_eq!(ledger.state.epoch, Some(LedgerEpoch(3)));
    let before = ledger.state.clone();
    let late = Command::Register { run: run(9, 1), now: FleetTime(u64::MAX) };
    assert_eq!(ledger.state.apply(before.index, &late).steps, []);
    assert_eq!(ledger.state, before);
}

//! Numbers that edges are given.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::model::numbered::{FIRST_GIVEN, Instance};
use crate::model::order::BucketStart;

fn instance(of: u8) -> Instance {
    Instance([of; 32])
}

fn number(ledger: &mut Ledger, of: u8) -> NodeId {
    let (now, name) = (ledger.now, "web".parse().unwrap());
    let outcome = ledger.apply(&Command::Number { now, name, instance: instance(of) });
    let [Step::Numbered(Some(node))] = outcome.steps[..] else { panic!("{outcome:?}") };
    node
}

fn serve(ledger: &mut Ledger, node: NodeId, generation: u32) -> Registration {
    let run = NodeRun { node, generation: Generation(generation) };
    let outcome = ledger.apply(&Command::Register { run, now: ledger.now });
    let [Step::Registered(registration)] = outcome.steps[..] else { panic!("{outcome:?}") };
    registration
}

fn end(ledger: &mut Ledger, node: NodeId) {
    let ended = ledger.state.runs.keys().copied().filter(|run| run.node == node).collect();
    ledger.apply(&Command::Tick(Tick { now: ledger.now, ended, ..Tick::default() }));
}

/// Time passes, and the leader tells of it every minute; edges are heard unless they are `silent`.
fn pass(ledger: &mut Ledger, time: Duration, silent: Option<NodeId>) {
    for _ in 0..time.as_secs() / 60 {
        ledger.wait(60_000);
        let runs = ledger.state.runs.keys().filter(|run| Some(run.node) != silent);
        let heard = runs.map(|run| (*run, ledger.now)).collect();
        ledger.apply(&Command::Tick(Tick { now: ledger.now, heard, ..Tick::default() }));
    }
}

#[test]
fn edges_of_one_name_get_numbers_of_their_own_and_keep_them() {
    let mut ledger = Ledger::small();
    let (one, other) = (number(&mut ledger, 1), number(&mut ledger, 2));
    assert_ne!(one, other);
    assert!(one.is_given() && other.is_given());
    assert_eq!((number(&mut ledger, 2), number(&mut ledger, 1)), (other, one));
    assert!(ledger.state.numbers.is_holder(one, instance(1)));
    assert!(!ledger.state.numbers.is_holder(one, instance(2)));
    assert_eq!(ledger.state.numbers.len(), 2);
}

#[test]
fn nobody_serves_under_a_number_that_nobody_was_given() {
    let mut ledger = Ledger::small();
    let mine = number(&mut ledger, 1);
    let next = NodeId(mine.0.checked_add(1).unwrap());
    assert_eq!(serve(&mut ledger, next, 1), Registration::Outdated);
    assert_eq!(serve(&mut ledger, mine, 1), Registration::Accepted);
}

#[test]
fn the_number_of_an_edge_that_has_served_is_kept_for_a_day_after_everything_else_is_forgotten() {
    let mut ledger = Ledger::small();
    let node = number(&mut ledger, 1);
    serve(&mut ledger, node, 1);
    pass(&mut ledger, 3 * KEPT, None);
    assert!(ledger.state.numbers.is_holder(node, instance(1)), "a number in use stays");
    end(&mut ledger, node);
    pass(&mut ledger, KEPT - Duration::from_secs(120), None);
    assert!(ledger.state.numbers.is_holder(node, instance(1)));
    pass(&mut ledger, Duration::from_secs(300), None);
    assert!(ledger.state.numbers.is_empty());
    assert_ne!(number(&mut ledger, 2), node, "the one that was free longest comes first");
}

#[test]
fn a_number_stays_while_its_run_may_honour_sessions_and_while_somebody_is_counted_there() {
    let mut ledger = Ledger::small();
    let (silent, counted) = (number(&mut ledger, 1), number(&mut ledger, 2));
    serve(&mut ledger, silent, 1);
    let row = |node| {
        let run = NodeRun { node, generation: Generation(1) };
        Row { run, bucket: BucketStart(7), joined: 5, alive: 5 }
    };
    ledger.tick(|tick| tick.rows.push(row(counted)));
    let session_max = ledger.event().policy.session_max;
    pass(&mut ledger, session_max + KEPT, Some(silent));
    assert!(ledger.state.numbers.is_holder(silent, instance(1)));
    pass(&mut ledger, Duration::from_secs(600), Some(silent));
    assert!(ledger.state.numbers.holder(silent).is_none());
    assert!(ledger.state.numbers.is_holder(counted, instance(2)));
}

#[test]
fn the_number_of_an_edge_that_never_served_is_free_after_ten_minutes() {
    let mut ledger = Ledger::small();
    let node = number(&mut ledger, 1);
    pass(&mut ledger, UNUSED_KEPT - Duration::from_secs(60), None);
    assert!(ledger.state.numbers.is_holder(node, instance(1)));
    pass(&mut ledger, Duration::from_secs(120), None);
    assert!(ledger.state.numbers.is_empty());
}

#[derive(Clone, Debug)]
enum Happening {
    Number(u8),
    Serve(u8),
    End(u8),
    Minutes(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0_u8..6).prop_map(Happening::Number),
        4 => (0_u8..6).prop_map(Happening::Serve),
        2 => (0_u8..6).prop_map(Happening::End),
        1 => (1_u64..12).prop_map(Happening::Minutes),
        1 => (600_u64..1_600).prop_map(Happening::Minutes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn no_number_has_two_holders_and_none_changes_hands_while_a_run_of_it_counts(
        happenings in prop::collection::vec(happening(), 1..40)
    ) {
        let mut ledger = Ledger::small();
        let mut copy = ledger.state.clone();
        let mut known: BTreeMap<u8, NodeId> = BTreeMap::new();
        let mut generation = 0;
        for happening in happenings {
            let runs_before: Vec<_> = ledger.state.runs.keys().copied().collect();
            let before = ledger.state.numbers.clone();
            match happening {
                Happening::Number(of) => {
                    known.insert(of, number(&mut ledger, of));
                }
                Happening::Serve(of) => {
                    let node = known.get(&of).copied();
                    if let Some(node) = node.filter(|node| ledger.state.numbers.is_holder(*node, instance(of))) {
                        generation += 1;
                        serve(&mut ledger, node, generation);
                    }
                }
                Happening::End(of) => {
                    let node = known.get(&of).copied();
                    node.into_iter().for_each(|node| end(&mut ledger, node));
                }
                Happening::Minutes(minutes) => pass(&mut ledger, Duration::from_secs(60 * minutes), None),
            }
            let numbers = &ledger.state.numbers;
            let holders = (0..6).filter_map(|of| Some((of, *known.get(&of)?)));
            let held: Vec<_> = holders.filter(|(of, node)| numbers.is_holder(*node, instance(*of))).collect();
            let distinct: std::collections::BTreeSet<_> = held.iter().map(|(_, node)| node).collect();
            prop_assert_eq!(distinct.len(), held.len());
            prop_assert_eq!(numbers.len(), held.len(), "every holder was told");
            prop_assert!(held.iter().all(|(_, node)| node.0.get() >= FIRST_GIVEN));
            for run in runs_before.iter().filter(|run| run.node.is_given()) {
                let holder = |numbers: &Numbers| numbers.holder(run.node).map(|holder| holder.instance);
                prop_assert_eq!(holder(&before), holder(numbers));
            }
        }
        let bytes = postcard::to_stdvec(&ledger.state).unwrap();
        copy = postcard::from_bytes(&bytes).unwrap_or(copy);
        prop_assert_eq!(copy, ledger.state);
    }
}

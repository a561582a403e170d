//! Signing keys: which one signs, and how long the others verify.

use super::*;

fn rotate(ledger: &mut Ledger) -> Option<KeyId> {
    let outcome = ledger.apply(&Command::RotateKey { now: ledger.now, key: key() });
    outcome.steps.into_iter().find_map(|step| match step {
        Step::Rotated(key) => Some(key),
        _ => None,
    })
}

fn acknowledge(ledger: &mut Ledger, acknowledged: LogIndex) {
    ledger.apply(&Command::Tick(Tick { now: ledger.now, acknowledged, ..Tick::default() }));
}

#[test]
fn the_first_key_signs_at_once() {
    let ledger = Ledger::small();
    let keys = ledger.state.keys.records();
    assert_eq!(keys.len(), 1);
    assert!(keys.iter().all(|key| key.signs_from == FleetTime(START) && key.verifies_until.is_none()));
    assert_eq!(ledger.state.keys.awaits_acknowledgement(), None);
}

#[test]
fn a_new_key_signs_when_every_edge_knows_it() {
    let mut ledger = Ledger::small();
    assert_eq!(rotate(&mut ledger), Some(KeyId(2)));
    let rotated = ledger.state.index;
    assert_eq!(ledger.state.keys.awaits_acknowledgement(), Some(rotated));
    ledger.wait(3_000);
    acknowledge(&mut ledger, LogIndex(rotated.0 - 1));
    let signs_from = |ledger: &Ledger| ledger.state.keys.records().last().unwrap().signs_from;
    assert_eq!(signs_from(&ledger), FleetTime(START + 60_000), "at the latest");
    let version = ledger.state.keys.version;
    acknowledge(&mut ledger, rotated);
    assert_eq!(signs_from(&ledger), FleetTime(START + 3_000));
    assert!(ledger.state.keys.version > version);
}

#[test]
fn an_old_key_verifies_what_it_signed_to_the_end_and_is_forgotten_then() {
    let mut ledger = Ledger::small();
    rotate(&mut ledger);
    let until = ledger.state.keys.records()[0].verifies_until.unwrap();
    // A session, two heartbeats and ten minutes after the new key signs at the latest.
    assert_eq!(until, FleetTime(START + (60 + 60 + 2 * 30 + 600) * 1000));
    while ledger.now < until {
        assert_eq!(ledger.state.keys.records().len(), 2);
        ledger.wait(60_000);
        acknowledge(&mut ledger, LogIndex(0));
    }
    ledger.wait(60_000);
    acknowledge(&mut ledger, LogIndex(0));
    assert_eq!(ledger.state.keys.records().len(), 1);
}

#[test]
fn an_absence_of_the_fleet_shortens_no_key() {
    let mut ledger = Ledger::small();
    rotate(&mut ledger);
    ledger.wait(24 * 3600 * 1000);
    acknowledge(&mut ledger, LogIndex(0));
    assert_eq!(ledger.state.keys.records().len(), 2);
}

#[test]
fn no_secret_is_ever_printed() {
    let ledger = Ledger::small();
    let printed = format!("{:?}", ledger.state.keys);
    assert!(!printed.contains("7, 7") && printed.contains("KeyRecord"), "{printed}");
}

use std::num::NonZeroU16;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::clock::Clock;
use crate::model::exchange::{KeySet, Pulse};
use crate::model::ids::{Generation, KeyId, LogIndex, NodeRun, Tenure};
use crate::model::ledger::KeyRecord;
use crate::model::time::{BootTime, FleetTime};

const LEDGER: LedgerEpoch = LedgerEpoch(77);

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn desk() -> Arc<Desk> {
    Desk::new(NodeRun { node: node(4), generation: Generation(9) }, Clock::start())
}

fn hear(desk: &Desk, number: u64, keys_version: u64) {
    let now = FleetTime(1_800_000_000_000);
    let key =
        KeyRecord { id: KeyId(1), secret: [5; 32], made_at: now, signs_from: now, verifies_until: None };
    desk.take(Pulse {
        tenure: Tenure::default(),
        number,
        run: desk.run(),
        index: LogIndex(1),
        now,
        report: number,
        echo: BootTime(0),
        ledger: LEDGER,
        keys: Some(KeySet { version: keys_version, keys: vec![key] }),
        spans: Arc::default(),
        events: Vec::new(),
    });
}

fn kept() -> Keepsake {
    let desk = desk();
    assert_eq!(desk.keepsake(), None);
    hear(&desk, 1, 1);
    desk.keepsake().unwrap()
}

#[test]
fn what_was_kept_is_found_again_by_its_node_in_its_ledger_and_by_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(load(dir.path(), node(4), None), None);
    let kept = kept();
    for _ in 0..2 {
        save(dir.path(), &kept).unwrap();
        assert_eq!(load(dir.path(), node(4), None).as_ref(), Some(&kept));
    }
    assert_eq!(load(dir.path(), node(4), Some(LEDGER)), Some(kept));
    assert_eq!(load(dir.path(), node(4), Some(LedgerEpoch(78))), None);
    assert_eq!(load(dir.path(), node(5), None), None);
}

#[test]
fn nobody_but_the_owner_may_read_it_and_nothing_unfinished_is_left() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("heard.new"), "a start that was cut short").unwrap();
    save(dir.path(), &kept()).unwrap();
    let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_damaged_file_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let whole = encode(&kept()).unwrap();
    let loads = |bytes: &[u8]| {
        std::fs::write(dir.path().join(FILE), bytes).unwrap();
        load(dir.path(), node(4), None).is_some()
    };
    assert!(loads(&whole));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(!loads(&bytes), "byte {at}");
        assert!(!loads(&whole[..at]), "length {at}");
    }
    assert!(!loads(&[whole.as_slice(), &[0]].concat()));
}

#[tokio::test]
async fn the_file_is_written_when_a_version_changes_and_not_with_every_pulse() {
    let dir = tempfile::tempdir().unwrap();
    let desk = desk();
    let keeping = tokio::spawn(keep_in_file(Arc::clone(&desk), dir.path().to_owned(), None));
    let holds =
        |version| load(dir.path(), node(4), None).is_some_and(|kept| !kept.is_news_to(&kept_with(version)));
    let inode = || std::fs::metadata(dir.path().join(FILE)).map(|known| known.ino()).ok();
    let mut number = 0;
    let mut written = None;
    for version in [1, 2] {
        let mut pulses = 0;
        while !holds(version) {
            assert!(pulses < 500, "version {version} is not kept");
            (number, pulses) = (number + 1, pulses + 1);
            hear(&desk, number, version);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_ne!(inode(), written);
        written = inode();
    }
    // More than a second of pulses that say nothing new.
    for _ in 0..60 {
        number += 1;
        hear(&desk, number, 2);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(inode(), written);
    keeping.abort();
}

fn kept_with(keys_version: u64) -> Keepsake {
    let desk = desk();
    hear(&desk, 1, keys_version);
    desk.keepsake().unwrap()
}

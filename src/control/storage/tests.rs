use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{CommittedLeaderId, Entry, EntryPayload, RaftLogReader, RaftSnapshotBuilder};
use tempfile::TempDir;

use super::file::{FILE_NAME, put};
use super::*;
use crate::model::ids::{Generation, KeyId, LedgerEpoch, NodeId, NodeRun};
use crate::model::ledger::KeyRecord;
use crate::model::time::FleetTime;

struct OnDisk;

impl StoreBuilder<LogTypes, Entries, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Entries, Machine), StorageError> {
        let dir = tempfile::tempdir().unwrap();
        let (entries, machine, _) = Storage::open(dir.path()).unwrap().split().unwrap();
        Ok((dir, entries, machine))
    }
}

#[test]
fn the_storage_passes_rafts_own_suite() {
    Suite::test_all(OnDisk).unwrap();
}

fn log_id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(1, 1), index)
}

fn entry(index: u64, command: Command) -> Entry<LogTypes> {
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(command) }
}

pub(super) fn founding() -> Command {
    let key = KeyRecord {
        id: KeyId(0),
        secret: [7; 32],
        made_at: FleetTime(5),
        signs_from: FleetTime(5),
        verifies_until: None,
    };
    Command::Found { epoch: LedgerEpoch(9), now: FleetTime(5), key }
}

fn registration(generation: u32) -> Command {
    let run = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(generation) };
    Command::Register { run, now: FleetTime(u64::from(generation)) }
}

#[tokio::test]
async fn a_snapshot_and_the_entries_after_it_make_the_same_state_again() {
    let dir = tempfile::tempdir().unwrap();
    let before = {
        let (mut entries, mut machine, state) = Storage::open(dir.path()).unwrap().split().unwrap();
        let all = [entry(1, founding()), entry(2, registration(10)), entry(3, registration(11))];
        entries.blocking_append(all.clone()).await.unwrap();
        machine.apply(all[..2].to_vec()).await.unwrap();
        machine.build_snapshot().await.unwrap();
        entries.purge(log_id(1)).await.unwrap();
        machine.apply(all[2..].to_vec()).await.unwrap();
        state.read(Clone::clone)
    };
    let (mut entries, mut machine, state) = Storage::open(dir.path()).unwrap().split().unwrap();
    let (applied, _) = machine.applied_state().await.unwrap();
    assert_eq!(applied, Some(log_id(2)));
    let rest = entries.try_get_log_entries(3..).await.unwrap();
    machine.apply(rest).await.unwrap();
    assert_eq!(state.read(Clone::clone), before);
    assert!(before.epoch.is_some() && before.runs.len() == 1);
}

#[test]
fn directory_and_file_belong_to_the_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("a/b");
    let _open = Storage::open(&data_dir).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data_dir), 0o700);
    assert_eq!(mode(&data_dir.join(FILE_NAME)), 0o600);
}

#[test]
fn a_second_process_is_told_that_the_directory_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let open = Storage::open(dir.path()).unwrap();
    assert!(matches!(Storage::open(dir.path()), Err(OpenError::InUse { .. })));
    drop(open);
    assert!(Storage::open(dir.path()).is_ok());
}

fn refusal_of(bytes: &[u8]) -> OpenError {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    std::fs::write(&path, bytes).unwrap();
    let refusal = Storage::open(dir.path()).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file was changed");
    assert_eq!(refusal.to_string().lines().count(), 1);
    refusal
}

#[test]
fn a_foreign_an_empty_and_a_short_file_are_refused_and_left_as_they_are() {
    assert!(matches!(refusal_of(b"SQLite format 3\0 and so on"), OpenError::Foreign { .. }));
    assert!(matches!(refusal_of(b""), OpenError::Foreign { .. }));
    assert!(matches!(refusal_of(b"re"), OpenError::Foreign { .. }));
    assert!(matches!(refusal_of(b"redb\x1a\x0a\xa9\x0d\x0a"), OpenError::Damaged { .. }));
    assert!(matches!(refusal_of(&[b"redb".as_slice(), &[0; 100_000]].concat()), OpenError::Damaged { .. }));
}

#[test]
fn another_products_redb_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(redb::Database::create(dir.path().join(FILE_NAME)).unwrap());
    assert!(matches!(Storage::open(dir.path()), Err(OpenError::Foreign { .. })));
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_its_version() {
    let dir = tempfile::tempdir().unwrap();
    {
        let storage = Storage::open(dir.path()).unwrap();
        let txn = storage.file.begin().unwrap();
        put(&txn, "format", &("anteroom", 2u32, "9.1.0")).unwrap();
        txn.commit().unwrap();
    }
    let refusal = Storage::open(dir.path()).unwrap_err();
    assert!(refusal.to_string().contains("9.1.0"), "{refusal}");
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    {
        let storage = Storage::open(dir.path()).unwrap();
        let txn = storage.file.begin().unwrap();
        put(&txn, "snapshot", &vec![1u8; 40]).unwrap();
        txn.commit().unwrap();
    }
    let refusal = Storage::open(dir.path()).unwrap().split().unwrap_err();
    assert!(matches!(refusal, OpenError::Damaged { .. }));
}

#[test]
fn an_unfinished_file_of_an_interrupted_first_start_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("control.redb.new"), b"half").unwrap();
    assert!(Storage::open(dir.path()).is_ok());
}

#[test]
fn generations_rise_over_restarts_also_when_the_wall_clock_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = |id| NodeId(std::num::NonZeroU16::new(id).unwrap());
    let next = |seconds| Storage::open(dir.path()).unwrap().next_generation(node(3), seconds).unwrap();
    assert_eq!(next(1000), Generation(1000));
    assert_eq!(next(2000), Generation(2000));
    assert_eq!(next(1500), Generation(2001));
    assert_eq!(next(0), Generation(2002));
}

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{CommittedLeaderId, Entry, EntryPayload, Membership, RaftLogReader, Vote};
use tempfile::TempDir;

use super::tests::founding;
use super::*;
use crate::model::ids::{Generation, LedgerEpoch, LogIndex, NodeRun};
use crate::model::time::FleetTime;

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn nodes(ids: &[u16]) -> BTreeSet<NodeId> {
    ids.iter().copied().map(node).collect()
}

/// A log of node 1, one of three voters, that knows nothing to be agreed on.
async fn log_of_three() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let storage = Storage::open(dir.path()).unwrap();
    storage.next_generation(node(1), 7).unwrap();
    let (mut entries, _, _) = storage.split().unwrap();
    entries.save_vote(&Vote::new(6, 2)).await.unwrap();
    let voters = BTreeMap::from([1, 2, 3].map(|id| (id, BasicNode::new(format!("{id}:7946")))));
    let run = NodeRun { node: node(3), generation: Generation(9) };
    let payloads = [
        EntryPayload::Membership(Membership::new(vec![BTreeSet::from([1, 2, 3])], voters)),
        EntryPayload::Blank,
        EntryPayload::Normal(founding()),
        EntryPayload::Normal(Command::Register { run, now: FleetTime(6) }),
    ];
    let id = |index| LogId::new(CommittedLeaderId::new(5, 3), index);
    let all = payloads.into_iter().zip(0..).map(|(payload, index)| Entry { log_id: id(index), payload });
    entries.blocking_append(all.collect::<Vec<_>>()).await.unwrap();
    dir
}

#[tokio::test]
async fn a_log_that_is_not_restored_is_left_as_it_was() {
    let dir = log_of_three().await;
    let storage = Storage::open(dir.path()).unwrap();
    for lost in [&[2][..], &[3], &[2, 4], &[2, 3, 4], &[1, 2, 3], &[]] {
        let refused = storage.restore(node(1), &nodes(lost)).await;
        assert!(matches!(refused, Err(RestoreError::Others { .. })), "{lost:?}: {refused:?}");
    }
    let refused = storage.restore(node(2), &nodes(&[1, 3])).await;
    assert!(matches!(refused, Err(RestoreError::Open(OpenError::OtherNode { .. }))), "{refused:?}");
    let (mut entries, mut machine, _) = storage.split().unwrap();
    assert_eq!(entries.read_vote().await.unwrap(), Some(Vote::new(6, 2)));
    assert_eq!(entries.try_get_log_entries(0..).await.unwrap().len(), 4);
    assert_eq!(entries.get_log_state().await.unwrap().last_purged_log_id, None);
    assert_eq!(machine.applied_state().await.unwrap().0, None);
    assert_eq!(storage.barred().unwrap(), nodes(&[]));
}

#[tokio::test]
async fn an_empty_log_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Storage::open(dir.path()).unwrap();
    assert!(matches!(storage.restore(node(1), &nodes(&[2])).await, Err(RestoreError::Empty)));
}

#[test]
fn where_there_is_no_log_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("data");
    let refused = crate::control::restore(&nowhere, node(1), &nodes(&[2]));
    assert!(matches!(refused, Err(RestoreError::Empty)));
    assert!(!nowhere.exists());
}

#[tokio::test]
async fn everything_in_a_restored_log_counts_and_nothing_of_before_comes_after_it() {
    let dir = log_of_three().await;
    let restored = Storage::open(dir.path()).unwrap().restore(node(1), &nodes(&[2, 3])).await.unwrap();
    assert_eq!(restored, LogIndex(3));
    let storage = Storage::open(dir.path()).unwrap();
    let (mut entries, mut machine, state) = storage.split().unwrap();
    let (last, known) = machine.applied_state().await.unwrap();
    let last = last.unwrap();
    assert_eq!(
        known.membership().nodes().map(|(id, at)| (*id, at.addr.clone())).collect::<Vec<_>>(),
        [(1, "1:7946".to_owned())]
    );
    assert!(last > LogId::new(CommittedLeaderId::new(1000, 3), 1000));
    let seen = entries.get_log_state().await.unwrap();
    assert_eq!((seen.last_log_id, seen.last_purged_log_id), (Some(last), Some(last)));
    let vote = entries.read_vote().await.unwrap().unwrap();
    assert!(vote > Vote::new_committed(1000, 3) && !vote.committed);
    assert!(state.read(|state| state.epoch == Some(LedgerEpoch(9)) && state.runs.len() == 1));
    // What a leader tells edges of begins here: nobody who knows more of before is sent the difference to it.
    assert_eq!(state.read(|state| state.index), LogIndex(last.index));
    assert_eq!(storage.barred().unwrap(), nodes(&[2, 3]));
    let again = storage.restore(node(1), &nodes(&[2, 3])).await;
    assert!(matches!(again, Err(RestoreError::Others { .. })), "{again:?}");
}

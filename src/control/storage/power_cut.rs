//! Power cuts: whatever the log has said is safe is there after them.

use std::io;
use std::sync::{Arc, Mutex};

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{CommittedLeaderId, Entry, EntryPayload, RaftLogReader, RaftSnapshotBuilder, Vote};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redb::StorageBackend;

use super::platter::Platter;
use super::*;
use crate::model::ids::{NodeId, NodeRun};
use crate::model::time::FleetTime;

/// Whether the disk does what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Honest,
    Lying,
}

#[derive(Debug)]
struct Drive {
    platter: Platter,
    sync: Sync,
    /// Operations until the power goes.
    left: u32,
}

#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<Drive>>);

impl Disk {
    fn new(image: Vec<u8>, sync: Sync, left: u32) -> Self {
        Self(Arc::new(Mutex::new(Drive { platter: Platter::holding(image), sync, left })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Drive) -> T) -> io::Result<T> {
        let mut drive = self.0.lock().unwrap();
        if drive.left == 0 {
            return Err(io::Error::other("the power is gone"));
        }
        drive.left -= 1;
        Ok(work(&mut drive))
    }

    fn after_the_cut(&self, rng: &mut StdRng) -> Vec<u8> {
        self.0.lock().unwrap().platter.after_the_cut(rng)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.with(|drive| drive.platter.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|drive| drive.platter.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|drive| drive.platter.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|drive| {
            if drive.sync == Sync::Honest {
                drive.platter.sync();
            }
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|drive| drive.platter.write(offset, data))
    }
}

/// What the log has said is safe.
#[derive(Default)]
struct Promised {
    vote: Option<Vote<u64>>,
    last: u64,
    purged: u64,
    snapshot: u64,
}

fn open(disk: &Disk) -> Result<(Entries, Machine), OpenError> {
    let file = Arc::new(LogFile::on_backend(disk.clone())?);
    let (entries, machine, _) = Storage { file }.split()?;
    Ok((entries, machine))
}

fn entry(index: u64, pad: usize) -> Entry<LogTypes> {
    let node = NodeId(std::num::NonZeroU16::MIN);
    let run = |at| NodeRun { node, generation: Generation(at) };
    let command = Command::Register { run: run(u32::try_from(index).unwrap()), now: FleetTime(index) };
    let commands = vec![command; pad];
    Entry { log_id: id(index), payload: EntryPayload::Normal(Command::Batch(commands)) }
}

fn id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(1, 1), index)
}

/// Works until the power goes; what returned in time is promised.
async fn work_until_dark(disk: &Disk, promised: &mut Promised, rng: &mut StdRng) -> Option<()> {
    let (mut entries, mut machine) = open(disk).ok()?;
    let mut last =
        promised.last.max(entries.get_log_state().await.ok()?.last_log_id.map_or(0, |id| id.index));
    loop {
        match rng.random_range(0..10) {
            0 => {
                let vote = Vote::new(promised.vote.map_or(1, |vote| vote.leader_id.term + 1), 1);
                entries.save_vote(&vote).await.ok()?;
                promised.vote = Some(vote);
            }
            1 if last > promised.snapshot => {
                let (applied, _) = machine.applied_state().await.ok()?;
                let from = applied.map_or(1, |id| id.index + 1);
                let fresh = entries.try_get_log_entries(from..=last).await.ok()?;
                machine.apply(fresh).await.ok()?;
                machine.build_snapshot().await.ok()?;
                promised.snapshot = last;
            }
            2 if promised.snapshot > promised.purged => {
                entries.purge(id(promised.snapshot)).await.ok()?;
                promised.purged = promised.snapshot;
            }
            _ => {
                let count = rng.random_range(1..4);
                let pad = rng.random_range(1..200);
                let fresh: Vec<_> = (1..=count).map(|ahead| entry(last + ahead, pad)).collect();
                entries.blocking_append(fresh).await.ok()?;
                last += count;
                promised.last = last;
            }
        }
    }
}

/// What is missing after the cut, if anything.
async fn loss(disk: &Disk, promised: &Promised) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (mut entries, mut machine) = open(disk).map_err(|error| text(&error))?;
    let vote = entries.read_vote().await.map_err(|error| text(&error))?;
    if vote < promised.vote {
        return Err(format!("vote {vote:?} instead of {:?}", promised.vote));
    }
    let (applied, _) = machine.applied_state().await.map_err(|error| text(&error))?;
    let snapshot = applied.map_or(0, |id| id.index);
    if snapshot < promised.snapshot {
        return Err(format!("snapshot {snapshot} instead of {}", promised.snapshot));
    }
    let state = entries.get_log_state().await.map_err(|error| text(&error))?;
    let purged = state.last_purged_log_id.map_or(0, |id| id.index);
    if purged > snapshot {
        return Err(format!("purged up to {purged} with a snapshot of {snapshot}"));
    }
    let found = entries.try_get_log_entries(purged + 1..).await.map_err(|error| text(&error))?;
    let indexes: Vec<u64> = found.iter().map(|entry| entry.log_id.index).collect();
    let last = indexes.last().copied().unwrap_or(purged);
    if last < promised.last {
        return Err(format!("entries end at {last} instead of {}", promised.last));
    }
    if indexes != (purged + 1..=last).collect::<Vec<_>>() {
        return Err(format!("a hole after {purged}: {indexes:?}"));
    }
    Ok(())
}

/// How many of `cuts` power cuts lost something that was promised.
async fn losses(sync: Sync, cuts: u32, seed: u64) -> Vec<String> {
    let mut lost = Vec::new();
    let mut rng = StdRng::seed_from_u64(seed);
    let founded = || {
        let disk = Disk::new(Vec::new(), Sync::Honest, u32::MAX);
        drop(open(&disk).unwrap());
        disk.0.lock().unwrap().platter.durable().to_vec()
    };
    let (mut image, mut promised) = (founded(), Promised::default());
    for _ in 0..cuts {
        let disk = Disk::new(image, sync, rng.random_range(1..400));
        work_until_dark(&disk, &mut promised, &mut rng).await;
        image = disk.after_the_cut(&mut rng);
        let repaired = Disk::new(image.clone(), Sync::Honest, u32::MAX);
        if let Err(reason) = loss(&repaired, &promised).await {
            lost.push(reason);
            (image, promised) = (founded(), Promised::default());
        }
    }
    lost
}

#[tokio::test]
async fn three_hundred_power_cuts_lose_nothing_that_was_promised() {
    assert_eq!(losses(Sync::Honest, 300, 1).await, [] as [String; 0]);
}

#[tokio::test]
async fn a_disk_that_does_not_sync_is_found_out() {
    assert!(losses(Sync::Lying, 20, 2).await.len() > 5);
}

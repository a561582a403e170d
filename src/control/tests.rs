use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::raft::Log;
use super::storage::Storage;
use super::*;
use crate::clock::Clock;
use crate::desk::{ControlError, Desk};
use crate::model::edge::Contact;
use crate::model::exchange::EdgeStage;
use crate::model::ids::{EventId, Generation, LogIndex, NodeId, NodeRun};
use crate::model::ledger::{
    Change, ChangeKind, ChangeOutcome, Command, Condition, Registration, State, Step,
};
use crate::model::policy::{Fields, Submission};
use crate::model::time::FleetTime;

const NODE: NodeId = NodeId(NonZeroU16::MIN);

fn fields(capacity: u32) -> Fields {
    let text = format!(r#"{{"capacity":{capacity},"max_admit_per_sec":5,"origin":"shop"}}"#);
    let serde_json::Value::Object(map) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
    map.into()
}

fn event() -> EventId {
    "tour".parse().unwrap()
}

fn put(capacity: u32) -> Command {
    let kind = ChangeKind::Put(fields(capacity));
    let change = Change {
        now: FleetTime(7_000),
        event: event(),
        condition: Condition::Always,
        entropy: [3; 32],
        kind,
    };
    Command::Change(change)
}

#[tokio::test]
async fn a_restart_keeps_the_state_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = State::default();
    for round in 0..4u32 {
        let storage = Storage::open(dir.path()).unwrap();
        let log = Log::start(storage, NODE).await.unwrap();
        assert_eq!(log.state().read(Clone::clone), before, "round {round}");
        for capacity in 1..20 {
            log.write(put(100 * round + capacity)).await.unwrap();
        }
        before = log.state().read(Clone::clone);
        assert_eq!(before.events[&event()].policy.capacity.get(), 100 * round + 19);
        log.stop().await;
    }
}

async fn fresh(desk: &Desk) {
    await_contact(desk, Contact::Fresh).await;
}

async fn await_contact(desk: &Desk, contact: Contact) {
    for _ in 0..2_000 {
        if desk.contact() == contact {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {contact:?}");
}

fn started(dir: &std::path::Path) -> (Arc<Desk>, RunningControl) {
    let clock = Clock::start();
    let open = OpenControl::open(dir, NODE, clock).unwrap();
    let desk = Desk::new(open.run(), clock);
    let running = open.start(Arc::clone(&desk)).unwrap();
    (desk, running)
}

#[tokio::test]
async fn a_node_founds_itself_and_takes_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, running) = started(dir.path());
    fresh(&desk).await;
    let log = desk.control().unwrap();
    let created = log.change(event(), ChangeKind::Put(fields(10)), Condition::Always).await.unwrap();
    assert_eq!(created.outcome, ChangeOutcome::Created);
    assert!(created.warnings.iter().any(|warning| warning.contains("match")));
    let stale =
        log.change(event(), ChangeKind::Patch(fields(11)), Condition::Version(created.version + 1)).await;
    assert!(matches!(stale, Err(ControlError::VersionMismatch { current }) if current == created.version));
    let unknown =
        log.change("other".parse().unwrap(), ChangeKind::Patch(fields(11)), Condition::Always).await;
    assert!(matches!(unknown, Err(ControlError::NoSuchEvent)));
    let told = log.describe(event()).await.unwrap();
    assert_eq!(told["slots"]["capacity"], 10);
    assert!(!told.to_string().contains("secret"));
    assert_eq!(log.list().await.unwrap().len(), 1);
    assert!(!log.event_log(event(), LogIndex(0), 10).await.unwrap().is_empty());
    let (key, _) = log.rotate_key().await.unwrap();
    let (next, _) = log.rotate_key().await.unwrap();
    assert!(next > key);
    let mut pulses = desk.pulses();
    while desk.event(&event()).is_none() {
        pulses.changed().await.unwrap();
    }
    running.stop();
}

#[tokio::test]
async fn an_event_is_told_with_every_field_in_force_and_on_how_many_nodes_its_last_change_is() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, running) = started(dir.path());
    fresh(&desk).await;
    let log = desk.control().unwrap();
    log.change(event(), ChangeKind::Put(fields(10)), Condition::Always).await.unwrap();
    let changed = log.change(event(), ChangeKind::Admit(3), Condition::Always).await.unwrap();
    let mut told = log.describe(event()).await.unwrap();
    assert_eq!(told["in_effect"]["index"], changed.index.0);
    for _ in 0..500 {
        if told["in_effect"]["nodes"] == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        told = log.describe(event()).await.unwrap();
    }
    assert_eq!((&told["in_effect"]["nodes"], &told["in_effect"]["of"]), (&1.into(), &1.into()));
    let (stated, effective) = (&told["policy"], &told["effective"]);
    assert_eq!((&effective["capacity"], &effective["session_ttl_s"]), (&10.into(), &600.into()));
    assert!(stated.get("session_ttl_s").is_none(), "nobody stated it");
    running.stop();
}

#[tokio::test]
async fn a_restart_with_the_same_file_keeps_a_live_change() {
    let dir = tempfile::tempdir().unwrap();
    let submit = || ChangeKind::Submit(Submission { controller: NODE, fields: fields(10) });
    for round in 0..3 {
        let (desk, running) = started(dir.path());
        fresh(&desk).await;
        let log = desk.control().unwrap();
        let submitted = log.change(event(), submit(), Condition::Always).await.unwrap();
        if round == 0 {
            log.change(event(), ChangeKind::Patch(fields(20)), Condition::Always).await.unwrap();
        } else {
            assert_eq!(submitted.outcome, ChangeOutcome::Unchanged);
            assert_eq!(submitted.merged.unwrap().overridden, ["capacity"]);
        }
        assert_eq!(log.describe(event()).await.unwrap()["slots"]["capacity"], 20);
        running.stop();
    }
}

#[tokio::test]
async fn an_idle_node_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, running) = started(dir.path());
    fresh(&desk).await;
    let log = desk.control().unwrap();
    log.change(event(), ChangeKind::Put(fields(10)), Condition::Always).await.unwrap();
    let path = dir.path().join("control.redb");
    let mut pulses = desk.pulses();
    let look = || (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    let mut quiet = 0;
    let mut last = look();
    // The first pulses may still settle what the start brought along.
    for _ in 0..40 {
        pulses.changed().await.unwrap();
        let now = look();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        if quiet == 12 {
            break;
        }
    }
    assert_eq!(quiet, 12, "the file goes on changing");
    running.stop();
}

#[tokio::test]
async fn a_node_that_drains_says_when_it_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, running) = started(dir.path());
    fresh(&desk).await;
    desk.set_stage(EdgeStage::Draining);
    desk.report_wanted().notify_one();
    tokio::time::timeout(Duration::from_secs(10), running.drained().wait()).await.unwrap();
    running.stop();
    let log = Log::start(Storage::open(dir.path()).unwrap(), NODE).await.unwrap();
    assert_eq!(log.state().read(|state| state.runs.len()), 0, "a clean end is a log entry");
    log.stop().await;
}

/// A disk in memory that can be full.
#[derive(Clone, Debug)]
struct Filling {
    disk: Arc<InMemoryBackend>,
    full: Arc<AtomicBool>,
}

impl Filling {
    fn room(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Filling {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room()?;
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.room()?;
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room()?;
        self.disk.write(offset, data)
    }
}

#[tokio::test]
async fn a_full_disk_freezes_admission_until_there_is_room_again() {
    let full = Arc::new(AtomicBool::new(false));
    let disk = Filling { disk: Arc::new(InMemoryBackend::new()), full: Arc::clone(&full) };
    let clock = Clock::start();
    let desk = Desk::new(NodeRun { node: NODE, generation: Generation(1) }, clock);
    let reopen = {
        let disk = disk.clone();
        move || Storage::on_backend(disk.clone())
    };
    let storage = Storage::on_backend(disk).unwrap();
    let running = service::start(storage, reopen, clock, Arc::clone(&desk)).unwrap();
    fresh(&desk).await;
    let log = desk.control().unwrap();
    log.change(event(), ChangeKind::Put(fields(10)), Condition::Always).await.unwrap();
    full.store(true, Ordering::SeqCst);
    let refused = log.change(event(), ChangeKind::Patch(fields(20)), Condition::Always).await;
    assert!(matches!(refused, Err(ControlError::Unknown)), "{refused:?}");
    await_contact(&desk, Contact::CutOff).await;
    let refused = log.change(event(), ChangeKind::Patch(fields(20)), Condition::Always).await;
    let Err(ControlError::Unavailable(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("full") || reason.contains("space"), "{reason}");
    full.store(false, Ordering::SeqCst);
    fresh(&desk).await;
    let changed = log.change(event(), ChangeKind::Patch(fields(30)), Condition::Always).await.unwrap();
    assert_eq!(changed.outcome, ChangeOutcome::Updated);
    running.stop();
}

#[tokio::test]
async fn an_outdated_run_is_not_registered() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::start(Storage::open(dir.path()).unwrap(), NODE).await.unwrap();
    let register = |generation| Command::Register {
        run: NodeRun { node: NODE, generation: Generation(generation) },
        now: FleetTime(1),
    };
    log.write(register(5)).await.unwrap();
    let outcome = log.write(register(5)).await.unwrap();
    assert_eq!(outcome.steps, [Step::Registered(Registration::Outdated)]);
    log.stop().await;
}

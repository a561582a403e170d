//! The real binary in a directory of its own, an origin behind it, and what visitors saw.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;
use std::thread::JoinHandle;

use anteroom_load::check::{EventLog, Rules, Verdict, judge};
use anteroom_load::clock::Clock;
use anteroom_load::history::{Record, Recorder, read_all};
use anteroom_load::origin::Origin;
use anteroom_load::subject::{Plan, Subject, binary};
use anteroom_load::visitor::{Addresses, Idle, World};
use anteroom_load::wire::{Edges, Site};
use tokio::sync::OnceCell;

/// Asks cargo for the binary, once, unless it is named in `ANTEROOM_BIN`.
pub(crate) async fn built() -> PathBuf {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let build = async || {
        if std::env::var_os("ANTEROOM_BIN").is_none() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
            let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
            let mut build = tokio::process::Command::new(cargo);
            // What cargo tells a test of its package would make build scripts run again, and all that depends on them.
            let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            for (name, _) in std::env::vars().filter(|(name, _)| told(name)) {
                build.env_remove(name);
            }
            let built = build
                .args(["build", "--quiet", "--package", "anteroom", "--bin", "anteroom"])
                .current_dir(root)
                .status();
            assert!(built.await.unwrap().success(), "the binary could not be built");
        }
        binary().unwrap()
    };
    BUILT.get_or_init(build).await.clone()
}

/// The event that is judged.
const EVENT: &str = "sale";

/// A waiting room, and the visitors' world around it.
pub(crate) struct Room {
    pub(crate) subject: Subject,
    world: Arc<World>,
    name: String,
    origin: Origin,
    writer: JoinHandle<std::io::Result<u64>>,
    directory: Directory,
}

/// Goes away with its owner, unless something is to be found out in it or `ANTEROOM_KEEP` is set.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        if !std::thread::panicking() && std::env::var_os("ANTEROOM_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl Room {
    /// Opens a room with these events of a configuration file, one of them named "sale".
    pub(crate) async fn open(name: &str, events: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("anteroom-room-{}-{name}", std::process::id()));
        let origin = Origin::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let plan = Plan::new(&built().await, &directory, origin.address, events).unwrap();
        let subject = Subject::start(plan).await.unwrap();
        let (recorder, writer) = Recorder::create(&directory.join("history.jsonl")).unwrap();
        let world = Arc::new(World {
            edges: Edges::one(Site::new(&subject.plan.target(), None, None).unwrap()),
            clock: Clock::start(),
            recorder,
            idle: Idle::Keep,
            addresses: Addresses::Many,
        });
        Self { subject, world, name: name.to_owned(), origin, writer, directory: Directory(directory) }
    }

    /// The world of a visitor; all of them must have gone before the room closes.
    pub(crate) fn world(&self) -> Arc<World> {
        Arc::clone(&self.world)
    }

    /// Judges what visitors saw, by the contract: a violation fails the test.
    pub(crate) async fn close(self, rules: &Rules) -> (Verdict, Vec<Record>) {
        let Self { subject, world, name, origin, writer, directory: kept } = self;
        let directory = &kept.0;
        assert_eq!(Arc::strong_count(&world), 1, "a visitor is still here");
        drop(world);
        writer.join().unwrap().unwrap();
        let log = subject.plan.operator().unwrap().event_log_json(EVENT).await.unwrap();
        assert_eq!(origin.counts.leaked.load(Atomic::Relaxed), 0, "tokens reached the origin");
        judged(directory, &name, log, rules)
    }
}

/// Judges the history in a directory, with the event's log: a violation fails the test.
pub(crate) fn judged(
    directory: &Path,
    name: &str,
    log: Vec<serde_json::Value>,
    rules: &Rules,
) -> (Verdict, Vec<Record>) {
    std::fs::write(directory.join("log.json"), serde_json::to_vec(&log).unwrap()).unwrap();
    let mut event_log = EventLog::default();
    event_log.take(&serde_json::Value::Array(log));
    let records = read_all(&[directory.join("history.jsonl")]).unwrap();
    let verdict = judge(&records, &event_log, rules);
    let report = verdict.render(&records);
    std::fs::write(directory.join("verdict.txt"), &report).unwrap();
    println!("{name}: in {}\n{report}", directory.display());
    let broken: Vec<_> =
        verdict.violations.iter().map(|violation| (violation.line, &violation.what)).collect();
    assert!(broken.is_empty(), "{name}: {broken:#?}");
    (verdict, records)
}

//! What a tick costs the leader when the line is long: reports, plan, apply and pulses for ten thousand buckets and
//! three edges.

use std::num::NonZeroU16;

use anteroom::model::exchange::{BucketCount, EdgeStage, EventReport, Presence, Report};
use anteroom::model::ids::{EventId, Generation, LineEpoch, LogIndex, NodeId, NodeRun, Tenure, Term};
use anteroom::model::leader::Leader;
use anteroom::model::ledger::{Change, ChangeKind, Command, Condition, State};
use anteroom::model::order::{BucketStart, SLICES};
use anteroom::model::policy::Fields;
use anteroom::model::presence::Window;
use anteroom::model::time::{BootTime, FleetTime};
use criterion::{Criterion, criterion_group, criterion_main};

const BUCKETS: u32 = 10_000;
const START: u64 = 1_800_000_000_000;

fn run(node: u16) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::MIN.saturating_add(node)), generation: Generation(1) }
}

fn count(bucket: u32, waiting: u32) -> BucketCount {
    let alive = i32::try_from(waiting).unwrap_or(i32::MAX);
    let slices = if bucket < 4 { vec![alive / 64; SLICES] } else { Vec::new() };
    let seen = vec![Presence { window: Window::from_number(u32::MAX), alive, slices }];
    BucketCount { bucket: BucketStart(bucket), joined: waiting, returned: 0, seen, full: true }
}

fn report(event: &EventId, run: NodeRun, number: u64, counts: Vec<BucketCount>) -> Report {
    let event = EventReport {
        event: event.clone(),
        line: LineEpoch(0),
        outbox: Vec::new(),
        extend: Vec::new(),
        revoke: Vec::new(),
        window: Window::default(),
        counts,
        put_in_line: true,
        wants_bucket: false,
        held: 3,
        called_asking: 5,
        called_last_minute: 1000,
        claimed_last_minute: 800,
        admitted_last_minute: 0,
        express_rate: 0.0,
    };
    Report {
        run,
        number,
        sent: BootTime(0),
        upper: FleetTime(0),
        pulse_seen: None,
        live_index: LogIndex(0),
        keys_version: 0,
        stage: EdgeStage::Serving,
        events: vec![event],
    }
}

fn ticks(criterion: &mut Criterion) {
    let Ok(event) = "tour".parse::<EventId>() else { return };
    let fields = [("capacity", "1000000"), ("max_admit_per_sec", "100")];
    let fields = Fields(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let kind = ChangeKind::Put(fields);
    let now = FleetTime(START);
    let mut state = State::default();
    let change = Change { now, event: event.clone(), condition: Condition::Always, entropy: [1; 32], kind };
    state.apply(LogIndex(1), &Command::Change(change));
    for node in 0..3 {
        state.apply(LogIndex(2 + u64::from(node)), &Command::Register { run: run(node), now });
    }
    let mut leader = Leader::begin(Tenure { term: Term(1), ..Tenure::default() }, &state);
    for node in 0..3 {
        let counts = (0..BUCKETS).map(|bucket| count(bucket, 640)).collect();
        leader.take(report(&event, run(node), 1, counts), BootTime(3_000));
    }
    let mut boot = 3_000;
    let mut index = 4;
    let mut step = |reported: &[u32]| {
        boot += 250;
        index += 1;
        let (now, at) = (FleetTime(START + boot), BootTime(boot));
        for node in 0..3 {
            let counts = reported.iter().map(|bucket| count(*bucket, 600 + u32::from(node))).collect();
            leader.take(report(&event, run(node), index, counts), at);
        }
        let tick = leader.plan(&state, now, at);
        let outcome = state.apply(LogIndex(index), &Command::Tick(tick));
        leader.applied(&state, &outcome, at);
        (0..3).map(|node| leader.pulse(&state, run(node), now, at)).collect::<Vec<_>>()
    };
    // The first ticks state every row, and once more when their buckets have closed.
    (0..20).for_each(|_| drop(step(&[0])));
    criterion.bench_function("tick over 10,000 buckets", |bencher| {
        bencher.iter(|| step(&[0, 1, 2, 3, 5_000]));
    });
}

criterion_group!(benches, ticks);
criterion_main!(benches);

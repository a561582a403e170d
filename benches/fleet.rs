//! What a leader of 300 edges bears: bytes of reports and pulses, and its time on a core, while visitors of several
//! events are at every edge. Edges and leader are the real ones, in simulated time; TLS and the disk are not in it.
//!
//! `cargo bench --bench fleet`: a table for docs/fleet.md.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anteroom::clock::{Clock, Hands};
use anteroom::desk::{Attendance, Desk, JoinAnswer, StatusAnswer};
use anteroom::model::exchange::{Pulse, Report};
use anteroom::model::ids::{
    EventId, Generation, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, Tenure, Term,
};
use anteroom::model::leader::Leader;
use anteroom::model::ledger::{Change, ChangeKind, Command, Condition, KeyRecord, State};
use anteroom::model::policy::Fields;
use anteroom::model::time::{BootTime, FleetTime, TICK};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

const EDGES: u16 = 300;

/// Visitors of each event, who come within the first seconds.
const VISITORS: usize = 6_000;
const ARRIVAL: Duration = Duration::from_secs(15);

/// What is measured, once everybody is there.
const WARMING_TICKS: u32 = 100;
const MEASURED_TICKS: u32 = 240;

static HANDS: Hands = Hands::at(BootTime(1_000_000), FleetTime(1_800_000_000_000));

/// A visitor on the way from the shop to a pass; each asks a door of its own.
struct Visitor {
    event: usize,
    door: usize,
    ticket: Option<String>,
    asks_at: FleetTime,
}

/// What a visitor was told.
enum Told {
    Wait { ticket: String, asks_after: Duration },
    Retry,
    Done,
}

#[derive(Default)]
struct Load {
    reports_bytes: usize,
    pulses_bytes: usize,
    longest_report: usize,
    longest_pulse: usize,
    at_work: Duration,
    longest_turn: Duration,
}

struct Fleet {
    clock: Clock,
    state: State,
    leader: Leader,
    doors: Vec<Arc<Desk>>,
    events: Vec<EventId>,
    load: Load,
}

fn run(node: u16) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::MIN.saturating_add(node)), generation: Generation(1) }
}

impl Fleet {
    fn new(events: usize) -> Self {
        let clock = Clock::moved_by(&HANDS);
        let now = clock.wall();
        let events: Vec<EventId> =
            (0..events).filter_map(|number| format!("sale-{number}").parse().ok()).collect();
        let key =
            KeyRecord { id: KeyId(0), secret: [7; 32], made_at: now, signs_from: now, verifies_until: None };
        let mut commands = vec![Command::Found { epoch: LedgerEpoch(1), now, key }];
        commands.extend((0..EDGES).map(|node| Command::Register { run: run(node), now }));
        commands.extend(events.iter().map(|event| {
            let fields = [("capacity", "10000"), ("max_admit_per_sec", "20")];
            let fields = Fields(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
            let kind = ChangeKind::Put(fields);
            let (event, condition) = (event.clone(), Condition::Always);
            Command::Change(Change { now, event, condition, entropy: [9; 32], kind })
        }));
        let mut state = State::default();
        state.apply(LogIndex(1), &Command::Batch(commands));
        let leader =
            Leader::begin(Tenure { term: Term(1), generation: Generation(1), began: clock.boot() }, &state);
        let doors = (0..EDGES).map(|node| Desk::new(run(node), clock)).collect();
        Self { clock, state, leader, doors, events, load: Load::default() }
    }

    /// One turn of the leader, as bytes come and go.
    fn turn(&mut self) {
        let reports: Vec<Vec<u8>> =
            self.doors.iter().filter_map(|door| postcard::to_stdvec(&door.report()).ok()).collect();
        let (pulses, took) = timed(|| self.lead(&reports));
        self.load.at_work += took;
        self.load.longest_turn = self.load.longest_turn.max(took);
        for (door, pulse) in self.doors.iter().zip(&pulses) {
            if let Ok(pulse) = postcard::from_bytes::<Pulse>(pulse) {
                door.take(pulse);
            }
        }
        self.load.reports_bytes += reports.iter().map(Vec::len).sum::<usize>();
        self.load.pulses_bytes += pulses.iter().map(Vec::len).sum::<usize>();
        self.load.longest_report = reports.iter().map(Vec::len).fold(self.load.longest_report, usize::max);
        self.load.longest_pulse = pulses.iter().map(Vec::len).fold(self.load.longest_pulse, usize::max);
    }

    fn lead(&mut self, reports: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (now, boot) = (self.clock.wall(), self.clock.boot());
        for report in reports.iter().filter_map(|report| postcard::from_bytes::<Report>(report).ok()) {
            self.leader.take(report, boot);
        }
        let tick = self.leader.plan(&self.state, now, boot);
        if !tick.is_empty() {
            let outcome = self.state.apply(LogIndex(self.state.index.0 + 1), &Command::Tick(tick));
            self.leader.applied(&self.state, &outcome, boot);
        }
        (0..EDGES)
            .filter_map(|node| {
                postcard::to_stdvec(&self.leader.pulse(&self.state, run(node), now, boot)).ok()
            })
            .collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed())
}

/// What happens when a visitor asks; the door may keep the answer until there is news.
async fn ask(door: Arc<Desk>, event: EventId, ticket: Option<String>) -> Told {
    let Some(ticket) = ticket else {
        return match door.join(&event, None).await {
            JoinAnswer::Waiting(waiting) => {
                Told::Wait { ticket: waiting.ticket, asks_after: waiting.poll_after }
            }
            JoinAnswer::Retry(_) => Told::Retry,
            JoinAnswer::Admitted(_) | JoinAnswer::Refused(_) => Told::Done,
        };
    };
    match door.status(&event, &ticket, Attendance::Asking).await {
        StatusAnswer::Waiting(waiting) => {
            Told::Wait { ticket: waiting.ticket, asks_after: waiting.poll_after }
        }
        StatusAnswer::Unavailable(asks_after) => Told::Wait { ticket, asks_after },
        StatusAnswer::Admitted(_) | StatusAnswer::Ended(_) | StatusAnswer::Invalid => Told::Done,
    }
}

/// Lets everybody ask who is due, and time pass until the next tick.
async fn crowd(fleet: &Fleet, visitors: &mut [Visitor], asking: &mut JoinSet<(usize, Told)>) {
    let now = fleet.clock.wall();
    for (number, visitor) in visitors.iter_mut().enumerate().filter(|(_, visitor)| visitor.asks_at <= now) {
        visitor.asks_at = FleetTime(u64::MAX);
        let (Some(door), Some(event)) = (fleet.doors.get(visitor.door), fleet.events.get(visitor.event))
        else {
            continue;
        };
        let (door, event, ticket) = (Arc::clone(door), event.clone(), visitor.ticket.take());
        asking.spawn(async move { (number, ask(door, event, ticket).await) });
    }
    tokio::time::sleep(TICK).await;
    HANDS.advance(TICK);
    while let Some(Ok((number, told))) = asking.try_join_next() {
        let Some(visitor) = visitors.get_mut(number) else { continue };
        match told {
            Told::Wait { ticket, asks_after } => {
                visitor.ticket = Some(ticket);
                visitor.asks_at = now.after(asks_after);
            }
            Told::Retry => visitor.asks_at = now.after(TICK),
            Told::Done => {}
        }
    }
}

async fn measure(events: usize) {
    let mut fleet = Fleet::new(events);
    let mut rng = SmallRng::seed_from_u64(7);
    let mut visitors: Vec<Visitor> = (0..events * VISITORS)
        .map(|number| Visitor {
            event: number % events,
            door: rng.random_range(0..usize::from(EDGES)),
            ticket: None,
            asks_at: fleet.clock.wall().after(ARRIVAL.mul_f64(rng.random())),
        })
        .collect();
    let mut asking = JoinSet::new();
    for _ in 0..WARMING_TICKS {
        fleet.turn();
        crowd(&fleet, &mut visitors, &mut asking).await;
    }
    fleet.load = Load::default();
    for _ in 0..MEASURED_TICKS {
        fleet.turn();
        crowd(&fleet, &mut visitors, &mut asking).await;
    }
    tell(events, &fleet);
}

fn tell(events: usize, fleet: &Fleet) {
    let seconds = TICK.as_secs_f64() * f64::from(MEASURED_TICKS);
    let per_node = |bytes: usize| bytes as f64 / seconds / f64::from(EDGES) / 1024.0;
    let load = &fleet.load;
    println!(
        "| {EDGES} | {events} | {:.1} KB/s | {:.1} KB/s | {:.1} KB | {:.1} KB | {:.1} ms | {:.1} ms | {:.1} % |",
        per_node(load.reports_bytes),
        per_node(load.pulses_bytes),
        load.longest_report as f64 / 1024.0,
        load.longest_pulse as f64 / 1024.0,
        load.at_work.as_secs_f64() * 1000.0 / f64::from(MEASURED_TICKS),
        load.longest_turn.as_secs_f64() * 1000.0,
        load.at_work.as_secs_f64() * 100.0 / seconds,
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let Ok(runtime) = runtime else { return };
    println!(
        "| edges | events | reports, of each edge | pulses, to each edge | longest report | longest pulse | turn | longest turn | of a core |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for events in [1, 4, 16] {
        runtime.block_on(measure(events));
    }
}

//! What a waiting visitor's poll costs: to verify and judge a ticket (at most 1 µs on one core of a current server), to
//! verify and sign it anew (2 µs), and the whole answer of the desk.

use std::future::Future;
use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anteroom::clock::Clock;
use anteroom::desk::{Attendance, Desk, JoinAnswer};
use anteroom::model::edge::{Contact, Scene, judge};
use anteroom::model::exchange::EventPulse;
use anteroom::model::ids::{
    EventId, Generation, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, Tenure, Term,
};
use anteroom::model::leader::Leader;
use anteroom::model::ledger::{Change, ChangeKind, Command, Condition, KeyRecord, LiveSet, State};
use anteroom::model::order::{Draws, KeyBase};
use anteroom::model::policy::Fields;
use anteroom::model::time::FleetTime;
use anteroom::model::token::Keyring;
use criterion::{Criterion, criterion_group, criterion_main};

const LEDGER: LedgerEpoch = LedgerEpoch(3);

/// One node with a full room and a visitor in line.
struct House {
    state: State,
    leader: Leader,
    desk: Arc<Desk>,
    clock: Clock,
    event: EventId,
    key: KeyRecord,
}

impl House {
    fn new() -> Option<Self> {
        let clock = Clock::start();
        let now = clock.wall();
        let run = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(1) };
        let event: EventId = "tour".parse().ok()?;
        let key =
            KeyRecord { id: KeyId(0), secret: [7; 32], made_at: now, signs_from: now, verifies_until: None };
        let policy = serde_json::json!({ "capacity": 1, "max_admit_per_sec": 100, "heartbeat_ttl_s": 3600 });
        let fields = Fields::from(policy.as_object()?.clone());
        let kind = ChangeKind::Put(fields);
        let change =
            Change { now, event: event.clone(), condition: Condition::Always, entropy: [9; 32], kind };
        let mut state = State::default();
        let founding = vec![
            Command::Found { epoch: LEDGER, now, key },
            Command::Register { run, now },
            Command::Change(change),
        ];
        state.apply(LogIndex(1), &Command::Batch(founding));
        let key = state.keys.records().first()?.clone();
        let leader =
            Leader::begin(Tenure { term: Term(1), generation: run.generation, began: clock.boot() }, &state);
        let mut house = Self { state, leader, desk: Desk::new(run, clock), clock, event, key };
        (0..3).for_each(|_| house.round());
        Some(house)
    }

    fn now(&self) -> FleetTime {
        self.clock.wall()
    }

    fn round(&mut self) {
        let (now, boot) = (self.now(), self.clock.boot());
        self.leader.take(self.desk.report(), boot);
        let tick = self.leader.plan(&self.state, now, boot);
        if !tick.is_empty() {
            let outcome = self.state.apply(LogIndex(self.state.index.0 + 1), &Command::Tick(tick));
            self.leader.applied(&self.state, &outcome, boot);
        }
        self.desk.take(self.leader.pulse(&self.state, self.desk.run(), now, boot));
    }

    fn pulse(&mut self) -> Option<EventPulse> {
        let (now, boot) = (self.now(), self.clock.boot());
        self.leader.pulse(&self.state, self.desk.run(), now, boot).events.pop()
    }

    fn join(&mut self) -> Option<JoinAnswer> {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        let mut answer = pin!(desk.join(&event, None));
        for _ in 0..200 {
            if let Some(answer) = ready(answer.as_mut()) {
                return Some(answer);
            }
            self.round();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        None
    }

    /// A ticket whose key is made by a draw.
    fn ticket(&mut self) -> Option<String> {
        self.join()?;
        match self.join()? {
            JoinAnswer::Waiting(waiting) => Some(waiting.ticket),
            _ => None,
        }
    }
}

fn ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn polls(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let _entered = runtime.enter();
    let Some(mut house) = House::new() else { return };
    let Some(token) = house.ticket() else { return };
    house.round();
    let Some(pulse) = house.pulse() else { return };
    let now = house.now();
    let Some(ring) = Keyring::new(std::slice::from_ref(&house.key), now) else { return };
    let Ok(ticket) = ring.verify_ticket(&house.event, LEDGER, &token) else { return };
    assert!(matches!(ticket.base, KeyBase::Drawn { .. }), "the key is the dearest part");
    let mut draws = Draws::new(pulse.draw_secret, None);
    draws.warm(pulse.buckets.iter().copied());
    let live = LiveSet::default();
    let scene = Scene {
        policy: &pulse.policy,
        line: pulse.line,
        live: &live,
        draws: &draws,
        watermark: pulse.watermark,
        open_bucket: pulse.buckets.last().copied(),
        spans: &[],
        contact: Contact::Fresh,
        now,
    };
    criterion.bench_function("poll/verify and judge", |bencher| {
        bencher.iter(|| {
            let ticket = ring.verify_ticket(&house.event, LEDGER, std::hint::black_box(&token));
            ticket.map(|ticket| judge(&ticket, &scene))
        });
    });
    criterion.bench_function("poll/verify and sign anew", |bencher| {
        bencher.iter(|| {
            let ticket = ring.verify_ticket(&house.event, LEDGER, std::hint::black_box(&token));
            ticket.map(|ticket| ring.sign(&house.event, LEDGER, &ticket))
        });
    });
    criterion.bench_function("poll/the desk's answer", |bencher| {
        bencher.iter(|| {
            let answer = pin!(house.desk.status(&house.event, &token, Attendance::Asking));
            ready(answer)
        });
    });
}

criterion_group!(benches, polls);
criterion_main!(benches);

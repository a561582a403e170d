//! One node without its sockets and its disk: the real desk, leader and ledger, on a clock that the test moves.

use std::future::{Future, poll_fn};
use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;

use crate::clock::{Clock, Hands};
use crate::desk::{
    Activity, Attendance, Desk, ExpressAnswer, ExpressKind, IssuedPass, JoinAnswer, PassAnswer, StatusAnswer,
    Waiting,
};
use crate::model::ids::{EventId, Generation, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, Tenure, Term};
use crate::model::leader::Leader;
use crate::model::ledger::{Change, ChangeKind, Command, Condition, KeyRecord, State, Step};
use crate::model::policy::Fields;
use crate::model::time::{BootTime, FleetTime};

const START: u64 = 1_800_000_000_000;

/// How far a test moves on while it waits for an answer.
const STEP: Duration = Duration::from_millis(20);

/// A visitor and its cookies.
#[derive(Clone, Debug, Default)]
pub(super) struct Visitor {
    pub(super) place: Option<String>,
    pub(super) pass: Option<IssuedPass>,
}

pub(super) struct House {
    pub(super) state: State,
    pub(super) desk: Arc<Desk>,
    /// The other nodes of the fleet, from the second on.
    pub(super) others: Vec<Arc<Desk>>,
    pub(super) event: EventId,
    leader: Leader,
    clock: Clock,
    hands: &'static Hands,
    generation: u32,
    pub(super) leads: bool,
    /// Ends that were put into the log.
    pub(super) revoked: usize,
}

fn run(generation: u32) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(generation) }
}

fn run_of(node: u16) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::new(node).unwrap()), ..run(1) }
}

fn fields(policy: Value) -> Fields {
    policy.as_object().cloned().unwrap().into()
}

/// The one node leads one term for good: alone it is elected once.
fn tenure(generation: u32, began: BootTime) -> Tenure {
    Tenure { term: Term(1), generation: Generation(generation), began }
}

impl House {
    pub(super) fn new(policy: Value) -> Self {
        Self::fleet(1, policy)
    }

    /// So many nodes, the first of which leads.
    pub(super) fn fleet(nodes: u16, policy: Value) -> Self {
        let now = FleetTime(START + 1_000);
        let hands: &'static Hands = Box::leak(Box::new(Hands::at(BootTime(1_000), now)));
        let clock = Clock::moved_by(hands);
        let mut state = State::default();
        let key =
            KeyRecord { id: KeyId(0), secret: [7; 32], made_at: now, signs_from: now, verifies_until: None };
        let found = Command::Found { epoch: LedgerEpoch(3), now, key };
        let register = (1..=nodes).map(|node| Command::Register { run: run_of(node), now });
        state.apply(LogIndex(1), &Command::Batch(std::iter::once(found).chain(register).collect()));
        let leader = Leader::begin(tenure(1, clock.boot()), &state);
        let desk = Desk::new(run(1), clock);
        let others = (2..=nodes).map(|node| Desk::new(run_of(node), clock)).collect();
        let event = "tour".parse().unwrap();
        let mut house =
            Self { state, desk, others, event, leader, clock, hands, generation: 1, leads: true, revoked: 0 };
        house.change(ChangeKind::Put(fields(policy)));
        (0..3).for_each(|_| house.round());
        house
    }

    pub(super) fn now(&self) -> FleetTime {
        FleetTime(START + self.clock.boot().0)
    }

    /// The process dies and comes back: everything but the ledger is lost.
    pub(super) fn restart(&mut self) {
        self.generation += 1;
        let generation = self.generation;
        self.apply(&Command::Register { run: run(generation), now: self.now() });
        self.leader = Leader::begin(tenure(generation, self.clock.boot()), &self.state);
        self.desk = Desk::new(run(generation), self.clock);
        (0..3).for_each(|_| self.round());
    }

    pub(super) fn patch(&mut self, policy: Value) {
        self.change(ChangeKind::Patch(fields(policy)));
        self.round();
    }

    pub(super) fn change(&mut self, kind: ChangeKind) {
        let change = Change {
            now: self.now(),
            event: self.event.clone(),
            condition: Condition::Always,
            entropy: [9; 32],
            kind,
        };
        self.apply(&Command::Change(change));
    }

    fn apply(&mut self, command: &Command) {
        let before = self.state.events.get(&self.event).map_or(0, |event| event.pool.occupied());
        let outcome = self.state.apply(LogIndex(self.state.index.0 + 1), command);
        let refused = |step: &Step| matches!(step, Step::Changed(Err(_)));
        assert!(!outcome.steps.iter().any(refused), "{outcome:?}");
        self.leader.applied(&self.state, &outcome, self.clock.boot());
        if let Some(event) = self.state.events.get(&self.event) {
            let occupied = event.pool.occupied();
            assert!(occupied <= event.policy.capacity.get().max(before), "{occupied} slots are promised");
        }
    }

    /// One exchange between desks and leader.
    pub(super) fn round(&mut self) {
        let (now, boot) = (self.now(), self.clock.boot());
        let desks: Vec<_> = std::iter::once(&self.desk).chain(&self.others).cloned().collect();
        desks.iter().for_each(|desk| self.leader.take(desk.report(), boot));
        let tick = self.leader.plan(&self.state, now, boot);
        if !tick.is_empty() {
            self.revoked += tick.events.iter().map(|event| event.revoke.len()).sum::<usize>();
            self.apply(&Command::Tick(tick));
        }
        for desk in desks {
            desk.take(self.leader.pulse(&self.state, desk.run(), now, boot));
        }
    }

    /// The node of this number, counted from 0 and around.
    pub(super) fn at(&self, node: usize) -> Arc<Desk> {
        let all = std::iter::once(&self.desk).chain(&self.others);
        Arc::clone(all.cycle().nth(node).unwrap())
    }

    /// Time passes, and the leader leads if it does.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.clock.boot().after(time);
        while self.clock.boot() < until {
            let step =
                u64::try_from(until.since(self.clock.boot()).min(Duration::from_millis(250)).as_millis());
            self.hands.advance(Duration::from_millis(step.unwrap()));
            if self.leads {
                self.round();
            }
        }
    }

    /// Time passes and nobody hears of it.
    pub(super) fn drift(&self, time: Duration) {
        self.hands.advance(time);
    }

    /// Passes minted here so far.
    pub(super) fn minted(&self) -> u64 {
        self.desk.figures().events[0].mints_total
    }

    /// Waits for an answer while the node goes on.
    pub(super) async fn wait<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        for turn in 0..2_000 {
            let polled = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
            if let Poll::Ready(answer) = polled {
                return answer;
            }
            self.pass(STEP);
            if turn < 50 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        panic!("no answer in time");
    }

    pub(super) async fn join(&mut self, visitor: &mut Visitor) -> JoinAnswer {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        let shown = visitor.place.clone();
        let answer = self.wait(desk.join(&event, shown.as_deref())).await;
        match &answer {
            JoinAnswer::Waiting(waiting) => visitor.place = Some(waiting.ticket.clone()),
            JoinAnswer::Admitted(pass) => visitor.pass = Some(pass.clone()),
            JoinAnswer::Retry(_) | JoinAnswer::Refused(_) => {}
        }
        answer
    }

    /// A newcomer who is let in at once.
    pub(super) async fn enters(&mut self) -> Visitor {
        let mut visitor = Visitor::default();
        let answer = self.join(&mut visitor).await;
        assert!(matches!(answer, JoinAnswer::Admitted(_)), "{answer:?}");
        visitor
    }

    /// A newcomer who is put in line.
    pub(super) async fn queues(&mut self) -> Visitor {
        let mut visitor = Visitor::default();
        let answer = self.join(&mut visitor).await;
        assert!(matches!(answer, JoinAnswer::Waiting(_)), "{answer:?}");
        visitor
    }

    pub(super) async fn poll_as(&mut self, visitor: &mut Visitor, attendance: Attendance) -> StatusAnswer {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        let shown = visitor.place.clone().unwrap();
        let answer = self.wait(desk.status(&event, &shown, attendance)).await;
        match &answer {
            StatusAnswer::Waiting(waiting) => visitor.place = Some(waiting.ticket.clone()),
            StatusAnswer::Admitted(pass) => visitor.pass = Some(pass.clone()),
            StatusAnswer::Ended(_) | StatusAnswer::Invalid | StatusAnswer::Unavailable(_) => {}
        }
        answer
    }

    pub(super) async fn poll(&mut self, visitor: &mut Visitor) -> StatusAnswer {
        self.poll_as(visitor, Attendance::Asking).await
    }

    pub(super) async fn polls_in_line(&mut self, visitor: &mut Visitor) -> Box<Waiting> {
        match self.poll(visitor).await {
            StatusAnswer::Waiting(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    /// Polls every second until the visitor is let in.
    pub(super) async fn polls_until_admitted(&mut self, visitor: &mut Visitor) -> IssuedPass {
        for _ in 0..30 {
            match self.poll(visitor).await {
                StatusAnswer::Admitted(pass) => return pass,
                StatusAnswer::Waiting(_) => self.pass(Duration::from_secs(1)),
                other => panic!("{other:?}"),
            }
        }
        panic!("not admitted in time");
    }

    pub(super) async fn shows(&mut self, pass: &IssuedPass) -> PassAnswer {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        let token = pass.token.clone();
        self.wait(desk.check_pass(&event, &[&token], Activity::Navigation)).await
    }

    pub(super) async fn is_let_through(&mut self, pass: &IssuedPass) -> bool {
        matches!(self.shows(pass).await, PassAnswer::Valid { .. })
    }

    pub(super) async fn express(&mut self, kind: ExpressKind) -> ExpressAnswer {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        self.wait(desk.express(&event, kind)).await
    }

    pub(super) async fn leaves(&mut self, visitor: &Visitor) {
        let (desk, event) = (Arc::clone(&self.desk), self.event.clone());
        let passes: Vec<_> = visitor.pass.iter().map(|pass| pass.token.as_str()).collect();
        let places: Vec<_> = visitor.place.iter().map(String::as_str).collect();
        self.wait(desk.leave(&event, &places, &passes)).await;
        self.pass(Duration::from_secs(1));
    }

    pub(super) fn occupied(&self) -> u32 {
        self.state.events[&self.event].pool.occupied()
    }

    pub(super) fn waiting(&self) -> u32 {
        self.desk.figures().events[0].waiting
    }
}

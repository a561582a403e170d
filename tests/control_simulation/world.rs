//! The world of a run: the nodes, the network, the visitors, what the script does to them, and true time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use anteroom::desk::{ControlError, FleetDeed};
use anteroom::model::edge::Contact;
use anteroom::model::ids::{EventId, TicketId};
use anteroom::model::ledger::{ChangeKind, Condition};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;

use super::disk::Honesty;
use super::net::{Link, Net, address_of};
use super::node::{Death, Node, STEP_MS, node_id};
use super::oracle::{Oracle, Violation};
use super::script::{END_MS, Fault, MENDED_MS, Script, fields};
use super::visitors::Visitor;
use super::{Defect, steps};

pub(crate) const CAPACITY: u32 = 12;
pub(crate) const MAX_ADMIT_PER_SEC: u32 = 6;
pub(crate) const HEARTBEAT_TTL_MS: u64 = 8_000;

/// How many come, and until when.
const VISITORS: u64 = 110;
const COME_FROM_MS: u64 = 1_000;
const COME_UNTIL_MS: u64 = 25_000;

/// How long a fleet may take to be founded.
const FOUNDED_MS: u64 = 20_000;

/// After this long nothing stands in the way of admissions once everything is mended: what nodes counted before they
/// ended stands in for what they count anew for one and a half times the heartbeat.
const RECOVERED_MS: u64 = HEARTBEAT_TTL_MS * 3 / 2 + 2_000;

/// An operator whose command is not answered gives it again after this long.
const OPERATOR_PATIENCE_MS: u64 = 6_000;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<Violation>,
    pub(crate) admitted: u32,
    pub(crate) most_live: usize,
    /// Starts of nodes, beyond the first of each.
    pub(crate) restarts: u32,
    pub(crate) replaced: u32,
    /// The script and what happened, for whoever looks into a failure.
    pub(crate) story: String,
}

/// A step of an operator who puts a new controller in the place of one.
#[derive(Clone, Copy, Debug)]
enum Repair {
    Remove(u16),
    Empty(u16),
    Add(u16),
}

/// What ends a fault.
#[derive(Clone, Debug)]
enum Mend {
    Start(Vec<u16>),
    StartEmpty(u16),
    Thaw(u16),
    Ways(Vec<(u16, u16)>),
    Speed(Vec<u16>),
}

type Answered = oneshot::Receiver<Result<serde_json::Value, ControlError>>;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) dice: SmallRng,
    pub(crate) event: EventId,
    pub(crate) nodes: BTreeMap<u16, Node>,
    pub(crate) visitors: Vec<Visitor>,
    pub(crate) tickets: BTreeSet<TicketId>,
    pub(crate) oracle: Oracle,
    pub(crate) story: String,
    defect: Defect,
    script: Script,
    net: Net,
    mends: Vec<(u64, Mend)>,
    repairs: VecDeque<Repair>,
    repairing: Option<(u64, Answered)>,
    replaced: u32,
    /// Since when each controller has led without a break.
    leading: BTreeMap<u16, u64>,
    waiting_since: Option<u64>,
}

impl World {
    /// The world in which this script is played, once its fleet is founded.
    pub(crate) fn new(seed: u64, script: Script, defect: Defect) -> Self {
        let mut dice = SmallRng::seed_from_u64(seed);
        let net = Net::new(seed, script.link);
        let honesty = if defect == Defect::DiskForgets { Honesty::Forgets } else { Honesty::Honest };
        let node = |id| (id, Node::new(id, script.controllers, &net, honesty));
        let nodes = (1..=script.nodes()).map(node).collect();
        let mut comes: Vec<u64> =
            (0..VISITORS).map(|_| dice.random_range(COME_FROM_MS..COME_UNTIL_MS)).collect();
        comes.sort_unstable();
        let visitors = comes.into_iter().map(|at| Visitor::new(at, script.nodes(), &mut dice)).collect();
        let mut world = Self {
            now: 0,
            dice,
            event: "sale".parse().unwrap(),
            nodes,
            visitors,
            tickets: BTreeSet::new(),
            oracle: Oracle::new(CAPACITY, MAX_ADMIT_PER_SEC),
            story: format!("seed {seed}, {defect:?}: {script:#?}\n"),
            defect,
            script,
            net,
            mends: Vec::new(),
            repairs: VecDeque::new(),
            repairing: None,
            replaced: 0,
            leading: BTreeMap::new(),
            waiting_since: None,
        };
        world.nodes.values_mut().for_each(|node| node.start(0));
        world.found(seed);
        world
    }

    /// How a node is called in another's name.
    pub(crate) fn way(&self, of: u16) -> super::net::Wire {
        self.net.way(of)
    }

    pub(crate) fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.story, "{:>6} {what}", self.now);
    }

    /// Time passes for everybody.
    fn pass(&mut self) {
        self.now += STEP_MS;
        self.net.step(self.now);
        self.nodes.values().for_each(|node| node.step(self.now));
    }

    /// Has a node do something, and waits until it has, or 6 s.
    fn await_answer<T>(&mut self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        for _ in 0..600 {
            self.pass();
            match answer.try_recv() {
                Ok(answer) => return Some(answer),
                Err(oneshot::error::TryRecvError::Empty) => {}
                Err(oneshot::error::TryRecvError::Closed) => return None,
            }
        }
        None
    }

    /// The operator founds the fleet and makes the event; true time begins when all know it.
    fn found(&mut self, seed: u64) {
        loop {
            let answer = self.command(1, FleetDeed::Found);
            if matches!(self.await_answer(answer), Some(Ok(_))) {
                break;
            }
            assert!(self.now < FOUNDED_MS, "the fleet is not founded");
        }
        loop {
            let control = self.nodes[&1].desk().unwrap().control().unwrap();
            let (event, kind) = (self.event.clone(), ChangeKind::Put(fields(seed)));
            let put = async move { control.change(event, kind, Condition::Always).await.is_ok() };
            let answer = self.nodes[&1].ask(put);
            if self.await_answer(answer) == Some(true) {
                break;
            }
            assert!(self.now < FOUNDED_MS, "the event is not made");
        }
        let knows = |node: &Node| {
            node.look(|desk| desk.contact() == Contact::Fresh && desk.event(&self.event).is_some())
                == Some(true)
        };
        while !self.nodes.values().all(knows) {
            self.now += STEP_MS;
            self.net.step(self.now);
            self.nodes.values().for_each(|node| node.step(self.now));
            assert!(self.now < FOUNDED_MS, "not everybody knows the event");
        }
        let founded = self.now;
        self.visitors.iter_mut().for_each(|visitor| visitor.delay(founded));
        self.script.faults.iter_mut().for_each(|(at, _)| *at += founded);
        self.oracle.note_quorum(founded, true);
    }

    fn command(&self, at: u16, deed: FleetDeed) -> Answered {
        let node = &self.nodes[&at];
        let control = node.desk().map(|desk| desk.control().unwrap());
        match control {
            Some(control) => node.ask(async move { control.fleet(deed).await }),
            None => oneshot::channel().1,
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        let began = self.now;
        let mut faults: VecDeque<(u64, Fault)> = std::mem::take(&mut self.script.faults).into();
        let mut is_mended = false;
        while self.now < began + END_MS && self.oracle.violations.is_empty() {
            self.pass();
            while faults.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, fault) = faults.pop_front().unwrap();
                self.tell(format_args!("{fault:?}"));
                self.begin(fault, began + MENDED_MS);
            }
            let due = |(at, _): &(u64, Mend)| *at <= self.now;
            let (due, later) = std::mem::take(&mut self.mends).into_iter().partition(due);
            self.mends = later;
            due.into_iter().for_each(|(_, mend): (u64, Mend)| self.mend(mend));
            if !is_mended && self.now >= began + MENDED_MS {
                is_mended = true;
                self.tell(format_args!("everything is mended"));
            }
            self.repair();
            let quorum = self.has_quorum();
            self.oracle.note_quorum(self.now, quorum);
            steps::visit(&mut self);
            if self.now.is_multiple_of(100) {
                self.look();
            }
        }
        if self.oracle.violations.is_empty() {
            self.judge_end();
        }
        self.oracle.count_live();
        Outcome {
            restarts: self.nodes.values().map(|node| node.lives - 1).sum(),
            admitted: self.oracle.admitted,
            most_live: self.oracle.most_live,
            violations: self.oracle.violations,
            replaced: self.replaced,
            story: self.story,
        }
    }

    fn begin(&mut self, fault: Fault, mended: u64) {
        let until = |lasts: u64| (self.now + lasts).min(mended);
        match fault {
            Fault::Kill { nodes, death, down } => {
                let nodes: Vec<u16> = nodes.into_iter().filter(|node| self.nodes[node].is_up()).collect();
                self.mends.push((until(down), Mend::Start(nodes.clone())));
                nodes.into_iter().for_each(|node| self.end(node, death));
            }
            Fault::LoseDisk { node, death, down } => {
                if self.nodes[&node].is_up() {
                    self.mends.push((until(down), Mend::StartEmpty(node)));
                    self.end(node, death);
                    self.nodes.get_mut(&node).unwrap().wipe();
                    self.repairs.extend([Repair::Remove(node), Repair::Add(node)]);
                }
            }
            Fault::Replace { node } => {
                self.repairs.extend([Repair::Remove(node), Repair::Empty(node), Repair::Add(node)]);
            }
            Fault::Freeze { node, lasts } => {
                self.mends.push((until(lasts), Mend::Thaw(node)));
                // What it shows when it wakes is of before: another may lead since.
                self.leading.remove(&node);
                self.nodes.get_mut(&node).unwrap().freeze(self.now);
            }
            Fault::Cut { from, to, both, lasts } => {
                let mut ways = vec![(from, to)];
                ways.extend(both.then_some((to, from)));
                self.cut(ways, until(lasts));
            }
            Fault::Split { nodes, lasts } => {
                let others: Vec<u16> =
                    self.nodes.keys().copied().filter(|node| !nodes.contains(node)).collect();
                let across = nodes.iter().flat_map(|a| others.iter().map(move |b| (*a, *b)));
                let ways = across.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
                self.cut(ways, until(lasts));
            }
            Fault::Reset { a, b } => self.net.reset(a, b),
            Fault::Slow { nodes, more, loss, lasts } => {
                let link = Link { most: self.script.link.most + more, loss, ..self.script.link };
                self.mends.push((until(lasts), Mend::Speed(nodes.clone())));
                self.set_links(&nodes, link);
            }
            Fault::Wall { node, error } => {
                let now = self.now;
                self.nodes.get_mut(&node).unwrap().set_wall_error(now, error);
            }
            Fault::PulsesGoOn if self.defect == Defect::DeposedPulses => super::defects::go_on_pulsing(self),
            Fault::PulsesGoOn => {}
            Fault::RotateKey => {
                let node = self.dice.random_range(1..=self.script.nodes());
                if let Some(control) = self.nodes[&node].desk().map(|desk| desk.control().unwrap()) {
                    drop(self.nodes[&node].ask(async move { control.rotate_key().await.is_ok() }));
                }
            }
        }
    }

    fn end(&mut self, node: u16, death: Death) {
        self.leading.remove(&node);
        self.nodes.get_mut(&node).unwrap().end(death, &mut self.dice);
    }

    fn cut(&mut self, ways: Vec<(u16, u16)>, until: u64) {
        ways.iter().for_each(|(from, to)| self.net.cut(*from, *to));
        self.mends.push((until, Mend::Ways(ways)));
    }

    fn set_links(&self, nodes: &[u16], link: Link) {
        for (a, b) in nodes.iter().flat_map(|a| self.nodes.keys().map(move |b| (*a, *b))) {
            self.net.set_link(a, b, link);
            self.net.set_link(b, a, link);
        }
    }

    fn mend(&mut self, mend: Mend) {
        let now = self.now;
        match mend {
            Mend::Start(nodes) => nodes.into_iter().for_each(|node| self.start(node)),
            Mend::StartEmpty(node) => {
                self.start(node);
                if self.defect == Defect::WipedVotes {
                    super::defects::tell_of_beginning(self, node);
                }
            }
            Mend::Thaw(node) => self.nodes.get_mut(&node).unwrap().thaw(now),
            Mend::Ways(ways) => ways.into_iter().for_each(|(from, to)| self.net.mend(from, to)),
            Mend::Speed(nodes) => self.set_links(&nodes, self.script.link),
        }
    }

    fn start(&mut self, id: u16) {
        let (now, defect) = (self.now, self.defect);
        let node = self.nodes.get_mut(&id).unwrap();
        if !node.is_up() {
            if defect == Defect::RunsRepeat && !node.is_controller() {
                node.forget_runs();
            }
            node.start(now);
            self.tell(format_args!("node {id} starts"));
        }
    }

    /// The operator's next step, given again until it is done.
    fn repair(&mut self) {
        let Some(repair) = self.repairs.front().copied() else { return };
        let (Repair::Remove(node) | Repair::Empty(node) | Repair::Add(node)) = repair;
        if let Repair::Empty(_) = repair {
            self.end(node, Death::Process);
            self.nodes.get_mut(&node).unwrap().wipe();
            self.start(node);
            self.repairs.pop_front();
            return;
        }
        let Some((asked, answer)) = &mut self.repairing else {
            if self.now.is_multiple_of(500) && self.nodes[&node].is_up() {
                let at = self.dice.random_range(1..=self.script.nodes());
                let deed = match repair {
                    Repair::Remove(node) => FleetDeed::RemoveController { node: node_id(node) },
                    Repair::Add(node) | Repair::Empty(node) => {
                        FleetDeed::AddController { node: node_id(node), address: address_of(node) }
                    }
                };
                self.repairing = Some((self.now, self.command(at, deed)));
            }
            return;
        };
        let given_up = self.now > *asked + OPERATOR_PATIENCE_MS;
        let answer = match answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) if !given_up => return,
            Err(_) => None,
        };
        self.repairing = None;
        let is_done = match (&repair, &answer) {
            (_, Some(Ok(_))) => true,
            (Repair::Remove(_), Some(Err(ControlError::Conflict(why)))) => why.contains("is no controller"),
            (Repair::Add(_), Some(Err(ControlError::Conflict(why)))) => {
                why.contains("is a controller already")
            }
            _ => false,
        };
        let again = matches!(&answer, Some(Err(ControlError::Conflict(why))) if why.contains("empty `node.data_dir`"));
        self.tell(format_args!("{repair:?}: {:?}", answer.map(|answer| answer.map(|_| "done"))));
        if is_done {
            self.replaced += u32::from(matches!(repair, Repair::Add(_)));
            self.repairs.pop_front();
        } else if again {
            self.repairs.push_front(Repair::Empty(node));
        }
    }

    /// Whether some controller can talk to a majority, also of the least that the controllers can be now.
    fn has_quorum(&self) -> bool {
        let controllers = usize::from(self.script.controllers);
        let removes = self.repairs.iter().any(|repair| matches!(repair, Repair::Remove(_) | Repair::Add(_)));
        let majority = (controllers - usize::from(removes && controllers > 1)) / 2 + 1;
        let awake: Vec<u16> =
            (1..=self.script.controllers).filter(|node| self.nodes[node].is_awake()).collect();
        awake
            .iter()
            .any(|a| awake.iter().filter(|b| a == *b || self.net.is_whole(*a, **b)).count() >= majority)
    }

    /// A look at what every desk shows.
    fn look(&mut self) {
        let quorum = self.has_quorum();
        for node in self.nodes.values().filter(|node| node.is_awake()) {
            let looked = node.look(|desk| {
                let figures = desk.figures();
                let leads = desk.control().is_ok_and(|control| control.leads());
                let hears = figures.contact == Contact::Fresh;
                (desk.run(), figures.events.first().map(|event| event.watermark), leads, hears)
            });
            let Some((run, Some(watermark), leads, hears)) = looked else { continue };
            self.oracle.saw(self.now, run, watermark);
            if hears {
                self.oracle.hears(self.now, run);
            }
            if !leads || !hears || !quorum {
                self.leading.remove(&node.id);
            } else if self.now - *self.leading.entry(node.id).or_insert(self.now) >= 2_000 {
                self.oracle.leads(self.now, run, watermark);
            }
        }
        if self.now.is_multiple_of(2_000) {
            self.tell_state();
        }
        if self.visitors.iter().any(Visitor::is_waiting) {
            self.waiting_since.get_or_insert(self.now);
        } else {
            self.waiting_since = None;
        }
    }

    /// What every desk shows, for the story.
    fn tell_state(&mut self) {
        let waiting = self.visitors.iter().filter(|visitor| visitor.is_waiting()).count();
        let admitted = self.oracle.admitted;
        let rows: Vec<String> = self
            .nodes
            .values()
            .map(|node| {
                let shown = node.look(|desk| {
                    let figures = desk.figures();
                    let leads = desk.control().is_ok_and(|control| control.leads());
                    let event = figures.events.first().map(|event| {
                        let (live, free) = (event.live_passes, event.slots_free);
                        let (gate, mints) = (event.gate, event.mints_total);
                        format!("{live} live, {free} free, {} wait, {gate:?}, {mints} minted", event.waiting)
                    });
                    let mark = if leads { "LEADS" } else { "" };
                    format!(
                        "{:?} {mark} at {} {}",
                        figures.contact,
                        figures.index.0,
                        event.unwrap_or_default()
                    )
                });
                let sleeps = if node.is_awake() { "" } else { " (frozen or down)" };
                format!("\n         {}{sleeps}: {}", node.id, shown.unwrap_or_default())
            })
            .collect();
        self.tell(format_args!("{waiting} wait, {admitted} let in{}", rows.concat()));
    }

    /// Everything has been mended for long: all hear the leader, and whoever waits is let in.
    fn judge_end(&mut self) {
        let now = self.now;
        for (id, node) in &self.nodes {
            let contact = node.look(|desk| desk.contact());
            if contact != Some(Contact::Fresh) {
                self.oracle
                    .report(now, format!("node {id} does not hear the leader at the end: {contact:?}"));
            }
        }
        let waits = self.waiting_since.is_some_and(|since| since + RECOVERED_MS <= now);
        if waits && self.oracle.last_admission + RECOVERED_MS <= now {
            let last = self.oracle.last_admission;
            self.oracle.report(now, format!("nobody has been let in since {last}, and some wait"));
        }
        if !self.repairs.is_empty() {
            self.oracle.report(now, format!("operators could not finish: {:?}", self.repairs));
        }
    }
}

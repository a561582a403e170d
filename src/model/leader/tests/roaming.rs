//! Visitors who come to another edge each time are counted as often as others: once.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use proptest::prelude::*;

use super::super::counts::Counts;
use super::super::told::Cut;
use crate::model::headcount::{Headcount, KEPT, Shown, Signer};
use crate::model::ids::{Generation, NodeId, NodeRun, TicketId};
use crate::model::ledger::Line;
use crate::model::order::{BucketStart, Fraction, OrderKey};
use crate::model::presence::Window;
use crate::model::time::FleetTime;

const TTL: Duration = Duration::from_secs(20);

const START: u64 = 1_800_000_000_000;

/// How long a node is silent before the leader counts on it no more.
const SILENCE_MS: u64 = 2_000;

fn run(node: usize) -> NodeRun {
    let node = NonZeroU16::new(u16::try_from(node + 1).unwrap()).unwrap();
    NodeRun { node: NodeId(node), generation: Generation(1) }
}

/// How a visitor picks its edge.
#[derive(Clone, Copy, Debug)]
enum Roaming {
    /// Any, each time.
    Anywhere,
    /// All go to the same one, and to the next one in the next window.
    Together,
}

struct Visitor {
    id: TicketId,
    key: OrderKey,
    /// What the cookie says.
    seen: Window,
    by: usize,
    next: u64,
}

struct Edge {
    counts: Headcount,
    /// By how much its clock is ahead, and when it reports next.
    ahead: u64,
    reports: u64,
    died: Option<u64>,
}

struct Fleet {
    edges: Vec<Edge>,
    visitors: Vec<Visitor>,
    roaming: Roaming,
    leader: Counts,
    cut: Cut,
    line: Line,
    now: u64,
    dice: u64,
}

impl Fleet {
    fn new(edges: usize, visitors: u64, roaming: Roaming, seed: u64) -> Self {
        let mut fleet = Self {
            edges: Vec::new(),
            visitors: Vec::new(),
            roaming,
            leader: Counts::default(),
            cut: Cut::new(TTL),
            line: Line::new([1; 32]),
            now: START,
            dice: seed.wrapping_mul(2).wrapping_add(1),
        };
        for _ in 0..edges {
            let (ahead, reports) = (fleet.roll(100), START + fleet.roll(250));
            fleet.edges.push(Edge { counts: Headcount::default(), ahead, reports, died: None });
        }
        for edge in 0..edges {
            let now = fleet.time_at(edge);
            fleet.edges[edge].counts.turn(now, TTL);
        }
        for sequence in 0..visitors {
            let bucket = BucketStart(u32::try_from(1_700_000_000 + sequence % 7).unwrap());
            let key = OrderKey::new(bucket, Fraction(u32::try_from(fleet.roll(1 << 31)).unwrap()));
            let by = usize::try_from(fleet.roll(edges as u64)).unwrap();
            let id = TicketId::of_run(run(by), sequence + 1);
            fleet.edges[by].counts.join(id, key);
            let seen = Window::at(fleet.time_at(by), TTL);
            let next = START + fleet.roll(1_000);
            fleet.visitors.push(Visitor { id, key, seen, by, next });
        }
        fleet
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % below
    }

    fn time_at(&self, edge: usize) -> FleetTime {
        FleetTime(self.now + self.edges[edge].ahead)
    }

    fn pick(&mut self) -> usize {
        let up: Vec<_> = (0..self.edges.len()).filter(|at| self.edges[*at].died.is_none()).collect();
        let at = match self.roaming {
            Roaming::Anywhere => self.roll(up.len() as u64),
            Roaming::Together => self.now / (TTL.as_secs() * 500),
        };
        up[usize::try_from(at).unwrap() % up.len()]
    }

    /// Shows a ticket at an edge; what it says then is what the visitor is given.
    fn show(&mut self, edge: usize, ticket: Shown, key: OrderKey) -> Window {
        let now = self.time_at(edge);
        let counts = &mut self.edges[edge].counts;
        counts.turn(now, TTL);
        counts.heartbeat(ticket, key);
        Window::at(now, TTL).max(ticket.seen)
    }

    fn step(&mut self, longest_poll_ms: u64) {
        self.now += 50;
        for at in 0..self.visitors.len() {
            if self.visitors[at].next > self.now {
                continue;
            }
            let edge = self.pick();
            let Visitor { id, key, seen, by, .. } = self.visitors[at];
            let signer = if by == edge { Signer::Here } else { Signer::Elsewhere };
            let seen = self.show(edge, Shown { id, seen, signer }, key);
            let next = self.now + 1_000 + self.roll(longest_poll_ms);
            self.visitors[at] = Visitor { id, key, seen, by: edge, next };
        }
        for edge in 0..self.edges.len() {
            if self.edges[edge].reports <= self.now && self.edges[edge].died.is_none() {
                let now = self.time_at(edge);
                self.edges[edge].counts.turn(now, TTL);
                self.edges[edge].reports = self.now + 250;
                for count in self.edges[edge].counts.report(self.line.watermark) {
                    self.leader.take(run(edge), count, self.line.watermark);
                }
            }
        }
        let lives = |(_, edge): &(usize, &Edge)| edge.died.is_none_or(|at| self.now < at + SILENCE_MS);
        let heard: BTreeSet<_> = self.edges.iter().enumerate().filter(lives).map(|(at, _)| run(at)).collect();
        let cut = self.cut.at(FleetTime(self.now), TTL);
        self.leader.attend(heard, cut, &self.line);
        self.leader.changed();
    }

    fn counted(&mut self) -> i64 {
        self.leader.waiting(self.line.watermark).round() as i64
    }

    fn told_lately(&self, edge: usize) -> i64 {
        let by: BTreeMap<_, _> = [(edge, Window::at(self.time_at(edge), TTL))].into();
        let newly = |visitor: &&Visitor| by.get(&visitor.by) == Some(&visitor.seen);
        self.visitors.iter().filter(newly).count() as i64
    }
}

fn roaming() -> impl Strategy<Value = Roaming> {
    prop_oneof![Just(Roaming::Anywhere), Just(Roaming::Together)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_honest_ticket_counts_once_wherever_it_is_shown(
        edges in 1_usize..6, visitors in 1_u64..40, roaming in roaming(), seed in 1_u64.., slow in any::<bool>()
    ) {
        let mut fleet = Fleet::new(edges, visitors, roaming, seed);
        // As browsers poll, and as hidden tabs do.
        let longest = if slow { 15_000 } else { 3_000 };
        for step in 0..20 * 60 {
            fleet.step(longest);
            if step > 6 {
                prop_assert_eq!(fleet.counted(), i64::try_from(visitors).unwrap(), "after {} ms", step * 50);
            }
        }
    }

    /// Those whom the dead node has not reported are missed until the window is over; nobody counts twice.
    #[test]
    fn the_visitors_of_a_dead_node_who_go_elsewhere_count_once(
        edges in 2_usize..5, visitors in 1_u64..40, roaming in roaming(), seed in 1_u64.., dies in 200_u64..600
    ) {
        let mut fleet = Fleet::new(edges, visitors, roaming, seed);
        let (mut lost, all) = (0, i64::try_from(visitors).unwrap());
        for step in 0..20 * 90 {
            if step == dies {
                let at = fleet.pick();
                lost = fleet.told_lately(at);
                fleet.edges[at].died = Some(fleet.now);
            }
            fleet.step(3_000);
            let counted = fleet.counted();
            if step > 6 {
                prop_assert!((all - lost..=all).contains(&counted), "{counted} of {all} after {} ms", step * 50);
            }
        }
        prop_assert_eq!(fleet.counted(), all);
    }

    #[test]
    fn an_old_cookie_shown_everywhere_adds_one_for_each_node_and_window_at_most(
        edges in 1_usize..5, seed in 1_u64.., shows in prop::collection::vec((0_usize..5, 0_u64..4), 1..200)
    ) {
        let mut fleet = Fleet::new(edges, 5, Roaming::Anywhere, seed);
        let liar = fleet.visitors.len() - 1;
        let Visitor { id, key, by, .. } = fleet.visitors.pop().unwrap();
        for step in 0..20 * 40 {
            for &(edge, age) in shows.get(step % shows.len()..).into_iter().flatten().take(2) {
                let edge = edge % edges;
                let window = Window::at(fleet.time_at(edge), TTL);
                let seen = (0..age).fold(window, |window, _| window.previous(TTL));
                let signer = if by == edge { Signer::Here } else { Signer::Elsewhere };
                fleet.show(edge, Shown { id, seen, signer }, key);
            }
            fleet.step(3_000);
            if step > 6 {
                // A leader counts a window more for a moment.
                let most = i64::try_from(liar + edges * KEPT).unwrap();
                prop_assert!((4..=most).contains(&fleet.counted()), "{} of {most}", fleet.counted());
            }
        }
    }
}

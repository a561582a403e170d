//! What holds in any history of an honest fleet whose messages are lost, doubled, late and out of order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const RUNS: u16 = 3;
const CAPACITY: u32 = 12;
const PER_SEC: u32 = 20;

/// What may happen next.
#[derive(Clone, Debug)]
enum Happening {
    Wait(u64),
    /// The leader reserves, and splits the block between two edges, the first of which may never hear of it.
    Reserve {
        slots: u32,
        first: u16,
        second: u16,
        lost: bool,
    },
    /// An edge mints for a new ticket, or again for an older one.
    Mint {
        run: u16,
        replay: Option<usize>,
        life_ms: u64,
    },
    /// An edge reports what it owes; nobody tells it that it was heard.
    Report {
        run: u16,
    },
    /// A report of an edge from earlier on arrives, again or late.
    LateReport(usize),
    Close {
        run: u16,
    },
    Use(usize),
    Revoke(usize, RevokeReason),
    /// Every edge has acknowledged everything up to so many entries ago.
    Acknowledge {
        behind: u64,
    },
    Capacity(u32),
    /// Another leader begins, whose clock is ahead of the log's.
    Lead {
        ahead_ms: u64,
    },
    /// The node of a run restarts: what it had in hand is lost.
    Restart {
        run: u16,
    },
    /// The event is deleted and made anew.
    Recreate,
}

fn why() -> impl Strategy<Value = RevokeReason> {
    prop_oneof![Just(RevokeReason::Left), Just(RevokeReason::Ended), Just(RevokeReason::Unpresented)]
}

fn happening() -> impl Strategy<Value = Happening> {
    let run = 0..RUNS;
    prop_oneof![
        4 => (1_u64..4_000).prop_map(Happening::Wait),
        6 => (1_u32..8, 0..RUNS, 0..RUNS, prop::bool::weighted(0.1))
            .prop_map(|(slots, first, second, lost)| Happening::Reserve { slots, first, second, lost }),
        12 => (run.clone(), prop::option::weighted(0.2, 0_usize..40), 1_000_u64..12_000)
            .prop_map(|(run, replay, life_ms)| Happening::Mint { run, replay, life_ms }),
        8 => run.clone().prop_map(|run| Happening::Report { run }),
        3 => (0_usize..60).prop_map(Happening::LateReport),
        4 => run.clone().prop_map(|run| Happening::Close { run }),
        6 => (0_usize..60).prop_map(Happening::Use),
        3 => (0_usize..60, why()).prop_map(|(which, why)| Happening::Revoke(which, why)),
        6 => (0_u64..6).prop_map(|behind| Happening::Acknowledge { behind }),
        1 => (1_u32..CAPACITY + 4).prop_map(Happening::Capacity),
        1 => (0_u64..15_000).prop_map(|ahead_ms| Happening::Lead { ahead_ms }),
        1 => run.prop_map(|run| Happening::Restart { run }),
        1 => Just(Happening::Recreate),
    ]
}

/// What an edge holds of a block.
#[derive(Clone, Debug)]
struct Share {
    given: u32,
    mints: Vec<Mint>,
    closed: bool,
    exp_max: FleetTime,
}

#[derive(Debug, Default)]
struct Edge {
    generation: u32,
    shares: BTreeMap<BlockId, Share>,
}

/// A pass in its holder's hands.
#[derive(Clone, Copy, Debug)]
struct Token {
    pass: TicketId,
    at: Coordinates,
    expires: FleetTime,
}

struct Fleet {
    ledger: Ledger,
    edges: Vec<Edge>,
    tokens: Vec<Token>,
    reports: Vec<Vec<Settle>>,
    tickets: u64,
    acknowledged: LogIndex,
    /// The longest that the log has let a used pass live, and where an id was consumed.
    granted: BTreeMap<TicketId, FleetTime>,
    consumed: BTreeMap<TicketId, LogIndex>,
    reserved: Vec<(FleetTime, u32)>,
    /// How far behind an edge may be that has heard none of the last leaders, and where the last of them began.
    behind_ms: u64,
    led: LogIndex,
    copy: State,
}

fn policy(capacity: u32) -> Fields {
    fields(serde_json::json!({ "capacity": capacity, "max_admit_per_sec": PER_SEC, "pass_claim_s": 8,
        "session_ttl_s": 5, "session_max_s": 12, "heartbeat_ttl_s": 30 }))
}

impl Fleet {
    fn new() -> Self {
        let json = policy(CAPACITY).to_map();
        let ledger = Ledger::new(serde_json::Value::Object(json));
        let mut fleet = Self {
            copy: ledger.state.clone(),
            ledger,
            edges: Vec::new(),
            tokens: Vec::new(),
            reports: Vec::new(),
            tickets: 0,
            acknowledged: LogIndex(0),
            granted: BTreeMap::new(),
            consumed: BTreeMap::new(),
            reserved: Vec::new(),
            behind_ms: 0,
            led: LogIndex(0),
        };
        fleet.edges.resize_with(RUNS.into(), Edge::default);
        for run in 0..RUNS {
            fleet.restart(run);
        }
        fleet
    }

    fn run(&self, of: u16) -> NodeRun {
        run(of + 1, self.edges[usize::from(of)].generation + 1)
    }

    fn restart(&mut self, of: u16) {
        let edge = &mut self.edges[usize::from(of)];
        *edge = Edge { generation: edge.generation + 1, ..Edge::default() };
        let command = Command::Register { run: self.run(of), now: self.ledger.now };
        self.apply(&command);
    }

    fn happen(&mut self, what: &Happening) {
        match *what {
            Happening::Wait(ms) => self.ledger.wait(ms),
            Happening::Reserve { slots, first, second, lost } => self.reserve(slots, first, second, lost),
            Happening::Mint { run, replay, life_ms } => self.mint(run, replay, life_ms),
            Happening::Report { run } => {
                let settles = self.owed(run);
                self.reports.push(settles.clone());
                self.tick(|tick| tick.settle = settles);
            }
            Happening::LateReport(which) => {
                let settles = pick(&self.reports, which).cloned().unwrap_or_default();
                self.tick(|tick| tick.settle = settles);
            }
            Happening::Close { run } => {
                self.edges[usize::from(run)].shares.values_mut().for_each(|share| share.closed = true);
            }
            Happening::Use(which) => {
                let Some(&Token { pass, at, expires }) = pick(&self.tokens, which) else { return };
                let extend = Extend { pass, at, expires, weight: Weight::ONE };
                self.tick(|tick| tick.extend.push(extend));
            }
            Happening::Revoke(which, why) => {
                let Some(pass) = pick(&self.tokens, which).map(|token| token.pass) else { return };
                self.tick(|tick| tick.revoke.push(Revoke { id: pass, why }));
            }
            Happening::Acknowledge { behind } => {
                let index = LogIndex(self.ledger.state.index.0.saturating_sub(behind));
                self.acknowledged = self.acknowledged.max(index);
                if self.acknowledged >= self.led {
                    self.behind_ms = 0;
                }
                self.tick(|_| {});
            }
            Happening::Capacity(capacity) => self.change(ChangeKind::Put(policy(capacity))),
            Happening::Lead { ahead_ms } => self.lead(ahead_ms),
            Happening::Restart { run } => self.restart(run),
            Happening::Recreate => {
                self.change(ChangeKind::Delete);
                self.change(ChangeKind::Put(policy(CAPACITY)));
            }
        }
    }

    /// What has passed since the last entry may be a step as well.
    fn lead(&mut self, ahead_ms: u64) {
        self.ledger.wait(ahead_ms);
        self.behind_ms += self.ledger.now.0 - self.ledger.state.now.0;
        self.led = LogIndex(self.ledger.state.index.0 + 1);
        let now = self.ledger.now;
        self.apply(&Command::Lead { now, absence: None });
    }

    fn reserve(&mut self, slots: u32, first: u16, second: u16, lost: bool) {
        let Some(reserved) = self.tick(|tick| tick.reserve = slots) else { return };
        assert!(self.ledger.occupied() <= self.ledger.event().policy.capacity.get());
        self.reserved.push((self.ledger.now, reserved.slots));
        let half = reserved.slots / 2;
        let mut shares = vec![(second, reserved.slots - half)];
        if first == second {
            shares = vec![(second, reserved.slots)];
        } else if !lost {
            shares.push((first, half));
        }
        for (run, given) in shares.into_iter().filter(|(_, given)| *given > 0) {
            let edge = &mut self.edges[usize::from(run)];
            edge.shares.values_mut().for_each(|share| share.closed = true);
            let share = Share { given, mints: Vec::new(), closed: false, exp_max: reserved.exp_max };
            edge.shares.insert(reserved.block, share);
        }
    }

    fn mint(&mut self, of: u16, replay: Option<usize>, life_ms: u64) {
        let run = self.run(of);
        let replayed = replay.and_then(|which| pick(&self.tokens, which)).map(|token| token.pass);
        let pass = replayed.unwrap_or_else(|| {
            self.tickets += 1;
            TicketId::of_run(run, self.tickets)
        });
        let wanted = FleetTime(self.ledger.now.0 + life_ms);
        let open = |(_, share): &(&BlockId, &mut Share)| {
            !share.closed && share.mints.len() < usize::try_from(share.given).unwrap()
        };
        let Some((block, share)) = self.edges[usize::from(of)].shares.iter_mut().rev().find(open) else {
            return;
        };
        let number = u32::try_from(share.mints.len()).unwrap() + 1;
        let expires = wanted.min(share.exp_max);
        share.mints.push(Mint { number, pass, expires, weight: Weight::ONE });
        self.tokens.push(Token { pass, at: Coordinates { block: *block, run, number }, expires });
    }

    fn owed(&self, of: u16) -> Vec<Settle> {
        let settle = |(block, share): (&BlockId, &Share)| Settle {
            block: *block,
            run: self.run(of),
            mints: share.mints.clone(),
            closed: share.closed.then_some(share.given),
        };
        self.edges[usize::from(of)].shares.iter().map(settle).collect()
    }

    fn tick(&mut self, fill: impl FnOnce(&mut EventTick)) -> Option<Reserved> {
        let mut tick = EventTick::nothing(event());
        fill(&mut tick);
        let repeatable = EventTick { reserve: 0, extend: Vec::new(), returned: Vec::new(), ..tick.clone() };
        let now = self.ledger.now;
        let whole = |tick| {
            let acknowledged = self.acknowledged;
            Command::Tick(Tick { now, acknowledged, events: vec![tick], ..Tick::default() })
        };
        let (first, again) = (whole(tick), whole(repeatable));
        let outcome = self.apply(&first);
        let occupied = self.ledger.occupied();
        let repeated = self.apply(&again);
        assert_eq!(repeated.live, [], "a report that is told twice changes nothing");
        assert_eq!(self.ledger.occupied(), occupied);
        reserved(&outcome)
    }

    fn change(&mut self, kind: ChangeKind) {
        let now = self.ledger.now;
        let change = Change { now, event: event(), condition: Condition::Always, entropy: [8; 32], kind };
        self.apply(&Command::Change(change));
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        let occupied = |state: &State| state.events.get(&event()).map(|event| event.pool.occupied());
        let before = occupied(&self.ledger.state);
        let outcome = self.ledger.apply(command);
        assert_eq!(self.copy.apply(outcome.index, command), outcome);
        for (_, change) in &outcome.live {
            match *change {
                LiveChange::Live(id, pass) => {
                    assert!(!self.consumed.contains_key(&id), "{id} was consumed");
                    if pass.claim.is_some() {
                        let granted = self.granted.entry(id).or_insert(pass.expires);
                        assert!(*granted <= pass.expires, "what was acknowledged is not shortened");
                        *granted = pass.expires;
                    }
                }
                LiveChange::Consumed(id, _) | LiveChange::Left(id, _) => {
                    self.consumed.entry(id).or_insert(outcome.index);
                }
                LiveChange::Unclaimed(..) => {}
            }
        }
        if let (Some(before), Some(after)) = (before, occupied(&self.ledger.state)) {
            let capacity = self.ledger.event().policy.capacity.get();
            assert!(after <= capacity.max(before), "{after} slots of {capacity}, {before} before");
        }
        self.look();
        outcome
    }

    /// Every pass that an edge may honour is counted.
    fn look(&self) {
        let Some(event) = self.ledger.state.events.get(&event()) else { return };
        let now = self.ledger.state.now;
        for token in &self.tokens {
            let granted = self.granted.get(&token.pass).copied().unwrap_or_default();
            let is_known_to_be_over =
                self.consumed.get(&token.pass).is_some_and(|index| *index <= self.acknowledged);
            let least = FleetTime(now.0 - self.behind_ms);
            if least < token.expires.max(granted) && !is_known_to_be_over {
                assert!(event.pool.covers(token.pass, token.at), "{token:?} is honoured and not counted");
            }
        }
    }

    /// Once everybody has reported and every time is over, nothing is occupied.
    fn end(&mut self) {
        for run in 0..RUNS {
            self.happen(&Happening::Close { run });
            self.happen(&Happening::Report { run });
        }
        let live = u32::try_from(self.ledger.live().len()).unwrap();
        self.happen(&Happening::Acknowledge { behind: 0 });
        assert!(self.ledger.occupied() >= live);
        self.ledger.wait(40_000);
        self.happen(&Happening::Acknowledge { behind: 0 });
        assert_eq!((self.ledger.occupied(), self.ledger.live().len()), (0, 0));
        assert_eq!(self.ledger.pool().next_change(&self.ledger.state.lag), None);
    }

    fn check_rate(&self) {
        for (at, (from, _)) in self.reserved.iter().enumerate() {
            let mut slots = 0;
            for (to, more) in self.reserved.iter().skip(at) {
                slots += u64::from(*more);
                let seconds_milli = to.0 - from.0;
                assert!(slots * 1000 <= u64::from(PER_SEC) * (seconds_milli + 250));
            }
        }
    }
}

fn pick<T>(of: &[T], which: usize) -> Option<&T> {
    of.iter().rev().nth(which % of.len().max(1))
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(11), ..ProptestConfig::with_cases(250) })]
    #[test]
    fn every_pass_that_may_be_honoured_is_counted_and_every_slot_comes_back(
        happenings in prop::collection::vec(happening(), 1..120)
    ) {
        let mut fleet = Fleet::new();
        let middle = happenings.len() / 2;
        for (at, what) in happenings.iter().enumerate() {
            fleet.happen(what);
            if at == middle {
                // A controller that starts from a snapshot goes on as if it had applied every entry.
                let snapshot = postcard::to_stdvec(&fleet.copy).unwrap();
                fleet.copy = postcard::from_bytes(&snapshot).unwrap();
            }
        }
        prop_assert_eq!(&fleet.copy, &fleet.ledger.state);
        fleet.check_rate();
        fleet.end();
    }

    #[test]
    fn the_watermark_of_a_line_only_grows(keys in prop::collection::vec((any::<u64>(), 0_u8..12), 1..60)) {
        let mut ledger = Ledger::small();
        for (key, what) in keys {
            let before = ledger.event().line.clone();
            let key = crate::model::order::OrderKey(key);
            match what {
                0 => drop(ledger.change(ChangeKind::Reset)),
                1 => {
                    drop(ledger.change(ChangeKind::Delete));
                    drop(ledger.change(ChangeKind::Put(policy(CAPACITY))));
                }
                2 => drop(ledger.apply(&Command::Register { run: run(1, 1), now: ledger.now })),
                _ => drop(ledger.tick(|tick| tick.watermark = key)),
            }
            let line = &ledger.event().line;
            prop_assert!(line.epoch > before.epoch || line.watermark >= before.watermark);
            prop_assert_eq!(line.epoch > before.epoch, what < 2);
        }
    }
}

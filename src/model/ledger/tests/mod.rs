//! What the ledger promises, case by case and for any history.

mod any_history;
mod changes;
mod keys;
mod lines;
mod numbers;
mod passes;
mod runs;

use std::num::NonZeroU16;

use super::*;
use crate::model::ids::{
    BlockId, Coordinates, EventId, Generation, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, TicketId,
    Weight,
};
use crate::model::policy::Fields;
use crate::model::time::FleetTime;

const START: u64 = 1_800_000_000_000;

fn event() -> EventId {
    "sale".parse().unwrap()
}

fn run(node: u16, generation: u32) -> NodeRun {
    NodeRun { node: NodeId(NonZeroU16::new(node).unwrap()), generation: Generation(generation) }
}

fn id(sequence: u64) -> TicketId {
    TicketId::of_run(run(1, 1), sequence)
}

fn fields(json: serde_json::Value) -> Fields {
    json.as_object().cloned().unwrap().into()
}

fn key() -> KeyRecord {
    let made_at = FleetTime(START);
    KeyRecord { id: KeyId(1), secret: [7; 32], made_at, signs_from: made_at, verifies_until: None }
}

/// A ledger with one event and two registered runs, and the time of its entries.
struct Ledger {
    state: State,
    now: FleetTime,
}

impl Ledger {
    fn new(policy: serde_json::Value) -> Self {
        let now = FleetTime(START);
        let mut ledger = Self { state: State::default(), now };
        ledger.apply(&Command::Found { epoch: LedgerEpoch(3), now, key: key() });
        for node in [1, 2] {
            ledger.apply(&Command::Register { run: run(node, 1), now });
        }
        ledger.change(ChangeKind::Put(fields(policy))).unwrap();
        ledger
    }

    /// Ten slots, and credit for all of them at once.
    fn small() -> Self {
        Self::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40, "pass_claim_s": 20,
            "session_ttl_s": 60, "session_max_s": 100, "heartbeat_ttl_s": 30 }))
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        let before = self.state.index;
        let outcome = self.state.apply(LogIndex(before.0 + 1), command);
        assert_eq!(self.state.index, outcome.index);
        outcome
    }

    fn wait(&mut self, ms: u64) {
        self.now = FleetTime(self.now.0 + ms);
    }

    /// A tick of the event; no edge has acknowledged anything.
    fn tick(&mut self, fill: impl FnOnce(&mut EventTick)) -> Outcome {
        self.acknowledged_tick(LogIndex(0), fill)
    }

    fn acknowledged_tick(&mut self, acknowledged: LogIndex, fill: impl FnOnce(&mut EventTick)) -> Outcome {
        let mut tick = EventTick::nothing(event());
        fill(&mut tick);
        self.apply(&Command::Tick(Tick {
            now: self.now,
            acknowledged,
            events: vec![tick],
            ..Tick::default()
        }))
    }

    fn change(&mut self, kind: ChangeKind) -> Result<ChangeApplied, ChangeError> {
        self.change_if(Condition::Always, kind)
    }

    fn change_if(&mut self, condition: Condition, kind: ChangeKind) -> Result<ChangeApplied, ChangeError> {
        let change = Change { now: self.now, event: event(), condition, entropy: [5; 32], kind };
        match self.apply(&Command::Change(change)).steps.pop() {
            Some(Step::Changed(result)) => result,
            other => panic!("a change came to {other:?}"),
        }
    }

    fn reserve(&mut self, slots: u32) -> Option<Reserved> {
        reserved(&self.tick(|tick| tick.reserve = slots))
    }

    /// A block of exactly so many slots.
    fn block(&mut self, slots: u32) -> BlockId {
        let reserved = self.reserve(slots).unwrap();
        assert_eq!(reserved.slots, slots);
        reserved.block
    }

    /// A pass that run 1.1 minted as the `number`th of a block, for 20 s.
    fn mint(&mut self, block: BlockId, number: u32, pass: TicketId) -> Outcome {
        let settle = settle(block, &[self.minted(number, pass)], None);
        self.tick(|tick| tick.settle.push(settle))
    }

    fn minted(&self, number: u32, pass: TicketId) -> Mint {
        Mint { number, pass, expires: FleetTime(self.now.0 + 20_000), weight: Weight::ONE }
    }

    fn extend(&mut self, extend: Extend) -> Outcome {
        self.tick(|tick| tick.extend.push(extend))
    }

    fn event(&self) -> &Event {
        &self.state.events[&event()]
    }

    fn pool(&self) -> &Pool {
        &self.event().pool
    }

    fn occupied(&self) -> u32 {
        self.pool().occupied()
    }

    fn live(&self) -> &LiveSet {
        self.pool().live()
    }
}

fn ended(id: TicketId) -> Revoke {
    Revoke { id, why: RevokeReason::Ended }
}

fn reserved(outcome: &Outcome) -> Option<Reserved> {
    outcome.steps.iter().find_map(|step| match step {
        Step::Ticked(events) => events.iter().find_map(|event| event.reserved),
        _ => None,
    })
}

fn settle(block: BlockId, mints: &[Mint], closed: Option<u32>) -> Settle {
    Settle { block, run: run(1, 1), mints: mints.to_vec(), closed }
}

/// The first use of a pass that run 1.1 minted as the `number`th of a block.
fn first_use(block: BlockId, number: u32, pass: TicketId, expires: FleetTime) -> Extend {
    Extend { pass, at: Coordinates { block, run: run(1, 1), number }, expires, weight: Weight::ONE }
}

//! An edge's slots: what it may mint from, and what it owes the ledger.

use std::collections::BTreeMap;

use super::exchange::{Grant, Settled};
use super::ids::{BlockId, Coordinates, NodeRun, TicketId, Weight};
use super::ledger::{Mint, Settle};
use super::time::{BootTime, FleetTime};

/// The slots of one event at one edge. A slot is spent once; what is spent is owed to the ledger until it is settled.
#[derive(Clone, Debug)]
pub struct EdgeSlots {
    run: NodeRun,
    in_hand: Option<InHand>,
    outbox: BTreeMap<BlockId, Owed>,
    newest_block: Option<BlockId>,
}

#[derive(Clone, Copy, Debug)]
struct InHand {
    grant: Grant,
    spend_by: BootTime,
}

/// What became of one block's slots, as far as the ledger has not confirmed it.
#[derive(Clone, Debug, Default)]
struct Owed {
    given: u32,
    spent: u32,
    mints: Vec<Mint>,
    closing: Closing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Closing {
    #[default]
    Open,
    Closed,
}

/// A pass minted against a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The pass.
    pub pass: TicketId,
    /// The slot.
    pub at: Coordinates,
    /// When it ends if it is not used.
    pub expires: FleetTime,
    /// The slots that it takes.
    pub weight: Weight,
}

impl EdgeSlots {
    /// No slots, nothing owed.
    #[must_use]
    pub fn new(run: NodeRun) -> Self {
        Self { run, in_hand: None, outbox: BTreeMap::new(), newest_block: None }
    }

    /// Takes a grant that answers a report sent at `echo`; it closes the one in hand. A block is taken once: a doubled
    /// or late grant of a block already seen changes nothing.
    pub fn take(&mut self, grant: Grant, echo: BootTime) {
        if self.newest_block.is_some_and(|newest| grant.block <= newest) || grant.slots == 0 {
            return;
        }
        self.close();
        self.newest_block = Some(grant.block);
        self.outbox.insert(grant.block, Owed { given: grant.slots, ..Owed::default() });
        self.in_hand = Some(InHand { grant, spend_by: echo.after(grant.life) });
    }

    /// The block in hand and the slots that were given of it.
    #[must_use]
    pub fn in_hand(&self) -> Option<(BlockId, u32)> {
        self.in_hand.map(|in_hand| (in_hand.grant.block, in_hand.grant.slots))
    }

    /// Slots that may be spent at `now`.
    #[must_use]
    pub fn available(&self, now: BootTime) -> u32 {
        let in_hand = self.in_hand.filter(|in_hand| now < in_hand.spend_by);
        let owed = in_hand.and_then(|in_hand| self.outbox.get(&in_hand.grant.block));
        owed.map_or(0, |owed| owed.given.saturating_sub(owed.spent))
    }

    /// Spends slots on a pass that would like to live until `expires`; it is given no more than the grant allows.
    /// `None`, and nothing changed, if there are not enough slots in hand at `now`.
    pub fn spend(
        &mut self,
        pass: TicketId,
        weight: Weight,
        expires: FleetTime,
        now: BootTime,
    ) -> Option<Minted> {
        if self.available(now) < weight.slots() {
            return None;
        }
        let grant = self.in_hand?.grant;
        let owed = self.outbox.get_mut(&grant.block)?;
        let number = owed.spent + 1;
        owed.spent += weight.slots();
        let expires = expires.min(grant.exp_max);
        owed.mints.push(Mint { number, pass, expires, weight });
        let at = Coordinates { block: grant.block, run: self.run, number };
        Some(Minted { pass, at, expires, weight })
    }

    /// Closes the grant in hand if its time is over.
    pub fn expire(&mut self, now: BootTime) {
        if self.in_hand.is_some_and(|in_hand| now >= in_hand.spend_by) {
            self.close();
        }
    }

    /// Closes the grant in hand: what is unspent goes back with the next report.
    pub fn close(&mut self) {
        if let Some(in_hand) = self.in_hand.take()
            && let Some(owed) = self.outbox.get_mut(&in_hand.grant.block)
        {
            owed.closing = Closing::Closed;
        }
    }

    /// Forgets what the ledger has settled: by number, not by greatest number, since reports may be lost.
    pub fn settle(&mut self, settled: &[Settled]) {
        for settled in settled {
            let Some(owed) = self.outbox.get_mut(&settled.block) else { continue };
            owed.mints.retain(|mint| !settled.numbers.contains(&mint.number));
            if settled.closed {
                self.outbox.remove(&settled.block);
                self.in_hand = self.in_hand.filter(|in_hand| in_hand.grant.block != settled.block);
            }
        }
    }

    /// What is owed, for the next report.
    #[must_use]
    pub fn outbox(&self) -> Vec<Settle> {
        let owes = |(_, owed): &(&BlockId, &Owed)| !owed.mints.is_empty() || owed.closing == Closing::Closed;
        let settle = |(block, owed): (&BlockId, &Owed)| Settle {
            block: *block,
            run: self.run,
            mints: owed.mints.clone(),
            closed: (owed.closing == Closing::Closed).then_some(owed.given),
        };
        self.outbox.iter().filter(owes).map(settle).collect()
    }

    /// Whether nothing is owed and nothing is in hand.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outbox.is_empty()
    }

    /// The pass of an id that was minted here and is not settled yet.
    #[must_use]
    pub fn minted(&self, id: TicketId) -> Option<Minted> {
        let of = |(block, owed): (&BlockId, &Owed)| {
            let mint = owed.mints.iter().find(|mint| mint.pass == id)?;
            let at = Coordinates { block: *block, run: self.run, number: mint.number };
            Some(Minted { pass: id, at, expires: mint.expires, weight: mint.weight })
        };
        self.outbox.iter().rev().find_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{Generation, NodeId};
    use proptest::prelude::*;
    use std::num::NonZeroU16;
    use std::time::Duration;

    fn run() -> NodeRun {
        NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(7) }
    }

    fn id(sequence: u64) -> TicketId {
        TicketId::of_run(run(), sequence)
    }

    fn grant(block: u64, slots: u32) -> Grant {
        let life = Duration::from_millis(500);
        Grant { block: BlockId(block), slots, life, exp_max: FleetTime(9_000) }
    }

    #[test]
    fn a_slot_is_spent_once_and_in_time_only() {
        let mut slots = EdgeSlots::new(run());
        slots.take(grant(1, 2), BootTime(100));
        let first = slots.spend(id(1), Weight::ONE, FleetTime(5_000), BootTime(599)).unwrap();
        assert_eq!((first.at.number, first.expires), (1, FleetTime(5_000)));
        assert!(slots.spend(id(2), Weight::ONE, FleetTime(5_000), BootTime(600)).is_none());
        assert!(slots.spend(id(2), Weight::try_from(2).unwrap(), FleetTime(5_000), BootTime(599)).is_none());
    }

    #[test]
    fn no_pass_outlives_its_grants_exp_max() {
        let mut slots = EdgeSlots::new(run());
        slots.take(grant(1, 1), BootTime(0));
        let minted = slots.spend(id(1), Weight::ONE, FleetTime(100_000), BootTime(1)).unwrap();
        assert_eq!(minted.expires, FleetTime(9_000));
    }

    #[test]
    fn a_new_grant_closes_the_old_one_and_an_old_block_is_not_taken_again() {
        let mut slots = EdgeSlots::new(run());
        slots.take(grant(1, 5), BootTime(0));
        slots.take(grant(2, 3), BootTime(0));
        slots.take(grant(1, 5), BootTime(0));
        slots.take(grant(2, 3), BootTime(0));
        assert_eq!(slots.available(BootTime(1)), 3);
        let closed: Vec<_> = slots.outbox().into_iter().map(|settle| (settle.block, settle.closed)).collect();
        assert_eq!(closed, [(BlockId(1), Some(5))]);
    }

    #[test]
    fn asking_again_finds_the_same_pass_until_it_is_settled() {
        let mut slots = EdgeSlots::new(run());
        slots.take(grant(1, 2), BootTime(0));
        let minted = slots.spend(id(1), Weight::ONE, FleetTime(50), BootTime(1));
        assert_eq!(slots.minted(id(1)), minted);
        slots.settle(&[Settled { block: BlockId(1), numbers: vec![1], closed: false }]);
        assert_eq!(slots.minted(id(1)), None);
        assert!(!slots.is_settled());
        slots.close();
        slots.settle(&[Settled { block: BlockId(1), numbers: vec![], closed: true }]);
        assert!(slots.is_settled());
    }

    proptest! {
        #[test]
        fn never_more_is_spent_than_was_given(steps in prop::collection::vec((0u8..4, 1u64..12, 1u32..5), 1..80)) {
            let (mut slots, mut given, mut spent, mut now) = (EdgeSlots::new(run()), 0, 0, 0);
            let mut newest = 0;
            for (step, block, count) in steps {
                now += 40;
                match step {
                    0 => {
                        if block > newest {
                            given += count;
                            newest = block;
                        }
                        slots.take(grant(block, count), BootTime(now));
                    }
                    1 => slots.close(),
                    2 => slots.expire(BootTime(now)),
                    _ => spent += u32::from(slots.spend(id(now), Weight::ONE, FleetTime(1), BootTime(now)).is_some()),
                }
                prop_assert!(spent <= given);
                let minted: usize = slots.outbox().iter().map(|settle| settle.mints.len()).sum();
                prop_assert_eq!(u32::try_from(minted).unwrap(), spent);
            }
        }
    }
}

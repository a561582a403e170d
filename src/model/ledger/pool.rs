//! A pool of slots: what is live, what is promised, what is free. `fleet.md` §5.3, amended by design §3.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::block::{Block, Settling};
use super::command::{EventTick, Extend, Mint, Returned, Revoke, RevokeReason, Settle};
use super::lag::{Abreast, Lag};
use super::live::{Claim, LiveChange, LivePass, LiveSet};
use super::rate::RateCredit;
use crate::model::ids::{BlockId, Coordinates, LogIndex, TicketId, Weight};
use crate::model::policy::Policy;
use crate::model::time::{FleetTime, GRANT_LIFE, RELEASE_GUARD};

/// The slots of an event. `occupied()` counts every pass that could be honoured anywhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    live: LiveSet,
    expiring: BTreeSet<(FleetTime, TicketId)>,
    /// Until when edges that have not heard of the first use may honour a pass, where that is after its session's end.
    believed: BTreeMap<TicketId, FleetTime>,
    live_slots: u32,
    ending: Vec<Ending>,
    blocks: BTreeMap<BlockId, Block>,
    next_block: u64,
    rate: RateCredit,
}

/// A session that is over, whose slot waits until every edge has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ending {
    id: TicketId,
    index: LogIndex,
    free_by: FleetTime,
    slots: u32,
}

/// Slots that an entry of the log reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Their block.
    pub block: BlockId,
    /// How many.
    pub slots: u32,
    /// No unclaimed pass minted from them outlives this.
    pub exp_max: FleetTime,
}

/// The entry that a pool is working on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) index: LogIndex,
    pub(super) now: FleetTime,
    pub(super) policy: &'a Policy,
}

impl Entry<'_> {
    /// Until when a ticket that exists now can be valid.
    fn tickets_end(&self) -> FleetTime {
        self.now.after(self.policy.ticket_max).after(self.policy.session_max)
    }
}

/// A second beyond the life of a grant, so that the leader's own delays are covered too.
const BLOCK_SLACK: std::time::Duration = std::time::Duration::from_secs(1);

impl Pool {
    /// Slots of sessions that are over, until no edge can still honour their passes.
    #[must_use]
    pub fn held_back(&self) -> u32 {
        self.ending.iter().map(|ending| ending.slots).sum()
    }

    /// Slots that are live, ending or promised.
    #[must_use]
    pub fn occupied(&self) -> u32 {
        let ending = self.held_back();
        let promised: u32 = self.blocks.values().map(|block| block.remaining).sum();
        self.live_slots.saturating_add(ending).saturating_add(promised)
    }

    /// Slots of `capacity` that are free.
    #[must_use]
    pub fn free(&self, capacity: u32) -> u32 {
        capacity.saturating_sub(self.occupied())
    }

    /// The live set.
    #[must_use]
    pub fn live(&self) -> &LiveSet {
        &self.live
    }

    /// The rate credit at `now`.
    #[must_use]
    pub fn credit(&self, now: FleetTime, per_sec: u32) -> RateCredit {
        self.rate.at(now, per_sec)
    }

    /// A block, while any of its slots counts.
    #[must_use]
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(&id)
    }

    /// Whether a pass minted at `at` is among the occupied slots: live, ending, or not yet settled in its block.
    #[must_use]
    pub fn covers(&self, id: TicketId, at: Coordinates) -> bool {
        let unsettled = |block: &Block| !block.is_settled(at.run, at.number) && !block.is_closed(at.run);
        self.live.pass(id).is_some()
            || self.ending.iter().any(|ending| ending.id == id)
            || self.blocks.get(&at.block).is_some_and(unsettled)
    }

    /// When something in the pool is over by itself: a pass, a guard, a block.
    #[must_use]
    pub fn next_change(&self, lag: &Lag) -> Option<FleetTime> {
        let pass = self.expiring.first().map(|(expires, _)| *expires);
        let ending = self.ending.iter().map(|ending| ending.free_by).min();
        let block = self.blocks.values().map(block_over).min();
        let freed = [ending, block].into_iter().flatten().min().map(|at| lag.passed(at));
        pass.into_iter().chain(freed).min()
    }

    /// The log index of the newest ended session whose slot waits for acknowledgement.
    #[must_use]
    pub fn awaits_acknowledgement(&self) -> Option<LogIndex> {
        self.ending.iter().map(|ending| ending.index).max()
    }

    pub(super) fn tick(
        &mut self,
        entry: Entry<'_>,
        tick: &EventTick,
        edges: Abreast,
        changes: &mut Vec<LiveChange>,
    ) -> Option<Reserved> {
        tick.settle.iter().for_each(|settle| self.settle(entry, settle, changes));
        tick.extend.iter().for_each(|extend| self.extend(entry, extend, changes));
        tick.revoke.iter().for_each(|revoke| self.revoke(entry, *revoke, changes));
        tick.returned.iter().for_each(|returned| self.take_back(*returned));
        self.expire(entry, changes);
        self.release(edges);
        self.live.index = entry.index;
        self.reserve(entry, tick.reserve)
    }

    fn settle(&mut self, entry: Entry<'_>, settle: &Settle, changes: &mut Vec<LiveChange>) {
        for mint in &settle.mints {
            self.settle_mint(entry, settle, mint, changes);
        }
        if let (Some(given), Some(block)) = (settle.closed, self.blocks.get_mut(&settle.block)) {
            block.close(settle.run, given);
        }
    }

    fn settle_mint(&mut self, entry: Entry<'_>, settle: &Settle, mint: &Mint, changes: &mut Vec<LiveChange>) {
        let Some(block) = self.blocks.get_mut(&settle.block) else { return };
        let expires = mint.expires.min(block.dead_at);
        if block.settle(settle.run, mint.number, mint.weight) != Settling::New {
            return;
        }
        let at = Coordinates { block: settle.block, run: settle.run, number: mint.number };
        if self.live.is_consumed(mint.pass) {
            self.end(entry, mint.pass, expires, mint.weight);
        } else if let Some(known) = self.live.pass(mint.pass).copied() {
            // Minted again where the first pass was not known yet: that edge may honour its own to the end.
            if known.claim.is_some() {
                self.believe(mint.pass, expires);
            } else if expires > known.expires {
                self.put_live(entry, mint.pass, LivePass { expires, ..known }, changes);
            }
        } else {
            let pass = LivePass { at, expires, claim: None, weight: mint.weight };
            self.put_live(entry, mint.pass, pass, changes);
        }
    }

    /// First use or renewal: design §3 *First use and renewal*. Whatever is refused changes nothing.
    fn extend(&mut self, entry: Entry<'_>, extend: &Extend, changes: &mut Vec<LiveChange>) {
        if self.live.is_consumed(extend.pass) {
            return;
        }
        let known = self.live.pass(extend.pass).copied();
        let over = |expires: FleetTime| entry.now >= expires;
        if over(known.map_or(extend.expires, |known| known.expires)) {
            return;
        }
        let Extend { at, weight, .. } = *extend;
        let block = self.blocks.get_mut(&at.block);
        let settled = block.and_then(|block| {
            let settling = block.settle(at.run, at.number, weight);
            (settling == Settling::New).then(|| extend.expires.min(block.dead_at))
        });
        let shown = match (known, settled) {
            (Some(known), _) => known,
            (None, Some(expires)) => LivePass { at, expires, claim: None, weight },
            (None, None) => return,
        };
        // Minted again, as in `settle_mint`, or used for the first time: edges that have not heard of this use go by the
        // unused pass, so the slot is held for them. Who has heard goes by the session.
        settled.into_iter().for_each(|expires| self.believe(extend.pass, expires));
        let started = shown.claim.map_or(entry.now, |claim| claim.started);
        let ceiling = started.after(entry.policy.session_max);
        let wanted = entry.now.after(entry.policy.session_ttl).min(ceiling);
        let expires = if shown.claim.is_some() {
            // What was acknowledged once may be in use anywhere: it is never shortened.
            wanted.max(shown.expires)
        } else {
            self.believe(extend.pass, shown.expires);
            wanted
        };
        let claim = Some(Claim { started, index: entry.index });
        self.put_live(entry, extend.pass, LivePass { expires, claim, ..shown }, changes);
    }

    /// Some edge may honour the pass until then, unless it has heard better.
    fn believe(&mut self, id: TicketId, until: FleetTime) {
        let believed = self.believed.entry(id).or_default();
        *believed = until.max(*believed);
    }

    pub(super) fn revoke(&mut self, entry: Entry<'_>, revoke: Revoke, changes: &mut Vec<LiveChange>) {
        let Revoke { id, why } = revoke;
        if !self.live.would_end(&revoke) {
            return;
        }
        if let Some(pass) = self.live.pass(id).copied() {
            self.expiring.remove(&(pass.expires, id));
            self.live_slots -= pass.weight.slots();
            self.end(entry, id, pass.expires, pass.weight);
        }
        let until = entry.tickets_end();
        let change = match why {
            RevokeReason::Left => LiveChange::Left(id, until),
            RevokeReason::Ended | RevokeReason::Unpresented => LiveChange::Consumed(id, until),
        };
        self.record(entry, change, changes);
    }

    fn take_back(&mut self, returned: Returned) {
        if let Some(block) = self.blocks.get_mut(&returned.block) {
            block.take_back(returned.slots);
        }
    }

    fn expire(&mut self, entry: Entry<'_>, changes: &mut Vec<LiveChange>) {
        while let Some((expires, id)) = self.expiring.first().copied() {
            if expires > entry.now {
                break;
            }
            self.expiring.pop_first();
            let Some(pass) = self.live.pass(id).copied() else { continue };
            self.live_slots -= pass.weight.slots();
            self.end(entry, id, expires, pass.weight);
            let one_more_turn = pass.claim.is_none() && !self.live.is_unclaimed_once(id);
            let change = if one_more_turn {
                LiveChange::Unclaimed(id, entry.tickets_end())
            } else {
                LiveChange::Consumed(id, entry.tickets_end())
            };
            self.record(entry, change, changes);
        }
    }

    /// Frees the slots of sessions that every edge knows to be over, and of blocks that nobody can spend from.
    fn release(&mut self, edges: Abreast) {
        self.ending.retain(|ending| ending.index > edges.index && ending.free_by > edges.time);
        self.blocks.retain(|_, block| block.remaining > 0 && block_over(block) > edges.time);
    }

    fn reserve(&mut self, entry: Entry<'_>, wanted: u32) -> Option<Reserved> {
        let per_sec = entry.policy.max_admit_per_sec.get();
        let credit = self.rate.at(entry.now, per_sec);
        let slots = wanted.min(self.free(entry.policy.capacity.get())).min(credit.slots());
        if slots == 0 {
            return None;
        }
        self.rate = credit.spend(slots);
        let block = BlockId(self.next_block);
        self.next_block += 1;
        let exp_max = entry.now.after(GRANT_LIFE).after(BLOCK_SLACK).after(entry.policy.pass_claim);
        self.blocks.insert(block, Block::new(slots, exp_max));
        Some(Reserved { block, slots, exp_max })
    }

    /// Ends every session: the event is gone.
    pub(super) fn end_all(&mut self, entry: Entry<'_>, changes: &mut Vec<LiveChange>) {
        let ids: Vec<_> = self.expiring.iter().map(|(_, id)| *id).collect();
        let why = RevokeReason::Ended;
        ids.into_iter().for_each(|id| self.revoke(entry, Revoke { id, why }, changes));
    }

    /// Moves on where no tick reaches it: its event is gone.
    pub(super) fn outlive(&mut self, edges: Abreast) {
        self.release(edges);
    }

    /// Leaves so many block numbers out.
    pub(super) fn skip_blocks(&mut self, numbers: u64) {
        self.next_block = self.next_block.saturating_add(numbers);
    }

    pub(super) fn forget_before(&mut self, now: FleetTime) {
        self.live.forget_before(now);
    }

    fn put_live(&mut self, entry: Entry<'_>, id: TicketId, pass: LivePass, changes: &mut Vec<LiveChange>) {
        match self.live.pass(id) {
            Some(known) => {
                self.expiring.remove(&(known.expires, id));
            }
            None => self.live_slots += pass.weight.slots(),
        }
        self.expiring.insert((pass.expires, id));
        self.record(entry, LiveChange::Live(id, pass), changes);
    }

    fn end(&mut self, entry: Entry<'_>, id: TicketId, expires: FleetTime, weight: Weight) {
        let believed = self.believed.remove(&id).unwrap_or_default();
        let free_by = expires.max(believed).after(RELEASE_GUARD);
        self.ending.push(Ending { id, index: entry.index, free_by, slots: weight.slots() });
    }

    fn record(&mut self, entry: Entry<'_>, change: LiveChange, changes: &mut Vec<LiveChange>) {
        self.live.apply(entry.index, &change);
        changes.push(change);
    }
}

fn block_over(block: &Block) -> FleetTime {
    block.dead_at.after(RELEASE_GUARD)
}

//! What of an edge's report is news to the log, and what the log has of it already.

use crate::model::exchange::Settled;
use crate::model::ids::NodeRun;
use crate::model::ledger::{Event, Extend, Mint, Pool, Settle};
use crate::model::time::FleetTime;

/// What of a settlement the log does not have yet, if anything.
pub(super) fn unsettled(pool: &Pool, run: NodeRun, settle: &Settle) -> Option<Settle> {
    let block = pool.block(settle.block)?;
    if settle.run != run || block.is_closed(run) {
        return None;
    }
    let is_new = |mint: &&Mint| !block.is_settled(run, mint.number) && mint.weight.slots() <= block.remaining;
    let mints: Vec<_> = settle.mints.iter().filter(is_new).copied().collect();
    let news = !mints.is_empty() || settle.closed.is_some();
    news.then_some(Settle { block: settle.block, run, mints, closed: settle.closed })
}

/// What the log has of a settlement: a block that is gone or closed has nothing to come.
pub(super) fn acknowledge(pool: &Pool, run: NodeRun, settle: &Settle) -> Settled {
    let block = pool.block(settle.block);
    let closed = block.is_none_or(|block| block.is_closed(run));
    let is_settled = |number: u32| closed || block.is_some_and(|block| block.is_settled(run, number));
    let numbers = settle.mints.iter().map(|mint| mint.number).filter(|number| is_settled(*number)).collect();
    Settled { block: settle.block, numbers, closed }
}

/// Whether a first use or renewal would change anything.
pub(super) fn is_worth(extend: &Extend, event: &Event, now: FleetTime) -> bool {
    let (live, policy) = (event.pool.live(), &event.policy);
    if live.is_consumed(extend.pass) {
        return false;
    }
    let Some(pass) = live.pass(extend.pass) else { return true };
    let Some(claim) = pass.claim else { return true };
    let wanted = now.after(policy.session_ttl).min(claim.started.after(policy.session_max));
    wanted > pass.expires.after(policy.session_ttl / 20)
}

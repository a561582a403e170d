//! The ids of live passes and the consumed ids: what every edge holds, with the log index it is true for.

use serde::{Deserialize, Serialize};

use super::command::{Revoke, RevokeReason};
use super::id_set::IdSet;
use crate::model::ids::{Coordinates, LogIndex, TicketId, Weight};
use crate::model::time::FleetTime;

/// A live pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePass {
    /// Where it was minted.
    pub at: Coordinates,
    /// When it ends.
    pub expires: FleetTime,
    /// Since its first use: when that was, and the log index of its acknowledgement.
    pub claim: Option<Claim>,
    /// The slots that it takes.
    pub weight: Weight,
}

/// The first use of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// When the session began.
    pub started: FleetTime,
    /// The log index of the newest acknowledged first use or renewal.
    pub index: LogIndex,
}

/// One change to the live set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveChange {
    /// The pass is live, with these facts: minted, used for the first time, or renewed.
    Live(TicketId, LivePass),
    /// The pass ended unclaimed for the first time: the ticket has one more turn. Kept until the given time.
    Unclaimed(TicketId, FleetTime),
    /// The id is consumed: a used session ended, a second turn was missed, or it was revoked. Kept until the given
    /// time, after which no ticket of that id can be valid.
    Consumed(TicketId, FleetTime),
    /// The id is consumed since its visitor left. Kept as long.
    Left(TicketId, FleetTime),
}

/// The live set: cheap to clone, so that readers keep a version while a writer makes the next.
///
/// The ledger and every edge keep theirs by the same [`LiveSet::apply`], so they agree by construction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveSet {
    /// The log index that the set is true for.
    pub index: LogIndex,
    passes: rpds::HashTrieMapSync<TicketId, LivePass>,
    unclaimed_once: IdSet,
    consumed: IdSet,
    /// Those of the consumed whose visitors left.
    left: IdSet,
}

impl LiveSet {
    /// Takes a change that stands in the log at `index`.
    pub fn apply(&mut self, index: LogIndex, change: &LiveChange) {
        self.index = self.index.max(index);
        match *change {
            LiveChange::Live(id, pass) => {
                if pass.claim.is_some() {
                    // Its turn was taken after all: when the session ends, that is why the ticket does.
                    self.unclaimed_once.remove(id);
                }
                self.passes.insert_mut(id, pass);
            }
            LiveChange::Unclaimed(id, until) => {
                self.passes.remove_mut(&id);
                self.unclaimed_once.insert(id, until);
            }
            LiveChange::Consumed(id, until) => {
                self.passes.remove_mut(&id);
                self.consumed.insert(id, until);
            }
            LiveChange::Left(id, until) => {
                self.passes.remove_mut(&id);
                self.consumed.insert(id, until);
                self.left.insert(id, until);
            }
        }
    }

    /// The live pass of an id.
    #[must_use]
    pub fn pass(&self, id: TicketId) -> Option<&LivePass> {
        self.passes.get(&id)
    }

    /// Whether the id is consumed: nothing opens with it, and its ticket is over.
    #[must_use]
    pub fn is_consumed(&self, id: TicketId) -> bool {
        self.consumed.contains(id)
    }

    /// Whether a pass of this id has ended unclaimed, once or twice, and none was used since.
    #[must_use]
    pub fn is_unclaimed_once(&self, id: TicketId) -> bool {
        self.unclaimed_once.contains(id)
    }

    /// Whether the id is consumed because its visitor left.
    #[must_use]
    pub fn has_left(&self, id: TicketId) -> bool {
        self.left.contains(id)
    }

    /// Whether anything has become of the id.
    #[must_use]
    pub fn knows(&self, id: TicketId) -> bool {
        self.pass(id).is_some() || self.is_consumed(id) || self.is_unclaimed_once(id)
    }

    /// Whether revoking would end anything: not what is over, and not for want of use what is in use.
    #[must_use]
    pub fn would_end(&self, revoke: &Revoke) -> bool {
        let unused = || self.pass(revoke.id).is_some_and(|pass| pass.claim.is_none());
        !self.is_consumed(revoke.id) && (revoke.why != RevokeReason::Unpresented || unused())
    }

    /// The live passes, in no order.
    pub fn passes(&self) -> impl Iterator<Item = (&TicketId, &LivePass)> {
        self.passes.iter()
    }

    /// How many passes are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.passes.size()
    }

    /// Whether no pass is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// How many ids are consumed; linear in their chunks.
    #[must_use]
    pub fn consumed_len(&self) -> usize {
        self.consumed.len()
    }

    /// Forgets what no valid ticket can ask for any more.
    pub fn forget_before(&mut self, now: FleetTime) {
        self.unclaimed_once.forget_before(now);
        self.consumed.forget_before(now);
        self.left.forget_before(now);
    }
}

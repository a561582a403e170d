//! The ids of live passes and the consumed ids: what every edge holds, with the log index it is true for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::ids::{Coordinates, LogIndex, NodeRun, TicketId, Weight};
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
    /// The pass ended unclaimed for the first time: the ticket has one more turn.
    Unclaimed(TicketId),
    /// The id is consumed: a used session ended, a second turn was missed, or it was revoked.
    Consumed(TicketId, FleetTime),
}

/// The live set: cheap to clone, so that readers keep a version while a writer makes the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveSet {
    /// The log index that the set is true for.
    pub index: LogIndex,
    passes: rpds::HashTrieMapSync<TicketId, LivePass>,
    unclaimed_once: rpds::HashTrieMapSync<TicketId, FleetTime>,
    consumed: rpds::HashTrieMapSync<(NodeRun, u32), Arc<Vec<u64>>>,
    consumed_identities: rpds::HashTrieMapSync<TicketId, FleetTime>,
}

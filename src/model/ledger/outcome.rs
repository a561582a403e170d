//! What applying an entry came to.

use serde::{Deserialize, Serialize};

use super::event::EventOutcome;
use super::live::LiveChange;
use crate::model::ids::{EventId, KeyId, LogIndex, NodeId};
use crate::model::policy::{Fault, Merged};

/// What an entry did, in the order of its commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Where the entry stands.
    pub index: LogIndex,
    /// One step per command; a batch has one per command in it.
    pub steps: Vec<Step>,
    /// How live sets changed.
    pub live: Vec<(EventId, LiveChange)>,
}

/// What one command did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// The ledger is founded, by this entry or an earlier one.
    Founded,
    /// The run is registered, or is refused since a newer or equal run of its node is known.
    Registered(Registration),
    /// The edge has this number; `None`: all are taken.
    Numbered(Option<NodeId>),
    /// It is known that another leader begins.
    Led,
    /// The tick is applied.
    Ticked(Vec<EventOutcome>),
    /// The change is applied, or refused without having changed anything.
    Changed(Result<ChangeApplied, ChangeError>),
    /// The key is in the log under this id.
    Rotated(KeyId),
}

/// Whether a run was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Registration {
    /// It is the node's run now.
    Accepted,
    /// A newer or equal run of the node is known, or nobody holds its number any more.
    Outdated,
}

/// A change that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeApplied {
    /// The event's version after it; 0 if the event is gone.
    pub version: u64,
    /// What became of the event.
    pub outcome: ChangeOutcome,
    /// What a submission applied and what live changes override.
    pub merged: Option<Merged>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// There was none of this id before.
    Created,
    /// It was changed.
    Updated,
    /// Everything was as asked already.
    Unchanged,
    /// It is gone.
    Deleted,
}

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeError {
    /// There is no such event.
    NoSuchEvent,
    /// The event has moved on; its version is given.
    VersionMismatch(u64),
    /// The event was not to be made by the change, and does not exist.
    Missing,
    /// The event was to be made by the change, and exists; its version is given.
    Exists(u64),
    /// Not as things are: somebody waits, or another event is in the way.
    Conflict(String),
    /// The fields are at fault.
    Faults(Vec<Fault>),
    /// The event cannot have a ticket of this id.
    NoSuchTicket,
}

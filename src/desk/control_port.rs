//! What the desk asks of the control log: the seam through which adapters reach it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::model::ids::{EventId, KeyId, LogIndex, NodeId, TicketId};
use crate::model::ledger::{ChangeKind, ChangeOutcome, Condition};
use crate::model::policy::{Fault, Fields, Merged};

/// The control log, as adapters above the desk see it. Every call ends within a few seconds, a change of the fleet within
/// a minute.
#[async_trait]
pub trait ControlPort: Send + Sync {
    /// Puts a change to an event into the log, if the condition holds of the event.
    ///
    /// # Errors
    /// See [`ControlError`]; nothing was changed unless it is [`ControlError::Unknown`].
    async fn change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Changed, ControlError>;

    /// What [`ControlPort::change`] would come to at this moment; changes nothing.
    ///
    /// # Errors
    /// As of the change itself.
    async fn try_change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Tried, ControlError>;

    /// What these changes would come to, one after the other; changes nothing.
    async fn try_changes(&self, changes: Vec<(EventId, ChangeKind)>) -> Vec<Result<Tried, ControlError>>;

    /// Puts a new signing key into the log.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn rotate_key(&self) -> Result<(KeyId, LogIndex), ControlError>;

    /// The id that a new signing key would have; changes nothing.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn try_rotate_key(&self) -> Result<KeyId, ControlError>;

    /// What the log says of an event at this moment, as JSON for the operator.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn describe(&self, event: EventId) -> Result<serde_json::Value, ControlError>;

    /// All events, in the form of [`ControlPort::describe`].
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn list(&self) -> Result<Vec<serde_json::Value>, ControlError>;

    /// The records of an event's log after an index, oldest first, at most `limit` of them.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn event_log(
        &self,
        event: EventId,
        after: LogIndex,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, ControlError>;

    /// What the log knows of one ticket.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn explain(&self, event: EventId, ticket: TicketId) -> Result<serde_json::Value, ControlError>;

    /// Looks at the fleet, or changes who is in it; returns what the fleet is then, as JSON for the operator.
    ///
    /// # Errors
    /// See [`ControlError`]; a lone node refuses every change.
    async fn fleet(&self, deed: FleetDeed) -> Result<serde_json::Value, ControlError>;

    /// Whether this node leads; a lone node always does.
    fn leads(&self) -> bool;
}

/// What may be done about a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FleetDeed {
    /// Looks only.
    Look,
    /// Founds the fleet with the controllers of this node's configuration: once in its life, asked of one of them.
    Found,
    /// Makes a node a controller: one that is new, or whose disk was lost and that was removed before.
    AddController {
        /// The node.
        node: NodeId,
        /// Host and port of its `cluster.listen`.
        address: String,
    },
    /// Makes a controller a controller no more, whether it lives or not.
    RemoveController {
        /// The node.
        node: NodeId,
    },
    /// Forgets a node that is gone for good: nothing waits for its word any more.
    Expel {
        /// The node.
        node: NodeId,
    },
}

/// What a change did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// Where in the log it stands.
    pub index: LogIndex,
    /// The version (ETag) of the event after it; 0 if the event is gone.
    pub version: u64,
    /// Whether the event was created by it.
    pub outcome: ChangeOutcome,
    /// What a file's submission applied, and what live changes override.
    pub merged: Option<Merged>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// What a change would come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// The version (ETag) that the event has; `None`: there is none of this id.
    pub version: Option<u64>,
    /// What would become of the event.
    pub outcome: ChangeOutcome,
    /// What a file's submission would apply, and what live changes override.
    pub merged: Option<Merged>,
    /// The fields that the event would have; `None`: it would be gone.
    pub fields: Option<Fields>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Why the control log did not do as asked.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ControlError {
    /// There is no such event.
    #[error("there is no event of this id; PUT creates one")]
    NoSuchEvent,
    /// The event has moved on.
    #[error(
        "the event has changed since (its version is now {current}); read it again and repeat the change"
    )]
    VersionMismatch {
        /// The version now.
        current: u64,
    },
    /// The asker thought that the event exists.
    #[error("there is no event of this id, and `If-Match` asks for one")]
    Missing,
    /// The asker thought that the event does not exist.
    #[error(
        "there is an event of this id already (its version is {current}), and `If-None-Match` asks for none"
    )]
    Exists {
        /// Its version.
        current: u64,
    },
    /// Not as things are.
    #[error("{0}")]
    Conflict(String),
    /// The fields are at fault.
    #[error("{} field(s) are at fault", .0.len())]
    Faults(Vec<Fault>),
    /// The log takes no entries at this moment: nothing was changed.
    #[error("the control log takes no changes at this moment ({0}); nothing was changed, try again")]
    Unavailable(String),
    /// No answer in time: the change may or may not take effect.
    #[error("no answer from the control log in time; read it again to see whether the change took effect")]
    Unknown,
    /// The event has no such ticket.
    #[error("this event has no ticket of this reference; it is another event's, or none was made yet")]
    NoSuchTicket,
}

//! What the desk asks of the control log: the seam through which adapters reach it.

use async_trait::async_trait;
use serde::Serialize;

use crate::model::ids::{EventId, KeyId, LogIndex, TicketId};
use crate::model::ledger::{ChangeKind, ChangeOutcome};
use crate::model::policy::{Fault, Merged};

/// The control log, as adapters above the desk see it. Every call ends within a few seconds.
#[async_trait]
pub trait ControlPort: Send + Sync {
    /// Puts a change to an event into the log; `if_match` is the version (ETag) that the asker has seen.
    ///
    /// # Errors
    /// See [`ControlError`]; nothing was changed unless it is [`ControlError::Unknown`].
    async fn change(
        &self,
        event: EventId,
        kind: ChangeKind,
        if_match: Option<u64>,
    ) -> Result<Changed, ControlError>;

    /// Puts a new signing key into the log.
    ///
    /// # Errors
    /// See [`ControlError`].
    async fn rotate_key(&self) -> Result<(KeyId, LogIndex), ControlError>;

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
}

/// What a change did.
#[derive(Clone, Debug, Serialize)]
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

/// Why the control log did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
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
    /// Not while anyone waits.
    #[error("{0}")]
    Conflict(String),
    /// The fields are at fault.
    #[error("{} field(s) are at fault", .0.len())]
    Faults(Vec<Fault>),
    /// The log takes no entries at this moment: nothing was changed.
    #[error("the control log takes no changes at this moment ({0}); nothing was changed, try again")]
    Unavailable(String),
    /// No answer in time: the change may or may not take effect.
    #[error("no answer from the control log in time; read the event to see whether the change took effect")]
    Unknown,
}

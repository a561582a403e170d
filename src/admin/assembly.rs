//! What the operator's API asks of the assembled process: the seam that keeps adapters apart.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;

use crate::desk::Changed;
use crate::model::ids::EventId;
use crate::model::policy::{Fault, Fields, Merged, Policy};

/// What only the assembled process can do.
#[async_trait]
pub trait Assembly: Send + Sync {
    /// Reads, checks and puts into use the configuration file; on error nothing has changed.
    ///
    /// # Errors
    /// Every reason why the file was refused, one per line.
    async fn reload(&self) -> Result<Reloaded, String>;

    /// What [`Assembly::reload`] would do; changes nothing.
    ///
    /// # Errors
    /// As of the reload itself.
    async fn try_reload(&self) -> Result<ReloadTried, String>;

    /// What this node's configuration file has against fields of an event: each would leave visitors without answer.
    fn faults(&self, fields: &Fields) -> Vec<Fault>;

    /// What an operator should know of a policy in the surroundings that the configuration file makes.
    fn warnings(&self, event: &EventId, policy: &Policy) -> Vec<String>;
}

/// What a reload would do.
#[derive(Clone, Debug, Serialize)]
pub struct ReloadTried {
    /// Says so.
    pub dry_run: bool,
    /// The parts of the file that have changed.
    pub changed: Vec<&'static str>,
    /// What the control log would make of each event of the file by itself.
    pub events: BTreeMap<EventId, Merged>,
    /// Events of the file that the control log would not take, and why.
    pub refused: BTreeMap<EventId, String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// What a reload did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reloaded {
    /// The parts of the file that had changed.
    pub changed: Vec<&'static str>,
    /// What the control log made of the events of the file.
    pub events: BTreeMap<EventId, Changed>,
    /// Events of the file that the control log did not take, and why.
    pub refused: BTreeMap<EventId, String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

//! What the operator's API asks of the assembled process: the seam that keeps adapters apart.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;

use crate::desk::Changed;
use crate::model::ids::EventId;

/// What only the assembled process can do.
#[async_trait]
pub trait Assembly: Send + Sync {
    /// Reads, checks and puts into use the configuration file; on error nothing has changed.
    ///
    /// # Errors
    /// Every reason why the file was refused, one per line.
    async fn reload(&self) -> Result<Reloaded, String>;

    /// Whether this node knows an origin of this name.
    fn has_origin(&self, name: &str) -> bool;

    /// Whether events that name no origin have one, by `default_origin`.
    fn has_default_origin(&self) -> bool;
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

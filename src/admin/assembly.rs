//! What the operator's API asks of the assembled process: the seam that keeps adapters apart.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;

use crate::config;
use crate::desk::{Changed, ControlError};
use crate::model::ids::EventId;
use crate::model::policy::{Fault, Fields, Merged, Policy};

/// What only the assembled process can do.
#[async_trait]
pub trait Assembly: Send + Sync {
    /// Reads, checks and puts into use the configuration file.
    ///
    /// # Errors
    /// See [`ReloadError`].
    async fn reload(&self) -> Result<Reloaded, ReloadError>;

    /// What [`Assembly::reload`] would do; changes nothing.
    ///
    /// # Errors
    /// As of the reload itself.
    async fn try_reload(&self) -> Result<ReloadTried, ReloadError>;

    /// What this node's configuration file has against fields of an event: each would leave visitors without answer.
    fn faults(&self, fields: &Fields) -> Vec<Fault>;

    /// What an operator should know of a policy in the surroundings that the configuration file makes.
    fn warnings(&self, event: &EventId, policy: &Policy) -> Vec<String>;
}

/// Why a reload is no success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is at fault, or holds what cannot be put into use: nothing was changed.
    #[error("nothing was changed: {}", one_line(.0))]
    Refused(Vec<config::Fault>),
    /// A change that came in between has made the log refuse events of a file that was put into use.
    #[error("the file is in use, but for this: {}", one_line(.0))]
    Partly(Vec<config::Fault>),
    /// The control log does not answer: nothing was changed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The machine is at fault: nothing was changed.
    #[error("nothing was changed: {0}")]
    Failed(String),
}

fn one_line(faults: &[config::Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What a reload would do.
#[derive(Clone, Debug, Serialize)]
pub struct ReloadTried {
    /// Says so.
    pub dry_run: bool,
    /// The parts of the file that have changed.
    pub changed: Vec<&'static str>,
    /// What the control log would make of the events of the file.
    pub events: BTreeMap<EventId, Merged>,
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
    /// What the operator should know.
    pub warnings: Vec<String>,
}

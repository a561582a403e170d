//! The three-way merge of a file's fields with live changes (design §8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use crate::model::ids::NodeId;

/// The fields of one event as a controller's file states them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The controller that submits.
    pub controller: NodeId,
    /// What its file says.
    pub fields: Fields,
}

/// The values last submitted from files: by anyone and by each controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submissions {
    /// Per field, the value last submitted by anyone.
    pub by_anyone: Fields,
    /// Per controller, its last submission.
    pub by_controller: BTreeMap<NodeId, Fields>,
}

/// What a submission did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// Fields that took the file's value.
    pub applied: Vec<String>,
    /// Fields where a live change overrides the file.
    pub overridden: Vec<String>,
}

impl Submissions {
    /// Merges a submission into the effective fields.
    pub fn merge(&mut self, _effective: &mut Fields, _submission: &Submission) -> Merged {
        Merged::default()
    }
}

//! Fields as text: what a file or the operator's API states about an event.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Fields of an event by name, each value as JSON text in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields(pub BTreeMap<String, String>);

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The path of the field, as `schedule.opens_at` or `match[1].host`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub problem: String,
}

impl super::Policy {
    /// The policy that fields make.
    ///
    /// # Errors
    /// All faults of all fields at once.
    pub fn from_fields(_fields: &Fields) -> Result<Self, Vec<Fault>> {
        Err(Vec::new())
    }
}

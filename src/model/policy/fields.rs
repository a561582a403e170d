//! Fields as text: what a file or the operator's API states about an event.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields of an event by name, each value as JSON text in canonical form (object keys sorted).
///
/// Text and not a typed struct, because what is merged and kept in the log is exactly what was stated, field by field.
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

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Self {
        // `serde_json::Map` is a BTreeMap here, so the text of equal values is equal.
        Self(map.into_iter().map(|(name, value)| (name, value.to_string())).collect())
    }
}

impl Fields {
    /// The fields as JSON values; text that is no JSON becomes a string.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        self.0.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    /// One field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets one field.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), value.to_string());
    }
}

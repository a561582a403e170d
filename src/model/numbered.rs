//! Edges that have no number of their own: what they are known by, and which numbers the leader gives them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::NodeId;

/// The least number that the leader gives. Nodes that are numbered by their configuration have lower ones, so that no
/// number is ever given that a configuration may name.
pub const FIRST_GIVEN: u16 = 10_000;

impl NodeId {
    /// Whether only the leader gives this number.
    #[must_use]
    pub fn is_given(self) -> bool {
        self.0.get() >= FIRST_GIVEN
    }
}

/// One edge that was given a number: the SHA-256 digest of the public key that it made for itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance(pub [u8; 32]);

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Instance({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// The name in a certificate of edges without a number: 1 to 63 characters of `a-z`, `0-9` and `-`, and no `-` at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EdgeName(Arc<str>);

/// Why a text is no [`EdgeName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name of edges is 1 to 63 characters of a-z, 0-9 and '-', and neither begins nor ends with '-'")]
pub struct InvalidEdgeName;

impl EdgeName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EdgeName {
    type Err = InvalidEdgeName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=63).contains(&text.len()) && !text.starts_with('-') && !text.ends_with('-');
        if fits && text.chars().all(allowed) { Ok(Self(text.into())) } else { Err(InvalidEdgeName) }
    }
}

impl TryFrom<String> for EdgeName {
    type Error = InvalidEdgeName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EdgeName> for String {
    fn from(name: EdgeName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for EdgeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_edges_are_labels_of_a_host_name() {
        for good in ["a", "0", "web-1", &"x".repeat(63)] {
            assert!(good.parse::<EdgeName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "ä", &"x".repeat(64)] {
            assert!(bad.parse::<EdgeName>().is_err(), "{bad}");
        }
    }
}

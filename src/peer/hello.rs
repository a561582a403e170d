//! What two nodes say first.

use serde::{Deserialize, Serialize};

use super::refusals::Refusal;
use crate::model::ids::NodeRun;

/// The version of everything that nodes say to each other.
pub(super) const VERSION: u16 = 2;

/// The oldest version that this one still talks to.
const OLDEST: u16 = 2;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Reports to the leader, pulses from it.
    Control,
    /// The control log's own messages.
    Raft,
    /// What an operator asks of the leader by way of another node.
    Operator,
    /// Gossip.
    Gossip,
    /// A number for an edge that has none.
    Number,
}

/// The dialer's first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    version: u16,
    oldest: u16,
    /// `None`: an edge that has no number yet.
    pub(super) run: Option<NodeRun>,
    pub(super) purpose: Purpose,
}

/// The answer: who answers, or why not.
pub(super) type Welcome = Result<NodeRun, Refusal>;

impl Hello {
    pub(super) fn new(run: NodeRun, purpose: Purpose) -> Self {
        Self { version: VERSION, oldest: OLDEST, run: Some(run), purpose }
    }

    /// Of an edge that asks for a number.
    pub(super) fn unnumbered() -> Self {
        Self { version: VERSION, oldest: OLDEST, run: None, purpose: Purpose::Number }
    }

    /// Whether both sides know a version of each other's.
    pub(super) fn is_understood(&self) -> bool {
        self.version >= OLDEST && self.oldest <= VERSION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{Generation, NodeId};
    use std::num::NonZeroU16;

    #[test]
    fn versions_understand_each_other_if_neither_is_too_old_for_the_other() {
        let run = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(1) };
        let hello = |version, oldest| Hello { version, oldest, run: Some(run), purpose: Purpose::Control };
        assert!(Hello::new(run, Purpose::Raft).is_understood());
        assert!(hello(VERSION + 3, VERSION).is_understood());
        assert!(!hello(VERSION + 3, VERSION + 1).is_understood());
        assert!(!hello(OLDEST - 1, 0).is_understood());
    }
}

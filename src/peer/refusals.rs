//! Whom this node did not let in, counted by reason.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Why a node is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// No TLS, or no certificate of this fleet.
    Certificate,
    /// TLS, but nothing that a node would say.
    Garbage,
    /// A version that does not know this one.
    Version,
    /// The certificate is another node's.
    WrongNode,
    /// A node of this very number: two have it.
    SameNode,
    /// This node does not do what the other wants of it.
    NotServed,
    /// A newer run of the same node has been here.
    OldRun,
    /// A caller who does not say who it is.
    Silent,
    /// Dropped to make room: too many callers had not said who they are.
    Crowded,
    /// A message that is longer than any may be.
    TooLong,
    /// Messages of the control log from a node that has no part in it.
    NotController,
    /// Messages of the control log to a controller that has none, and was not told that one begins.
    EmptyLog,
    /// A controller that was lost before the fleet was restored, and was not added since.
    Lost,
    /// An edge by a number that it does not hold.
    NotHolder,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Certificate,
        Self::Garbage,
        Self::Version,
        Self::WrongNode,
        Self::SameNode,
        Self::NotServed,
        Self::OldRun,
        Self::Silent,
        Self::Crowded,
        Self::TooLong,
        Self::NotController,
        Self::EmptyLog,
        Self::Lost,
        Self::NotHolder,
    ];

    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Garbage => "garbage",
            Self::Version => "version",
            Self::WrongNode => "wrong_node",
            Self::SameNode => "same_node",
            Self::NotServed => "not_served",
            Self::OldRun => "old_run",
            Self::Silent => "silent",
            Self::Crowded => "crowded",
            Self::TooLong => "too_long",
            Self::NotController => "not_controller",
            Self::EmptyLog => "empty_log",
            Self::Lost => "lost",
            Self::NotHolder => "not_holder",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => {
                "it shows no certificate of this fleet: make one with `anteroom certs node` from the same `ca`"
            }
            Self::Garbage => "it does not talk as a node does",
            Self::Version => "its version and this one do not know each other: upgrade one step at a time",
            Self::WrongNode => "its certificate is not of the `node.id` that it claims",
            Self::SameNode => "it has the `node.id` of this node: every node needs one of its own",
            Self::NotServed => "this node is no controller: list only controllers under `cluster.controllers`",
            Self::OldRun => {
                "a newer run of that node has been here: two processes have the same `node.id`, or its clock was set back"
            }
            Self::Silent => "it does not say who it is",
            Self::Crowded => {
                "too many callers do not say who they are: let only nodes of the fleet reach `cluster.listen`"
            }
            Self::TooLong => "it sends a message that is longer than any may be",
            Self::NotController => {
                "it is no controller, and sends messages of the control log: do all nodes have the same \
                 `cluster.controllers`?"
            }
            Self::EmptyLog => {
                "it takes this node for a controller that has votes and entries to remember, but the control log here \
                 is empty; if the disk was lost, `anteroom cluster remove` and then `add` this node"
            }
            Self::Lost => {
                "it was named as lost when this fleet was restored, and has the disk of before: end it at once, since with \
                 others like it it lets in visitors beside this fleet, and add it with an empty `node.data_dir`"
            }
            Self::NotHolder => {
                "its number is another edge's, or was given back while it was away: start it again, and it gets another"
            }
        })
    }
}

/// How many were refused, by reason.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    /// Counts one, and says so in the log ever more rarely. `from` begins the sentence.
    pub fn note(&self, refusal: Refusal, from: &dyn fmt::Display) {
        let Some(count) = self.0.get(refusal as usize) else { return };
        let so_far = count.fetch_add(1, Ordering::Relaxed) + 1;
        if so_far.is_power_of_two() {
            tracing::warn!(reason = refusal.as_str(), so_far, "{from} was refused: {refusal}");
        }
    }

    /// Counts one that the caller tells of itself.
    pub fn count_one(&self, refusal: Refusal) {
        if let Some(count) = self.0.get(refusal as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were refused for this reason.
    #[must_use]
    pub fn count(&self, refusal: Refusal) -> u64 {
        self.0.get(refusal as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

//! A change of controllers that is under way, and how one that was left half-way comes to its end.
//!
//! Raft changes its voters in two steps: first both sets have to agree to everything, then the new one alone. Whoever led
//! the first step may be gone before the second, and an addition may end before it has begun to vote. So the leader looks
//! after what nobody is at work on: from two sets it goes on to the newer one, since it cannot know whether somebody was
//! told so; a newcomer that has no vote yet is forgotten.

use std::collections::BTreeSet;

use openraft::{BasicNode, ChangeMembers, Membership, Raft};
use serde_json::{Value, json};

use super::raft::node_of;
use super::storage::LogTypes;
use crate::model::ids::NodeId;

/// A change that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    from: BTreeSet<u64>,
    to: BTreeSet<u64>,
    /// Those who catch up, and have no vote yet.
    newcomers: BTreeSet<u64>,
}

/// Whether somebody is at work on a change: who was asked for it. Otherwise the leader looks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Done,
    Left,
}

impl Change {
    /// The change that this controller knows of.
    pub(super) fn of(raft: &Raft<LogTypes>) -> Option<Self> {
        Self::in_membership(raft.metrics().borrow().membership_config.membership())
    }

    fn in_membership(membership: &Membership<u64, BasicNode>) -> Option<Self> {
        let newcomers: BTreeSet<u64> = membership.learner_ids().collect();
        match membership.get_joint_config().as_slice() {
            [from, .., to] => Some(Self { from: from.clone(), to: to.clone(), newcomers: BTreeSet::new() }),
            [from] if !newcomers.is_empty() => {
                Some(Self { from: from.clone(), to: from.union(&newcomers).copied().collect(), newcomers })
            }
            _ => None,
        }
    }

    /// The controllers without whom it does not go on, where `answers` tells who does.
    fn waits_for(&self, answers: impl Fn(NodeId) -> bool) -> BTreeSet<u64> {
        let silent = |set: &BTreeSet<u64>| -> BTreeSet<u64> {
            set.iter().copied().filter(|id| !node_of(*id).is_some_and(&answers)).collect()
        };
        if !self.newcomers.is_empty() {
            return silent(&self.newcomers);
        }
        let lacking = [&self.from, &self.to].into_iter().filter(|set| 2 * silent(set).len() >= set.len());
        lacking.flat_map(silent).collect()
    }

    /// As JSON for the operator.
    pub(super) fn describe(&self, work: Work, answers: impl Fn(NodeId) -> bool) -> Value {
        json!({
            "from": self.from,
            "to": self.to,
            "newcomers": self.newcomers,
            "at_work": work == Work::Done,
            "waits_for": self.waits_for(answers),
        })
    }

    /// Brings it to an end that is the same whoever does it. Says in the log what came of it.
    pub(super) async fn end(&self, raft: &Raft<LogTypes>) {
        let (step, what) = if self.newcomers.is_empty() {
            (ChangeMembers::AddVoterIds(BTreeSet::new()), "was left half-way and is finished")
        } else {
            (ChangeMembers::RemoveNodes(self.newcomers.clone()), "was given up and is taken back")
        };
        match raft.change_membership(step, false).await {
            Ok(_) => tracing::info!(from = ?self.from, to = ?self.to, "a change of controllers {what}"),
            // The first step is not through yet, or another leads: there will be another look.
            Err(error) => tracing::debug!(%error, "a change of controllers is not finished yet"),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |set: &BTreeSet<u64>| set.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "from {} to {}", list(&self.from), list(&self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(configs: &[&[u64]], nodes: &[u64]) -> Option<Change> {
        let configs = configs.iter().map(|set| set.iter().copied().collect()).collect();
        let nodes: std::collections::BTreeMap<_, _> =
            nodes.iter().map(|id| (*id, BasicNode::new("a:1"))).collect();
        Change::in_membership(&Membership::new(configs, nodes))
    }

    fn waits_for(change: &Change, answering: &[u16]) -> Vec<u64> {
        change.waits_for(|node| answering.contains(&node.0.get())).into_iter().collect()
    }

    #[test]
    fn a_fleet_with_one_set_of_voters_and_nobody_else_is_not_changing() {
        assert_eq!(change(&[&[1, 2, 3]], &[1, 2, 3]), None);
    }

    #[test]
    fn a_change_waits_for_those_without_whom_one_of_its_sets_has_no_majority() {
        let removal = change(&[&[1, 2, 3], &[1, 2]], &[1, 2, 3]).unwrap();
        assert_eq!(removal.to_string(), "from 1, 2, 3 to 1, 2");
        assert!(waits_for(&removal, &[1, 2]).is_empty());
        assert_eq!(waits_for(&removal, &[1, 3]), [2]);
        assert_eq!(waits_for(&removal, &[1]), [2, 3]);
        let addition = change(&[&[1, 2, 3], &[1, 2, 3, 4]], &[1, 2, 3, 4]).unwrap();
        assert_eq!(waits_for(&addition, &[1, 2]), [3, 4]);
        assert!(waits_for(&addition, &[1, 2, 4]).is_empty());
    }

    #[test]
    fn a_newcomer_without_a_vote_is_a_change_that_waits_for_it() {
        let addition = change(&[&[1]], &[1, 2]).unwrap();
        assert_eq!(addition.to_string(), "from 1 to 1, 2");
        assert_eq!((waits_for(&addition, &[1]), waits_for(&addition, &[1, 2])), (vec![2], vec![]));
    }
}

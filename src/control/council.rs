//! Who the controllers are, and how that changes: by raft's joint consensus, never by editing files on a live fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use openraft::{BasicNode, ChangeMembers, Raft};
use serde_json::{Value, json};

use super::acknowledged::Acknowledged;
use super::fleet::Membership;
use super::peers::{is_founded, tell_of_beginning};
use super::raft::node_of;
use super::storage::LogTypes;
use crate::desk::ControlError;
use crate::model::ids::{NodeId, NodeRun};
use crate::model::ledger::State;
use crate::peer::Address;

/// How long a change of controllers may take: the new one has to catch up first.
const PATIENCE: Duration = Duration::from_secs(30);

/// The controllers, as one of them sees them.
#[derive(Clone)]
pub(super) struct Council {
    raft: Arc<ArcSwapOption<Raft<LogTypes>>>,
    membership: Membership,
}

impl std::fmt::Debug for Council {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Council").field("membership", &self.membership).finish_non_exhaustive()
    }
}

impl Council {
    pub(super) fn new(raft: Arc<ArcSwapOption<Raft<LogTypes>>>, membership: Membership) -> Self {
        Self { raft, membership }
    }

    fn raft(&self) -> Result<Arc<Raft<LogTypes>>, ControlError> {
        let closed =
            || ControlError::Unavailable("the control log of this controller is not open".to_owned());
        self.raft.load_full().ok_or_else(closed)
    }

    /// Founds the fleet with the controllers of the configuration. Refused if one of them cannot be asked, or has a
    /// log: then a fleet exists already, or its remains do.
    pub(super) async fn found(&self) -> Result<(), ControlError> {
        let raft = self.raft()?;
        let Membership { dialer, controllers, .. } = &self.membership;
        let unavailable = |error: &dyn std::fmt::Display| ControlError::Unavailable(error.to_string());
        // One that has begun to found and was never elected may try again: the others may have forgotten that they
        // were told.
        let begun = raft.is_initialized().await.map_err(|error| unavailable(&error))?;
        if begun && raft.metrics().borrow().last_log_index != Some(0) {
            return Err(already(dialer.me().node));
        }
        let others: Vec<Address> = controllers
            .iter()
            .filter(|(node, _)| **node != dialer.me().node)
            .map(|(node, at)| Address { node: *node, at: at.clone() })
            .collect();
        let absent = |error: anyhow::Error| unavailable(&format!("every controller must run: {error:#}"));
        for address in &others {
            if is_founded(dialer, address).await.map_err(absent)? {
                return Err(already(address.node));
            }
        }
        for address in &others {
            if !tell_of_beginning(dialer, address).await.map_err(absent)? {
                return Err(already(address.node));
            }
        }
        if begun {
            return Ok(());
        }
        let members: BTreeMap<u64, BasicNode> =
            controllers.iter().map(|(node, at)| (id_of(*node), BasicNode::new(at))).collect();
        raft.initialize(members).await.map_err(|error| unavailable(&error))
    }

    /// Makes a node a controller once it has caught up.
    pub(super) async fn add(&self, node: NodeId, address: String) -> Result<(), ControlError> {
        let raft = self.raft()?;
        let id = id_of(node);
        if raft.metrics().borrow().membership_config.membership().voter_ids().any(|voter| voter == id) {
            return Err(ControlError::Conflict(format!(
                "node {node} is a controller already; one whose disk was lost has to be removed first"
            )));
        }
        let at = Address { node, at: address.clone() };
        match tell_of_beginning(&self.membership.dialer, &at).await {
            Ok(true) => {}
            Ok(false) => {
                return Err(ControlError::Conflict(format!(
                    "node {node} has a control log already: give it an empty `node.data_dir`"
                )));
            }
            Err(error) => return Err(ControlError::Unavailable(format!("{error:#}"))),
        }
        let change = async {
            raft.add_learner(id, BasicNode::new(address), true).await?;
            raft.change_membership(ChangeMembers::AddVoterIds(BTreeSet::from([id])), false).await
        };
        in_time(change).await
    }

    /// Makes a controller a controller no more.
    pub(super) async fn remove(&self, node: NodeId) -> Result<(), ControlError> {
        let raft = self.raft()?;
        let id = id_of(node);
        let mut left = voters(&raft);
        if left.remove(&id).is_none() {
            return Err(ControlError::Conflict(format!("node {node} is no controller")));
        }
        if left.is_empty() {
            return Err(ControlError::Conflict(
                "a fleet needs a controller: add another one first".to_owned(),
            ));
        }
        let (of, living) = (left.len(), self.living(left).await);
        if 2 * living <= of {
            return Err(ControlError::Conflict(format!(
                "without node {node} only {living} of {of} controllers would live, which is no majority: start the others \
                 again, or remove one that is gone"
            )));
        }
        in_time(raft.change_membership(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false)).await
    }

    /// How many of these controllers live and have a log: this one, and those that say so.
    async fn living(&self, controllers: BTreeMap<u64, String>) -> usize {
        let Membership { dialer, .. } = &self.membership;
        let mut living = 0;
        for (node, at) in controllers.into_iter().filter_map(|(id, at)| Some((node_of(id)?, at))) {
            let is_here = node == dialer.me().node;
            let answers = async || matches!(is_founded(dialer, &Address { node, at }).await, Ok(true));
            living += usize::from(is_here || answers().await);
        }
        living
    }

    /// The runs of a node that is to be forgotten.
    pub(super) fn gone(
        &self,
        state: &State,
        node: NodeId,
        acknowledged: &Acknowledged,
    ) -> Result<Vec<NodeRun>, ControlError> {
        let runs: Vec<NodeRun> = state.runs.keys().filter(|run| run.node == node).copied().collect();
        if runs.is_empty() {
            return Err(ControlError::Conflict(format!("no node {node} is registered")));
        }
        if runs.iter().any(|run| acknowledged.of(run).is_some()) {
            return Err(ControlError::Conflict(format!("node {node} is being heard: end it first")));
        }
        Ok(runs)
    }

    /// Who the controllers are, as JSON.
    pub(super) fn controllers(&self) -> Vec<Value> {
        let Some(raft) = self.raft.load_full() else { return Vec::new() };
        let metrics = raft.metrics();
        let seen = metrics.borrow();
        let membership = seen.membership_config.membership();
        let replicated = |id: &u64| {
            let known = seen.replication.as_ref().and_then(|all| all.get(id).copied().flatten());
            if *id == seen.id { seen.last_log_index } else { known.map(|log| log.index) }
        };
        let describe = |(id, node): (&u64, &BasicNode)| {
            json!({
                "node": node_of(*id),
                "address": node.addr,
                "votes": membership.voter_ids().any(|voter| voter == *id),
                "leads": seen.current_leader == Some(*id),
                "log_index": replicated(id),
            })
        };
        membership.nodes().map(describe).collect()
    }
}

/// The controllers, with their addresses.
fn voters(raft: &Raft<LogTypes>) -> BTreeMap<u64, String> {
    let metrics = raft.metrics();
    let seen = metrics.borrow();
    let membership = seen.membership_config.membership();
    let address = |id| Some((id, membership.get_node(&id)?.addr.clone()));
    membership.voter_ids().filter_map(address).collect()
}

async fn in_time<T, E: std::fmt::Display>(
    change: impl Future<Output = Result<T, E>>,
) -> Result<(), ControlError> {
    match tokio::time::timeout(PATIENCE, change).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(ControlError::Unavailable(error.to_string())),
        Err(_) => Err(ControlError::Unknown),
    }
}

fn already(node: NodeId) -> ControlError {
    ControlError::Conflict(format!(
        "node {node} has a control log already: the fleet is founded, or its remains are there"
    ))
}

fn id_of(node: NodeId) -> u64 {
    u64::from(node.0.get())
}

//! Raft over the storage, with this node as its only voter.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, CommittedLeaderId, Config, Raft, RaftMetrics, ServerState, SnapshotPolicy};

use super::storage::{LogTypes, OpenError, SharedState, Storage};
use crate::model::ids::{NodeId, Term};
use crate::model::ledger::{Command, Outcome};

/// Entries after which the log is folded into a snapshot: about 20 minutes of a busy event.
const ENTRIES_PER_SNAPSHOT: u64 = 5000;

/// Entries that are kept behind a snapshot.
const ENTRIES_KEPT: u64 = 500;

/// Between controllers of one network, unless the configuration says otherwise.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(100);

/// A commit that takes so many heartbeats has no quorum behind it.
const HEARTBEATS_PER_WRITE: u32 = 10;

/// A leader that no quorum has answered for so many heartbeats may be deposed.
const HEARTBEATS_ALONE: u32 = 3;

/// How long a lone voter may take to lead.
const LEAD_WITHIN: Duration = Duration::from_secs(10);

/// Why the log takes no more entries.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogFailure {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0}")]
    Disk(String),
    #[error("raft does not run: {0}")]
    Raft(String),
    #[error("this controller does not lead, or no quorum answers it")]
    Deposed,
}

/// The running log; clones are the same one.
#[derive(Clone)]
pub(super) struct Log {
    raft: Raft<LogTypes>,
    storage: Storage,
    state: SharedState,
    heartbeat: Duration,
}

/// What this controller is to the others at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It leads, a quorum answers, and everything of before its term is applied.
    Leads,
    /// It does not; the controller that does, as far as is known.
    Follows(Option<NodeId>),
}

impl Log {
    /// Runs raft on the storage as the only voter, founds it if it is new, and waits until this node leads with
    /// everything applied.
    pub(super) async fn start(storage: Storage, node: NodeId) -> Result<Self, LogFailure> {
        let log = Self::open(storage, node, NoPeers, HEARTBEAT).await?;
        if !log.is_founded().await? {
            log.found(BTreeMap::from([(node, String::new())])).await?;
        }
        log.lead().await?;
        Ok(log)
    }

    /// Runs raft on the storage; it leads, follows, or waits to be added to a fleet.
    pub(super) async fn open(
        storage: Storage,
        node: NodeId,
        network: impl RaftNetworkFactory<LogTypes>,
        heartbeat: Duration,
    ) -> Result<Self, LogFailure> {
        let id = u64::from(node.0.get());
        let (entries, machine, state) = storage.split()?;
        let beat = crate::model::time::as_millis(heartbeat);
        let config = Config {
            cluster_name: "anteroom".to_owned(),
            heartbeat_interval: beat,
            election_timeout_min: 3 * beat,
            election_timeout_max: 3 * beat + (3 * beat / 5),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_PER_SNAPSHOT),
            max_in_snapshot_log_to_keep: ENTRIES_KEPT,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| LogFailure::Raft(error.to_string()))?;
        let raft = Raft::new(id, Arc::new(config), network, entries, machine).await;
        let raft = raft.map_err(|error| storage.failure(error.to_string()))?;
        Ok(Self { raft, storage, state, heartbeat })
    }

    /// Whether this log knows of any voter.
    pub(super) async fn is_founded(&self) -> Result<bool, LogFailure> {
        self.raft.is_initialized().await.map_err(|error| self.failure(&error))
    }

    /// Founds the log with these voters and their addresses; once in the life of a fleet.
    pub(super) async fn found(&self, voters: BTreeMap<NodeId, String>) -> Result<(), LogFailure> {
        let members: BTreeMap<_, _> =
            voters.into_iter().map(|(node, at)| (u64::from(node.0.get()), BasicNode::new(at))).collect();
        self.raft.initialize(members).await.map_err(|error| self.failure(&error))
    }

    async fn lead(&self) -> Result<(), LogFailure> {
        let wait = self.raft.wait(Some(LEAD_WITHIN));
        let leads = wait.metrics(
            |seen| {
                let applied = seen.last_applied.map(|last| last.index);
                seen.state == ServerState::Leader
                    && seen.last_log_index.is_some()
                    && applied == seen.last_log_index
            },
            "this node leads with everything applied",
        );
        leads.await.map(|_| ()).map_err(|error| self.failure(&error))
    }

    /// What this controller is to the others.
    pub(super) fn standing(&self) -> Standing {
        standing(&self.raft.metrics().borrow(), HEARTBEATS_ALONE * self.heartbeat)
    }

    /// Waits until raft has news of any kind.
    pub(super) async fn news(&self) {
        let mut seen = self.raft.metrics();
        seen.borrow_and_update();
        // Raft that has ended has no news: whoever waits for them is told by others.
        if seen.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Why raft has ended, if it has: then nothing more will come of this log.
    pub(super) fn fatal(&self) -> Option<LogFailure> {
        let ended = self.raft.metrics().borrow().running_state.clone().err();
        ended.map(|error| self.failure(&error))
    }

    /// The controllers that the log knows, with their addresses.
    pub(super) fn controllers(&self) -> BTreeMap<NodeId, String> {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow();
        let nodes = seen.membership_config.membership().nodes();
        nodes.filter_map(|(id, node)| Some((node_of(*id)?, node.addr.clone()))).collect()
    }

    /// Raft itself, for the messages of other controllers and for changes of membership.
    pub(super) fn raft(&self) -> &Raft<LogTypes> {
        &self.raft
    }

    /// The term that this node leads. Two nodes never lead the same one: raft orders votes by term and node.
    pub(super) fn term(&self) -> Term {
        let vote = self.raft.metrics().borrow().vote;
        Term::of(vote.leader_id.term, vote.leader_id.node_id)
    }

    /// The state that the log has come to.
    pub(super) fn state(&self) -> &SharedState {
        &self.state
    }

    /// Puts a command into the log; on return it is on the disks of a quorum and applied.
    pub(super) async fn write(&self, command: Command) -> Result<Outcome, LogFailure> {
        let written =
            tokio::time::timeout(HEARTBEATS_PER_WRITE * self.heartbeat, self.raft.client_write(command));
        match written.await {
            Ok(Ok(response)) => Ok(response.data),
            Ok(Err(RaftError::APIError(_))) | Err(_) => Err(LogFailure::Deposed),
            Ok(Err(error)) => Err(self.failure(&error)),
        }
    }

    /// Ends raft and closes the file.
    pub(super) async fn stop(self) {
        let _ = self.raft.shutdown().await;
    }

    /// What is behind an error of raft's: the disk's own words where there are any.
    fn failure(&self, error: &dyn std::fmt::Display) -> LogFailure {
        self.storage.failure(error.to_string())
    }
}

fn standing(seen: &RaftMetrics<u64, BasicNode>, patience: Duration) -> Standing {
    let leader_id = CommittedLeaderId::new(seen.vote.leader_id.term, seen.vote.leader_id.node_id);
    let of_this_term = seen.last_applied.is_some_and(|last| last.leader_id == leader_id);
    let alone = seen.membership_config.membership().voter_ids().count() == 1;
    let silence = seen.millis_since_quorum_ack.map(Duration::from_millis);
    let answered = alone || silence.is_some_and(|silence| silence < patience);
    if seen.state == ServerState::Leader && seen.vote.committed && of_this_term && answered {
        return Standing::Leads;
    }
    let other = seen.current_leader.filter(|leader| *leader != seen.id);
    Standing::Follows(other.and_then(node_of))
}

/// The node that raft knows by this id.
pub(super) fn node_of(id: u64) -> Option<NodeId> {
    u16::try_from(id).ok().and_then(NonZeroU16::new).map(NodeId)
}

impl Storage {
    fn failure(&self, otherwise: String) -> LogFailure {
        self.disk_failure().map_or(LogFailure::Raft(otherwise), LogFailure::Disk)
    }
}

/// A lone voter has nobody to talk to.
#[derive(Clone, Copy, Debug)]
struct NoPeers;

#[derive(Debug, thiserror::Error)]
#[error("this node is the only voter")]
struct OnlyVoter;

fn unreachable<E: std::error::Error>() -> RPCError<u64, BasicNode, E> {
    RPCError::Unreachable(Unreachable::new(&OnlyVoter))
}

impl RaftNetworkFactory<LogTypes> for NoPeers {
    type Network = Self;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetwork<LogTypes> for NoPeers {
    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<LogTypes>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(unreachable())
    }

    async fn install_snapshot(
        &mut self,
        _rpc: InstallSnapshotRequest<LogTypes>,
        _option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, BasicNode, RaftError<u64, openraft::error::InstallSnapshotError>>,
    > {
        Err(unreachable())
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(unreachable())
    }
}

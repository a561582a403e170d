//! Raft over the storage, with this node as its only voter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::RaftLogStorage;
use openraft::{BasicNode, Config, Raft, ServerState, SnapshotPolicy, Vote};

use super::storage::{LogTypes, OpenError, SharedState, Storage};
use crate::model::ids::{NodeId, Term};
use crate::model::ledger::{Command, Outcome};

/// Entries after which the log is folded into a snapshot: about 20 minutes of a busy event.
const ENTRIES_PER_SNAPSHOT: u64 = 5000;

/// Entries that are kept behind a snapshot.
const ENTRIES_KEPT: u64 = 500;

/// Heartbeat in milliseconds; elections wait 3 to 3.6 of them (`dependencies.md` §4).
const HEARTBEAT: u64 = 100;

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
}

/// The running log.
pub(super) struct Log {
    raft: Raft<LogTypes>,
    storage: Storage,
    state: SharedState,
}

impl Log {
    /// Runs raft on the storage, founds it if it is new, and waits until this node leads with everything applied.
    ///
    /// The term is greater than `after`, so that nobody takes what is said in it for something older.
    pub(super) async fn start(storage: Storage, node: NodeId, after: Term) -> Result<Self, LogFailure> {
        let id = u64::from(node.0.get());
        let (mut entries, machine, state) = storage.split()?;
        let outdated = |vote: Option<Vote<u64>>| vote.is_some_and(|vote| vote.leader_id.term <= after.0);
        let stored = entries.read_vote().await.map_err(|error| storage.failure(error.to_string()))?;
        if outdated(stored) {
            // A voter may always move to a newer term; it then has to elect itself anew.
            let newer = Vote::new(after.0 + 1, id);
            entries.save_vote(&newer).await.map_err(|error| storage.failure(error.to_string()))?;
        }
        let config = Config {
            cluster_name: "anteroom".to_owned(),
            heartbeat_interval: HEARTBEAT,
            election_timeout_min: 3 * HEARTBEAT,
            election_timeout_max: 3 * HEARTBEAT + 60,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_PER_SNAPSHOT),
            max_in_snapshot_log_to_keep: ENTRIES_KEPT,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| LogFailure::Raft(error.to_string()))?;
        let raft = Raft::new(id, Arc::new(config), NoPeers, entries, machine).await;
        let raft = raft.map_err(|error| storage.failure(error.to_string()))?;
        let log = Self { raft, storage, state };
        if !log.raft.is_initialized().await.map_err(|error| log.failure(&error))? {
            let members = BTreeMap::from([(id, BasicNode::default())]);
            log.raft.initialize(members).await.map_err(|error| log.failure(&error))?;
        }
        log.lead().await?;
        Ok(log)
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

    /// The term that this node leads.
    pub(super) fn term(&self) -> Term {
        Term(self.raft.metrics().borrow().current_term)
    }

    /// The state that the log has come to.
    pub(super) fn state(&self) -> &SharedState {
        &self.state
    }

    /// Puts a command into the log; on return it is on disk and applied.
    pub(super) async fn write(&self, command: Command) -> Result<Outcome, LogFailure> {
        let written = self.raft.client_write(command).await;
        written.map(|response| response.data).map_err(|error| self.failure(&error))
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

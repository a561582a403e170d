//! What controllers say to each other: raft's messages over the port between nodes.

use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, BasicNode, Raft};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::beginning::{Beginning, Invitation, has_begun};
use super::heard::Heard;
use super::raft::node_of;
use super::storage::LogTypes;
use crate::peer::{Address, Conversation, DialError, Dialer, PeerError, Purpose, Refusal};

/// Who cannot be reached is called again after this long.
const AGAIN: Duration = Duration::from_millis(100);

/// How long the answer to a single question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A call may take so long, which is four round trips and more; then a new one has better prospects.
const CALL: Duration = Duration::from_millis(500);

/// A question of one controller to another.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    Append(AppendEntriesRequest<LogTypes>),
    Vote(VoteRequest<u64>),
    Snapshot(InstallSnapshotRequest<LogTypes>),
    /// Whether the other has a log already.
    Founded,
    /// That the fleet is being founded, or the other added: its part begins.
    Begin(Invitation),
}

type Appended = Result<AppendEntriesResponse<u64>, RaftError<u64>>;
type Voted = Result<VoteResponse<u64>, RaftError<u64>>;
type Installed = Result<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>>;

/// Why a controller is answered no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error(transparent)]
    Broken(#[from] PeerError),
    #[error("it was lost before the fleet was restored, and was not added since")]
    Lost,
    #[error("this controller has no log that could answer")]
    EmptyLog,
    #[error("the control log cannot be written, so this controller cannot take part")]
    NotNoted,
}

/// Answers one controller's questions until it hangs up. Each answer has the type that its question asks for.
pub(super) async fn answer(
    mut conversation: Conversation,
    raft: Raft<LogTypes>,
    (beginning, heard): (Beginning, Heard),
) -> Result<(), Unanswered> {
    let node = conversation.peer().node;
    loop {
        let question: Question = conversation.hear().await?;
        heard.note(node);
        if !matches!(question, Question::Founded) && beginning.barred(&raft).contains(&node) {
            return Err(Unanswered::Lost);
        }
        let of_raft = !matches!(question, Question::Founded | Question::Begin(_));
        if of_raft && !beginning.admits(&raft).await {
            return Err(Unanswered::EmptyLog);
        }
        match question {
            Question::Append(request) => {
                let answer: Appended = raft.append_entries(request).await;
                conversation.say(&answer).await?;
            }
            Question::Vote(request) => {
                let answer: Voted = raft.vote(request).await;
                conversation.say(&answer).await?;
            }
            Question::Snapshot(request) => {
                let answer: Installed = raft.install_snapshot(request).await;
                conversation.say(&answer).await?;
            }
            Question::Founded => {
                conversation.say(&has_begun(&raft).await).await?;
            }
            Question::Begin(invitation) => {
                let told = beginning.tell(&raft, invitation).await.ok_or(Unanswered::NotNoted)?;
                conversation.say(&told).await?;
            }
        }
    }
}

/// Why a controller was not asked, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAsked {
    #[error(transparent)]
    Unreached(#[from] DialError),
    #[error(transparent)]
    Broken(#[from] PeerError),
    #[error("it gives no answer in two seconds")]
    Silent,
}

impl NotAsked {
    /// Whether somebody answers there who is no controller by its own configuration.
    pub(super) fn is_no_controller(&self) -> bool {
        matches!(self, Self::Unreached(DialError::Refused { refusal: Refusal::NotServed, .. }))
    }
}

/// Whether the controller at this address has a log.
///
/// # Errors
/// Why it cannot be asked.
pub(super) async fn is_founded(dialer: &Dialer, at: &Address) -> Result<bool, NotAsked> {
    ask_once(dialer, at, &Question::Founded).await
}

/// Tells the controller at this address that its part begins; false if it has a log with which it cannot.
///
/// # Errors
/// Why it cannot be told.
pub(super) async fn tell_of_beginning(
    dialer: &Dialer,
    at: &Address,
    invitation: Invitation,
) -> Result<bool, NotAsked> {
    ask_once(dialer, at, &Question::Begin(invitation)).await
}

async fn ask_once(dialer: &Dialer, at: &Address, question: &Question) -> Result<bool, NotAsked> {
    let mut conversation = dialer.dial(at, Purpose::Raft).await?;
    let answer = async {
        conversation.say(question).await?;
        conversation.hear().await
    };
    Ok(tokio::time::timeout(PATIENCE, answer).await.map_err(|_| NotAsked::Silent)??)
}

/// Calls other controllers for raft.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    pub(super) dialer: Dialer,
    /// Told who answers.
    pub(super) heard: Heard,
}

/// The way to one of them; a connection that was left in the middle of an answer is not used again.
pub(super) struct ToPeer {
    peers: Peers,
    address: Option<Address>,
    idle: Option<Conversation>,
    /// A call goes on when raft gives up the question for which it was made: a heartbeat is all that raft waits, and where
    /// four round trips take longer no connection would ever come about.
    calling: Option<JoinHandle<Called>>,
}

/// What became of a call; an error of its own if it took too long.
type Called = Result<Result<Conversation, DialError>, tokio::time::error::Elapsed>;

impl Drop for ToPeer {
    fn drop(&mut self) {
        self.calling.iter().for_each(JoinHandle::abort);
    }
}

impl RaftNetworkFactory<LogTypes> for Peers {
    type Network = ToPeer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> ToPeer {
        let address = node_of(target).map(|number| Address { node: number, at: node.addr.clone() });
        ToPeer { peers: self.clone(), address, idle: None, calling: None }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("raft names a node that cannot be one")]
struct NoSuchNode;

#[derive(Debug, thiserror::Error)]
#[error("the connection came about too late for this question")]
struct JustConnected;

impl ToPeer {
    /// The connection that is open, or one that is made now.
    async fn conversation(&mut self) -> Result<Conversation, Unreachable> {
        if let Some(conversation) = self.idle.take() {
            return Ok(conversation);
        }
        let Some(address) = &self.address else {
            return Err(Unreachable::new(&NoSuchNode));
        };
        let calling = self.calling.get_or_insert_with(|| {
            let (dialer, address) = (self.peers.dialer.clone(), address.clone());
            tokio::spawn(async move { timeout(CALL, dialer.dial(&address, Purpose::Raft)).await })
        });
        let called = calling.await;
        self.calling = None;
        match called {
            Ok(Ok(Ok(conversation))) => Ok(conversation),
            Ok(Ok(Err(error))) => Err(Unreachable::new(&error)),
            Ok(Err(late)) => Err(Unreachable::new(&late)),
            Err(error) => Err(Unreachable::new(&error)),
        }
    }

    /// Asks and hears the answer. Raft drops this after `patience`; a connection that came about with less than half of
    /// that left is kept for the next question.
    async fn ask<T, E>(
        &mut self,
        question: &Question,
        patience: Duration,
    ) -> Result<T, RPCError<u64, BasicNode, E>>
    where
        T: DeserializeOwned,
        E: std::error::Error,
    {
        let began = Instant::now();
        let mut conversation = self.conversation().await.map_err(RPCError::Unreachable)?;
        if began.elapsed() > patience / 2 {
            self.idle = Some(conversation);
            return Err(RPCError::Network(NetworkError::new(&JustConnected)));
        }
        let lost = |error: PeerError| RPCError::Network(NetworkError::from(AnyError::new(&error)));
        conversation.say(question).await.map_err(lost)?;
        let answer = conversation.hear().await.map_err(lost)?;
        self.peers.heard.note(conversation.peer().node);
        self.idle = Some(conversation);
        Ok(answer)
    }

    #[expect(clippy::result_large_err, reason = "the type is openraft's")]
    fn of_peer<T, E: std::error::Error>(
        &self,
        answer: Result<T, E>,
    ) -> Result<T, RPCError<u64, BasicNode, E>> {
        let target = self.address.as_ref().map_or(0, |address| u64::from(address.node.0.get()));
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(target, error)))
    }
}

impl RaftNetwork<LogTypes> for ToPeer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<LogTypes>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let answer: Appended = self.ask(&Question::Append(request), option.hard_ttl()).await?;
        self.of_peer(answer)
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<LogTypes>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, BasicNode, RaftError<u64, InstallSnapshotError>>>
    {
        let answer: Installed = self.ask(&Question::Snapshot(request), option.hard_ttl()).await?;
        self.of_peer(answer)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let answer: Voted = self.ask(&Question::Vote(request), option.hard_ttl()).await?;
        self.of_peer(answer)
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(AGAIN))
    }
}

//! The control log as seen from any node of a fleet: asked here if this node leads, else of the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::fleet::{Leadership, Membership};
use crate::desk::{Changed, ControlError, ControlPort, FleetDeed, Tried};
use crate::model::ids::{EventId, KeyId, LogIndex, NodeId, TicketId};
use crate::model::ledger::{ChangeKind, Condition};
use crate::peer::{Address, Conversation, Dialer, PeerError, Purpose, Refusals};

/// How long a leader is looked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same of a controller that has something to tell itself.
const LOOK_PATIENCE: Duration = Duration::from_millis(1500);

/// How long a leader may take to answer: longer than its log may.
const ANSWER_PATIENCE: Duration = Duration::from_secs(7);

/// The same for what changes the fleet: longer than a new controller may take to catch up.
const FLEET_PATIENCE: Duration = Duration::from_secs(40);

/// How long until the controllers are asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// What is asked of the leader: the calls of [`ControlPort`].
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Asked {
    Change(EventId, ChangeKind, Condition),
    TryChange(EventId, ChangeKind, Condition),
    TryChanges(Vec<(EventId, ChangeKind)>),
    RotateKey,
    TryRotateKey,
    Describe(EventId),
    List,
    EventLog(EventId, LogIndex, usize),
    Explain(EventId, TicketId),
    Fleet(FleetDeed),
}

/// What it answers; JSON travels as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answered {
    Changed(Changed),
    Tried(Tried),
    AllTried(Vec<Result<Tried, ControlError>>),
    Rotated(KeyId, LogIndex),
    NextKey(KeyId),
    Json(Vec<String>),
}

/// An answer, or who leads if the one that was asked does not.
type Reply = Result<Result<Answered, ControlError>, Option<NodeId>>;

/// The way to whoever leads.
pub(super) struct Relay {
    /// This node's own log, if it is a controller.
    local: Option<Arc<dyn ControlPort>>,
    leadership: Leadership,
    dialer: Dialer,
    controllers: BTreeMap<NodeId, String>,
}

impl Relay {
    pub(super) fn new(
        local: Option<Arc<dyn ControlPort>>,
        leadership: Leadership,
        membership: Membership,
    ) -> Self {
        let Membership { dialer, controllers, .. } = membership;
        Self { local, leadership, dialer, controllers }
    }

    /// The own log, if this node leads.
    fn own(&self) -> Option<&Arc<dyn ControlPort>> {
        self.local.as_ref().filter(|_| self.leadership.leads())
    }

    async fn ask(&self, asked: Asked) -> Result<Answered, ControlError> {
        self.ask_within(PATIENCE, asked).await
    }

    async fn ask_within(&self, patience: Duration, asked: Asked) -> Result<Answered, ControlError> {
        let me = self.dialer.me().node;
        let until = Instant::now() + patience;
        let mut hint = self.leadership.other();
        loop {
            if let Some(own) = self.own() {
                return perform(own.as_ref(), asked).await;
            }
            let others = self.controllers.keys().copied().filter(|node| *node != me);
            let order: Vec<NodeId> = hint.take().into_iter().chain(others).collect();
            for node in order {
                let Some(at) = self.controllers.get(&node) else { continue };
                let address = Address { node, at: at.clone() };
                let dialed = timeout_at(until, self.dialer.dial(&address, Purpose::Operator)).await;
                let Ok(Ok(conversation)) = dialed else { continue };
                match put(conversation, &asked).await? {
                    Ok(answer) => return answer,
                    Err(leader) => hint = leader.filter(|leader| ![node, me].contains(leader)).or(hint),
                }
                if hint.is_some() {
                    break;
                }
            }
            if Instant::now() >= until {
                return Err(ControlError::Unavailable("no controller says that it leads".to_owned()));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Puts a question to another node. From here on it may have been heard, so an answer that does not come tells nothing.
async fn put(mut conversation: Conversation, asked: &Asked) -> Result<Reply, ControlError> {
    let patience = match asked {
        Asked::Fleet(_) => FLEET_PATIENCE,
        _ => ANSWER_PATIENCE,
    };
    let answered = timeout(patience, async {
        conversation.say(asked).await?;
        conversation.hear::<Reply>().await
    });
    match answered.await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) | Err(_) => Err(ControlError::Unknown),
    }
}

/// Does what another node asks of the log here.
async fn perform(log: &dyn ControlPort, asked: Asked) -> Result<Answered, ControlError> {
    let texts = |values: Vec<Value>| Answered::Json(values.iter().map(Value::to_string).collect());
    Ok(match asked {
        Asked::Change(event, kind, condition) => Answered::Changed(log.change(event, kind, condition).await?),
        Asked::TryChange(event, kind, condition) => {
            Answered::Tried(log.try_change(event, kind, condition).await?)
        }
        Asked::TryChanges(changes) => Answered::AllTried(log.try_changes(changes).await),
        Asked::RotateKey => {
            let (key, index) = log.rotate_key().await?;
            Answered::Rotated(key, index)
        }
        Asked::TryRotateKey => Answered::NextKey(log.try_rotate_key().await?),
        Asked::Describe(event) => texts(vec![log.describe(event).await?]),
        Asked::List => texts(log.list().await?),
        Asked::EventLog(event, after, limit) => texts(log.event_log(event, after, limit).await?),
        Asked::Explain(event, ticket) => texts(vec![log.explain(event, ticket).await?]),
        Asked::Fleet(deed) => texts(vec![log.fleet(deed).await?]),
    })
}

/// Answers other nodes' operators, for as long as the node runs.
pub(super) async fn answer_operators(
    mut callers: mpsc::Receiver<Conversation>,
    relay: Arc<Relay>,
    refusals: Arc<Refusals>,
) {
    while let Some(caller) = callers.recv().await {
        let (relay, refusals) = (Arc::clone(&relay), Arc::clone(&refusals));
        tokio::spawn(async move {
            let node = caller.peer().node;
            if let Err(error) = answer(caller, &relay).await {
                tracing::debug!(%node, %error, "an operator's question was not answered");
                if let Some(refusal) = error.refusal() {
                    refusals.note(refusal, &format_args!("node {node}"));
                }
            }
        });
    }
}

async fn answer(mut caller: Conversation, relay: &Relay) -> Result<(), PeerError> {
    let asked: Asked = caller.hear().await?;
    let reply: Reply = match relay.own() {
        Some(own) => Ok(perform(own.as_ref(), asked).await),
        None => Err(relay.leadership.other()),
    };
    caller.say(&reply).await
}

/// An answer that does not fit its question.
fn strange() -> ControlError {
    ControlError::Unavailable("the leader answers something else; do all nodes run one version?".to_owned())
}

fn values(answered: Answered) -> Result<Vec<Value>, ControlError> {
    let Answered::Json(texts) = answered else { return Err(strange()) };
    texts.iter().map(|text| serde_json::from_str(text).map_err(|_| strange())).collect()
}

fn value(answered: Answered) -> Result<Value, ControlError> {
    values(answered)?.pop().ok_or_else(strange)
}

#[async_trait]
impl ControlPort for Relay {
    async fn change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Changed, ControlError> {
        match self.ask(Asked::Change(event, kind, condition)).await? {
            Answered::Changed(changed) => Ok(changed),
            _ => Err(strange()),
        }
    }

    async fn try_change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Tried, ControlError> {
        match self.ask(Asked::TryChange(event, kind, condition)).await? {
            Answered::Tried(tried) => Ok(tried),
            _ => Err(strange()),
        }
    }

    async fn try_changes(&self, changes: Vec<(EventId, ChangeKind)>) -> Vec<Result<Tried, ControlError>> {
        let count = changes.len();
        let failure = match self.ask(Asked::TryChanges(changes)).await {
            Ok(Answered::AllTried(tried)) => return tried,
            Ok(_) => strange(),
            Err(error) => error,
        };
        vec![Err(failure); count]
    }

    async fn rotate_key(&self) -> Result<(KeyId, LogIndex), ControlError> {
        match self.ask(Asked::RotateKey).await? {
            Answered::Rotated(key, index) => Ok((key, index)),
            _ => Err(strange()),
        }
    }

    async fn try_rotate_key(&self) -> Result<KeyId, ControlError> {
        match self.ask(Asked::TryRotateKey).await? {
            Answered::NextKey(key) => Ok(key),
            _ => Err(strange()),
        }
    }

    async fn describe(&self, event: EventId) -> Result<Value, ControlError> {
        value(self.ask(Asked::Describe(event)).await?)
    }

    async fn list(&self) -> Result<Vec<Value>, ControlError> {
        values(self.ask(Asked::List).await?)
    }

    async fn event_log(
        &self,
        event: EventId,
        after: LogIndex,
        limit: usize,
    ) -> Result<Vec<Value>, ControlError> {
        values(self.ask(Asked::EventLog(event, after, limit)).await?)
    }

    async fn explain(&self, event: EventId, ticket: TicketId) -> Result<Value, ControlError> {
        value(self.ask(Asked::Explain(event, ticket)).await?)
    }

    async fn fleet(&self, deed: FleetDeed) -> Result<Value, ControlError> {
        match (&self.local, deed) {
            // Who founds is asked where no leader is yet.
            (Some(local), FleetDeed::Found) => local.fleet(FleetDeed::Found).await,
            (None, FleetDeed::Found) => Err(ControlError::Conflict(
                "this node is no controller: ask one of them to found the fleet".to_owned(),
            )),
            (Some(local), FleetDeed::Look) => {
                match self.ask_within(LOOK_PATIENCE, Asked::Fleet(FleetDeed::Look)).await {
                    // Without a leader, and before there ever was one, what this controller knows is all there is.
                    Err(ControlError::Unavailable(_)) => local.fleet(FleetDeed::Look).await,
                    answered => value(answered?),
                }
            }
            (_, deed) => value(self.ask(Asked::Fleet(deed)).await?),
        }
    }

    fn leads(&self) -> bool {
        self.leadership.leads()
    }
}

//! The control log as the desk knows it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use serde_json::Value;

use super::acknowledged::Acknowledged;
use super::council::Council;
use super::describe;
use super::lead::new_key;
use super::queue::{Answer, Asking};
use super::storage::SharedState;
use crate::clock::Clock;
use crate::desk::{Changed, ControlError, ControlPort, FleetDeed, Tried};
use crate::model::ids::{EventId, KeyId, LogIndex, NodeId, TicketId};
use crate::model::ledger::{
    self, Change, ChangeApplied, ChangeError, ChangeKind, Command, Condition, Step, Tick,
};
use crate::model::numbered::{EdgeName, Instance};
use crate::model::policy::{Fields, Policy};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the control log.
#[derive(Debug)]
pub struct ControlLog {
    asking: Asking,
    state: Arc<ArcSwap<SharedState>>,
    acknowledged: Acknowledged,
    clock: Clock,
    council: Option<Council>,
}

impl ControlLog {
    pub(super) fn new(
        asking: Asking,
        state: Arc<ArcSwap<SharedState>>,
        acknowledged: Acknowledged,
        clock: Clock,
        council: Option<Council>,
    ) -> Self {
        Self { asking, state, acknowledged, clock, council }
    }

    async fn put(&self, command: Command) -> Result<(LogIndex, Step), ControlError> {
        let busy = || ControlError::Unavailable("too many changes wait".to_owned());
        let answered = self.asking.ask(command).ok_or_else(busy)?;
        let answer: Answer = match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => return Err(ControlError::Unknown),
        };
        answer.map_err(ControlError::Unavailable)
    }

    /// The number of an edge, once it is in the log; `None`: all are taken.
    pub(super) async fn number(
        &self,
        name: EdgeName,
        instance: Instance,
    ) -> Result<Option<NodeId>, ControlError> {
        let now = self.clock.wall();
        match self.put(Command::Number { now, name, instance }).await? {
            (_, Step::Numbered(node)) => Ok(node),
            _ => Err(ControlError::Unknown),
        }
    }

    fn proposed(&self, event: EventId, kind: ChangeKind, condition: Condition) -> Change {
        Change { now: self.clock.wall(), event, condition, entropy: rand::random(), kind }
    }

    fn read<T>(&self, look: impl FnOnce(&ledger::State) -> T) -> T {
        self.state.load().read(look)
    }

    fn event<T>(
        &self,
        id: &EventId,
        look: impl FnOnce(&ledger::State, &ledger::Event) -> T,
    ) -> Result<T, ControlError> {
        self.read(|state| state.events.get(id).map(|event| look(state, event)))
            .ok_or(ControlError::NoSuchEvent)
    }
}

#[async_trait]
impl ControlPort for ControlLog {
    async fn change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Changed, ControlError> {
        let change = self.proposed(event.clone(), kind, condition);
        let (index, step) = self.put(Command::Change(change)).await?;
        let Step::Changed(changed) = step else { return Err(ControlError::Unknown) };
        let applied = changed.map_err(refusal)?;
        let warnings = self.event(&event, |_, event| event.policy.warnings()).unwrap_or_default();
        let ChangeApplied { version, outcome, merged } = applied;
        Ok(Changed { index, version, outcome, merged, warnings })
    }

    async fn try_change(
        &self,
        event: EventId,
        kind: ChangeKind,
        condition: Condition,
    ) -> Result<Tried, ControlError> {
        let change = self.proposed(event, kind, condition);
        let state = self.read(ledger::State::clone);
        tried(&state, &change.event, state.try_change(&change))
    }

    async fn try_changes(&self, changes: Vec<(EventId, ChangeKind)>) -> Vec<Result<Tried, ControlError>> {
        let proposed = |(event, kind)| self.proposed(event, kind, Condition::Always);
        let changes: Vec<_> = changes.into_iter().map(proposed).collect();
        let state = self.read(ledger::State::clone);
        let results = state.try_changes(&changes);
        changes.iter().zip(results).map(|(change, result)| tried(&state, &change.event, result)).collect()
    }

    async fn rotate_key(&self) -> Result<(KeyId, LogIndex), ControlError> {
        let now = self.clock.wall();
        let (index, step) = self.put(Command::RotateKey { now, key: new_key(now) }).await?;
        let Step::Rotated(id) = step else { return Err(ControlError::Unknown) };
        Ok((id, index))
    }

    async fn try_rotate_key(&self) -> Result<KeyId, ControlError> {
        let newest = self.read(|state| state.keys.records().last().map(|key| key.id));
        Ok(newest.map_or(KeyId(1), |KeyId(newest)| KeyId(newest.saturating_add(1))))
    }

    async fn describe(&self, event: EventId) -> Result<Value, ControlError> {
        self.event(&event, |state, found| describe::event(state, &event, found, &self.acknowledged))
    }

    async fn list(&self) -> Result<Vec<Value>, ControlError> {
        Ok(self.read(|state| {
            let described = |(id, event)| describe::event(state, id, event, &self.acknowledged);
            state.events.iter().map(described).collect()
        }))
    }

    async fn event_log(
        &self,
        event: EventId,
        after: LogIndex,
        limit: usize,
    ) -> Result<Vec<Value>, ControlError> {
        self.event(&event, |_, event| describe::log(event, after, limit))
    }

    async fn explain(&self, event: EventId, ticket: TicketId) -> Result<Value, ControlError> {
        self.event(&event, |state, event| describe::ticket(state, event, ticket))
    }

    async fn fleet(&self, deed: FleetDeed) -> Result<Value, ControlError> {
        let Some(council) = &self.council else {
            return match deed {
                FleetDeed::Look => {
                    Ok(self.read(|state| describe::lone(state, &self.acknowledged, self.clock.wall())))
                }
                _ => Err(ControlError::Conflict(
                    "this node is alone: a fleet needs `cluster:` in the configuration".to_owned(),
                )),
            };
        };
        let removes = matches!(deed, FleetDeed::RemoveController { .. });
        match deed {
            FleetDeed::Look => {}
            FleetDeed::Found => council.found().await?,
            FleetDeed::AddController { node, address } => council.add(node, address).await?,
            FleetDeed::RemoveController { node } => council.remove(node).await?,
            FleetDeed::Expel { node } => {
                let runs = self.read(|state| council.gone(state, node, &self.acknowledged))?;
                let tick = Tick { now: self.clock.wall(), ended: runs, ..Tick::default() };
                self.put(Command::Tick(tick)).await?;
            }
        }
        let mut told =
            self.read(|state| describe::fleet(state, council, &self.acknowledged, self.clock.wall()));
        if let (true, Some(warnings)) = (removes, told.get_mut("warnings").and_then(Value::as_array_mut)) {
            warnings.extend(council.lonely().map(Value::from));
        }
        Ok(told)
    }

    /// Of a fleet only the relay knows.
    fn leads(&self) -> bool {
        self.council.is_none()
    }
}

/// What a change of an event would come to that has been tried on a state.
fn tried(
    state: &ledger::State,
    event: &EventId,
    result: Result<(ChangeApplied, Option<Fields>), ChangeError>,
) -> Result<Tried, ControlError> {
    let version = state.events.get(event).map(|event| event.version);
    let (ChangeApplied { outcome, merged, .. }, fields) = result.map_err(refusal)?;
    let policy = fields.as_ref().and_then(|fields| Policy::from_fields(fields).ok());
    let warnings = policy.map(|policy| policy.warnings()).unwrap_or_default();
    Ok(Tried { version, outcome, merged, fields, warnings })
}

fn refusal(error: ChangeError) -> ControlError {
    match error {
        ChangeError::NoSuchEvent => ControlError::NoSuchEvent,
        ChangeError::NoSuchTicket => ControlError::NoSuchTicket,
        ChangeError::VersionMismatch(current) => ControlError::VersionMismatch { current },
        ChangeError::Missing => ControlError::Missing,
        ChangeError::Exists(current) => ControlError::Exists { current },
        ChangeError::Conflict(reason) => ControlError::Conflict(reason),
        ChangeError::Faults(faults) => ControlError::Faults(faults),
    }
}

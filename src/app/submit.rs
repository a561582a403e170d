//! What a file says about events, on its way into the control log.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{EventSettings, Fault};
use crate::desk::{Changed, ControlError, ControlPort, Tried};
use crate::model::ids::{EventId, NodeId};
use crate::model::ledger::{ChangeKind, ChangeOutcome, Condition};
use crate::model::policy::{self, Merged, Submission};

/// What became of the events of a file.
#[derive(Debug)]
pub(super) struct Submitted<T = Changed> {
    /// What the log made of them.
    pub(super) taken: BTreeMap<EventId, T>,
    /// What it did not take.
    pub(super) refused: BTreeMap<EventId, ControlError>,
    /// What the operator should know.
    pub(super) warnings: Vec<String>,
}

/// Submits every event of a file.
pub(super) async fn submit(
    control: &Arc<dyn ControlPort>,
    node: NodeId,
    events: &[EventSettings],
) -> Submitted {
    let mut submitted = Submitted::default();
    let mut left: Vec<_> = events.iter().collect();
    // A route that one event of the file gives up is free for another one only afterwards, wherever in the file it is.
    while !left.is_empty() {
        let before = left.len();
        let mut in_the_way = Vec::new();
        for event in left {
            let change = control.change(event.id.clone(), submission(node, event), Condition::Always).await;
            if matches!(change, Err(ControlError::Conflict(_))) {
                in_the_way.push(event);
            }
            submitted.note(event, change, |changed| changed.merged.as_ref());
        }
        left = if in_the_way.len() < before { in_the_way } else { Vec::new() };
    }
    submitted.warnings.extend(not_in_the_file(control, events).await);
    submitted
}

/// What the log would make of the events of a file; changes nothing.
pub(super) async fn try_submit(
    control: &Arc<dyn ControlPort>,
    node: NodeId,
    events: &[EventSettings],
) -> Submitted<Tried> {
    let mut submitted = Submitted::default();
    let (mut taken, mut left): (Vec<_>, Vec<_>) = (Vec::new(), events.iter().collect());
    while !left.is_empty() {
        let before = (taken.len(), left.len());
        let sequence = taken.iter().chain(&left).map(|event| (event.id.clone(), submission(node, event)));
        let tried = control.try_changes(sequence.collect()).await;
        let mut in_the_way = Vec::new();
        for (event, tried) in left.into_iter().zip(tried.into_iter().skip(before.0)) {
            match &tried {
                Ok(_) => taken.push(event),
                Err(ControlError::Conflict(_)) => in_the_way.push(event),
                Err(_) => {}
            }
            submitted.note(event, tried, |tried| tried.merged.as_ref());
        }
        left = if in_the_way.len() < before.1 { in_the_way } else { Vec::new() };
    }
    submitted.warnings.extend(not_in_the_file(control, events).await);
    submitted
}

fn submission(node: NodeId, event: &EventSettings) -> ChangeKind {
    ChangeKind::Submit(Submission { controller: node, fields: event.fields.clone() })
}

/// Events that the log knows and the file does not.
async fn not_in_the_file(control: &Arc<dyn ControlPort>, events: &[EventSettings]) -> Vec<String> {
    let listed = control.list().await.unwrap_or_default();
    let ids = listed.iter().filter_map(|known| known.get("id").and_then(serde_json::Value::as_str));
    let strangers = ids.filter(|id| !events.iter().any(|event| event.id.as_str() == *id));
    let told =
        |id| format!("event {id} is not in the file and goes on: DELETE it in the operator's API to end it");
    strangers.map(told).collect()
}

impl<T> Default for Submitted<T> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), refused: BTreeMap::new(), warnings: Vec::new() }
    }
}

impl<T> Submitted<T> {
    /// What was refused, as faults of the file.
    pub(super) fn faults(&self, events: &[EventSettings]) -> Vec<Fault> {
        let at = |id: &EventId| events.iter().position(|event| event.id == *id).unwrap_or_default();
        let fault = |path, problem| Fault { path, problem, position: None };
        let refused = self.refused.iter().flat_map(|(id, error)| match error {
            ControlError::Faults(faults) => {
                let of_file = |field: &policy::Fault| {
                    let path = format!("events[{}].{}", at(id), field.path);
                    fault(path, field.problem.clone())
                };
                faults.iter().map(of_file).collect::<Vec<_>>()
            }
            error => vec![fault(format!("events[{}]", at(id)), format!("event {id} is refused: {error}"))],
        });
        refused.collect()
    }

    fn note(
        &mut self,
        event: &EventSettings,
        result: Result<T, ControlError>,
        merged: impl Fn(&T) -> Option<&Merged>,
    ) {
        let id = event.id.clone();
        match result {
            Ok(done) => {
                self.refused.remove(&id);
                self.warnings.extend(merged(&done).and_then(|merged| overridden(&id, merged)));
                self.taken.insert(id, done);
            }
            Err(error) => {
                self.refused.insert(id, error);
            }
        }
    }
}

fn overridden(event: &EventId, merged: &Merged) -> Option<String> {
    let fields = merged.overridden.join(", ");
    let told = format!("event {event}: live changes override these fields of the file: {fields}");
    (!fields.is_empty()).then_some(told)
}

impl Submitted {
    /// Says in the log what came of it.
    pub(super) fn tell(&self) {
        for (event, changed) in &self.taken {
            let merged = changed.merged.clone().unwrap_or_default();
            match changed.outcome {
                ChangeOutcome::Created => tracing::info!("event {event} was made from the file"),
                ChangeOutcome::Updated if !merged.applied.is_empty() => {
                    tracing::info!(
                        "event {event} took these fields from the file: {}",
                        merged.applied.join(", ")
                    );
                }
                ChangeOutcome::Updated | ChangeOutcome::Unchanged | ChangeOutcome::Deleted => {}
            }
        }
        for (event, error) in &self.refused {
            tracing::error!("event {event} of the file is not in effect: {error}");
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}

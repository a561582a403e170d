//! What a file says about events, on its way into the control log.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::EventSettings;
use crate::desk::{Changed, ControlError, ControlPort};
use crate::model::ids::{EventId, NodeId};
use crate::model::ledger::{ChangeKind, ChangeOutcome};
use crate::model::policy::Submission;

/// What became of the events of a file.
#[derive(Debug, Default)]
pub(super) struct Submitted {
    /// What the log made of them.
    pub(super) taken: BTreeMap<EventId, Changed>,
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
    for event in events {
        let kind = ChangeKind::Submit(Submission { controller: node, fields: event.fields.clone() });
        match control.change(event.id.clone(), kind, None).await {
            Ok(changed) => {
                submitted.warnings.extend(overridden(&event.id, &changed));
                submitted.taken.insert(event.id.clone(), changed);
            }
            Err(error) => {
                submitted.refused.insert(event.id.clone(), error);
            }
        }
    }
    for known in control.list().await.unwrap_or_default() {
        let id = known.get("id").and_then(serde_json::Value::as_str).unwrap_or_default();
        if !events.iter().any(|event| event.id.as_str() == id) {
            submitted.warnings.push(format!(
                "event {id} is not in the file and goes on: DELETE it in the operator's API to end it"
            ));
        }
    }
    submitted
}

fn overridden(event: &EventId, changed: &Changed) -> Option<String> {
    let fields = changed.merged.as_ref()?.overridden.join(", ");
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

//! How a node that starts learns which events there are: from the leader, or from what it kept.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;

use super::reload::Reloader;
use super::submit::submit;
use crate::config::{EventSettings, Settings};
use crate::desk::Desk;
use crate::model::edge::Contact;
use crate::model::policy::Policy;

/// How long to wait before events are submitted again.
const RETRY: Duration = Duration::from_secs(1);

/// After so long without a leader, what was kept has to do.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// Learns the events of the fleet, and submits those of the file.
#[derive(Clone)]
pub(super) struct Learning {
    pub(super) desk: Arc<Desk>,
    pub(super) reloader: Arc<Reloader>,
}

impl Learning {
    /// Waits for the first pulse and submits the events of the file: before that no request could be matched, and none
    /// may slip through.
    pub(super) async fn hear_leader(&self) {
        let settings = self.reloader.settings.load_full();
        let mut pulses = self.desk.pulses();
        let mut told = Vec::new();
        loop {
            while self.desk.contact() != Contact::Fresh {
                let _ = pulses.changed().await;
            }
            let Ok(control) = self.desk.control() else { continue };
            let submitted = submit(&control, self.desk.run().node, &settings.events).await;
            let known = |id| self.desk.event(id).is_some();
            if submitted.refused.is_empty() {
                self.reloader.succeeded();
            } else {
                self.reloader.metrics.configuration_refused();
            }
            let refusals: Vec<_> = submitted.refused.values().map(ToString::to_string).collect();
            let waits = !settings.events.iter().all(|event| {
                !submitted.refused.contains_key(&event.id)
                    || known(&event.id)
                    || self.is_guarded(&event.policy)
            });
            if told.is_empty() || told != refusals {
                submitted.tell();
                if waits {
                    tracing::error!("nobody is served until every event of the file is in effect");
                }
                told = refusals;
            }
            if !waits {
                while !submitted.taken.keys().all(known) {
                    let _ = pulses.changed().await;
                }
                self.warn_of_live_events(&settings);
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Waits a moment for a leader, and then goes on with what was kept; never returns if a leader is heard, nothing was
    /// kept, or an event of the file would be open.
    pub(super) async fn make_do(&self) {
        tokio::time::sleep(LEADER_PATIENCE).await;
        if self.desk.contact() != Contact::Unheard || !self.desk.knows_events() {
            return std::future::pending().await;
        }
        let settings = self.reloader.settings.load_full();
        let is_closed =
            |event: &EventSettings| self.desk.event(&event.id).is_some() || self.is_guarded(&event.policy);
        if let Some(open) = settings.events.iter().find(|event| !is_closed(event)) {
            tracing::error!(
                "no controller answers, and nobody ever told of event {}: nobody is served",
                open.id
            );
            return std::future::pending().await;
        }
        let events = self.desk.events().len();
        tracing::warn!(
            events,
            "no controller answers: visitors are served by what was kept, and every line stands still"
        );
    }

    /// Warns of events that are not as the file has them, for which its own warnings do not hold.
    fn warn_of_live_events(&self, settings: &Settings) {
        for id in self.desk.events() {
            let Some(event) = self.desk.event(&id) else { continue };
            let is_of_file = |stated: &EventSettings| stated.id == id && stated.policy == *event.policy;
            if !settings.events.iter().any(is_of_file) {
                let warnings = settings.warnings_of(&id, &event.policy);
                warnings.iter().for_each(|warning| tracing::warn!("event {id}: {warning}"));
            }
        }
    }

    /// Whether other events guard all that a policy would guard: without it nothing is open that should not be.
    fn is_guarded(&self, policy: &Policy) -> bool {
        let routes = self.desk.routes();
        policy.routes.iter().all(|route| routes.has(route))
    }
}

#[async_trait]
impl BackgroundService for Learning {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.hear_leader() => {}
            _ = shutdown.changed() => {}
        }
    }
}

//! Reload: the file is read, checked and built as a whole, and only then put into use.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::Mutex;

use super::certificates::{self, Certificate};
use super::node::check;
use super::submit::{submit, try_submit};
use crate::admin::{Assembly, ReloadTried, Reloaded};
use crate::clock::Clock;
use crate::config::{Difference, Settings};
use crate::desk::Desk;
use crate::metrics::Metrics;
use crate::model::ids::EventId;
use crate::model::policy::{Fault, Fields, Policy};
use crate::proxy::{Gate, ProxySettings};

/// Puts a changed configuration into use.
pub(super) struct Reloader {
    /// `None`: the configuration came from no file.
    pub(super) file: Option<PathBuf>,
    pub(super) settings: ArcSwap<Settings>,
    pub(super) gate: Gate<Desk>,
    /// One per listener; `None` for plain HTTP.
    pub(super) certificates: Vec<Option<Arc<Certificate>>>,
    pub(super) desk: Arc<Desk>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) one_at_a_time: Mutex<()>,
}

impl Reloader {
    /// Reads and checks the file, and says how it differs from what is in use.
    async fn read(&self) -> Result<(Settings, Difference), String> {
        let file = self.file.clone().ok_or("this node was started without a configuration file")?;
        let read = tokio::task::spawn_blocking(move || check(&file)).await;
        let new = read.map_err(|error| error.to_string())??;
        let difference = self.settings.load().difference(&new);
        if !difference.needs_restart.is_empty() {
            let names = difference.needs_restart.join(", ");
            return Err(format!("a change of {names} needs a restart; nothing was changed"));
        }
        Ok((new, difference))
    }

    async fn put_into_use(&self) -> Result<Reloaded, String> {
        let (new, difference) = self.read().await?;
        let mut shown = Vec::new();
        for (listener, certificate) in new.listeners.iter().zip(&self.certificates) {
            if let (Some(files), Some(certificate)) = (&listener.tls, certificate) {
                shown.push((certificate, certificates::read(files).map_err(|error| error.to_string())?));
            }
        }
        let (gate, proxy) = (self.gate.clone(), ProxySettings::from(&new));
        let swapped = tokio::task::spawn_blocking(move || gate.reload(proxy)).await;
        swapped.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        shown.into_iter().for_each(|(certificate, key)| certificate.show(key));
        let mut warnings = new.warnings();
        let control = self.desk.control().map_err(|error| error.to_string())?;
        let submitted = submit(&control, new.node.id, &new.events).await;
        self.settings.store(Arc::new(new));
        submitted.tell();
        warnings.extend(submitted.warnings);
        let refused = submitted.refused.into_iter().map(|(event, error)| (event, error.to_string()));
        Ok(Reloaded {
            changed: difference.reloadable,
            events: submitted.taken,
            refused: refused.collect(),
            warnings,
        })
    }
}

#[async_trait]
impl Assembly for Reloader {
    async fn reload(&self) -> Result<Reloaded, String> {
        let _turn = self.one_at_a_time.lock().await;
        let reloaded = self.put_into_use().await;
        match &reloaded {
            Ok(reloaded) => {
                self.metrics.configured(self.clock.wall());
                let changed = reloaded.changed.join(", ");
                let changed = if changed.is_empty() { "nothing but the files it names" } else { &changed };
                tracing::info!("the configuration was read again; changed: {changed}");
            }
            Err(reason) => {
                self.metrics.configuration_refused();
                tracing::error!("the configuration was refused, the one before stays in use: {reason}");
            }
        }
        reloaded
    }

    async fn try_reload(&self) -> Result<ReloadTried, String> {
        let (new, difference) = self.read().await?;
        let control = self.desk.control().map_err(|error| error.to_string())?;
        let tried = try_submit(&control, new.node.id, &new.events).await;
        let mut warnings = new.warnings();
        warnings.extend(tried.warnings);
        let refused = tried.refused.into_iter().map(|(event, error)| (event, error.to_string()));
        let events = tried.taken.into_iter().map(|(event, tried)| (event, tried.merged.unwrap_or_default()));
        Ok(ReloadTried {
            dry_run: true,
            changed: difference.reloadable,
            events: events.collect(),
            refused: refused.collect(),
            warnings,
        })
    }

    fn faults(&self, fields: &Fields) -> Vec<Fault> {
        self.settings.load().faults_of(fields)
    }

    fn warnings(&self, event: &EventId, policy: &Policy) -> Vec<String> {
        self.settings.load().warnings_of(event, policy)
    }
}

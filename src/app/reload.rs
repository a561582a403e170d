//! Reload: the file is read, checked and built as a whole, and only then put into use.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::Mutex;

use super::certificates::{self, Certificate};
use super::node::check;
use super::submit::{Submitted, submit, try_submit};
use crate::admin::{Assembly, ReloadError, ReloadTried, Reloaded};
use crate::clock::Clock;
use crate::config::{self, Difference, Settings};
use crate::desk::{Desk, Tried};
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
    async fn read(&self) -> Result<(Settings, Difference), ReloadError> {
        let Some(file) = self.file.clone() else {
            return Err(refused([(String::new(), "this node was started without a configuration file")]));
        };
        let read = tokio::task::spawn_blocking(move || check(&file)).await;
        let new = read.map_err(failed)?.map_err(|faults| ReloadError::Refused(faults.into_vec()))?;
        let difference = self.settings.load().difference(&new);
        if !difference.needs_restart.is_empty() {
            let names = difference.needs_restart.iter();
            return Err(refused(names.map(|name| (name.to_string(), "a change of it needs a restart"))));
        }
        Ok((new, difference))
    }

    /// Reads the file, and has the control log say what it would make of its events.
    async fn try_file(&self) -> Result<TriedFile, ReloadError> {
        let (new, difference) = self.read().await?;
        let control = self.desk.control()?;
        let tried = try_submit(&control, self.desk.run().node, &new.events).await;
        let faults = tried.faults(&new.events);
        if faults.is_empty() { Ok((new, difference, tried)) } else { Err(ReloadError::Refused(faults)) }
    }

    /// A configuration is in use as a whole.
    pub(super) fn succeeded(&self) {
        self.metrics.configured(self.clock.wall());
    }

    async fn put_into_use(&self) -> Result<Reloaded, ReloadError> {
        let (new, difference, _) = self.try_file().await?;
        let mut shown = Vec::new();
        for (listener, certificate) in new.listeners.iter().zip(&self.certificates) {
            if let (Some(files), Some(certificate)) = (&listener.tls, certificate) {
                shown.push((certificate, certificates::read(files).map_err(failed)?));
            }
        }
        let (gate, proxy) = (self.gate.clone(), ProxySettings::from(&new));
        let swapped = tokio::task::spawn_blocking(move || gate.reload(proxy)).await;
        swapped.map_err(failed)?.map_err(failed)?;
        shown.into_iter().for_each(|(certificate, key)| certificate.show(key));
        let mut warnings = new.warnings();
        let control = self.desk.control()?;
        let submitted = submit(&control, self.desk.run().node, &new.events).await;
        let faults = submitted.faults(&new.events);
        self.settings.store(Arc::new(new));
        submitted.tell();
        if !faults.is_empty() {
            return Err(ReloadError::Partly(faults));
        }
        warnings.extend(submitted.warnings);
        Ok(Reloaded { changed: difference.reloadable, events: submitted.taken, warnings })
    }
}

/// A file that can be put into use, how it differs, and what would become of its events.
type TriedFile = (Settings, Difference, Submitted<Tried>);

fn refused(faults: impl IntoIterator<Item = (String, &'static str)>) -> ReloadError {
    let fault =
        |(path, problem): (_, &str)| config::Fault { path, problem: problem.to_owned(), position: None };
    ReloadError::Refused(faults.into_iter().map(fault).collect())
}

fn failed(error: impl std::fmt::Display) -> ReloadError {
    ReloadError::Failed(error.to_string())
}

#[async_trait]
impl Assembly for Reloader {
    async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let _turn = self.one_at_a_time.lock().await;
        let reloaded = self.put_into_use().await;
        match &reloaded {
            Ok(reloaded) => {
                self.succeeded();
                let changed = reloaded.changed.join(", ");
                let changed = if changed.is_empty() { "nothing but the files it names" } else { &changed };
                tracing::info!("the configuration was read again; changed: {changed}");
            }
            Err(reason) => {
                self.metrics.configuration_refused();
                tracing::error!("the configuration was refused; {reason}");
            }
        }
        reloaded
    }

    async fn try_reload(&self) -> Result<ReloadTried, ReloadError> {
        let (new, difference, tried) = self.try_file().await?;
        let mut warnings = new.warnings();
        warnings.extend(tried.warnings);
        let events = tried.taken.into_iter().map(|(event, tried)| (event, tried.merged.unwrap_or_default()));
        Ok(ReloadTried { dry_run: true, changed: difference.reloadable, events: events.collect(), warnings })
    }

    fn faults(&self, fields: &Fields) -> Vec<Fault> {
        self.settings.load().faults_of(fields)
    }

    fn warnings(&self, event: &EventId, policy: &Policy) -> Vec<String> {
        self.settings.load().warnings_of(event, policy)
    }
}

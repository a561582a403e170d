//! How a node ends: by a signal, in good order, or because it cannot go on.

use std::future::pending;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::sync::Notify;

use super::reload::Reloader;
use super::signals::{Signal, Signals};
use crate::admin::Assembly;
use crate::control::Drained;
use crate::desk::Desk;
use crate::lifecycle::Lifecycle;
use crate::model::exchange::EdgeStage;

/// The longest that a node waits for the log to take what it owes.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);

/// Follows the signals until one ends the node.
pub(super) struct Ending {
    pub(super) signals: Signals,
    pub(super) reloader: Arc<Reloader>,
    pub(super) desk: Arc<Desk>,
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) drained: Drained,
    pub(super) failure: Arc<Failure>,
    /// Told when nothing is to be waited for.
    pub(super) over: Sender<()>,
}

/// Why the node cannot go on, told by whoever finds out first.
#[derive(Debug, Default)]
pub(super) struct Failure {
    reason: Mutex<Option<anyhow::Error>>,
    told: Notify,
}

impl Failure {
    /// Ends the node for this reason.
    pub(super) fn tell(&self, reason: anyhow::Error) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.told.notify_one();
    }

    /// The reason, if the node could not go on.
    pub(super) fn take(&self) -> Option<anyhow::Error> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Ending {
    /// Lets nobody new in, and waits until everything promised is in the log.
    async fn drain(&self) -> ShutdownSignal {
        let in_flight = self.reloader.gate.in_flight();
        tracing::info!(
            in_flight,
            "the node drains: it admits nobody new, and ends once the log knows all it promised"
        );
        self.lifecycle.drain();
        self.desk.set_stage(EdgeStage::Draining);
        self.desk.report_wanted().notify_one();
        let ending = tokio::select! {
            () = self.drained.wait() => ShutdownSignal::GracefulTerminate,
            () = tokio::time::sleep(LONGEST_DRAIN) => {
                tracing::warn!("the log did not take all in time: slots come back when their passes would end");
                ShutdownSignal::GracefulTerminate
            }
            () = self.until_quit() => self.end_at_once().await,
        };
        let in_flight = self.reloader.gate.in_flight();
        tracing::info!(
            in_flight,
            "the node has drained: its listeners close, and requests under way have a moment to end"
        );
        ending
    }

    async fn until_quit(&self) {
        while self.signals.next().await != Signal::Quit {}
    }

    /// Lets the process end without the server: Pingora's own fast way out has been seen to spin for ever.
    async fn end_at_once(&self) -> ShutdownSignal {
        let _ = self.over.send(());
        pending().await
    }
}

#[async_trait]
impl ShutdownSignalWatch for Ending {
    async fn recv(&self) -> ShutdownSignal {
        loop {
            let signal = tokio::select! {
                signal = self.signals.next() => signal,
                () = self.failure.told.notified() => return self.end_at_once().await,
            };
            match signal {
                Signal::Reload => drop(self.reloader.reload().await),
                Signal::Drain => return self.drain().await,
                Signal::Quit => return self.end_at_once().await,
            }
        }
    }
}

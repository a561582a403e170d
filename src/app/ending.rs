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

/// The longest that requests under way may take to end after the listeners have closed.
pub(super) const LONGEST_FLIGHT: Duration = Duration::from_secs(30);

/// How often it is looked whether any request is still under way.
const LOOK: Duration = Duration::from_millis(100);

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
            "the node has drained: its listeners close, and requests under way have {} s to end",
            LONGEST_FLIGHT.as_secs()
        );
        self.await_landing();
        ending
    }

    /// Ends the process once no request is under way. In a thread of its own: from now on Pingora sleeps.
    fn await_landing(&self) {
        let (gate, signals, over) = (self.reloader.gate.clone(), self.signals.clone(), self.over.clone());
        let wait = move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                runtime.block_on(async {
                    tokio::select! {
                        () = landed(|| gate.in_flight(), LONGEST_FLIGHT) => {}
                        () = until_quit(&signals) => {}
                    }
                });
            }
            match gate.in_flight() {
                0 => tracing::info!("every request has ended"),
                cut => tracing::warn!(cut, "requests are cut off that are still under way"),
            }
            let _ = over.send(());
        };
        // Without a thread Pingora's own grace period ends the node.
        let _ = std::thread::Builder::new().name("landing".to_owned()).spawn(wait);
    }

    async fn until_quit(&self) {
        until_quit(&self.signals).await;
    }

    /// Lets the process end without the server: Pingora's own fast way out has been seen to spin for ever.
    async fn end_at_once(&self) -> ShutdownSignal {
        let _ = self.over.send(());
        pending().await
    }
}

async fn until_quit(signals: &Signals) {
    while signals.next().await != Signal::Quit {}
}

/// Waits until nothing is in flight, or the limit is over. Connections that were just accepted show a little later, and
/// what has been answered is sent a little later, so nothing must be in flight twice.
async fn landed(in_flight: impl Fn() -> usize, limit: Duration) {
    let mut quiet = 0;
    let all = async {
        while quiet < 2 {
            tokio::time::sleep(LOOK).await;
            quiet = if in_flight() == 0 { quiet + 1 } else { 0 };
        }
    };
    let _ = tokio::time::timeout(limit, all).await;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn whoever_is_in_flight_is_awaited_and_whoever_stays_for_ever_is_not() {
        let left = Cell::new(3_usize);
        landed(|| left.replace(left.get().saturating_sub(1)), Duration::from_secs(3600)).await;
        assert_eq!(left.get(), 0);
        let looks = Cell::new(0);
        landed(|| looks.replace(looks.get() + 1) + 1, 5 * LOOK).await;
        assert!(looks.get() >= 2, "it was waited for");
    }
}

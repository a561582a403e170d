//! How a node ends: by a signal, in good order, or because another process takes over.

use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};

use super::hand_over::{Candidates, Offer, Sockets, Successor};
use super::reload::Reloader;
use super::signals::{Signal, Signals};
use super::systemd;
use crate::admin::Assembly;
use crate::control::Drained;
use crate::desk::Desk;
use crate::lifecycle::Lifecycle;
use crate::model::exchange::EdgeStage;

/// The longest that a node waits for the log to take what it owes.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);

/// The longest that requests under way may take to end after the listeners have closed.
pub(super) const LONGEST_FLIGHT: Duration = Duration::from_secs(30);

/// For so long every connection ends with its next answer before another process takes over: whoever is busy has come
/// anew by then, and only connections that are idle are closed.
const PARTING: Duration = Duration::from_secs(2);

/// How often it is looked whether any request is still under way.
const LOOK: Duration = Duration::from_millis(100);

/// Follows the signals until one ends the node.
pub(super) struct Ending {
    pub(super) signals: Signals,
    pub(super) reloader: Arc<Reloader>,
    pub(super) desk: Arc<Desk>,
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) drained: Drained,
    /// What the node listens at.
    pub(super) sockets: Sockets,
    /// The node's place, for another process; `None`: it cannot be given.
    pub(super) offer: Option<Offer>,
    /// Told when nothing is to be waited for.
    pub(super) over: Sender<Over>,
}

/// What is to be done once visitors are not accepted any more.
#[derive(Debug)]
pub(super) enum Over {
    /// The process ends.
    Ended,
    /// Another one takes its place.
    Followed(Successor),
}

impl Ending {
    /// Lets nobody new in, and waits until everything promised is in the log.
    async fn settle(&self) {
        self.desk.set_stage(EdgeStage::Draining);
        self.desk.report_wanted().notify_one();
        tokio::select! {
            () = self.drained.wait() => {}
            () = tokio::time::sleep(LONGEST_DRAIN) => {
                tracing::warn!("the log did not take all in time: slots come back when their passes would end");
            }
        }
    }

    /// Settles and closes the listeners; requests under way go on.
    async fn drain(&self) -> ShutdownSignal {
        let in_flight = self.reloader.gate.in_flight();
        tracing::info!(
            in_flight,
            "the node drains: it admits nobody new, and ends once the log knows all it promised"
        );
        systemd::stops();
        self.lifecycle.drain();
        self.reloader.gate.part();
        let ending = tokio::select! {
            () = self.settle() => ShutdownSignal::GracefulTerminate,
            () = until_quit(&self.signals) => self.end_at_once().await,
        };
        self.sockets.close();
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
            let _ = over.send(Over::Ended);
        };
        // Without a thread Pingora's own grace period ends the node.
        let _ = std::thread::Builder::new().name("landing".to_owned()).spawn(wait);
    }

    /// Settles and leaves the listeners to another process; `None`: it was gone before anything was given up.
    async fn give_way(&self, successor: Successor) -> Option<ShutdownSignal> {
        tracing::info!("another process takes over: every connection ends with its next answer");
        self.reloader.gate.part();
        let given_way = async {
            tokio::select! {
                () = tokio::time::sleep(PARTING) => {}
                () = successor.gone() => return false,
            }
            self.settle().await;
            true
        };
        let given_way = tokio::select! {
            given_way = given_way => given_way,
            signal = self.signals.order("another process takes over") => return Some(match signal {
                Signal::Quit => self.end_at_once().await,
                Signal::Drain | Signal::Reload => self.drain().await,
            }),
        };
        if !given_way {
            tracing::warn!("the process that was to take over has ended; this one goes on");
            self.reloader.gate.stay();
            return None;
        }
        let _ = self.over.send(Over::Followed(successor));
        Some(ShutdownSignal::GracefulTerminate)
    }

    /// Whoever is ready to take over, from now on.
    fn candidates(&self) -> Option<Candidates> {
        let opened = self.offer.as_ref()?.open();
        opened.inspect_err(|error| tracing::warn!("no other process can take over: {error}")).ok()
    }

    /// Lets the process end without the server: Pingora's own fast way out has been seen to spin for ever.
    async fn end_at_once(&self) -> ShutdownSignal {
        let _ = self.over.send(Over::Ended);
        pending().await
    }
}

async fn until_quit(signals: &Signals) {
    while signals.next().await != Signal::Quit {}
}

/// The next of those who are ready to take over; never if there can be none.
async fn next_of(candidates: &mut Option<Candidates>) -> Successor {
    match candidates {
        Some(candidates) => candidates.next().await,
        None => pending().await,
    }
}

/// Waits until nothing is in flight, or the limit is over. Connections that were just accepted show a little later, and
/// what has been answered is sent a little later, so nothing must be in flight twice.
pub(super) async fn landed(in_flight: impl Fn() -> usize, limit: Duration) {
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
        let mut candidates = self.candidates();
        loop {
            let signal = tokio::select! {
                signal = self.signals.next() => signal,
                successor = next_of(&mut candidates) => match self.give_way(successor).await {
                    Some(ending) => return ending,
                    None => continue,
                },
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

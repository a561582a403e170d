//! How the loop is told to stop, and tells that everything is settled.

use tokio::sync::watch;

/// Shared by the loop and whoever ends it.
#[derive(Debug)]
pub(super) struct Stop {
    asked: watch::Sender<bool>,
    drained: watch::Sender<bool>,
}

impl Stop {
    pub(super) fn new() -> Self {
        Self { asked: watch::Sender::new(false), drained: watch::Sender::new(false) }
    }

    /// Asks the loop to stop.
    pub(super) fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Waits until the loop is asked to stop.
    pub(super) async fn asked(&self) {
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }

    /// The node has nothing left that the log does not know.
    pub(super) fn note_drained(&self) {
        self.drained.send_replace(true);
    }

    /// Waits for that.
    pub(super) async fn drained(&self) {
        let _ = self.drained.subscribe().wait_for(|drained| *drained).await;
    }
}

//! The end of a node whose place another process takes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use crate::app::ending::{LONGEST_FLIGHT, landed};
use crate::app::hand_over::{Sockets, Successor, Verdict};
use crate::app::numbered::Numbered;
use crate::app::signals::{Signal, Signals};
use crate::config::Settings;

/// How long what was read before the listeners closed may take to be judged.
const LAST_JUDGED: Duration = Duration::from_millis(500);

/// How a node ended.
#[derive(Debug)]
pub enum Outcome {
    /// The process ends.
    Ended,
    /// The process that was to take over ended too early: this one has to open the node again.
    Left(Left),
}

/// What is needed to open a node again that another process was to take over.
#[derive(Debug)]
pub struct Left {
    pub(super) settings: Arc<Settings>,
    pub(super) file: Option<PathBuf>,
    pub(super) numbered: Numbered,
    pub(super) sockets: Sockets,
}

impl Node {
    /// Closes the control log for another process, and waits until that one serves and what is open here has ended.
    pub(super) fn give_place(self, successor: &Successor, signals: &Signals) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let in_flight = || self.gate.in_flight();
        // What was read before the listeners closed is still judged here.
        runtime.block_on(landed(in_flight, LAST_JUDGED));
        self.operator.close();
        self.control.stop();
        if let Some(peers) = self.peers {
            peers.stop();
        }
        tracing::info!(in_flight = in_flight(), "the control log is closed for the process that takes over");
        let verdict = runtime.block_on(async {
            tokio::select! {
                verdict = successor.take_place() => Some(verdict),
                signal = signals.order("another process takes over") => {
                    if signal == Signal::Drain {
                        landed(in_flight, LONGEST_FLIGHT).await;
                    }
                    None
                }
            }
        });
        self.operator.stop();
        match verdict {
            None => return Ok(Outcome::Ended),
            Some(Verdict::Gone) => {
                tracing::error!(
                    "the process that took over ended before it served: this one opens the node again"
                );
                let settings = self.reloader.settings.load_full();
                let file = self.reloader.file.clone();
                return Ok(Outcome::Left(Left {
                    settings,
                    file,
                    numbered: self.numbered,
                    sockets: self.sockets,
                }));
            }
            Some(Verdict::Serves) => self.sockets.close(),
        }
        let farewell = self.reloader.settings.load().node.farewell;
        tracing::info!(
            in_flight = in_flight(),
            "the other process serves: requests under way have {} s to end here",
            farewell.as_secs()
        );
        runtime.block_on(async {
            tokio::select! {
                () = landed(in_flight, farewell) => {}
                signal = signals.order("another process takes over") => if signal == Signal::Drain {
                    landed(in_flight, LONGEST_FLIGHT).await;
                },
            }
        });
        match in_flight() {
            0 => tracing::info!("every request has ended, and so does this process"),
            cut => tracing::warn!(cut, "requests are cut off that are still under way"),
        }
        Ok(Outcome::Ended)
    }
}

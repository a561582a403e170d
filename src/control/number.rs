//! Numbers for edges that have none: the leader has each in the log before it tells of it.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::fleet::Leadership;
use super::port::ControlLog;
use crate::peer::{Applicant, Given, NoNumber, Numbering};

/// Where edges are numbered.
pub(super) struct Counter {
    pub(super) log: Arc<ControlLog>,
    pub(super) leadership: Leadership,
    /// What the numbers are certified with, if this controller has it.
    pub(super) numbering: Option<Numbering>,
}

/// Answers edges without a number, for as long as the node runs.
pub(super) async fn answer_applicants(mut callers: mpsc::Receiver<Applicant>, counter: Counter) {
    let counter = Arc::new(counter);
    while let Some(applicant) = callers.recv().await {
        let counter = Arc::clone(&counter);
        tokio::spawn(async move {
            let given = counter.given(&applicant).await;
            applicant.answer(&given).await;
        });
    }
}

impl Counter {
    async fn given(&self, applicant: &Applicant) -> Given {
        if !self.leadership.leads() {
            return Given::NotLeader(self.leadership.other());
        }
        let Some(numbering) = &self.numbering else { return Given::Nothing(NoNumber::NoAuthority) };
        let name = applicant.name();
        let node = match self.log.number(name.clone(), applicant.instance()).await {
            Ok(Some(node)) => node,
            Ok(None) => return Given::Nothing(NoNumber::AllTaken),
            Err(_) => return Given::Nothing(NoNumber::Unavailable),
        };
        match numbering.certify(node, applicant) {
            Ok(chain) => {
                tracing::info!(%node, %name, "an edge has its number");
                Given::Number(node, chain)
            }
            Err(error) => {
                tracing::error!(%node, %name, "no certificate could be made for an edge: {error}");
                Given::Nothing(NoNumber::NoAuthority)
            }
        }
    }
}

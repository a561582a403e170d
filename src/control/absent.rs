//! Nodes that the leader does not hear: each is told of once, since slots are held back for it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::acknowledged::Acknowledged;
use crate::model::ids::NodeRun;

/// A restart or a change of leaders takes less.
const ABSENCE: Duration = Duration::from_secs(10);

/// Whom one leader misses.
#[derive(Debug)]
pub(super) struct Absent {
    began: Instant,
    told: BTreeSet<NodeRun>,
}

impl Absent {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), told: BTreeSet::new() }
    }

    /// Says which of the registered runs are absent, and which are back.
    pub(super) fn look<'a>(
        &mut self,
        registered: impl Iterator<Item = &'a NodeRun>,
        acknowledged: &Acknowledged,
    ) {
        let silence = |run| acknowledged.last_of(run).map_or(self.began.elapsed(), |(_, silence)| silence);
        let absent: BTreeSet<_> = registered.filter(|run| silence(run) > ABSENCE).copied().collect();
        for NodeRun { node, .. } in absent.difference(&self.told) {
            tracing::warn!(
                "node {node} has not been heard for {} s, and may still honour passes: the slots of sessions that end are held \
                 back until their passes would have ended; if it is gone for good, end it and run `anteroom cluster expel {node}`",
                ABSENCE.as_secs()
            );
        }
        for run in self.told.difference(&absent).filter(|run| acknowledged.of(run).is_some()) {
            tracing::info!("node {} is heard again", run.node);
        }
        self.told = absent;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::model::ids::{Generation, LogIndex, NodeId};

    #[tokio::test(start_paused = true)]
    async fn a_node_is_missed_after_a_while_and_until_it_is_heard_again() {
        let run = |node| NodeRun { node: NodeId(NonZeroU16::new(node).unwrap()), generation: Generation(1) };
        let (runs, acknowledged, mut absent) = ([run(1), run(2)], Acknowledged::default(), Absent::new());
        let mut missed = |heard: &[NodeRun]| {
            acknowledged.hear(heard.iter().map(|run| (*run, LogIndex(1))));
            absent.look(runs.iter(), &acknowledged);
            absent.told.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(missed(&[run(1)]), []);
        tokio::time::advance(ABSENCE + Duration::from_secs(1)).await;
        assert_eq!(missed(&[run(1)]), [run(2)]);
        assert_eq!(missed(&runs), []);
        tokio::time::advance(ABSENCE / 2).await;
        assert_eq!(missed(&[run(1)]), []);
    }
}

//! How far each node has come with the log, as the leader hears it: told to operators, and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::ids::{LogIndex, NodeRun};

/// The log index that each node has last acknowledged; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged(Arc<ArcSwap<BTreeMap<NodeRun, LogIndex>>>);

impl Acknowledged {
    /// Takes what the leader has heard.
    pub(super) fn hear(&self, nodes: impl Iterator<Item = (NodeRun, LogIndex)>) {
        let nodes: BTreeMap<_, _> = nodes.collect();
        if **self.0.load() != nodes {
            self.0.store(Arc::new(nodes));
        }
    }

    /// How far a node has come, if the leader hears it.
    pub(super) fn of(&self, run: &NodeRun) -> Option<LogIndex> {
        self.0.load().get(run).copied()
    }

    /// How many of these nodes have come as far as `index`.
    pub(super) fn count<'a>(&self, of: impl Iterator<Item = &'a NodeRun>, index: LogIndex) -> usize {
        let known = self.0.load();
        of.filter(|run| known.get(run).is_some_and(|heard| *heard >= index)).count()
    }
}

//! How far each node has come with the log, as the leader hears it: told to operators, and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::model::ids::{LogIndex, NodeRun};

/// How long it is remembered how far a node had come that is not heard any more.
const MEMORY: Duration = Duration::from_secs(24 * 3600);

/// The log index that each node has last acknowledged; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged(Arc<ArcSwap<BTreeMap<NodeRun, Mark>>>);

/// How far a node had come when it was heard last.
#[derive(Clone, Copy, Debug)]
struct Mark {
    index: LogIndex,
    at: Instant,
    is_heard: bool,
}

impl Acknowledged {
    /// Takes what the leader has heard, and that it hears nobody else.
    pub(super) fn hear(&self, nodes: impl Iterator<Item = (NodeRun, LogIndex)>) {
        let now = Instant::now();
        let silent = |mark: &Mark| Mark { is_heard: false, ..*mark };
        let mut marks: BTreeMap<_, _> =
            self.0.load().iter().map(|(run, mark)| (*run, silent(mark))).collect();
        marks.retain(|_, mark| now.duration_since(mark.at) < MEMORY);
        marks.extend(nodes.map(|(run, index)| (run, Mark { index, at: now, is_heard: true })));
        self.0.store(Arc::new(marks));
    }

    /// How far a node has come, if the leader hears it.
    pub(super) fn of(&self, run: &NodeRun) -> Option<LogIndex> {
        self.0.load().get(run).filter(|mark| mark.is_heard).map(|mark| mark.index)
    }

    /// How far a node had come when it was heard last, and how long ago that was, if it was ever heard here.
    pub(super) fn last_of(&self, run: &NodeRun) -> Option<(LogIndex, Duration)> {
        self.0.load().get(run).map(|mark| (mark.index, mark.at.elapsed()))
    }

    /// How many of these nodes have come as far as `index`.
    pub(super) fn count<'a>(&self, of: impl Iterator<Item = &'a NodeRun>, index: LogIndex) -> usize {
        let known = self.0.load();
        of.filter(|run| known.get(run).is_some_and(|mark| mark.is_heard && mark.index >= index)).count()
    }
}

//! When other controllers were heard last, as this one knows it: told to operators, and decides no more than how long an
//! addition waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::ids::NodeId;
use crate::model::time::ISOLATION;

/// So many heartbeats without a word: it does not answer.
const HEARTBEATS_SILENT: u32 = 5;

/// When each controller said something last; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    last: Arc<Mutex<BTreeMap<NodeId, Instant>>>,
    patience: Duration,
}

impl Heard {
    /// Nobody was heard yet; `heartbeat` is between two words of the leader.
    pub(super) fn new(heartbeat: Duration) -> Self {
        Self { last: Arc::default(), patience: ISOLATION.max(HEARTBEATS_SILENT * heartbeat) }
    }

    /// A controller has asked, or answered.
    pub(super) fn note(&self, node: NodeId) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).insert(node, Instant::now());
    }

    /// How long ago a controller was heard last; `None`: never.
    pub(super) fn silence(&self, node: NodeId) -> Option<Duration> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&node).map(Instant::elapsed)
    }

    /// Whether it was heard lately.
    pub(super) fn answers(&self, node: NodeId) -> bool {
        self.silence(node).is_some_and(|silence| silence < self.patience)
    }
}

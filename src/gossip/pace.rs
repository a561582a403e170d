//! How often nodes gossip, and how long they remember.

use std::time::Duration;

use chitchat::FailureDetectorConfig;

/// How often nodes gossip, and how long they remember those who are silent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two rounds of a large fleet; a small one has a round in between.
    pub interval: Duration,
    /// How long a node that is silent is remembered.
    pub memory: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), memory: Duration::from_secs(15 * 60) }
    }
}

impl Pace {
    /// Between two looks at what has changed.
    pub(super) fn beat(self) -> Duration {
        self.interval / 2
    }

    /// A node counts as silent after some eight times the usual distance of its signs of life.
    pub(super) fn failure_detector(self) -> FailureDetectorConfig {
        FailureDetectorConfig {
            max_interval: self.interval * 10,
            initial_interval: self.interval * 5,
            dead_node_grace_period: self.memory,
            ..FailureDetectorConfig::default()
        }
    }
}

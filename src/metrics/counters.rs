//! What adapters count themselves: one atomic step per request, looked up once per event.

use prometheus::{IntCounter, IntCounterVec};

use super::labels::RequestOutcome;
use crate::model::edge::Ending;

/// The counters of one event, resolved once, so that counting takes no lock.
#[derive(Clone, Debug)]
pub(super) struct EventCounters {
    requests: Vec<IntCounter>,
    ended: Vec<IntCounter>,
    /// Requests that the origin did not answer.
    origin_failures: IntCounter,
}

impl EventCounters {
    pub(super) fn new(
        event: &str,
        requests: &IntCounterVec,
        ended: &IntCounterVec,
        failures: &IntCounterVec,
    ) -> Self {
        let requests_of = |outcome: &RequestOutcome| requests.with_label_values(&[event, outcome.as_str()]);
        let ended_by = |reason: &Ending| ended.with_label_values(&[event, reason.as_str()]);
        Self {
            requests: RequestOutcome::ALL.iter().map(requests_of).collect(),
            ended: Ending::ALL.iter().map(ended_by).collect(),
            origin_failures: failures.with_label_values(&[event]),
        }
    }

    /// Counts a request.
    pub(super) fn request(&self, outcome: RequestOutcome) {
        count(&self.requests, outcome as usize);
    }

    /// Counts a ticket that was answered with 410.
    pub(super) fn ended(&self, reason: Ending) {
        count(&self.ended, reason as usize);
    }

    /// Counts a request that the origin did not answer.
    pub(super) fn origin_failed(&self) {
        self.origin_failures.inc();
    }
}

pub(super) fn count(counters: &[IntCounter], at: usize) {
    if let Some(counter) = counters.get(at) {
        counter.inc();
    }
}

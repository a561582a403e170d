//! What Prometheus reads: names begin with `anteroom_`, units are base units, labels are closed sets.
//!
//! Adapters count what only they see ([`Metrics::event`]); everything else is read from the desk at the time of a scrape
//! and handed in as plain numbers ([`NodeReading`], [`EventReading`]).

mod counters;
mod labels;
mod scrape;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use counters::EventCounters;
pub use labels::{RequestOutcome, StrayOutcome};
pub use scrape::{EventReading, NodeReading};

use crate::model::edge::Ending;
use crate::model::ids::EventId;
use crate::model::time::FleetTime;

/// All metrics of this process, in a registry of their own.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    ended: IntCounterVec,
    origin_failures: IntCounterVec,
    strays: Vec<IntCounter>,
    reload_successful: IntGauge,
    reload_time: Gauge,
    events: ArcSwap<BTreeMap<EventId, Arc<EventCounters>>>,
    read: Mutex<scrape::Read>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Metrics of a process that has counted nothing yet.
    ///
    /// # Errors
    /// If two metrics have the same name, which is a fault of the program.
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        let registry = Registry::new();
        let make = Maker { registry: &registry };
        let build = make.gauges("build_info", "Always 1; the label is what matters.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let requests = make.counters(
            "requests_total",
            "Requests of an event by what became of them.",
            &["event", "outcome"],
        )?;
        let ended = make.counters(
            "tickets_ended_total",
            "Tickets that were answered with 410, by reason.",
            &["event", "reason"],
        )?;
        let origin_failures = make.counters(
            "origin_failures_total",
            "Requests that were let through and that the origin did not answer.",
            &["event"],
        )?;
        let strays = make.counters(
            "stray_requests_total",
            "Requests that belong to no event, by what became of them.",
            &["outcome"],
        )?;
        let metrics = Self {
            requests,
            ended,
            origin_failures,
            strays: StrayOutcome::ALL
                .iter()
                .map(|outcome| strays.with_label_values(&[outcome.as_str()]))
                .collect(),
            reload_successful: make.gauge(
                "config_last_reload_successful",
                "1 if the newest configuration is in use as a whole, else 0.",
            )?,
            reload_time: make.add(Gauge::with_opts(named(
                "config_last_reload_timestamp_seconds",
                "When a configuration was put into use last, in unix seconds.",
            ))?)?,
            events: ArcSwap::default(),
            read: Mutex::new(scrape::Read::new(&make)?),
            registry,
        };
        Ok(Arc::new(metrics))
    }

    /// Counts a request of an event.
    pub fn request(&self, event: &EventId, outcome: RequestOutcome) {
        self.with(event, |counters| counters.request(outcome));
    }

    /// Counts a ticket of an event that was answered with 410.
    pub fn ended(&self, event: &EventId, reason: Ending) {
        self.with(event, |counters| counters.ended(reason));
    }

    /// Counts a request of an event that the origin did not answer.
    pub fn origin_failed(&self, event: &EventId) {
        self.with(event, EventCounters::origin_failed);
    }

    fn with(&self, event: &EventId, count: impl Fn(&EventCounters)) {
        if let Some(counters) = self.events.load().get(event) {
            return count(counters);
        }
        let made = EventCounters::new(event.as_str(), &self.requests, &self.ended, &self.origin_failures);
        let made = Arc::new(made);
        count(&made);
        self.events.rcu(|events| {
            let mut events = BTreeMap::clone(events);
            events.insert(event.clone(), Arc::clone(&made));
            events
        });
    }

    /// Counts a request that belongs to no event.
    pub fn stray(&self, outcome: StrayOutcome) {
        counters::count(&self.strays, outcome as usize);
    }

    /// A configuration has been put into use.
    pub fn configured(&self, now: FleetTime) {
        self.reload_successful.set(1);
        self.reload_time.set(seconds(now));
    }

    /// A configuration has been refused; the one before stays in use.
    pub fn configuration_refused(&self) {
        self.reload_successful.set(0);
    }

    /// Everything in the text format of Prometheus.
    ///
    /// # Errors
    /// If a metric cannot be written down, which is a fault of the program.
    pub fn render(&self, node: &NodeReading, events: &[EventReading]) -> Result<String, prometheus::Error> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in read.take(node, events) {
            self.forget(&gone);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        drop(read);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Drops the counters of an event that is gone.
    fn forget(&self, gone: &EventId) {
        self.events.rcu(|events| {
            let mut events = BTreeMap::clone(events);
            events.remove(gone);
            events
        });
        for outcome in RequestOutcome::ALL {
            let _ = self.requests.remove_label_values(&[gone.as_str(), outcome.as_str()]);
        }
        for reason in Ending::ALL {
            let _ = self.ended.remove_label_values(&[gone.as_str(), reason.as_str()]);
        }
        let _ = self.origin_failures.remove_label_values(&[gone.as_str()]);
    }
}

fn seconds(time: FleetTime) -> f64 {
    std::time::Duration::from_millis(time.0).as_secs_f64()
}

fn named(name: &str, help: &str) -> Opts {
    Opts::new(format!("anteroom_{name}"), help)
}

/// Makes metrics and registers them.
struct Maker<'a> {
    registry: &'a Registry,
}

impl Maker<'_> {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        self.add(IntCounterVec::new(named(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.add(IntGauge::with_opts(named(name, help))?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
        self.add(IntGaugeVec::new(named(name, help), labels)?)
    }

    fn fractions(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, prometheus::Error> {
        self.add(GaugeVec::new(named(name, help), labels)?)
    }
}

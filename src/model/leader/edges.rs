//! What the leader knows of each edge: its last report, and what it was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::exchange::{EdgeStage, EventReport, Grant, Report};
use crate::model::ids::{EventId, LogIndex, NodeRun, Tenure};
use crate::model::time::{BootTime, TICK};

/// An edge that was not heard for this long is silent: nothing waits for it.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// Over how long traffic is averaged.
const TRAFFIC_SPAN: Duration = Duration::from_secs(10);

/// One run of a node, as its reports tell.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// The last report, without the counts, which are taken in once.
    pub(super) number: u64,
    pub(super) sent: BootTime,
    pub(super) pulse_seen: Option<(Tenure, u64)>,
    pub(super) live_index: LogIndex,
    pub(super) keys_version: u64,
    pub(super) stage: EdgeStage,
    pub(super) events: BTreeMap<EventId, EventReport>,
    /// When it was last heard.
    pub(super) heard: BootTime,
    /// Reports whose counts and flags have not been looked at.
    pub(super) inbox: Vec<EventReport>,
    /// Grants that no pulse has carried yet, with the time of their reservation.
    pub(super) grants: BTreeMap<EventId, (Grant, BootTime)>,
    /// Grants that pulses have carried, until a report shows that the last of them has been taken.
    pub(super) granted_by: BTreeMap<EventId, Granted>,
    traffic: BTreeMap<EventId, f64>,
}

/// Grants on their way to an edge.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granted {
    /// The last pulse that carried one.
    pulse: u64,
    /// The slots of all of them.
    slots: u32,
}

impl Edge {
    /// An edge from its first report in this tenure.
    pub(super) fn new(report: Report, boot: BootTime) -> Self {
        let mut edge = Self {
            number: 0,
            sent: BootTime(0),
            pulse_seen: None,
            live_index: LogIndex(0),
            keys_version: 0,
            stage: EdgeStage::Serving,
            events: BTreeMap::new(),
            heard: boot,
            inbox: Vec::new(),
            grants: BTreeMap::new(),
            granted_by: BTreeMap::new(),
            traffic: BTreeMap::new(),
        };
        edge.take(report, boot);
        edge
    }

    /// Takes a report; a late or doubled one is ignored.
    pub(super) fn take(&mut self, report: Report, boot: BootTime) {
        if report.number <= self.number {
            return;
        }
        let weight = 1.0 - (-boot.since(self.heard).as_secs_f64() / TRAFFIC_SPAN.as_secs_f64()).exp();
        self.traffic.values_mut().for_each(|traffic| *traffic *= 1.0 - weight);
        for event in &report.events {
            let asks = f64::from(event.called_asking) + f64::from(event.held);
            let traffic = self.traffic.entry(event.event.clone()).or_default();
            *traffic += weight * (asks + f64::from(event.express_rate.max(0.0)));
        }
        self.traffic.retain(|_, traffic| *traffic > 1e-6);
        self.number = report.number;
        self.sent = report.sent;
        self.pulse_seen = report.pulse_seen;
        self.live_index = report.live_index;
        self.keys_version = report.keys_version;
        self.stage = report.stage;
        self.heard = boot;
        self.inbox.extend(report.events.iter().cloned());
        let plain = |event: EventReport| (event.event.clone(), EventReport { counts: Vec::new(), ..event });
        self.events = report.events.into_iter().map(plain).collect();
    }

    /// Whether the edge was heard lately.
    pub(super) fn is_heard(&self, boot: BootTime) -> bool {
        boot.since(self.heard) <= SILENCE
    }

    /// Whether the edge takes grants.
    pub(super) fn serves(&self, boot: BootTime) -> bool {
        self.is_heard(boot) && self.stage == EdgeStage::Serving
    }

    /// Whether the report shows that the edge has taken a pulse of this leader's.
    pub(super) fn hears(&self, tenure: Tenure) -> bool {
        self.has_seen(tenure, 0)
    }

    /// Whether the report shows that the edge has taken the pulse of this number.
    pub(super) fn has_seen(&self, tenure: Tenure, pulse: u64) -> bool {
        self.pulse_seen.is_some_and(|(of, number)| of == tenure && number >= pulse)
    }

    /// Forgets the grant that is on its way once the edge has it: from then on its reports tell of what it lacks.
    pub(super) fn note_grants(&mut self, event: &EventId, tenure: Tenure) {
        if self.granted_by.get(event).is_some_and(|granted| self.has_seen(tenure, granted.pulse)) {
            self.granted_by.remove(event);
        }
    }

    /// Takes out the grant for a pulse, if it was reserved within the last tick.
    pub(super) fn hand_over(&mut self, event: &EventId, pulse: u64, boot: BootTime) -> Option<Grant> {
        let (grant, _) = *self.grants.get(event).filter(|(_, reserved)| boot.since(*reserved) <= TICK)?;
        self.grants.remove(event);
        let granted = self.granted_by.entry(event.clone()).or_default();
        *granted = Granted { pulse, slots: granted.slots.saturating_add(grant.slots) };
        Some(grant)
    }

    /// How many slots are on their way that its last report knows nothing of.
    pub(super) fn on_their_way(&self, event: &EventId) -> u32 {
        self.granted_by.get(event).map_or(0, |granted| granted.slots)
    }

    /// The edge's traffic in an event, in visitors that need a slot.
    pub(super) fn traffic(&self, event: &EventId) -> f64 {
        self.traffic.get(event).copied().unwrap_or_default()
    }

    /// Takes out the grants that were not handed over while they may be.
    pub(super) fn stale_grants(&mut self, event: &EventId, boot: BootTime, life: Duration) -> Option<Grant> {
        let stale = self.grants.get(event).is_some_and(|(_, reserved)| boot.since(*reserved) > life);
        if stale { self.grants.remove(event).map(|(grant, _)| grant) } else { None }
    }
}

/// The edges that report, by run.
pub(super) type Edges = BTreeMap<NodeRun, Edge>;

//! What is read at the time of a scrape.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus::{Gauge, GaugeVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::Maker;
use crate::model::edge::{Contact, Phase};
use crate::model::ids::{EventId, LogIndex};

/// This node at the time of a scrape.
#[derive(Clone, Debug)]
pub struct NodeReading {
    /// How well the leader is heard.
    pub contact: Contact,
    /// How long ago the report was sent that the newest pulse answers.
    pub pulse_age: Option<Duration>,
    /// How long an answer of the leader takes.
    pub round_trip: Duration,
    /// The log index of the newest pulse.
    pub index: LogIndex,
    /// Whether this node leads.
    pub leads: bool,
    /// How many nodes were not let in since the start of the process, by reason.
    pub peers_refused: Vec<(&'static str, u64)>,
}

/// One event at the time of a scrape; totals count since the start of the process.
#[derive(Clone, Debug)]
pub struct EventReading {
    /// The event.
    pub event: EventId,
    /// All slots.
    pub capacity: u32,
    /// Slots neither live nor promised.
    pub slots_free: u32,
    /// Live passes in the fleet.
    pub live_passes: u32,
    /// Tickets that wait in the fleet.
    pub waiting: u32,
    /// Admissions per second over the last minute.
    pub admit_rate: f32,
    /// How long ago those joined who are called now; `None` where arrival does not order the line.
    pub watermark_lag: Option<Duration>,
    /// Why the line is as it is.
    pub phase: Phase,
    /// Joins.
    pub joins: u64,
    /// Status polls.
    pub polls: u64,
    /// Passes minted.
    pub mints: u64,
    /// Passes minted without a wait.
    pub express: u64,
    /// Visitors who left.
    pub left: u64,
}

/// The metrics that a scrape sets.
pub(super) struct Read {
    contact: IntGaugeVec,
    pulse_age: Gauge,
    round_trip: Gauge,
    index: IntGauge,
    leads: IntGauge,
    peers_refused: IntCounterVec,
    capacity: IntGaugeVec,
    slots_free: IntGaugeVec,
    live_passes: IntGaugeVec,
    waiting: IntGaugeVec,
    admit_rate: GaugeVec,
    watermark_lag: GaugeVec,
    phase: IntGaugeVec,
    joins: IntCounterVec,
    polls: IntCounterVec,
    mints: IntCounterVec,
    express: IntCounterVec,
    left: IntCounterVec,
    shown: BTreeSet<EventId>,
}

impl Read {
    pub(super) fn new(make: &Maker<'_>) -> Result<Self, prometheus::Error> {
        let event = &["event"];
        let pulse_age = super::named("pulse_age_seconds", "Age of what this node knows from the leader.");
        let round_trip = super::named("leader_round_trip_seconds", "How long an answer of the leader takes.");
        Ok(Self {
            contact: make.gauges("leader_contact", "1 for how well the leader is heard.", &["state"])?,
            pulse_age: make.add(Gauge::with_opts(pulse_age)?)?,
            round_trip: make.add(Gauge::with_opts(round_trip)?)?,
            index: make.gauge("log_index", "The position in the control log that this node has reached.")?,
            leads: make.gauge("leads", "1 if this node leads, else 0.")?,
            peers_refused: make.counters(
                "peers_refused_total",
                "Nodes that this node did not let in, by reason.",
                &["reason"],
            )?,
            capacity: make.gauges("capacity_slots", "Slots of the event.", event)?,
            slots_free: make.gauges("free_slots", "Slots neither live nor promised, in the fleet.", event)?,
            live_passes: make.gauges("live_passes", "Live passes, in the fleet.", event)?,
            waiting: make.gauges("waiting_tickets", "Tickets that wait, in the fleet.", event)?,
            admit_rate: make.fractions(
                "admissions_per_second",
                "Admissions per second over the last minute, in the fleet.",
                event,
            )?,
            watermark_lag: make.fractions(
                "watermark_lag_seconds",
                "How long ago those joined who are called now; not told for `random`.",
                event,
            )?,
            phase: make.gauges("phase", "1 for why the line is as it is.", &["event", "phase"])?,
            joins: make.counters("joins_total", "Tickets made at this node.", event)?,
            polls: make.counters("polls_total", "Status polls answered by this node.", event)?,
            mints: make.counters("passes_minted_total", "Passes minted at this node.", event)?,
            express: make.counters(
                "express_passes_total",
                "Passes minted at this node without a wait; also in anteroom_passes_minted_total.",
                event,
            )?,
            left: make.counters(
                "tickets_left_total",
                "Visitors who left by themselves, at this node.",
                event,
            )?,
            shown: BTreeSet::new(),
        })
    }

    /// Sets everything to what was read; returns the events that are gone since the last scrape.
    pub(super) fn take(&mut self, node: &NodeReading, events: &[EventReading]) -> BTreeSet<EventId> {
        for contact in Contact::ALL {
            self.contact.with_label_values(&[contact.as_str()]).set((*contact == node.contact).into());
        }
        self.pulse_age.set(node.pulse_age.map_or(f64::INFINITY, |age| age.as_secs_f64()));
        self.round_trip.set(node.round_trip.as_secs_f64());
        self.index.set(i64::try_from(node.index.0).unwrap_or(i64::MAX));
        self.leads.set(node.leads.into());
        for (reason, total) in &node.peers_refused {
            let counter = self.peers_refused.with_label_values(&[*reason]);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
        events.iter().for_each(|event| self.show(event));
        let present: BTreeSet<_> = events.iter().map(|event| event.event.clone()).collect();
        let gone: BTreeSet<_> = self.shown.difference(&present).cloned().collect();
        gone.iter().for_each(|event| self.forget(event));
        self.shown = present;
        gone
    }

    fn show(&self, reading: &EventReading) {
        let event = &[reading.event.as_str()];
        self.capacity.with_label_values(event).set(reading.capacity.into());
        self.slots_free.with_label_values(event).set(reading.slots_free.into());
        self.live_passes.with_label_values(event).set(reading.live_passes.into());
        self.waiting.with_label_values(event).set(reading.waiting.into());
        self.admit_rate.with_label_values(event).set(reading.admit_rate.into());
        match reading.watermark_lag {
            Some(lag) => self.watermark_lag.with_label_values(event).set(lag.as_secs_f64()),
            None => drop(self.watermark_lag.remove_label_values(event)),
        }
        for phase in Phase::ALL {
            let shown = self.phase.with_label_values(&[reading.event.as_str(), phase.as_str()]);
            shown.set((*phase == reading.phase).into());
        }
        let totals = [
            (&self.joins, reading.joins),
            (&self.polls, reading.polls),
            (&self.mints, reading.mints),
            (&self.express, reading.express),
            (&self.left, reading.left),
        ];
        for (counters, total) in totals {
            let counter = counters.with_label_values(event);
            if total < counter.get() {
                // The event was removed and made anew: its totals began again.
                counter.reset();
            }
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    fn forget(&self, gone: &EventId) {
        let event = &[gone.as_str()];
        let gauges = [&self.capacity, &self.slots_free, &self.live_passes, &self.waiting];
        gauges.into_iter().for_each(|gauge| drop(gauge.remove_label_values(event)));
        let fractions = [&self.admit_rate, &self.watermark_lag];
        fractions.into_iter().for_each(|gauge| drop(gauge.remove_label_values(event)));
        let counters = [&self.joins, &self.polls, &self.mints, &self.express, &self.left];
        counters.into_iter().for_each(|counter| drop(counter.remove_label_values(event)));
        for phase in Phase::ALL {
            let _ = self.phase.remove_label_values(&[gone.as_str(), phase.as_str()]);
        }
    }
}

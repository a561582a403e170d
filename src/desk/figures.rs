//! What operators and metrics read of the desk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::Desk;
use crate::model::edge::{Contact, Phase};
use crate::model::ids::{EventId, LineEpoch, LogIndex, TicketId};
use crate::model::ledger::Gate;
use crate::model::order::OrderKey;
use crate::model::policy::Policy;
use crate::model::time::FleetTime;

/// This node's state in plain numbers.
#[derive(Clone, Debug)]
pub struct Figures {
    /// How well the leader is heard.
    pub contact: Contact,
    /// The log index of the last pulse.
    pub index: LogIndex,
    /// How long ago the report was sent that the newest pulse answers; `None` before the first pulse.
    pub pulse_age: Option<std::time::Duration>,
    /// How long an answer of the leader takes, smoothed, in milliseconds.
    pub round_trip_ms: u64,
    /// Per event.
    pub events: Vec<EventFigures>,
}

/// One event in plain numbers. Totals count since the start of the process, at this node.
#[derive(Clone, Debug)]
pub struct EventFigures {
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
    /// Express, about to reopen, or a line.
    pub gate: Gate,
    /// Tickets below it are called.
    pub watermark: OrderKey,
    /// Why the line is as it is.
    pub phase: Phase,
    /// Joins.
    pub joins_total: u64,
    /// Status polls.
    pub polls_total: u64,
    /// Passes minted.
    pub mints_total: u64,
    /// Passes minted without a wait.
    pub express_total: u64,
    /// Polls answered with 410.
    pub ended_total: u64,
    /// Visitors who left.
    pub left_total: u64,
}

/// Totals since the start, for metrics.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) joins: AtomicU64,
    pub(super) polls: AtomicU64,
    pub(super) mints: AtomicU64,
    pub(super) express: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) left: AtomicU64,
}

/// An event as adapters look it up.
#[derive(Clone, Debug)]
pub struct EventView {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The ETag.
    pub version: u64,
    /// The line's epoch.
    pub line: LineEpoch,
    /// Why the line is as it is.
    pub phase: Phase,
    /// Express, about to reopen, or a line.
    pub gate: Gate,
}

/// What this node knows of one ticket.
#[derive(Clone, Debug, Serialize)]
pub struct TicketFacts {
    /// Seen in line by this node while it may live of it.
    pub seen_lately: bool,
    /// Its pass was minted here and is not in the ledger yet.
    pub minted_here: bool,
    /// When its live pass ends, in unix milliseconds.
    pub pass_expires_ms: Option<u64>,
    /// Its id is consumed: nothing opens with it any more.
    pub consumed: bool,
    /// A pass of it ended unclaimed once.
    pub unclaimed_once: bool,
}

impl Desk {
    /// This node in plain numbers.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let heard = self.heard.load();
        let boot = self.clock.boot();
        let (contact, now) = (heard.link.contact(boot), heard.link.upper(boot));
        let events = self.events.load();
        let events = events.values().map(|event| {
            let view = event.view();
            let pulse = &view.pulse;
            let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
            EventFigures {
                event: event.id.clone(),
                capacity: pulse.policy.capacity.get(),
                slots_free: pulse.slots_free,
                live_passes: pulse.live_passes,
                waiting: pulse.waiting,
                admit_rate: pulse.admit_rate,
                gate: pulse.gate,
                watermark: pulse.watermark,
                phase: view.phase(contact, now),
                joins_total: read(&event.tallies.joins),
                polls_total: read(&event.tallies.polls),
                mints_total: read(&event.tallies.mints),
                express_total: read(&event.tallies.express),
                ended_total: read(&event.tallies.ended),
                left_total: read(&event.tallies.left),
            }
        });
        let events = events.collect();
        Figures {
            contact,
            index: heard.index,
            pulse_age: heard.link.silence(boot),
            round_trip_ms: heard.link.round_trip_ms(),
            events,
        }
    }

    /// The policy of an event.
    #[must_use]
    pub fn policy(&self, event: &EventId) -> Option<Arc<Policy>> {
        Some(Arc::clone(&self.events.load().get(event)?.view().pulse.policy))
    }

    /// An event as adapters look it up.
    #[must_use]
    pub fn event(&self, event: &EventId) -> Option<EventView> {
        let event = self.event_desk(event)?;
        let view = event.view();
        Some(EventView {
            policy: Arc::clone(&view.pulse.policy),
            version: view.pulse.version,
            line: view.pulse.line,
            phase: view.phase(self.contact(), self.now()),
            gate: view.pulse.gate,
        })
    }

    /// What this node knows of one ticket.
    #[must_use]
    pub fn explain(&self, event: &EventId, id: TicketId) -> Option<TicketFacts> {
        let event = self.event_desk(event)?;
        let view = event.view();
        let live = view.live.pass(id).map(|live| -> FleetTime { live.expires });
        Some(TicketFacts {
            seen_lately: event.counts.load().last_seen(id).is_some(),
            minted_here: event.slots().edge.minted(id).is_some(),
            pass_expires_ms: live.map(|expires| expires.0),
            consumed: view.live.is_consumed(id),
            unclaimed_once: view.live.is_unclaimed_once(id),
        })
    }
}

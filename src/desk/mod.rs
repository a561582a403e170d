//! What an edge knows: the one place where adapters meet.
//!
//! The control adapter hands pulses in and takes reports out; the proxy asks for visitors; the operator's API asks for
//! figures. Visitors who wait read snapshots and touch atomics: no lock that a writer holds, no disk, no other node.

mod admit;
mod answers;
mod askers;
mod control_port;
mod counts;
mod event;
mod exchange;
mod express;
mod figures;
mod join;
mod keepsake;
mod leave;
mod minute;
mod neighbours;
mod pass;
mod queue_limit;
mod seen;
mod status;
mod watchers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use once_cell::sync::OnceCell;
use tokio::sync::{Notify, watch};

pub use answers::{
    Activity, Attendance, Beat, Carried, ExpressAnswer, ExpressKind, IssuedPass, JoinAnswer, PassAnswer,
    RenewalUrgency, StatusAnswer, Turn, Waiting,
};
pub use control_port::{Changed, ControlError, ControlPort, FleetDeed, Tried};
pub use figures::{EventFigures, EventView, Figures, TicketFacts};
pub use keepsake::Keepsake;
pub use neighbours::{Life, Neighbour};

use crate::clock::Clock;
use crate::model::edge::Contact;
use crate::model::ids::{EventId, NodeRun, TicketId};
use crate::model::route::RouteTable;
use crate::model::time::{BootTime, FleetTime};
use event::EventDesk;
use exchange::{Heard, Keys};
use neighbours::Neighbourhood;

/// What one node knows and decides.
pub struct Desk {
    run: NodeRun,
    clock: Clock,
    heard: ArcSwap<Heard>,
    keys: ArcSwapOption<Keys>,
    events: ArcSwap<BTreeMap<EventId, Arc<EventDesk>>>,
    routes: ArcSwap<RouteTable>,
    next_report: AtomicU64,
    next_ticket: AtomicU64,
    stage: AtomicU8,
    /// Pulses are taken one at a time; it holds when the sets of ids were last swept.
    taking: Mutex<BootTime>,
    pulses: watch::Sender<u64>,
    report_wanted: Notify,
    control: OnceCell<Arc<dyn ControlPort>>,
    neighbourhood: Neighbourhood,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Desk {
    /// The desk of a run that has heard nothing yet: it knows no event until its first pulse.
    #[must_use]
    pub fn new(run: NodeRun, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            run,
            clock,
            heard: ArcSwap::default(),
            keys: ArcSwapOption::empty(),
            events: ArcSwap::default(),
            routes: ArcSwap::from_pointee(RouteTable::build([])),
            next_report: AtomicU64::new(1),
            next_ticket: AtomicU64::new(1),
            stage: AtomicU8::new(0),
            taking: Mutex::default(),
            pulses: watch::Sender::new(0),
            report_wanted: Notify::new(),
            control: OnceCell::new(),
            neighbourhood: Neighbourhood::default(),
        })
    }

    /// Which run this is.
    #[must_use]
    pub fn run(&self) -> NodeRun {
        self.run
    }

    /// Wakes when a report should be sent before its tick.
    #[must_use]
    pub fn report_wanted(&self) -> &Notify {
        &self.report_wanted
    }

    /// How many pulses were taken; for those who wait for the next.
    #[must_use]
    pub fn pulses(&self) -> watch::Receiver<u64> {
        self.pulses.subscribe()
    }

    /// Sets the way to the control log, once.
    pub fn set_control(&self, control: Arc<dyn ControlPort>) {
        let _ = self.control.set(control);
    }

    /// The way to the control log.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] before it is set.
    pub fn control(&self) -> Result<Arc<dyn ControlPort>, ControlError> {
        let starting = || ControlError::Unavailable("the node is starting".to_owned());
        self.control.get().cloned().ok_or_else(starting)
    }

    /// The routes of all events.
    #[must_use]
    pub fn routes(&self) -> Guard<Arc<RouteTable>> {
        self.routes.load()
    }

    /// The ids of all events.
    #[must_use]
    pub fn events(&self) -> Vec<EventId> {
        self.events.load().keys().cloned().collect()
    }

    /// The latest that fleet time can be.
    #[must_use]
    pub fn now(&self) -> FleetTime {
        self.heard.load().link.upper(self.clock.boot())
    }

    /// Whether it is known which events there are: by a pulse, or by what was kept of earlier ones.
    #[must_use]
    pub fn knows_events(&self) -> bool {
        self.heard.load().ledger.is_some()
    }

    /// How well the leader is heard.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.heard.load().link.contact(self.clock.boot())
    }

    fn event_desk(&self, event: &EventId) -> Option<Arc<EventDesk>> {
        self.events.load().get(event).cloned()
    }

    fn new_ticket_id(&self) -> TicketId {
        TicketId::of_run(self.run, self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that the next report will have.
    fn next_report(&self) -> u64 {
        self.next_report.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;

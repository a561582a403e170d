//! Express: who may be let in at once, without a line.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::admit::{Admission, Entrance, PATIENCE};
use super::event::{EventDesk, View};
use super::{Desk, ExpressAnswer, ExpressKind, IssuedPass};
use crate::model::edge::{Contact, ExpressRoom, ON_THE_SPOT_LIFE, may_go_on_the_spot};
use crate::model::ids::{EventId, TicketId};
use crate::model::ledger::Gate;

/// Addresses that are remembered for sharing a pass; more than this and they are forgotten all at once.
const SHARING_ADDRESSES: usize = 50_000;

/// How the gate stands for a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Express.
    Open,
    /// Express opens in a moment, or the leader is not heard at this moment.
    Ajar,
    /// A line.
    Shut,
}

impl Desk {
    pub(super) fn door(&self, event: &EventDesk, view: &View) -> Door {
        let heard = self.heard.load();
        let boot = self.clock.boot();
        if !view.admits(heard.link.upper(boot)) || event.has_unheard_line(heard.link.answered()) {
            return Door::Shut;
        }
        match (heard.link.contact(boot), view.pulse.gate) {
            (Contact::CutOff | Contact::Unheard, _) | (_, Gate::Queue) => Door::Shut,
            (Contact::Stale, _) | (_, Gate::Reopening) => Door::Ajar,
            (Contact::Fresh, Gate::Open) => Door::Open,
        }
    }

    /// Holds a newcomer for a moment while the gate is about to open; says how it stands then.
    pub(super) async fn settled_door(&self, event: &EventDesk) -> Door {
        let mut pulses = self.pulses.subscribe();
        let settles = async {
            loop {
                let door = self.door(event, &event.view());
                if door != Door::Ajar || pulses.changed().await.is_err() {
                    return door;
                }
            }
        };
        tokio::time::timeout(PATIENCE, settles).await.unwrap_or(Door::Ajar)
    }

    /// Lets a newcomer in at once, if nobody waits and a slot is free.
    pub async fn express(&self, event: &EventId, kind: ExpressKind) -> ExpressAnswer {
        let Some(event) = self.event_desk(event) else {
            return ExpressAnswer::Unavailable(Duration::from_secs(1));
        };
        event.slots().arrivals.note(self.clock.boot());
        match self.settled_door(&event).await {
            Door::Shut => ExpressAnswer::Line,
            Door::Ajar if self.contact() == Contact::Fresh => ExpressAnswer::Line,
            Door::Ajar => ExpressAnswer::Unavailable(Duration::from_secs(1)),
            Door::Open => self.enter(&event, kind).await,
        }
    }

    async fn enter(&self, event: &EventDesk, kind: ExpressKind) -> ExpressAnswer {
        let view = event.view();
        let pass_claim = view.pulse.policy.pass_claim;
        let life = match kind {
            ExpressKind::OnTheSpot if !self.has_room_on_the_spot(event, &view) => {
                return ExpressAnswer::CookieCheck;
            }
            // On the spot too: from the end of the response on it is less, see `response_ended`.
            ExpressKind::OnTheSpot | ExpressKind::AtThePage | ExpressKind::PerAddress(_) => pass_claim,
        };
        let id = match kind {
            ExpressKind::PerAddress(address) => self.shared_id(event, &view, address),
            ExpressKind::OnTheSpot | ExpressKind::AtThePage => self.new_ticket_id(),
        };
        drop(view);
        match self.admit(event, id, life, Entrance::Express).await {
            Admission::Pass(pass) => {
                self.remember_express(event, kind, &pass);
                event.tallies.express.fetch_add(1, Ordering::Relaxed);
                ExpressAnswer::Admitted(pass)
            }
            // A request that has not shown a cookie starts no line: the page looks first whether there is somebody.
            Admission::Refused | Admission::Unanswered if kind == ExpressKind::OnTheSpot => {
                ExpressAnswer::CookieCheck
            }
            Admission::Refused | Admission::Unanswered => ExpressAnswer::Line,
        }
    }

    fn has_room_on_the_spot(&self, event: &EventDesk, view: &View) -> bool {
        let room = ExpressRoom {
            credit_share: view.pulse.credit_share,
            slots_free: view.pulse.slots_free,
            capacity: view.pulse.policy.capacity.get(),
        };
        let express = event.express.lock().unwrap_or_else(PoisonError::into_inner);
        may_go_on_the_spot(room, &express.record, self.clock.boot())
    }

    /// The id whose pass an address shares: the same for all its requests, also for those that wait at one time, so
    /// that they cost one slot together.
    fn shared_id(&self, event: &EventDesk, view: &View, address: IpAddr) -> TicketId {
        let now = self.now();
        let mut express = event.express.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |id: TicketId| {
            let expired = view.live.pass(id).is_some_and(|live| live.expires <= now);
            expired || view.live.is_consumed(id) || view.live.is_unclaimed_once(id)
        };
        if let Some(shared) = express.by_address.get(&address).copied().filter(|id| !is_over(*id)) {
            return shared;
        }
        if express.by_address.len() >= SHARING_ADDRESSES {
            express.by_address.clear();
        }
        let id = self.new_ticket_id();
        express.by_address.insert(address, id);
        id
    }

    fn remember_express(&self, event: &EventDesk, kind: ExpressKind, pass: &IssuedPass) {
        if kind == ExpressKind::OnTheSpot {
            let mut express = event.express.lock().unwrap_or_else(PoisonError::into_inner);
            express.record.give(pass.id, self.clock.boot());
        }
    }

    /// The response that carried a pass given on the spot has ended: from now on it has
    /// [`ON_THE_SPOT_LIFE`] to be presented. A response that never ends costs no more than an unused pass.
    pub fn response_ended(&self, event: &EventId, id: TicketId) {
        let Some(event) = self.event_desk(event) else { return };
        let lapses = self.clock.boot().after(ON_THE_SPOT_LIFE);
        let mut express = event.express.lock().unwrap_or_else(PoisonError::into_inner);
        express.lapses.push_back((lapses, id));
    }
}

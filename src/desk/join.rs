//! Joining: a place in line, or a pass at once while there is none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::admit::{Admission, Entrance, PATIENCE};
use super::counts::Place;
use super::event::{EventDesk, Seated, SeatedTicket, Seating, View};
use super::express::Door;
use super::queue_limit::Given;
use super::status::Moment;
use super::{Attendance, Carried, Desk, JoinAnswer, StatusAnswer};
use crate::model::edge::{Contact, Judgement, Phase, judge};
use crate::model::ids::{EventId, TicketId};
use crate::model::order::{KeyBase, OrderKey};
use crate::model::presence::Window;
use crate::model::token::{Seat, Ticket, TokenError};

/// What a visitor showed when joining.
enum Shown {
    Ticket(Box<Ticket>),
    Seat(TicketId),
    Nothing,
}

impl Desk {
    /// The signed id of a ticket to be, for the page's cookie; `None` before the first pulse or without such an event.
    #[must_use]
    pub fn seat_token(&self, event: &EventId) -> Option<String> {
        let event = self.event_desk(event)?;
        let issued = u32::try_from(self.now().unix_seconds()).unwrap_or(u32::MAX);
        self.sign(&event, &Seat { id: self.new_ticket_id(), issued })
    }

    /// What a token is in the line of this event, without counting as a heartbeat.
    #[must_use]
    pub fn carried(&self, event: &EventId, token: &str) -> Carried {
        let Some(event) = self.event_desk(event) else { return Carried::Nothing };
        match self.shown(&event, Some(token)) {
            Shown::Nothing => Carried::Nothing,
            Shown::Seat(_) => Carried::Seat,
            Shown::Ticket(ticket) => {
                let (heard, boot) = (self.heard.load(), self.clock.boot());
                let view = event.view();
                let scene = view.scene(&heard.spans, heard.link.contact(boot), heard.link.upper(boot));
                match judge(&ticket, &scene) {
                    Judgement::Ended(_) => Carried::Ended(ticket.id),
                    _ => Carried::Ticket(ticket.id),
                }
            }
        }
    }

    /// Puts a visitor in line, or lets it in at once. `shown` is the ticket or seat that it carries: the same one makes
    /// the same ticket; an ended one, or none, makes a new one.
    pub async fn join(&self, id: &EventId, shown: Option<&str>) -> JoinAnswer {
        let Some(event) = self.event_desk(id) else { return JoinAnswer::Retry(Duration::from_secs(1)) };
        let ticket_id = match self.shown(&event, shown) {
            Shown::Ticket(ticket) => {
                event.tallies.polls.fetch_add(1, Ordering::Relaxed);
                match self.ask(&event, *ticket).await {
                    Some(answer) => return answer,
                    None => self.new_ticket_id(),
                }
            }
            Shown::Seat(id) => id,
            Shown::Nothing => self.new_ticket_id(),
        };
        event.tallies.joins.fetch_add(1, Ordering::Relaxed);
        self.join_as(&event, ticket_id).await
    }

    fn shown(&self, event: &EventDesk, token: Option<&str>) -> Shown {
        let (Some(token), Some(ledger)) = (token, self.heard.load().ledger) else { return Shown::Nothing };
        let keys = self.keys.load();
        let Some(keys) = keys.as_ref() else { return Shown::Nothing };
        match keys.ring.verify_seat(&event.id, ledger, token) {
            Ok(seat) => Shown::Seat(seat.id),
            Err(TokenError::WrongKind) => {
                let ticket = keys.ring.verify_ticket(&event.id, ledger, token);
                ticket.map_or(Shown::Nothing, |ticket| Shown::Ticket(Box::new(ticket)))
            }
            Err(_) => Shown::Nothing,
        }
    }

    async fn join_as(&self, event: &EventDesk, id: TicketId) -> JoinAnswer {
        let is_over = event.view().live.is_consumed(id) || event.is_leaving(id);
        let id = match event.seated(id) {
            _ if is_over => self.new_ticket_id(),
            Some(Seated::Over) => self.new_ticket_id(),
            Some(Seated::Ticket(ticket)) if ticket.base != KeyBase::Unkeyed => {
                match self.resume(event, id, ticket).await {
                    Some(answer) => return answer,
                    None => self.new_ticket_id(),
                }
            }
            Some(Seated::Ticket(_)) | None => id,
        };
        let view = event.view();
        if view.phase(self.contact(), self.now()) == Phase::Closed {
            return JoinAnswer::Refused(Phase::Closed);
        }
        if let Some(pass) = view.live.pass(id).copied()
            && let Some(pass) = self.issue_live(event, id, &pass)
        {
            return JoinAnswer::Admitted(pass);
        }
        let pass_claim = view.pulse.policy.pass_claim;
        drop(view);
        if self.settled_door(event).await == Door::Open {
            event.slots().arrivals.note(self.clock.boot());
            if let Admission::Pass(pass) = self.admit(event, id, pass_claim, Entrance::Express).await {
                event.tallies.express.fetch_add(1, Ordering::Relaxed);
                return JoinAnswer::Admitted(pass);
            }
        }
        let Some(given) = event.take_place(&event.view()) else { return JoinAnswer::Refused(Phase::Full) };
        let base = self.wait_for_key(event).await;
        let seen = self.now();
        let issued = u32::try_from(seen.unix_seconds()).unwrap_or(u32::MAX);
        let ticket = match event.seat(id, SeatedTicket { base, issued, seen }, self.clock.boot()) {
            Seating::Taken(ticket) => ticket,
            Seating::New(ticket) => {
                self.put_in_line(event, &event.view(), id, ticket, given);
                ticket
            }
        };
        self.take_place(event, id, ticket)
    }

    /// A seat that became a ticket is worth as much as that is now: its visitor asks as if it showed the ticket. `None`:
    /// the ticket has ended.
    async fn resume(&self, event: &EventDesk, id: TicketId, seated: SeatedTicket) -> Option<JoinAnswer> {
        let view = event.view();
        let seen = event.counts.load().last_seen(id);
        let seen = seen.unwrap_or_else(|| Window::at(seated.seen, view.pulse.policy.heartbeat_ttl));
        let ticket = Ticket::new(id, view.line(), seated.base, seated.issued, seen, self.run.node);
        drop(view);
        self.ask(event, ticket).await
    }

    /// What asking with a ticket comes to for one who joins; `None`: the ticket has ended.
    async fn ask(&self, event: &EventDesk, ticket: Ticket) -> Option<JoinAnswer> {
        match self.attend(event, ticket, Attendance::Asking).await {
            StatusAnswer::Waiting(waiting) => Some(JoinAnswer::Waiting(waiting)),
            StatusAnswer::Admitted(pass) => Some(JoinAnswer::Admitted(pass)),
            StatusAnswer::Unavailable(after) => Some(JoinAnswer::Retry(after)),
            StatusAnswer::Ended(_) | StatusAnswer::Invalid => None,
        }
    }

    /// What to key a newcomer by; waits a moment for a bucket to be opened, and else leaves it unkeyed.
    async fn wait_for_key(&self, event: &EventDesk) -> KeyBase {
        let mut pulses = self.pulses.subscribe();
        let keyed = async {
            loop {
                let base = self.key_now(event, &event.view());
                if base != KeyBase::Unkeyed {
                    return base;
                }
                event.want_bucket(Some(self.clock.boot()));
                event.begin_line(self.next_report());
                self.report_wanted.notify_one();
                if pulses.changed().await.is_err() {
                    return KeyBase::Unkeyed;
                }
            }
        };
        let base = tokio::time::timeout(PATIENCE, keyed).await.unwrap_or(KeyBase::Unkeyed);
        if base != KeyBase::Unkeyed {
            event.want_bucket(None);
        }
        base
    }

    /// What a ticket is keyed by at this moment: nothing unless the last pulse is fresh.
    pub(super) fn key_now(&self, event: &EventDesk, view: &View) -> KeyBase {
        let heard = self.heard.load();
        let boot = self.clock.boot();
        if heard.link.contact(boot) != Contact::Fresh {
            return KeyBase::Unkeyed;
        }
        event.key_base(view, &heard.link, boot).unwrap_or(KeyBase::Unkeyed)
    }

    /// Counts a newly keyed ticket and closes express here before anybody else asks for it.
    pub(super) fn put_in_line(
        &self,
        event: &EventDesk,
        view: &View,
        id: TicketId,
        ticket: SeatedTicket,
        given: Given<'_>,
    ) {
        let first_unheard = !event.has_unheard_line(self.heard.load().link.answered());
        event.begin_line(self.next_report());
        if let Some(place) = place(view, id, ticket.base) {
            let window = Window::at(ticket.seen, view.pulse.policy.heartbeat_ttl);
            event.counts.load().join(id, place, window);
            given.counted();
        }
        if first_unheard && view.pulse.gate != crate::model::ledger::Gate::Queue {
            self.report_wanted.notify_one();
        }
    }

    fn take_place(&self, event: &EventDesk, id: TicketId, seated: SeatedTicket) -> JoinAnswer {
        let view = event.view();
        let moment = Moment::of(&self.heard.load().link, self.clock.boot());
        let seen = Window::at(seated.seen, view.pulse.policy.heartbeat_ttl);
        let ticket = Ticket::new(id, view.line(), seated.base, seated.issued, seen, self.run.node);
        match self.describe_place(event, &view, ticket, moment) {
            Some(waiting) => JoinAnswer::Waiting(Box::new(waiting)),
            None => JoinAnswer::Retry(Duration::from_secs(1)),
        }
    }
}

/// Where a ticket is counted; `None` while it has no key.
pub(super) fn place(view: &View, id: TicketId, base: KeyBase) -> Option<Place> {
    match OrderKey::of(base, id, &view.draws) {
        Some(key) => Some(Place::of_key(key)),
        None => undrawn(id, base),
    }
}

/// Where a ticket is counted whose draw is not made yet; `None` if it has no key at all.
pub(super) fn undrawn(id: TicketId, base: KeyBase) -> Option<Place> {
    match base {
        KeyBase::Drawn { bucket, .. } => Some(Place::undrawn(bucket, id)),
        _ => None,
    }
}

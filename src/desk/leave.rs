//! Leaving: a place is given up, a session ended, for good.

use std::sync::atomic::Ordering;

use super::Desk;
use super::admit::PATIENCE;
use super::event::EventDesk;
use super::join::place;
use crate::model::edge::{Contact, Honour, Judgement, judge};
use crate::model::ids::{EventId, TicketId};
use crate::model::token::Ticket;

impl Desk {
    /// The visitor leaves: its tickets end, and so do the passes. Returns once this node knows them to be over, or after
    /// a second if the leader does not answer.
    ///
    /// What is over already, or is none of ours, costs nothing: the log hears of each ticket once.
    pub async fn leave(&self, event: &EventId, tickets: &[&str], passes: &[&str]) {
        let Some(event) = self.event_desk(event) else { return };
        let tickets = tickets.iter().filter_map(|token| self.read_ticket(&event, token).ok());
        let tickets = tickets.filter(|ticket| self.gives_up(&event, ticket)).map(|ticket| ticket.id);
        let passes = passes.iter().filter_map(|token| self.read_pass(&event, token).ok().flatten());
        let passes = passes.filter(|pass| self.honour(&event, pass) != Honour::Refused).map(|pass| pass.id);
        let ended: Vec<TicketId> = tickets.chain(passes).collect();
        let mut pulses = self.pulses.subscribe();
        let mut first = false;
        for id in &ended {
            first |= event.leave(*id);
        }
        if first {
            event.tallies.left.fetch_add(1, Ordering::Relaxed);
            self.report_wanted.notify_one();
        }
        let over = async {
            let is_over = |id: &TicketId| event.view().live.is_consumed(*id);
            while !ended.iter().all(is_over) && pulses.changed().await.is_ok() {}
        };
        if self.contact() != Contact::CutOff {
            let _ = tokio::time::timeout(PATIENCE, over).await;
        }
    }

    /// Counts a ticket as gone; false if it is over already.
    fn gives_up(&self, event: &EventDesk, ticket: &Ticket) -> bool {
        let (heard, boot) = (self.heard.load(), self.clock.boot());
        let view = event.view();
        let scene = view.scene(&heard.spans, heard.link.contact(boot), heard.link.upper(boot));
        // A pass that another tab was given a moment ago is not in the live set yet.
        let is_inside = event.slots().edge.minted(ticket.id).is_some();
        let judgement = judge(ticket, &scene);
        if !is_inside && matches!(judgement, Judgement::Ended(_)) {
            return false;
        }
        event.askers.remove(ticket.id);
        // Who has been called counts among the askers only.
        if matches!(judgement, Judgement::Waiting(..))
            && let Some(place) = place(&view, ticket.id, ticket.base)
        {
            event.counts.load().leave(self.shows(ticket), place);
        }
        true
    }
}

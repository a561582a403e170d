//! Status: what a visitor in line is told, and the pass when its turn has come.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::admit::{Admission, Entrance};
use super::askers::Asking;
use super::counts::Place;
use super::event::{EventDesk, SeatedTicket, Seating, View};
use super::join::undrawn;
use super::{Attendance, Beat, Desk, StatusAnswer, Turn, Waiting};
use crate::model::edge::{Contact, Ending, Holding, Judgement, Link, Phase, TurnClock, judge, turn};
use crate::model::estimate::{FRONT_POLL, Outlook, Shown, Standing, as_shown, estimate, poll_after};
use crate::model::headcount::{self, Signer};
use crate::model::ids::EventId;
use crate::model::order::{KeyBase, OrderKey};
use crate::model::presence::Window;
use crate::model::time::{BootTime, FleetTime};
use crate::model::token::{Ticket, TokenError};

/// When a request is answered, read once: clocks cost as much as signatures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The latest that fleet time can be.
    pub(super) now: FleetTime,
    /// How well the leader is heard.
    pub(super) contact: Contact,
}

impl Moment {
    pub(super) fn of(link: &Link, boot: BootTime) -> Self {
        Self { now: link.upper(boot), contact: link.contact(boot) }
    }
}

impl Desk {
    /// What a ticket comes to now. This is the heartbeat: a waiting ticket comes back newly signed.
    pub async fn status(&self, event: &EventId, token: &str, attendance: Attendance) -> StatusAnswer {
        // Every poll comes here: a reference that all count is a place where threads meet.
        let events = self.events.load();
        let Some(event) = events.get(event) else {
            return StatusAnswer::Unavailable(Duration::from_secs(1));
        };
        event.tallies.polls.fetch_add(1, Ordering::Relaxed);
        match self.read_ticket(event, token) {
            Ok(ticket) => self.attend(event, ticket, attendance).await,
            Err(answer) => answer,
        }
    }

    /// The same for a ticket that has been read.
    pub(super) async fn attend(
        &self,
        event: &EventDesk,
        ticket: Ticket,
        attendance: Attendance,
    ) -> StatusAnswer {
        let id = ticket.id;
        let answer = self.heed(event, ticket, attendance).await;
        if matches!(answer, StatusAnswer::Ended(_)) {
            event.tallies.ended.fetch_add(1, Ordering::Relaxed);
            event.askers.remove(id);
            event.end_seat(id);
        }
        answer
    }

    async fn heed(&self, event: &EventDesk, ticket: Ticket, attendance: Attendance) -> StatusAnswer {
        let view = event.view();
        let (moment, judgement) = {
            let heard = self.heard.load();
            let moment = Moment::of(&heard.link, self.clock.boot());
            let judgement = if event.is_leaving(ticket.id) {
                Judgement::Ended(Ending::Left)
            } else {
                judge(&ticket, &view.scene(&heard.spans, moment.contact, moment.now))
            };
            (moment, judgement)
        };
        match judgement {
            Judgement::Ended(ending) => StatusAnswer::Ended(ending),
            Judgement::Admitted(pass) => match self.issue_live(event, ticket.id, &pass) {
                Some(pass) => StatusAnswer::Admitted(pass),
                None => StatusAnswer::Unavailable(FRONT_POLL),
            },
            Judgement::Called => {
                drop(view);
                self.serve_called(event, ticket, attendance, moment).await
            }
            Judgement::Unkeyed => self.key_late(event, &view, ticket, moment),
            Judgement::Waiting(standing, key) => {
                self.answer(self.describe_waiting(event, &view, ticket, (standing, key), moment))
            }
        }
    }

    fn answer(&self, waiting: Option<Waiting>) -> StatusAnswer {
        match waiting {
            Some(waiting) => StatusAnswer::Waiting(Box::new(waiting)),
            None => StatusAnswer::Unavailable(FRONT_POLL),
        }
    }

    pub(super) fn read_ticket(&self, event: &EventDesk, token: &str) -> Result<Ticket, StatusAnswer> {
        let unavailable = || StatusAnswer::Unavailable(FRONT_POLL);
        let ledger = self.heard.load().ledger.ok_or_else(unavailable)?;
        let keys = self.keys.load();
        let keys = keys.as_ref().ok_or_else(unavailable)?;
        keys.ring.verify_ticket(&event.id, ledger, token).map_err(|error| match error {
            // The key may be newer than this node's last pulse: only who hears the leader can say that it is none.
            TokenError::UnknownKey if self.contact() != Contact::Fresh => unavailable(),
            _ => StatusAnswer::Invalid,
        })
    }

    /// Keys a ticket that could not be keyed at its join: for the order of the line that is its arrival.
    fn key_late(&self, event: &EventDesk, view: &View, mut ticket: Ticket, moment: Moment) -> StatusAnswer {
        let base = self.key_now(event, view);
        if base == KeyBase::Unkeyed {
            event.want_bucket(Some(self.clock.boot()));
            event.begin_line(self.next_report());
            self.report_wanted.notify_one();
        } else {
            event.want_bucket(None);
            // Two tabs may ask at once: the first key counts.
            let keyed = SeatedTicket { base, issued: ticket.issued, seen: moment.now };
            ticket.base = match event.seat(ticket.id, keyed, self.clock.boot()) {
                Seating::Taken(known) => known.base,
                Seating::New(new) => {
                    self.put_in_line(event, view, ticket.id, new, event.places.take_anyway());
                    new.base
                }
            };
        }
        self.answer(self.describe_place(event, view, ticket, moment))
    }

    async fn serve_called(
        &self,
        event: &EventDesk,
        mut ticket: Ticket,
        attendance: Attendance,
        moment: Moment,
    ) -> StatusAnswer {
        let view = event.view();
        let boot = self.clock.boot();
        let now = moment.now;
        let policy = &view.pulse.policy;
        let pass_claim = policy.pass_claim;
        // It may have asked another node first. Who was offered a turn to hold has been told, and has not asked.
        let has_asked = ticket.told_at > 0 && ticket.offered_at == 0;
        let signer = self.shows(&ticket).signer;
        let stands = moment.contact != Contact::Fresh || !view.admits(now) || view.pulse.slots_free == 0;
        let clock = if stands { TurnClock::Stands } else { TurnClock::Runs };
        let holding = match attendance {
            Attendance::Asking => Holding::Asks,
            Attendance::Holding => Holding::Holds,
        };
        let Some(claim_by) = turn(&mut ticket, holding, clock, policy.claim_hold, now) else {
            return StatusAnswer::Ended(Ending::MissedTurn);
        };
        drop(view);
        if attendance == Attendance::Asking {
            if event.askers.ask(ticket.id, signer, boot) == Asking::First && !has_asked {
                event.slots().called.note(boot);
            }
            if let Admission::Pass(pass) = self.admit(event, ticket.id, pass_claim, Entrance::Called).await {
                event.askers.remove(ticket.id);
                event.slots().claimed.note(self.clock.boot());
                return StatusAnswer::Admitted(pass);
            }
            event.askers.ask(ticket.id, signer, self.clock.boot());
        }
        let view = event.view();
        // While this request waited the ticket may have turned into a pass by another one.
        if let Some(pass) = view.live.pass(ticket.id).filter(|pass| pass.expires > now)
            && let Some(pass) = self.issue_live(event, ticket.id, pass)
        {
            return StatusAnswer::Admitted(pass);
        }
        let described = self.describe_called(event, &view, ticket, moment);
        self.answer(described.map(|waiting| Waiting { turn: Some(Turn { claim_by }), ..waiting }))
    }

    /// What a visitor in line is told; counts the heartbeat.
    pub(super) fn describe_place(
        &self,
        event: &EventDesk,
        view: &View,
        ticket: Ticket,
        moment: Moment,
    ) -> Option<Waiting> {
        let heard = self.heard.load();
        let scene = view.scene(&heard.spans, moment.contact, moment.now);
        match judge(&ticket, &scene) {
            Judgement::Called => self.describe_called(event, view, ticket, moment),
            Judgement::Waiting(standing, key) => {
                self.describe_waiting(event, view, ticket, (standing, key), moment)
            }
            _ => self.describe(view, event, ticket, Standing::Unkeyed, moment, window_at(view, moment)),
        }
    }

    /// What a ticket says of where it was counted last.
    pub(super) fn shows(&self, ticket: &Ticket) -> headcount::Shown {
        let here = ticket.refreshed_by == self.run.node;
        let signer = if here { Signer::Here } else { Signer::Elsewhere };
        headcount::Shown { id: ticket.id, seen: ticket.last_seen, signer }
    }

    /// The same for one whose place is known; what a key costs to make is most of what a poll costs.
    fn describe_waiting(
        &self,
        event: &EventDesk,
        view: &View,
        ticket: Ticket,
        (standing, key): (Standing, Option<OrderKey>),
        moment: Moment,
    ) -> Option<Waiting> {
        let place = key.map(Place::of_key).or_else(|| undrawn(ticket.id, ticket.base));
        let mut window = window_at(view, moment);
        if let Some(place) = place {
            window = event.counts.load().heartbeat(self.shows(&ticket), place, window);
        }
        self.describe(view, event, ticket, standing, moment, window)
    }

    fn describe_called(
        &self,
        event: &EventDesk,
        view: &View,
        ticket: Ticket,
        moment: Moment,
    ) -> Option<Waiting> {
        let claim_by = moment.now.after(view.pulse.policy.claim_hold);
        let window = window_at(view, moment);
        let waiting = self.describe(view, event, ticket, Standing::Called, moment, window)?;
        Some(Waiting { turn: Some(Turn { claim_by }), ..waiting })
    }

    fn describe(
        &self,
        view: &View,
        event: &EventDesk,
        mut ticket: Ticket,
        standing: Standing,
        moment: Moment,
        window: Window,
    ) -> Option<Waiting> {
        let pulse = &view.pulse;
        let policy = &pulse.policy;
        let Moment { now, contact } = moment;
        let phase = view.phase(contact, now);
        let moves = view.admits(now) && phase == Phase::Queueing;
        let outlook = Outlook {
            table: &pulse.table,
            admit_rate: if moves { pulse.pace } else { 0.0 },
            inventory: policy.inventory,
            live_passes: pulse.live_passes,
            beside: match standing {
                Standing::Within(bucket) => event.counts.load().alive_in(bucket),
                Standing::Arriving(key) => event.counts.load().alive_in(key.bucket()),
                Standing::Called | Standing::At(_) | Standing::Unkeyed => 0,
            },
        };
        let shown = Shown { upper: ticket.shown_upper, first_position: ticket.first_position };
        let (estimate, shown) = match contact {
            Contact::Unheard => (as_shown(shown, pulse.waiting), shown),
            Contact::Fresh | Contact::Stale | Contact::CutOff => estimate(&outlook, standing, shown),
        };
        ticket.shown_upper = shown.upper;
        ticket.first_position = shown.first_position;
        let beat = if ticket.last_seen >= window { Beat::Again } else { Beat::First };
        // Another node may be a moment ahead, and have counted the ticket in the next window.
        ticket.last_seen = window.max(ticket.last_seen);
        ticket.refreshed_by = self.run.node;
        let poll_after = match standing {
            Standing::Unkeyed => FRONT_POLL,
            _ => poll_after(&estimate, policy.heartbeat_ttl, rand::random()),
        };
        Some(Waiting {
            ticket: self.sign(event, &ticket)?,
            id: ticket.id,
            estimate,
            phase,
            poll_after,
            turn: None,
            message: policy.message.clone(),
            opens_at: policy.schedule.opens_at.filter(|opens| *opens > now),
            heartbeat_ttl: policy.heartbeat_ttl,
            beat,
        })
    }
}

fn window_at(view: &View, moment: Moment) -> Window {
    Window::at(moment.now, view.pulse.policy.heartbeat_ttl)
}

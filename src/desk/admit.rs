//! Minting: a pass against a slot in hand, after a top-up if there is none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::event::{EventDesk, View};
use super::express::Door;
use super::{Desk, IssuedPass};
use crate::model::edge::Contact;
use crate::model::grant::Minted;
use crate::model::ids::{LogIndex, TicketId};
use crate::model::ledger::LivePass;
use crate::model::time::FleetTime;
use crate::model::token::{Content, Pass};

/// The longest wait for the leader's answer is this, or four round trips if that is more.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// By which way a visitor asks for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Its turn in line has come.
    Called,
    /// At once, while nobody waits: a line that begins meanwhile is for this visitor too.
    Express,
}

/// What asking for a slot came to.
#[derive(Clone, Debug)]
pub(super) enum Admission {
    /// A slot was there.
    Pass(IssuedPass),
    /// The leader has no slot or no credit, or may not mint.
    Refused,
    /// No answer in time.
    Unanswered,
}

/// Counts a visitor as one who waits for a slot at this moment.
struct Held<'a>(&'a EventDesk);

impl<'a> Held<'a> {
    fn new(event: &'a EventDesk) -> Self {
        event.held.fetch_add(1, Ordering::Relaxed);
        Self(event)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Desk {
    /// Signs a token of an event; `None` before the first pulse.
    pub(super) fn sign<C: Content>(&self, event: &EventDesk, content: &C) -> Option<String> {
        let ledger = self.heard.load().ledger?;
        let keys = self.keys.load();
        keys.as_ref().map(|keys| keys.ring.sign(&event.id, ledger, content))
    }

    /// The token of a live pass, as every edge signs it.
    pub(super) fn issue_live(&self, event: &EventDesk, id: TicketId, live: &LivePass) -> Option<IssuedPass> {
        let started = live.claim.map_or(0, |claim| claim.started.unix_seconds());
        let pass = Pass {
            id,
            at: live.at,
            weight: live.weight,
            index: live.claim.map_or(LogIndex(0), |claim| claim.index),
            started: u32::try_from(started).unwrap_or(u32::MAX),
            expires: live.expires,
        };
        self.issue(event, &pass)
    }

    fn issue_minted(&self, event: &EventDesk, minted: &Minted) -> Option<IssuedPass> {
        let Minted { pass: id, at, expires, weight } = *minted;
        self.issue(event, &Pass { id, at, weight, index: LogIndex(0), started: 0, expires })
    }

    fn issue(&self, event: &EventDesk, pass: &Pass) -> Option<IssuedPass> {
        let token = self.sign(event, pass)?;
        Some(IssuedPass { token, id: pass.id, expires: pass.expires })
    }

    /// A pass for `id` from a slot in hand, or the one that it has already; `None` if there is no slot.
    fn mint(&self, event: &EventDesk, view: &View, id: TicketId, life: Duration) -> Option<IssuedPass> {
        let heard = self.heard.load();
        let now = self.clock.boot();
        let upper = heard.link.upper(now);
        let mut slots = event.slots();
        // Read under the lock: a pulse may have moved the pass from the outbox into the live set a moment ago.
        let current = event.view();
        let live = &current.live;
        if live.is_consumed(id) || event.is_leaving(id) {
            return None;
        }
        if let Some(live) = live.pass(id) {
            // Over by this edge's clock but not yet by the ledger's: whether it was used decides what comes next.
            return if live.expires > upper { self.issue_live(event, id, live) } else { None };
        }
        if let Some(minted) = slots.edge.minted(id) {
            return if minted.expires > upper { self.issue_minted(event, &minted) } else { None };
        }
        let permitted = heard.link.contact(now) == Contact::Fresh && view.admits(upper);
        if !permitted {
            return None;
        }
        let expires: FleetTime = upper.after(life);
        let minted = slots.edge.spend(id, crate::model::exchange::DEFAULT_WEIGHT, expires, now)?;
        slots.minted.note(now);
        drop(slots);
        event.tallies.mints.fetch_add(1, Ordering::Relaxed);
        self.issue_minted(event, &minted)
    }

    /// Mints as the entrance allows: express is judged at the mint, not at arrival.
    fn enter_by(
        &self,
        event: &EventDesk,
        view: &View,
        id: TicketId,
        life: Duration,
        entrance: Entrance,
    ) -> Option<IssuedPass> {
        let open = entrance == Entrance::Called || self.door(event, view) == Door::Open;
        if open { self.mint(event, view, id, life) } else { None }
    }

    /// A pass for `id`: from a slot in hand, else after one top-up, which everybody here who waits shares.
    pub(super) async fn admit(
        &self,
        event: &EventDesk,
        id: TicketId,
        life: Duration,
        entrance: Entrance,
    ) -> Admission {
        if let Some(pass) = self.enter_by(event, &event.view(), id, life, entrance) {
            return Admission::Pass(pass);
        }
        if !event.view().admits(self.now()) {
            return Admission::Refused;
        }
        let _held = Held::new(event);
        let mut pulses = self.pulses.subscribe();
        let asked_with = self.next_report();
        self.report_wanted.notify_one();
        let patience = PATIENCE.max(Duration::from_millis(4 * self.heard.load().link.round_trip_ms()));
        let answer = async {
            loop {
                if pulses.changed().await.is_err() {
                    return Admission::Unanswered;
                }
                let view = event.view();
                if let Some(pass) = self.enter_by(event, &view, id, life, entrance) {
                    return Admission::Pass(pass);
                }
                if entrance == Entrance::Express && self.door(event, &view) == Door::Shut {
                    return Admission::Refused;
                }
                let answered = self.heard.load().link.answered() >= asked_with;
                if answered && (view.pulse.refused || !view.admits(self.now())) {
                    return Admission::Refused;
                }
            }
        };
        tokio::time::timeout(patience, answer).await.unwrap_or(Admission::Unanswered)
    }
}

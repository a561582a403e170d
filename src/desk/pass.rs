//! Passes: what they open, how they are claimed and renewed, when they end.

use std::sync::PoisonError;
use std::time::Duration;

use super::admit::PATIENCE;
use super::event::{EventDesk, View};
use super::{Activity, Desk, PassAnswer, RenewalUrgency};
use crate::model::edge::{Contact, Honour, Provenance, honour};
use crate::model::ids::{EventId, LogIndex, TicketId};
use crate::model::ledger::{Extend, LivePass};
use crate::model::policy::{Policy, RenewOn};
use crate::model::time::FleetTime;
use crate::model::token::{Pass, TokenError};

/// What one pass came to.
enum Checked {
    Opens(FleetTime),
    Refused,
    Unknown,
}

impl Desk {
    /// What the shown passes are worth; the first one that opens decides. Several may be shown since cookies of several
    /// events and times may come along.
    pub async fn check_pass(&self, event: &EventId, tokens: &[&str], activity: Activity) -> PassAnswer {
        if tokens.is_empty() {
            return PassAnswer::None;
        }
        let unavailable = PassAnswer::Unavailable(Duration::from_secs(1));
        let Some(event) = self.event_desk(event) else { return unavailable };
        let mut unknown = false;
        for token in tokens {
            let pass = match self.read_pass(&event, token) {
                Ok(Some(pass)) => pass,
                Ok(None) => continue,
                Err(()) => {
                    unknown = true;
                    continue;
                }
            };
            match self.check(&event, &pass).await {
                Checked::Opens(expires) => return self.open(&event, &pass, expires, activity),
                Checked::Refused => {}
                Checked::Unknown => unknown = true,
            }
        }
        if unknown { unavailable } else { PassAnswer::None }
    }

    /// A pass whose signature holds; an error if this node cannot tell.
    pub(super) fn read_pass(&self, event: &EventDesk, token: &str) -> Result<Option<Pass>, ()> {
        let ledger = self.heard.load().ledger.ok_or(())?;
        let keys = self.keys.load();
        let keys = keys.as_ref().ok_or(())?;
        match keys.ring.verify_pass(&event.id, ledger, token) {
            Ok(pass) => Ok(Some(pass)),
            Err(TokenError::UnknownKey) if self.contact() != Contact::Fresh => Err(()),
            Err(_) => Ok(None),
        }
    }

    async fn check(&self, event: &EventDesk, pass: &Pass) -> Checked {
        let first = self.honour(event, pass);
        let needs_answer = match first {
            Honour::Open { expires } => return Checked::Opens(expires),
            Honour::Refused => return Checked::Refused,
            Honour::Claim { .. } => {
                self.note_presented(event, pass.id);
                self.ask_extension(event, pass, LogIndex(0));
                self.report_wanted.notify_one();
                first
            }
            Honour::Await(_) => first,
        };
        let mut pulses = self.pulses.subscribe();
        let answered = async {
            loop {
                match self.honour(event, pass) {
                    Honour::Claim { .. } | Honour::Await(_) => {}
                    known => return known,
                }
                if pulses.changed().await.is_err() {
                    return needs_answer;
                }
            }
        };
        let last = tokio::time::timeout(PATIENCE, answered).await;
        match last.unwrap_or_else(|_| self.honour(event, pass)) {
            Honour::Open { expires } | Honour::Claim { fallback: Some(expires) } => Checked::Opens(expires),
            Honour::Refused => Checked::Refused,
            Honour::Claim { fallback: None } | Honour::Await(_) => Checked::Unknown,
        }
    }

    pub(super) fn honour(&self, event: &EventDesk, pass: &Pass) -> Honour {
        let heard = self.heard.load();
        let boot = self.clock.boot();
        let view = event.view();
        let (contact, upper) = (heard.link.contact(boot), heard.link.upper(boot));
        let confirmed = view.live.pass(pass.id).is_some();
        let here = !confirmed && pass.at.run == self.run && event.slots().edge.minted(pass.id).is_some();
        let minted = if here { Provenance::Here } else { Provenance::Elsewhere };
        honour(pass, &view.live, minted, contact, upper)
    }

    fn note_presented(&self, event: &EventDesk, id: TicketId) {
        let mut express = event.express.lock().unwrap_or_else(PoisonError::into_inner);
        express.record.present(id);
    }

    fn ask_extension(&self, event: &EventDesk, pass: &Pass, known: LogIndex) {
        let extend = Extend { pass: pass.id, at: pass.at, expires: pass.expires, weight: pass.weight };
        event.slots().extend(extend, known, self.clock.boot());
    }

    fn open(&self, event: &EventDesk, pass: &Pass, expires: FleetTime, activity: Activity) -> PassAnswer {
        let view = event.view();
        let now = self.now();
        let policy = &view.pulse.policy;
        let live = view.live.pass(pass.id);
        if counts_as_activity(policy, activity)
            && let Some(live) = live.filter(|live| is_due(policy, live, now))
        {
            self.ask_extension(event, pass, live.claim.map_or(LogIndex(0), |claim| claim.index));
        }
        let newer = live.filter(|live| live.claim.is_some_and(|claim| claim.index > pass.index));
        let third = policy.session_ttl / 3;
        let short = pass.expires.since(now) < third;
        PassAnswer::Valid {
            id: pass.id,
            expires,
            renewed: newer.and_then(|live| self.issue_live(event, pass.id, live)),
            urgency: if short { RenewalUrgency::Now } else { RenewalUrgency::Relaxed },
        }
    }

    /// Ends when the pass does; meanwhile it counts as activity, as an open WebSocket does.
    pub async fn pass_ended(&self, event: &EventId, id: TicketId) {
        let mut pulses = self.pulses.subscribe();
        loop {
            let Some(event) = self.event_desk(event) else { return };
            let now = self.now();
            let Some(rest) = self.rest_of(&event, &event.view(), id, now) else { return };
            // Its end may also come early, by a revocation, which only a pulse can tell.
            let wait = rest.min(Duration::from_secs(1));
            let _ = tokio::time::timeout(wait, pulses.changed()).await;
        }
    }

    /// How long a pass lasts still, renewed if that is due; `None`: it is over.
    fn rest_of(&self, event: &EventDesk, view: &View, id: TicketId, now: FleetTime) -> Option<Duration> {
        if view.live.is_consumed(id) {
            return None;
        }
        let newer;
        let live = match view.live.pass(id) {
            Some(live) => live,
            None => {
                if let Some(minted) = event.slots().edge.minted(id) {
                    return (now < minted.expires).then(|| minted.expires.since(now));
                }
                // A pulse may have confirmed it since `view` was read.
                newer = event.view();
                newer.live.pass(id)?
            }
        };
        if now >= live.expires {
            return None;
        }
        if is_due(&view.pulse.policy, live, now) {
            let known = live.claim.map_or(LogIndex(0), |claim| claim.index);
            let extend = Extend { pass: id, at: live.at, expires: live.expires, weight: live.weight };
            event.slots().extend(extend, known, self.clock.boot());
        }
        Some(live.expires.since(now))
    }
}

fn counts_as_activity(policy: &Policy, activity: Activity) -> bool {
    policy.renew_on == RenewOn::Request || activity == Activity::Navigation
}

/// Whether less than two thirds of the idle time are left, and the ceiling of the session is not reached.
fn is_due(policy: &Policy, live: &LivePass, now: FleetTime) -> bool {
    let Some(claim) = live.claim else { return false };
    let ceiling = claim.started.after(policy.session_max);
    live.expires < ceiling && live.expires.since(now) < policy.session_ttl * 2 / 3
}

//! Passes: what they open, how they are claimed and renewed, when they end.

use std::sync::PoisonError;
use std::time::Duration;

use super::admit::PATIENCE;
use super::event::EventDesk;
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
        if event.is_leaving(pass.id) {
            return Honour::Refused;
        }
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

    /// Ends when the pass does; meanwhile it counts as activity, as an open WebSocket does. `expires` is when it ends by
    /// the token that opened: it counts while this node is cut off and knows no better.
    pub async fn pass_ended(&self, event: &EventId, id: TicketId, expires: FleetTime) {
        let mut pulses = self.pulses.subscribe();
        loop {
            let Some(event) = self.event_desk(event) else { return };
            let watcher = event.watchers.watch(id);
            let told = watcher.told();
            match self.tenure(&event, id, expires) {
                Tenure::Over => return,
                Tenure::Known(look) => drop(tokio::time::timeout(look, told).await),
                Tenure::Believed(look) => drop(tokio::time::timeout(look, pulses.changed()).await),
            }
        }
    }

    /// How long a pass lasts still; renews it if that is due.
    fn tenure(&self, event: &EventDesk, id: TicketId, expires: FleetTime) -> Tenure {
        let (contact, now) = (self.contact(), self.now());
        let mut view = event.view();
        if view.live.pass(id).is_none() {
            if let Some(minted) = event.slots().edge.minted(id) {
                let rest = minted.expires.since(now);
                return if rest.is_zero() { Tenure::Over } else { Tenure::Known(soon(rest)) };
            }
            // A pulse may have confirmed it since.
            view = event.view();
        }
        if view.live.is_consumed(id) {
            return Tenure::Over;
        }
        let Some(live) = view.live.pass(id) else {
            let rest = expires.since(now);
            let told = contact == Contact::Fresh || rest.is_zero();
            return if told { Tenure::Over } else { Tenure::Believed(soon(rest)) };
        };
        if now >= live.expires {
            return Tenure::Over;
        }
        let (policy, rest) = (&view.pulse.policy, live.expires.since(now));
        if is_due(policy, live, now) {
            let known = live.claim.map_or(LogIndex(0), |claim| claim.index);
            let extend = Extend { pass: id, at: live.at, expires: live.expires, weight: live.weight };
            event.slots().extend(extend, known, self.clock.boot());
            return Tenure::Known(rest.min(RENEWED_WITHIN.max(rest / 10)));
        }
        let undue = if is_renewable(policy, live) { renewal_time(policy) } else { Duration::ZERO };
        Tenure::Known(soon(rest.saturating_sub(undue)))
    }
}

/// How a pass stands that something open depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenure {
    /// It is over.
    Over,
    /// It goes on, and its end will be told; to be looked at again after this.
    Known(Duration),
    /// It goes on by its signature alone; to be looked at again after this, and when the leader is heard.
    Believed(Duration),
}

/// A renewal that was asked for is looked for after this.
const RENEWED_WITHIN: Duration = Duration::from_secs(1);

/// When to look at what is due in `rest`: a little before, since fleet time may run ahead of this node's clock.
fn soon(rest: Duration) -> Duration {
    if rest > Duration::from_secs(1) { rest * 9 / 10 } else { rest.max(Duration::from_millis(10)) }
}

fn counts_as_activity(policy: &Policy, activity: Activity) -> bool {
    policy.renew_on == RenewOn::Request || activity == Activity::Navigation
}

/// Whether less than two thirds of the idle time are left, and the ceiling of the session is not reached.
fn is_due(policy: &Policy, live: &LivePass, now: FleetTime) -> bool {
    is_renewable(policy, live) && live.expires.since(now) < renewal_time(policy)
}

/// A session with less time left than this is renewed by activity.
fn renewal_time(policy: &Policy) -> Duration {
    policy.session_ttl * 2 / 3
}

/// Whether the session can be made longer by activity.
fn is_renewable(policy: &Policy, live: &LivePass) -> bool {
    live.claim.is_some_and(|claim| live.expires < claim.started.after(policy.session_max))
}

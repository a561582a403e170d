//! An edge as the simulation drives it: the model's decisions around plain, exact counts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::faults::Mutant;
use crate::model::edge::{Contact, Honour, Judgement, Link, Provenance, Scene, honour, judge};
use crate::model::estimate::{Outlook, Shown, Standing, estimate, poll_after};
use crate::model::exchange::{EdgeStage, EventPulse, EventReport, LiveUpdate, Pulse, Report};
use crate::model::grant::{EdgeSlots, Minted};
use crate::model::headcount::{self, Headcount, Signer};
use crate::model::ids::{LogIndex, NodeRun, TicketId, Weight};
use crate::model::ledger::{Extend, Gate, LiveSet, Revoke, RevokeReason, Span};
use crate::model::order::{BucketStart, Draws, KeyBase, OrderKey, arrival_key};
use crate::model::policy::Ordering;
use crate::model::presence::{Window, tickets_horizon};
use crate::model::time::{BootTime, FleetTime, as_millis};
use crate::model::token::{Pass, Ticket};

/// One run of an edge. All its memory goes with it.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) run: NodeRun,
    pub(super) link: Link,
    pub(super) live: LiveSet,
    pub(super) view: Option<View>,
    slots: EdgeSlots,
    extends: HashMap<TicketId, (Extend, BootTime)>,
    revokes: BTreeSet<Revoke>,
    /// Called visitors who ask, and until when they count.
    asking: HashMap<TicketId, BootTime>,
    called: Vec<BootTime>,
    claimed: Vec<BootTime>,
    counts: Headcount,
    next_ticket: u64,
    next_report: u64,
    line_begun: u64,
    wants_bucket: bool,
    last_arrival: OrderKey,
    held: HashMap<TicketId, BootTime>,
    urgent: bool,
}

/// What the last pulse said.
#[derive(Debug)]
pub(super) struct View {
    pub(super) pulse: EventPulse,
    pub(super) draws: Draws,
    pub(super) spans: Arc<Vec<Span>>,
    index: LogIndex,
}

impl Edge {
    pub(super) fn new(run: NodeRun) -> Self {
        Self {
            run,
            link: Link::default(),
            live: LiveSet::default(),
            view: None,
            slots: EdgeSlots::new(run),
            extends: HashMap::new(),
            revokes: BTreeSet::new(),
            asking: HashMap::new(),
            called: Vec::new(),
            claimed: Vec::new(),
            counts: Headcount::default(),
            next_ticket: 1,
            next_report: 1,
            line_begun: 0,
            wants_bucket: false,
            last_arrival: OrderKey::default(),
            held: HashMap::new(),
            urgent: false,
        }
    }

    pub(super) fn new_id(&mut self) -> TicketId {
        self.next_ticket += 1;
        TicketId::of_run(self.run, self.next_ticket)
    }

    pub(super) fn take(&mut self, pulse: Pulse, now: BootTime) {
        if pulse.run != self.run || !self.link.take(&pulse, now) {
            return;
        }
        let Some(mut event) = pulse.events.into_iter().next() else { return };
        let update = std::mem::replace(&mut event.live, LiveUpdate::Changes(Vec::new()));
        self.live = update.applied_to(&self.live, pulse.index);
        self.live.forget_before(tickets_horizon(&pulse.spans, pulse.now));
        self.slots.settle(&event.settled);
        if let Some(grant) = event.grant {
            self.slots.take(grant, pulse.echo);
        }
        self.slots.expire(now);
        let live = &self.live;
        self.extends.retain(|id, (_, give_up)| {
            live.pass(*id).is_none_or(|pass| pass.claim.is_none()) && !live.is_consumed(*id) && now < *give_up
        });
        self.revokes.retain(|revoke| !live.is_consumed(revoke.id));
        let draws = Draws::new(event.draw_secret, event.lottery.as_ref());
        self.view = Some(View { pulse: event, draws, spans: pulse.spans, index: pulse.index });
    }

    pub(super) fn report(&mut self, now: BootTime, mutant: Mutant) -> Report {
        self.slots.expire(now);
        let number = self.next_report;
        self.next_report += 1;
        self.urgent = false;
        let upper = self.link.upper(now);
        let minute = |times: &mut Vec<BootTime>| {
            times.retain(|at| now.since(*at).as_secs() < 60);
            u32::try_from(times.len()).unwrap_or(u32::MAX)
        };
        self.asking.retain(|_, until| now <= *until);
        self.held.retain(|_, at| now.since(*at).as_millis() <= 1_000);
        let mut outbox = self.slots.outbox();
        if mutant == Mutant::SlotsHandedBackEarly {
            let in_hand = self.slots.in_hand().map(|(block, given)| (block, given, Vec::new()));
            outbox.retain(|settle| settle.closed.is_some());
            outbox.extend(in_hand.map(|(block, given, mints)| crate::model::ledger::Settle {
                block,
                run: self.run,
                mints,
                closed: Some(given),
            }));
        }
        let events = self.view.as_ref().map(|view| {
            let policy = &view.pulse.policy;
            let window = Window::at(upper, policy.heartbeat_ttl);
            self.counts.turn(upper, view.pulse.policy.heartbeat_ttl);
            EventReport {
                event: view.pulse.event.clone(),
                line: view.pulse.line,
                outbox,
                extend: self.extends.values().map(|(extend, _)| *extend).collect(),
                revoke: self.revokes.iter().copied().collect(),
                window,
                counts: self.counts.report(view.pulse.watermark),
                put_in_line: self.line_begun > self.link.answered(),
                wants_bucket: self.wants_bucket,
                held: u32::try_from(self.held.len()).unwrap_or_default(),
                called_asking: u32::try_from(self.asking.len()).unwrap_or_default(),
                called_last_minute: minute(&mut self.called),
                claimed_last_minute: minute(&mut self.claimed),
                admitted_last_minute: 0,
                express_rate: 0.0,
            }
        });
        Report {
            run: self.run,
            number,
            sent: now,
            upper,
            pulse_seen: self.link.newest(),
            live_index: self.view.as_ref().map_or(LogIndex(0), |view| view.index),
            keys_version: 0,
            stage: EdgeStage::Serving,
            events: events.into_iter().collect(),
        }
    }

    /// What the edge thinks of a pass at this moment.
    pub(super) fn honours(&self, pass: &Pass, now: BootTime) -> Honour {
        let here = self.slots.minted(pass.id).is_some_and(|minted| minted.at == pass.at);
        let minted = if here { Provenance::Here } else { Provenance::Elsewhere };
        honour(pass, &self.live, minted, self.link.contact(now), self.link.upper(now))
    }

    /// Whether somebody waits for what a report would bring.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    pub(super) fn claim(&mut self, pass: &Pass, now: BootTime) {
        let extend = Extend { pass: pass.id, at: pass.at, expires: pass.expires, weight: pass.weight };
        let give_up = BootTime(now.0 + 1_500);
        self.urgent |= pass.index == LogIndex(0) && !self.extends.contains_key(&pass.id);
        self.extends.entry(pass.id).or_insert((extend, give_up));
    }

    pub(super) fn revoke(&mut self, id: TicketId, why: RevokeReason) {
        self.urgent |= self.revokes.insert(Revoke { id, why });
    }

    /// Judges a ticket; counts the heartbeat of one that waits.
    pub(super) fn poll(&mut self, ticket: &mut Ticket, now: BootTime) -> Option<Judgement> {
        let upper = self.link.upper(now);
        if ticket.base == KeyBase::Unkeyed {
            self.key(ticket, now);
        }
        let view = self.view.as_ref()?;
        let scene = Scene {
            policy: &view.pulse.policy,
            line: view.pulse.line,
            live: &self.live,
            draws: &view.draws,
            watermark: view.pulse.watermark,
            open_bucket: view.pulse.buckets.iter().copied().filter(|start| start.time() <= upper).max(),
            spans: &view.spans,
            contact: self.link.contact(now),
            now: upper,
        };
        let judgement = judge(ticket, &scene);
        let window = Window::at(upper, view.pulse.policy.heartbeat_ttl);
        let signer = if ticket.refreshed_by == self.run.node { Signer::Here } else { Signer::Elsewhere };
        let shown = headcount::Shown { id: ticket.id, seen: ticket.last_seen, signer };
        if !matches!(judgement, Judgement::Ended(_)) {
            ticket.last_seen = ticket.last_seen.max(window);
            ticket.refreshed_by = self.run.node;
        }
        match judgement {
            Judgement::Waiting(_, Some(key)) => {
                self.counts.turn(upper, view.pulse.policy.heartbeat_ttl);
                self.counts.heartbeat(shown, key);
            }
            Judgement::Called => {
                self.asking.insert(ticket.id, now.after(signer.asks_for()));
                if std::mem::replace(&mut ticket.told_at, 1) == 0 {
                    self.called.push(now);
                }
            }
            _ => {}
        }
        Some(judgement)
    }

    /// When a browser that does as it is told asks again, in milliseconds.
    pub(super) fn poll_after(&self, judgement: Judgement, jitter: f64) -> u64 {
        let Some(view) = &self.view else { return 1_000 };
        let standing = match judgement {
            Judgement::Called => Standing::Called,
            Judgement::Waiting(standing, _) => standing,
            _ => Standing::Unkeyed,
        };
        let pulse = &view.pulse;
        let outlook = Outlook {
            table: &pulse.table,
            admit_rate: pulse.pace,
            inventory: None,
            live_passes: pulse.live_passes,
            beside: 0,
        };
        let (estimate, _) = estimate(&outlook, standing, Shown::default());
        as_millis(poll_after(&estimate, pulse.policy.heartbeat_ttl, jitter))
    }

    /// The number of the next report: what a request asks with.
    pub(super) fn next_report(&self) -> u64 {
        self.next_report
    }

    /// Whether the leader has answered a request that asked with this report, and has nothing to give.
    pub(super) fn is_refused(&self, asked_with: u64) -> bool {
        let refused = self.view.as_ref().is_some_and(|view| view.pulse.refused);
        refused && self.link.answered() >= asked_with
    }

    /// The request of this visitor is over: nobody waits in it for a slot any more.
    pub(super) fn let_go(&mut self, id: TicketId) {
        self.held.remove(&id);
    }

    /// A new ticket, keyed if the last pulse is fresh and there is a bucket.
    pub(super) fn join(&mut self, id: TicketId, now: BootTime) -> Option<Ticket> {
        let upper = self.link.upper(now);
        let view = self.view.as_ref()?;
        let seen = Window::at(upper, view.pulse.policy.heartbeat_ttl);
        let issued = BucketStart::from(upper).0;
        let mut ticket = Ticket::new(id, view.pulse.line, KeyBase::Unkeyed, issued, seen, self.run.node);
        self.key(&mut ticket, now);
        Some(ticket)
    }

    fn key(&mut self, ticket: &mut Ticket, now: BootTime) {
        let upper = self.link.upper(now);
        let Some(view) = &self.view else { return };
        let pulse = &view.pulse;
        if self.link.contact(now) != Contact::Fresh {
            return;
        }
        let fifo = pulse.policy.ordering == Ordering::Fifo;
        let arrived = if fifo { self.link.reckoned(now) } else { upper };
        let open_at = |now: FleetTime| {
            let now = BucketStart::from(now);
            pulse.buckets.iter().copied().filter(|start| *start <= now).max()
        };
        let open = open_at(arrived).or_else(|| open_at(upper));
        let base = match (pulse.policy.ordering, open) {
            (Ordering::Random, _) => KeyBase::Clock(pulse.floor.max(pulse.watermark)),
            (_, None) => {
                self.wants_bucket = true;
                self.line_begun = self.next_report;
                return;
            }
            (Ordering::Fifo, Some(open)) => {
                let open = open.max(self.last_arrival.bucket());
                self.last_arrival = arrival_key(open, pulse.policy.bucket, arrived, self.last_arrival);
                KeyBase::Arrival(self.last_arrival)
            }
            (Ordering::BucketedRandom, Some(bucket)) => {
                let floor = pulse.floor.max(pulse.watermark);
                let inside = floor.bucket() == bucket;
                KeyBase::Drawn { bucket, floor: if inside { floor.fraction() } else { Default::default() } }
            }
        };
        ticket.base = base;
        self.wants_bucket = false;
        self.line_begun = self.next_report;
        if let Some(key) = OrderKey::of(base, ticket.id, &view.draws) {
            self.counts.turn(upper, pulse.policy.heartbeat_ttl);
            self.counts.join(ticket.id, key);
        }
    }

    /// Whether a newcomer may be let in at once.
    pub(super) fn is_open(&self, now: BootTime) -> bool {
        let unheard = self.line_begun > self.link.answered();
        let open = self.view.as_ref().is_some_and(|view| view.pulse.gate == Gate::Open);
        open && !unheard && self.link.contact(now) == Contact::Fresh
    }

    /// Whether this edge has minted a pass for the id that the ledger has not confirmed.
    pub(super) fn has_minted(&self, id: TicketId) -> bool {
        self.slots.minted(id).is_some()
    }

    /// A pass from a slot in hand. A visitor without one is held for a moment, so that the leader tops up.
    pub(super) fn mint(&mut self, id: TicketId, now: BootTime) -> Option<Minted> {
        if self.link.contact(now) != Contact::Fresh || self.live.is_consumed(id) {
            return None;
        }
        if let Some(minted) = self.slots.minted(id) {
            return Some(minted);
        }
        let claim = self.view.as_ref()?.pulse.policy.pass_claim;
        let expires = self.link.upper(now).after(claim);
        let minted = self.slots.spend(id, Weight::ONE, expires, now);
        if minted.is_none() {
            // Who holds on has been told of already.
            self.urgent |= self.held.insert(id, now).is_none();
        } else {
            self.held.remove(&id);
            if self.asking.remove(&id).is_some() {
                self.claimed.push(now);
            }
        }
        minted
    }
}

//! One event, as this node knows it.

mod keying;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::askers::Askers;
use super::counts::{Counts, Telling};
use super::figures::Tallies;
use super::minute::Minute;
use super::queue_limit::{Given, Places};
use super::watchers::Watchers;
use crate::model::edge::{Contact, ExpressRecord, Link, Phase, Scene};
use crate::model::exchange::{EventPulse, EventReport, LiveUpdate};
use crate::model::grant::EdgeSlots;
use crate::model::ids::{EventId, LineEpoch, LogIndex, NodeRun, TicketId};
use crate::model::ledger::{Extend, LiveSet, Revoke, RevokeReason, Span};
use crate::model::order::{Draws, KeyBase};
use crate::model::policy::{Mode, Ordering as LineOrdering};
use crate::model::presence::Window;
use crate::model::schedule::Stage;
use crate::model::time::{BootTime, FleetTime};

/// How long a first use or a renewal is asked for again before it is given up.
const EXTEND_LIMIT: Duration = Duration::from_millis(1500);

/// Who wants a bucket asks again with every pulse or poll: after this nobody does any more.
const BUCKET_PATIENCE: Duration = Duration::from_millis(1500);

/// A pass on the spot that the log does not know this long after its time ends with its own expiry.
const LAPSE_PATIENCE: Duration = Duration::from_secs(60);

/// How long a seat is remembered that has become a ticket, so that a second tab gets the same one.
const SEAT_MEMORY: Duration = Duration::from_secs(10);

/// An event at this node. Visitors who wait read `view` and touch atomics; the mutexes are for minting and joining.
#[derive(Debug)]
pub(super) struct EventDesk {
    pub(super) id: EventId,
    view: ArcSwap<View>,
    pub(super) counts: ArcSwap<Counts>,
    pub(super) askers: Askers,
    pub(super) places: Places,
    slots: Mutex<Slots>,
    /// Who has left, as long as the log may not know: here they are gone at once. Read without a lock by every request.
    leavers: ArcSwap<rpds::HashTrieSetSync<TicketId>>,
    seats: Mutex<Seats>,
    pub(super) express: Mutex<Express>,
    pub(super) watchers: Watchers,
    pub(super) held: AtomicU32,
    /// When somebody last wanted a bucket to be keyed by, in milliseconds of the boot clock; 0: nobody does.
    bucket_wanted: AtomicU64,
    /// Express is closed here until a pulse answers this report: somebody was put in line.
    line_begun: AtomicU64,
    last_arrival: AtomicU64,
    pub(super) tallies: Tallies,
}

/// What the last pulse said, ready to be read.
#[derive(Debug)]
pub(super) struct View {
    pub(super) pulse: EventPulse,
    pub(super) draws: Draws,
    pub(super) live: LiveSet,
    /// How many of the places given here are among those that the pulse counts as waiting.
    places_known: u64,
}

/// What all parts of a pulse have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The log index that it is true for.
    pub(super) index: LogIndex,
    /// The report that it answers.
    pub(super) report: u64,
    /// When that was sent.
    pub(super) echo: BootTime,
    /// When it came.
    pub(super) now: BootTime,
    /// Ids of tickets that are over by then are to be forgotten; `None`: not now.
    pub(super) horizon: Option<FleetTime>,
}

/// What this node may spend, owes and asks for.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) edge: EdgeSlots,
    extends: HashMap<TicketId, Extending>,
    revokes: BTreeSet<Revoke>,
    pub(super) called: Minute,
    pub(super) claimed: Minute,
    pub(super) minted: Minute,
    pub(super) arrivals: Minute,
}

#[derive(Clone, Copy, Debug)]
struct Extending {
    extend: Extend,
    known: LogIndex,
    give_up: BootTime,
}

/// Seats that have become tickets a moment ago; two generations, so that forgetting costs nothing.
#[derive(Debug, Default)]
struct Seats {
    now: HashMap<TicketId, Seated>,
    before: HashMap<TicketId, Seated>,
    turned: BootTime,
}

/// What a seat has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seated {
    /// A ticket.
    Ticket(SeatedTicket),
    /// A ticket that has ended: who shows the seat again joins anew.
    Over,
}

/// What the ticket of a seat was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatedTicket {
    pub(super) base: KeyBase,
    /// In unix seconds.
    pub(super) issued: u32,
    /// When it was keyed, which is its first heartbeat.
    pub(super) seen: FleetTime,
}

/// Whether a seat has become a ticket now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seating {
    /// It has become this ticket now.
    New(SeatedTicket),
    /// It had become this ticket before.
    Taken(SeatedTicket),
}

/// What express remembers.
#[derive(Debug, Default)]
pub(super) struct Express {
    pub(super) record: ExpressRecord,
    pub(super) by_address: HashMap<IpAddr, TicketId>,
    /// When passes that were given on the spot end unless they have been presented; ascending.
    pub(super) lapses: VecDeque<(BootTime, TicketId)>,
}

impl EventDesk {
    pub(super) fn new(run: NodeRun, pulse: EventPulse) -> Self {
        let draws = Draws::new(pulse.draw_secret, pulse.lottery.as_ref());
        let slots = Slots {
            edge: EdgeSlots::new(run),
            extends: HashMap::new(),
            revokes: BTreeSet::new(),
            called: Minute::default(),
            claimed: Minute::default(),
            minted: Minute::default(),
            arrivals: Minute::default(),
        };
        Self {
            id: pulse.event.clone(),
            view: ArcSwap::from_pointee(View { pulse, draws, live: LiveSet::default(), places_known: 0 }),
            counts: ArcSwap::default(),
            askers: Askers::default(),
            places: Places::default(),
            slots: Mutex::new(slots),
            leavers: ArcSwap::from_pointee(rpds::HashTrieSetSync::new_sync()),
            seats: Mutex::default(),
            express: Mutex::default(),
            watchers: Watchers::default(),
            held: AtomicU32::new(0),
            bucket_wanted: AtomicU64::new(0),
            line_begun: AtomicU64::new(0),
            last_arrival: AtomicU64::new(0),
            tallies: Tallies::default(),
        }
    }

    pub(super) fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    /// A visitor leaves; false if it does so already.
    pub(super) fn leave(&self, id: TicketId) -> bool {
        let mut slots = self.slots();
        let first = slots.revoke(Revoke { id, why: RevokeReason::Left });
        self.leavers.store(Arc::new(self.leavers.load().insert(id)));
        first
    }

    /// Whether the visitor has left, and the log may not know.
    pub(super) fn is_leaving(&self, id: TicketId) -> bool {
        let leavers = self.leavers.load();
        !leavers.is_empty() && leavers.contains(&id)
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in line, unless the line is as long as it may be.
    pub(super) fn take_place(&self, view: &View) -> Option<Given<'_>> {
        let View { pulse, places_known, .. } = view;
        self.places.take(pulse.policy.queue_limit, pulse.waiting, *places_known)
    }

    /// Takes this event's part of a pulse.
    pub(super) fn take(&self, mut pulse: EventPulse, frame: Frame) {
        let Frame { index, report, echo, now, horizon } = frame;
        let known = self.view.load_full();
        let update = std::mem::replace(&mut pulse.live, LiveUpdate::Changes(Vec::new()));
        let ended = update.ended();
        let mut live = update.applied_to(&known.live, index);
        if let Some(horizon) = horizon {
            live.forget_before(horizon);
        }
        let line = (pulse.line, pulse.lottery.as_ref());
        let same_line = line == (known.pulse.line, known.pulse.lottery.as_ref());
        let mut draws = if same_line && pulse.draw_secret == known.pulse.draw_secret {
            known.draws.clone()
        } else {
            Draws::new(pulse.draw_secret, pulse.lottery.as_ref())
        };
        if pulse.policy.ordering != LineOrdering::Fifo {
            draws.warm(pulse.table.iter().map(|row| row.key.bucket()).chain(pulse.buckets.iter().copied()));
        }
        if pulse.line != known.pulse.line {
            self.counts.store(Arc::default());
            // A seat's base is of the old line: in the new one it could be called at once.
            *self.seats() = Seats::default();
        }
        self.counts.load().forget_before(pulse.watermark.bucket());
        let lowered = pulse.policy.capacity < known.pulse.policy.capacity;
        let (grant, settled) = (pulse.grant, std::mem::take(&mut pulse.settled));
        let places_known = self.places.known(report).unwrap_or(known.places_known);
        let mut slots = self.slots();
        slots.forget(&live, now);
        // The live set is shown before what it confirms is forgotten: whoever looks for a pass finds it in one of them.
        self.view.store(Arc::new(View { pulse, draws, live, places_known }));
        if !self.leavers.load().is_empty() {
            self.leavers.store(Arc::new(slots.leavers().collect()));
        }
        slots.edge.settle(&settled);
        if lowered {
            slots.edge.close();
        }
        if let Some(grant) = grant {
            slots.edge.take(grant, echo);
        }
        slots.edge.expire(now);
        drop(slots);
        match ended {
            Some(ended) => self.watchers.wake(&ended),
            None => self.watchers.wake_all(),
        }
    }

    /// This event's part of the next report.
    pub(super) fn report(&self, number: u64, link: &Link, now: BootTime) -> EventReport {
        let view = self.view();
        let policy = &view.pulse.policy;
        let (answered, fleet) = (link.answered(), link.upper(now));
        self.places.reported(number);
        let counts = self.counts.load();
        counts.turn(fleet, policy.heartbeat_ttl);
        let leader = link.newest().map(|(leader, _)| leader);
        let telling = Telling { watermark: view.pulse.watermark, number, answered, leader, now: fleet };
        let mut slots = self.slots();
        slots.edge.expire(now);
        self.lapse(&mut slots, &view.live, now);
        EventReport {
            event: self.id.clone(),
            line: view.pulse.line,
            outbox: slots.edge.outbox(),
            extend: slots.extends.values().map(|extending| extending.extend).collect(),
            revoke: slots.revokes.iter().copied().collect(),
            window: Window::at(fleet, policy.heartbeat_ttl),
            counts: counts.report(telling),
            put_in_line: self.line_begun.load(Ordering::Relaxed) > answered,
            wants_bucket: self.wants_bucket(now),
            held: self.held.load(Ordering::Relaxed),
            called_asking: self.askers.count(now),
            called_last_minute: slots.called.count(now),
            claimed_last_minute: slots.claimed.count(now),
            admitted_last_minute: slots.minted.count(now),
            express_rate: slots.arrivals.recent_rate(now),
        }
    }

    /// Ends what was given on the spot and not presented in time. What the log does not know yet is looked at again.
    fn lapse(&self, slots: &mut Slots, live: &LiveSet, now: BootTime) {
        let mut express = self.express.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, id)) = express.lapses.front().copied().filter(|(at, _)| *at <= now) {
            let is_minted = slots.edge.minted(id).is_some();
            match live.pass(id) {
                Some(pass) if pass.claim.is_none() => {
                    slots.revoke(Revoke { id, why: RevokeReason::Unpresented });
                }
                None if is_minted && now.since(at) < LAPSE_PATIENCE => break,
                Some(_) | None => {}
            }
            express.lapses.pop_front();
        }
    }

    /// Notes that somebody wants a bucket, or that the last one who did has one.
    pub(super) fn want_bucket(&self, now: Option<BootTime>) {
        self.bucket_wanted.store(now.map_or(0, |now| now.0.max(1)), Ordering::Relaxed);
    }

    /// Whether somebody wants a bucket who has not given up since.
    fn wants_bucket(&self, now: BootTime) -> bool {
        let wanted = self.bucket_wanted.load(Ordering::Relaxed);
        wanted > 0 && now.since(BootTime(wanted)) <= BUCKET_PATIENCE
    }

    /// Closes express here at once, until the leader has heard of the line. The report numbered `next_report` may be
    /// in the making and have missed it; the one after it cannot.
    pub(super) fn begin_line(&self, next_report: u64) {
        self.line_begun.fetch_max(next_report.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether somebody was put in line here whom the leader has not heard of.
    pub(super) fn has_unheard_line(&self, answered: u64) -> bool {
        self.line_begun.load(Ordering::Relaxed) > answered
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a seat has become a moment ago.
    pub(super) fn seated(&self, id: TicketId) -> Option<Seated> {
        self.seats().known(id)
    }

    /// Remembers what a seat's ticket is keyed by; an earlier memory stands, unless it knows of no key.
    pub(super) fn seat(&self, id: TicketId, ticket: SeatedTicket, now: BootTime) -> Seating {
        let mut seats = self.seats();
        if now.since(seats.turned) > SEAT_MEMORY {
            seats.before = std::mem::take(&mut seats.now);
            seats.turned = now;
        }
        let issued = match seats.known(id) {
            Some(Seated::Ticket(known)) if known.base != KeyBase::Unkeyed => return Seating::Taken(known),
            Some(Seated::Ticket(unkeyed)) => unkeyed.issued,
            Some(Seated::Over) | None => ticket.issued,
        };
        let ticket = SeatedTicket { issued, ..ticket };
        seats.now.insert(id, Seated::Ticket(ticket));
        Seating::New(ticket)
    }

    /// The ticket has ended, and its seat, if it is remembered, with it.
    pub(super) fn end_seat(&self, id: TicketId) {
        let mut seats = self.seats();
        if seats.known(id).is_some() {
            seats.now.insert(id, Seated::Over);
        }
    }
}

impl Seats {
    fn known(&self, id: TicketId) -> Option<Seated> {
        self.now.get(&id).or_else(|| self.before.get(&id)).copied()
    }
}

impl Slots {
    /// Asks for a first use or a renewal, once at a time per pass.
    pub(super) fn extend(&mut self, extend: Extend, known: LogIndex, now: BootTime) {
        let give_up = now.after(EXTEND_LIMIT);
        self.extends.entry(extend.pass).or_insert(Extending { extend, known, give_up });
    }

    /// Asks for the end of a ticket or session; false if that is asked for already.
    pub(super) fn revoke(&mut self, revoke: Revoke) -> bool {
        self.revokes.insert(revoke)
    }

    fn leavers(&self) -> impl Iterator<Item = TicketId> {
        self.revokes.iter().filter(|revoke| revoke.why == RevokeReason::Left).map(|revoke| revoke.id)
    }

    /// Forgets what the live set answers, and what was asked for too long.
    fn forget(&mut self, live: &LiveSet, now: BootTime) {
        self.extends.retain(|id, extending| {
            let claim = live.pass(*id).and_then(|pass| pass.claim);
            let answered = claim.is_some_and(|claim| claim.index > extending.known);
            !answered && !live.is_consumed(*id) && now < extending.give_up
        });
        self.revokes.retain(|revoke| live.would_end(revoke));
    }

    /// Whether nothing is owed to the ledger.
    pub(super) fn is_settled(&self) -> bool {
        self.edge.is_settled() && self.revokes.is_empty()
    }
}

impl View {
    /// Why the line is as it is.
    pub(super) fn phase(&self, contact: Contact, now: FleetTime) -> Phase {
        let policy = &self.pulse.policy;
        let stage = policy.schedule.stage(now);
        if contact != Contact::Fresh {
            Phase::Frozen
        } else if policy.mode == Mode::Closed || matches!(stage, Stage::Closed | Stage::Early) {
            Phase::Closed
        } else if policy.inventory == Some(0) {
            Phase::SoldOut
        } else if policy.paused {
            Phase::Paused
        } else if stage == Stage::Prequeue {
            Phase::Prequeue
        } else {
            Phase::Queueing
        }
    }

    /// Whether passes may be minted as far as the policy goes.
    pub(super) fn admits(&self, now: FleetTime) -> bool {
        let policy = &self.pulse.policy;
        let by_mode = matches!(policy.mode, Mode::Enforce | Mode::Observe);
        by_mode && !policy.paused && policy.schedule.stage(now) == Stage::Open
    }

    /// The line's epoch.
    pub(super) fn line(&self) -> LineEpoch {
        self.pulse.line
    }

    /// What a ticket is judged by.
    pub(super) fn scene<'a>(&'a self, spans: &'a [Span], contact: Contact, now: FleetTime) -> Scene<'a> {
        Scene {
            policy: &self.pulse.policy,
            line: self.pulse.line,
            live: &self.live,
            draws: &self.draws,
            watermark: self.pulse.watermark,
            open_bucket: keying::open_bucket(self, now),
            spans,
            contact,
            now,
        }
    }
}

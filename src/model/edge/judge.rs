//! What a ticket comes to when its visitor asks.

use std::time::Duration;

use super::contact::Contact;
use super::told::Ending;
use crate::model::estimate::Standing;
use crate::model::ids::LineEpoch;
use crate::model::ledger::{LivePass, LiveSet, Span};
use crate::model::order::{BucketStart, Draws, KeyBase, OrderKey};
use crate::model::policy::Policy;
use crate::model::presence::{ends, is_too_old};
use crate::model::time::FleetTime;
use crate::model::token::Ticket;

/// After this every join has reached the leader, been counted, and come back to every edge with a table.
const COUNTED: Duration = Duration::from_secs(1);

/// What an edge knows of an event at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The line's epoch.
    pub line: LineEpoch,
    /// The live set.
    pub live: &'a LiveSet,
    /// What draws are made with.
    pub draws: &'a Draws,
    /// Tickets below it are called.
    pub watermark: OrderKey,
    /// The newest bucket that joins are keyed by; `None`: no bucket is open.
    pub open_bucket: Option<BucketStart>,
    /// Forgiven spans.
    pub spans: &'a [Span],
    /// How well the leader is heard.
    pub contact: Contact,
    /// The latest that fleet time can be.
    pub now: FleetTime,
}

/// What a ticket comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judgement {
    /// It has ended.
    Ended(Ending),
    /// It has turned into this pass already.
    Admitted(LivePass),
    /// Called: a pass may be minted for it.
    Called,
    /// In line, here.
    Waiting(Standing, Option<OrderKey>),
    /// In line, without a key yet.
    Unkeyed,
}

/// Judges a ticket whose signature holds. An edge without a fresh pulse ends no ticket.
#[must_use]
pub fn judge(ticket: &Ticket, scene: &Scene<'_>) -> Judgement {
    if ticket.line < scene.line {
        return Judgement::Ended(Ending::Reset);
    }
    if scene.live.is_consumed(ticket.id) {
        return Judgement::Ended(if scene.live.has_left(ticket.id) {
            Ending::Left
        } else if scene.live.is_unclaimed_once(ticket.id) {
            Ending::MissedTurn
        } else {
            Ending::Used
        });
    }
    if let Some(pass) = scene.live.pass(ticket.id).filter(|pass| pass.expires > scene.now) {
        return Judgement::Admitted(*pass);
    }
    if let Some(ending) = ended_by_time(ticket, scene) {
        return Judgement::Ended(ending);
    }
    match OrderKey::of(ticket.base, ticket.id, scene.draws) {
        Some(key) if key < scene.watermark => Judgement::Called,
        Some(key) => Judgement::Waiting(standing(ticket, key, scene), Some(key)),
        None => match ticket.base {
            KeyBase::Drawn { bucket, .. } => Judgement::Waiting(Standing::Within(bucket), None),
            _ => Judgement::Unkeyed,
        },
    }
}

fn ended_by_time(ticket: &Ticket, scene: &Scene<'_>) -> Option<Ending> {
    if scene.contact != Contact::Fresh {
        return None;
    }
    let (policy, now) = (scene.policy, scene.now);
    let node = Some(ticket.refreshed_by);
    // A ticket without a key has no place to lose, and arrives when it gets one. Whoever made it may not have heard of
    // fleet time yet, and put it into a window that its own clock took for the running one.
    if ticket.base != KeyBase::Unkeyed && ends(ticket.last_seen, now, policy.heartbeat_ttl, scene.spans, node)
    {
        return Some(Ending::MissedHeartbeat);
    }
    let issued = FleetTime::from_unix_seconds(ticket.issued.into());
    is_too_old(issued, now, policy.ticket_max, scene.spans).then_some(Ending::TooOld)
}

/// Inside a bucket that is still open the place is not told: nobody can shop for a good draw, and others may join.
fn standing(ticket: &Ticket, key: OrderKey, scene: &Scene<'_>) -> Standing {
    use crate::model::policy::Ordering;
    let drawn = scene.policy.ordering == Ordering::BucketedRandom;
    if drawn && let Some(open) = scene.open_bucket {
        // Its last joins may still be on their way to the table; who has been told a place keeps it.
        let closed =
            key.bucket() < open && (ticket.shown_upper > 0 || scene.now >= open.time().after(COUNTED));
        if !closed {
            return Standing::Within(key.bucket());
        }
    }
    let issued = FleetTime::from_unix_seconds(ticket.issued.into());
    // `issued` is in whole seconds.
    let lately = ticket.shown_upper == 0 && scene.now < issued.after(COUNTED + Duration::from_secs(1));
    if lately { Standing::Arriving(key) } else { Standing::At(key) }
}

/// Whether a called visitor takes the turn or holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Takes it as soon as a slot is there.
    Asks,
    /// A hidden page: keeps it for later.
    Holds,
}

/// What stands in the way of a called visitor at this moment: such time does not count against a held turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnClock {
    /// Nothing: the turn could be taken.
    Runs,
    /// There is no leader, no free slot, or no permission to mint.
    Stands,
}

/// Brings the ticket's record of its turn up to date and says by when it must be taken; `None`: it was missed.
///
/// The record begins with the first offer, which is an answer to a visitor who holds; who asks was offered nothing.
pub fn turn(
    ticket: &mut Ticket,
    holding: Holding,
    clock: TurnClock,
    claim_hold: Duration,
    now: FleetTime,
) -> Option<FleetTime> {
    let seconds = u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX);
    if ticket.offered_at == 0 {
        if holding == Holding::Asks {
            ticket.told_at = seconds;
            return Some(now.after(claim_hold));
        }
        ticket.offered_at = seconds;
        ticket.excused = 0;
    } else if clock == TurnClock::Stands {
        let since = ticket.told_at.max(ticket.offered_at);
        ticket.excused = ticket.excused.saturating_add(seconds.saturating_sub(since));
    }
    ticket.told_at = seconds;
    let offered = FleetTime::from_unix_seconds(ticket.offered_at.into());
    let claim_by = offered.after(claim_hold).after(Duration::from_secs(ticket.excused.into()));
    (now < claim_by).then_some(claim_by)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::model::ids::{Generation, NodeId, NodeRun, TicketId};
    use crate::model::policy::Fields;
    use crate::model::presence::Window;

    const NOW: FleetTime = FleetTime(1_800_000_000_000);

    /// What becomes of a ticket that was last seen four heartbeats ago.
    fn judged(base: KeyBase) -> Judgement {
        let serde_json::Value::Object(fields) = serde_json::json!({
            "capacity": 1, "max_admit_per_sec": 1, "origin": "shop", "heartbeat_ttl_s": 30
        }) else {
            panic!()
        };
        let policy = Policy::from_fields(&Fields::from(fields)).unwrap();
        let seen = NOW.before(4 * policy.heartbeat_ttl);
        let node = NodeId(NonZeroU16::MIN);
        let id = TicketId::of_run(NodeRun { node, generation: Generation(1) }, 1);
        let window = Window::at(seen, policy.heartbeat_ttl);
        let ticket =
            Ticket::new(id, LineEpoch(0), base, u32::try_from(seen.unix_seconds()).unwrap(), window, node);
        let scene = Scene {
            policy: &policy,
            line: LineEpoch(0),
            live: &LiveSet::default(),
            draws: &Draws::new([0; 32], None),
            watermark: OrderKey(0),
            open_bucket: None,
            spans: &[],
            contact: Contact::Fresh,
            now: NOW,
        };
        judge(&ticket, &scene)
    }

    #[test]
    fn a_missed_heartbeat_ends_a_place_and_not_a_ticket_that_has_none_yet() {
        let keyed = KeyBase::Arrival(OrderKey::new(BucketStart(1_799_999_800), Default::default()));
        assert_eq!(judged(keyed), Judgement::Ended(Ending::MissedHeartbeat));
        assert_eq!(judged(KeyBase::Unkeyed), Judgement::Unkeyed);
    }
}

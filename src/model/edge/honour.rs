//! What a pass is worth: design §3 *Live set*, *First use and renewal*.

use super::contact::Contact;
use crate::model::ids::LogIndex;
use crate::model::ledger::LiveSet;
use crate::model::time::FleetTime;
use crate::model::token::Pass;

/// What a pass is worth at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honour {
    /// It opens, until then.
    Open {
        /// When it ends, by everything that is acknowledged here.
        expires: FleetTime,
    },
    /// Its first use has to be acknowledged first; without an answer it opens only if `fallback` says so.
    Claim {
        /// Until when it opens if no answer comes; `None`: not at all.
        fallback: Option<FleetTime>,
    },
    /// Whether it opens is known once the live set has reached this index.
    Await(LogIndex),
    /// It is over, or the session was ended.
    Refused,
}

/// Whether a pass was minted at this edge and the ledger has not confirmed it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Minted here.
    Here,
    /// Minted elsewhere, or confirmed.
    Elsewhere,
}

/// Judges a pass whose signature holds. `upper` is the latest that fleet time can be.
#[must_use]
pub fn honour(pass: &Pass, live: &LiveSet, minted: Provenance, contact: Contact, upper: FleetTime) -> Honour {
    if contact == Contact::Unheard {
        return Honour::Await(pass.index.max(LogIndex(1)));
    }
    if live.is_consumed(pass.id) {
        return Honour::Refused;
    }
    let known = live.pass(pass.id);
    let expires = known.map_or(pass.expires, |known| match known.claim {
        // By its session, whatever the unused pass would have come to.
        Some(claim) if claim.index >= pass.index => known.expires,
        _ => known.expires.max(pass.expires),
    });
    if upper >= expires {
        return Honour::Refused;
    }
    let claimed_here = known.is_some_and(|known| known.claim.is_some());
    if claimed_here {
        return Honour::Open { expires };
    }
    if pass.index > LogIndex(0) {
        return match contact {
            _ if live.index >= pass.index => Honour::Refused,
            Contact::Fresh | Contact::Stale | Contact::Unheard => Honour::Await(pass.index),
            Contact::CutOff => Honour::Open { expires: pass.expires },
        };
    }
    let backed = known.is_some() || minted == Provenance::Here;
    let fallback = backed.then_some(expires);
    match (contact, fallback) {
        (Contact::CutOff, Some(expires)) => Honour::Open { expires },
        (Contact::CutOff, None) => Honour::Refused,
        (Contact::Fresh | Contact::Stale | Contact::Unheard, fallback) => Honour::Claim { fallback },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{BlockId, Coordinates, Generation, NodeId, NodeRun, TicketId, Weight};
    use crate::model::ledger::{Claim, LiveChange, LivePass};
    use std::num::NonZeroU16;

    const NOW: FleetTime = FleetTime(50_000);

    fn at() -> Coordinates {
        let run = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(1) };
        Coordinates { block: BlockId(1), run, number: 1 }
    }

    fn pass(index: u64, expires: u64) -> Pass {
        let id = TicketId::of_run(at().run, 9);
        Pass {
            id,
            at: at(),
            weight: Weight::ONE,
            index: LogIndex(index),
            started: 0,
            expires: FleetTime(expires),
        }
    }

    fn live(index: u64, claim: Option<u64>, expires: u64) -> LiveSet {
        let mut live = LiveSet::default();
        let claim = claim.map(|index| Claim { started: FleetTime(0), index: LogIndex(index) });
        let known = LivePass { at: at(), expires: FleetTime(expires), claim, weight: Weight::ONE };
        live.apply(LogIndex(index), &LiveChange::Live(pass(0, 0).id, known));
        live
    }

    fn empty(index: u64) -> LiveSet {
        let mut live = LiveSet::default();
        live.index = LogIndex(index);
        live
    }

    fn judge(pass: Pass, live: &LiveSet, contact: Contact) -> Honour {
        honour(&pass, live, Provenance::Elsewhere, contact, NOW)
    }

    #[test]
    fn a_claimed_pass_opens_while_the_set_says_so_whatever_the_contact() {
        let set = live(10, Some(10), 90_000);
        for contact in [Contact::Fresh, Contact::Stale, Contact::CutOff] {
            assert_eq!(judge(pass(10, 60_000), &set, contact), Honour::Open { expires: FleetTime(90_000) });
            let gone = empty(11);
            assert_eq!(judge(pass(10, 60_000), &gone, contact), Honour::Refused);
        }
    }

    #[test]
    fn a_session_may_be_over_before_the_unused_pass_would_have_been() {
        let unused = pass(0, 90_000);
        for contact in [Contact::Fresh, Contact::Stale, Contact::CutOff] {
            assert_eq!(judge(unused, &live(10, Some(10), 50_000), contact), Honour::Refused);
            let open = Honour::Open { expires: FleetTime(60_000) };
            assert_eq!(judge(unused, &live(10, Some(10), 60_000), contact), open);
        }
        let renewed_elsewhere = judge(pass(11, 90_000), &live(10, Some(10), 60_000), Contact::Fresh);
        assert_eq!(renewed_elsewhere, Honour::Open { expires: FleetTime(90_000) });
    }

    #[test]
    fn who_has_heard_nothing_honours_nothing() {
        let empty = LiveSet::default();
        assert_eq!(judge(pass(10, 90_000), &empty, Contact::Unheard), Honour::Await(LogIndex(10)));
        assert_eq!(judge(pass(0, 90_000), &empty, Contact::Unheard), Honour::Await(LogIndex(1)));
    }

    #[test]
    fn a_newer_claim_is_awaited_and_believed_only_when_cut_off() {
        let old = empty(9);
        assert_eq!(judge(pass(10, 60_000), &old, Contact::Stale), Honour::Await(LogIndex(10)));
        assert_eq!(
            judge(pass(10, 60_000), &old, Contact::CutOff),
            Honour::Open { expires: FleetTime(60_000) }
        );
        assert_eq!(judge(pass(10, 50_000), &old, Contact::CutOff), Honour::Refused);
    }

    #[test]
    fn an_unclaimed_pass_is_claimed_and_believed_only_if_it_is_backed() {
        let set = live(10, None, 60_000);
        let backed = Honour::Claim { fallback: Some(FleetTime(60_000)) };
        assert_eq!(judge(pass(0, 60_000), &set, Contact::Fresh), backed);
        let empty = LiveSet::default();
        assert_eq!(judge(pass(0, 60_000), &empty, Contact::Fresh), Honour::Claim { fallback: None });
        assert_eq!(judge(pass(0, 60_000), &empty, Contact::CutOff), Honour::Refused);
        let here = honour(&pass(0, 60_000), &empty, Provenance::Here, Contact::Fresh, NOW);
        assert_eq!(here, backed);
    }

    #[test]
    fn a_consumed_id_never_opens() {
        let mut set = live(10, Some(10), 90_000);
        set.apply(LogIndex(11), &LiveChange::Consumed(pass(0, 0).id, FleetTime(999_999)));
        for contact in [Contact::Fresh, Contact::Stale, Contact::CutOff] {
            assert_eq!(judge(pass(12, 90_000), &set, contact), Honour::Refused);
        }
    }
}

//! Express: admission at once, while nobody waits (design §3 *Express*).

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::ids::TicketId;
use crate::model::time::BootTime;

/// A pass given on the spot lives this long from the end of its response, if it is not used.
pub const ON_THE_SPOT_LIFE: Duration = Duration::from_secs(20);

/// A browser shows its pass with the page's first picture or script: one that has not in this time will not.
const PRESENTED_WITHIN: Duration = Duration::from_secs(3);

const MEMORY: Duration = Duration::from_secs(60);

/// Fewer than this many passes say nothing about a trend.
const LEAST_SAMPLE: usize = 5;

/// How much room there is for passes on the spot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpressRoom {
    /// Rate credit left, as a share of its cap.
    pub credit_share: f32,
    /// Free slots.
    pub slots_free: u32,
    /// All slots.
    pub capacity: u32,
}

/// Whether a pass may be given on the spot, or the visitor has to show a cookie first.
///
/// On the spot only while more than half of the credit cap and a tenth of the slots are free, and under a fifth of the
/// last minute's such passes went unpresented: a flood without cookies then costs no more than that.
#[must_use]
pub fn may_go_on_the_spot(room: ExpressRoom, record: &ExpressRecord, now: BootTime) -> bool {
    // A cap of one slot is never more than half full otherwise.
    let credit = room.credit_share > 0.5;
    let slots = u64::from(room.slots_free) * 10 > u64::from(room.capacity);
    credit && slots && !record.mostly_ignored(now)
}

/// The passes that were given on the spot in the last minute, and whether they came back.
#[derive(Clone, Debug, Default)]
pub struct ExpressRecord {
    given: VecDeque<Given>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    id: TicketId,
    at: BootTime,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Presented,
    Unpresented,
}

impl ExpressRecord {
    /// A pass was given.
    pub fn give(&mut self, id: TicketId, now: BootTime) {
        self.forget(now);
        self.given.push_back(Given { id, at: now, fate: Fate::Unpresented });
    }

    /// A pass was presented; says whether it was one of these.
    pub fn present(&mut self, id: TicketId) -> bool {
        let given = self.given.iter_mut().rev().find(|given| given.id == id);
        given.map(|given| given.fate = Fate::Presented).is_some()
    }

    /// Whether a fifth or more of those old enough to judge went unpresented.
    fn mostly_ignored(&self, now: BootTime) -> bool {
        let old_enough = |given: &&Given| {
            let age = now.since(given.at);
            age >= PRESENTED_WITHIN && age <= MEMORY
        };
        let judged: Vec<_> = self.given.iter().filter(old_enough).collect();
        let ignored = judged.iter().filter(|given| given.fate == Fate::Unpresented).count();
        judged.len() >= LEAST_SAMPLE && ignored * 5 >= judged.len()
    }

    fn forget(&mut self, now: BootTime) {
        while self.given.front().is_some_and(|given| now.since(given.at) > MEMORY) {
            self.given.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: ExpressRoom = ExpressRoom { credit_share: 1.0, slots_free: 50, capacity: 100 };

    fn id(sequence: u64) -> TicketId {
        TicketId { node: 1, generation: 1, sequence }
    }

    #[test]
    fn a_flood_that_never_comes_back_is_sent_to_the_cookie_check() {
        let mut record = ExpressRecord::default();
        for n in 0..10 {
            record.give(id(n), BootTime(n));
        }
        assert!(may_go_on_the_spot(ROOM, &record, BootTime(500)), "too early to judge");
        assert!(!may_go_on_the_spot(ROOM, &record, BootTime(5_000)));
        assert!(may_go_on_the_spot(ROOM, &record, BootTime(61_000)), "forgotten after a minute");
    }

    #[test]
    fn visitors_who_come_back_keep_it_open() {
        let mut record = ExpressRecord::default();
        for n in 0..100 {
            record.give(id(n), BootTime(n));
            if n % 6 > 0 {
                assert!(record.present(id(n)));
            }
        }
        assert!(may_go_on_the_spot(ROOM, &record, BootTime(5_000)));
        assert!(!record.present(id(1_000)));
    }

    #[test]
    fn scarce_credit_or_slots_end_it() {
        let record = ExpressRecord::default();
        let now = BootTime(0);
        assert!(!may_go_on_the_spot(ExpressRoom { credit_share: 0.5, ..ROOM }, &record, now));
        assert!(!may_go_on_the_spot(ExpressRoom { slots_free: 10, ..ROOM }, &record, now));
        assert!(may_go_on_the_spot(ExpressRoom { slots_free: 11, ..ROOM }, &record, now));
    }
}

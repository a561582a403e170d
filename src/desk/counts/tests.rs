use proptest::prelude::*;

use super::*;
use crate::model::headcount::{Headcount, Signer};
use crate::model::order::Fraction;
use crate::model::presence::ends;

const TTL: Duration = Duration::from_secs(10);

fn id(sequence: u64) -> TicketId {
    TicketId { node: 1, generation: 1, sequence }
}

fn key(bucket: u32, fraction: u32) -> OrderKey {
    OrderKey::new(BucketStart(bucket), Fraction(fraction))
}

fn at(second: u64) -> FleetTime {
    FleetTime::from_unix_seconds(1_800_000_000 + second)
}

fn window(second: u64) -> Window {
    Window::at(at(second), TTL)
}

fn telling(number: u64, answered: u64, second: u64) -> Telling {
    Telling { watermark: OrderKey::default(), number, answered, leader: None, now: at(second) }
}

/// One node, and the visitors who come to it with the ticket that they were given last.
#[derive(Default)]
struct Door {
    counts: Counts,
    seen: BTreeMap<u64, Window>,
    second: u64,
}

impl Door {
    fn open() -> Self {
        let door = Self::default();
        door.counts.turn(at(0), TTL);
        door
    }

    fn turn(&mut self, second: u64) {
        self.second = second;
        self.counts.turn(at(second), TTL);
    }

    fn join(&mut self, n: u64, place: Place) {
        self.counts.join(id(n), place, window(self.second));
        self.seen.insert(n, window(self.second));
    }

    fn shown(&self, n: u64) -> Shown {
        Shown { id: id(n), seen: self.seen[&n], signer: Signer::Here }
    }

    fn heartbeat(&mut self, n: u64, place: Place) {
        self.counts.heartbeat(self.shown(n), place, window(self.second));
        self.seen.insert(n, window(self.second));
    }

    fn leave(&self, n: u64, place: Place) {
        self.counts.leave(self.shown(n), place);
    }

    /// By the windows that count.
    fn alive(&self) -> i32 {
        let oldest = window(self.second).previous(TTL).previous(TTL);
        let counts = self.counts.report(telling(1, 0, self.second));
        let seen = counts.iter().flat_map(|count| &count.seen);
        seen.filter(|presence| presence.window >= oldest).map(|presence| presence.alive).sum()
    }
}

fn even(n: u64) -> Place {
    Place::of_key(key(5, u32::MAX / 100 * u32::try_from(n).unwrap()))
}

#[test]
fn who_stays_is_counted_once_and_who_goes_fades_when_the_ticket_ends() {
    let mut door = Door::open();
    (0..100).for_each(|n| door.join(n, even(n)));
    assert_eq!(door.alive(), 100);
    for turn in 1..6 {
        door.turn(turn * 5);
        for n in (0..60).flat_map(|n| [n; 3]) {
            door.heartbeat(n, even(n));
        }
        let expected = if turn < 3 { 100 } else { 60 };
        assert_eq!(door.alive(), expected, "window {turn}");
        assert_eq!(door.counts.alive_in(BucketStart(5)), 100.min(u32::try_from(expected).unwrap()));
    }
    let report = door.counts.report(telling(1, 0, 25));
    assert_eq!(report[0].joined, 100);
    assert!(report[0].full && report[0].seen.iter().all(|presence| presence.slices.len() == SLICES));
}

#[test]
fn who_has_left_is_gone_at_once_and_for_good_and_leaves_once_only() {
    let mut door = Door::open();
    let place = Place::of_key(key(5, 0));
    (0..10).for_each(|n| door.join(n, place));
    for _ in 0..5 {
        (0..4).for_each(|n| door.leave(n, place));
    }
    assert_eq!(door.alive(), 6);
    door.turn(5);
    assert_eq!(door.alive(), 6);
    (0..10).for_each(|n| door.heartbeat(n, place));
    (0..4).for_each(|n| door.leave(n, place));
    assert_eq!(door.alive(), 6, "they are gone already");
    door.leave(9, place);
    for turn in 2..6 {
        door.turn(turn * 5);
        assert_eq!(door.alive(), if turn < 4 { 5 } else { 0 });
    }
}

/// Another tab has polled since with the newer ticket.
#[test]
fn who_leaves_with_an_old_ticket_is_taken_out_of_where_it_counts() {
    let mut door = Door::open();
    let place = Place::of_key(key(5, 0));
    door.join(1, place);
    let old = door.shown(1);
    door.turn(5);
    door.heartbeat(1, place);
    door.counts.leave(old, place);
    for turn in 2..6 {
        assert_eq!(door.alive(), 0);
        door.turn(turn * 5);
    }
}

#[test]
fn a_drawn_lottery_counts_nobody_twice() {
    let mut door = Door::open();
    (0..10).for_each(|n| door.join(n, Place::undrawn(BucketStart(5), id(n))));
    for turn in 1..4 {
        door.turn(turn * 5);
        (0..9).for_each(|n| {
            door.heartbeat(n, Place::of_key(key(5, u32::MAX - u32::try_from(n).unwrap())));
        });
        assert_eq!(door.alive(), if turn < 3 { 10 } else { 9 }, "window {turn}");
    }
    (0..9).for_each(|n| door.leave(n, Place::undrawn(BucketStart(5), id(n))));
    assert_eq!(door.alive(), 0);
}

#[test]
fn another_heartbeat_ttl_forgets_nobody() {
    let counts = Counts::default();
    let long = Duration::from_secs(60);
    counts.turn(at(0), long);
    (0..10).for_each(|n| counts.join(id(n), Place::of_key(key(5, 0)), Window::at(at(0), long)));
    let all = |second| -> i32 {
        let counts = counts.report(telling(1, 0, second));
        counts.iter().flat_map(|count| &count.seen).map(|presence| presence.alive).sum()
    };
    counts.turn(at(1), TTL);
    counts.turn(at(6), TTL);
    let shown = |n| Shown { id: id(n), seen: Window::at(at(0), long), signer: Signer::Here };
    (0..4).for_each(|n| {
        counts.heartbeat(shown(n), Place::of_key(key(5, 0)), window(6));
    });
    let seen: Vec<_> = counts.report(telling(1, 0, 6))[0].seen.iter().map(|p| (p.window, p.alive)).collect();
    assert_eq!(seen, [(Window::at(at(0), long), 6), (window(6), 4)]);
    counts.turn(at(11), TTL);
    assert_eq!(all(11), 10);
}

#[test]
fn who_comes_in_a_window_that_has_not_been_begun_yet_is_counted_in_it() {
    let mut door = Door::open();
    door.join(1, even(1));
    let early = door.shown(1);
    door.counts.heartbeat(early, even(1), window(5));
    let seen = |door: &Door| -> Vec<_> {
        let report = door.counts.report(telling(1, 0, 5));
        report[0].seen.iter().map(|presence| (presence.window, presence.alive)).collect()
    };
    assert_eq!(seen(&door), [(window(5), 1)]);
    door.turn(5);
    assert_eq!(seen(&door), [(window(5), 1)]);
}

#[test]
fn a_cookie_says_the_window_that_its_ticket_was_counted_in() {
    let mut door = Door::open();
    door.join(1, even(1));
    let shown = door.shown(1);
    let asked_in = window(door.second);
    // The node begins the next window while the request is on its way.
    door.turn(6);
    let counted_in = door.counts.heartbeat(shown, even(1), asked_in);
    assert_eq!(counted_in, window(6));
    assert!(counted_in > asked_in);
    assert_eq!(door.alive(), 1);
}

#[test]
fn what_an_answered_report_has_stated_is_not_stated_again_far_from_the_front() {
    let mut door = Door::open();
    (0..10).for_each(|n| door.join(n, Place::of_key(key(u32::try_from(n).unwrap(), 0))));
    let told = |door: &Door, number, answered| door.counts.report(telling(number, answered, 0)).len();
    assert_eq!(told(&door, 1, 0), 10);
    assert_eq!(told(&door, 2, 0), 10, "not answered yet");
    assert_eq!(told(&door, 3, 1), SLICED_BUCKETS);
    let newer = Telling { leader: Some(Tenure::default()), ..telling(4, 1, 0) };
    assert_eq!(door.counts.report(newer).len(), 10, "who leads newly is told all");
    door.counts.forget_before(BucketStart(8));
    assert_eq!(door.counts.report(Telling { number: 5, ..newer }).len(), 2);
}

/// A leader that does not hear of it takes those who were seen since for gone.
#[test]
fn in_which_window_they_were_seen_is_told_of_all_soon() {
    let mut door = Door::open();
    (0..10).for_each(|n| door.join(n, Place::of_key(key(u32::try_from(n).unwrap(), 0))));
    door.counts.report(telling(1, 0, 0));
    door.turn(5);
    (0..10).for_each(|n| door.heartbeat(n, Place::of_key(key(u32::try_from(n).unwrap(), 0))));
    assert_eq!(door.counts.report(telling(2, 1, 5)).len(), 10);
}

#[test]
fn a_row_that_is_empty_for_certain_is_stated_as_such() {
    let mut door = Door::open();
    door.join(1, Place::of_key(key(5, 0)));
    let mut last = None;
    for turn in 1..6 {
        door.turn(turn * 5);
        // Every report is answered before the next one.
        if let [row] = door.counts.report(telling(turn + 1, turn, turn * 5)).as_slice() {
            last = Some((row.seen.len(), row.full));
        }
    }
    assert_eq!(last, Some((0, true)), "else the leader would take a share of those who joined to wait");
}

proptest! {
    /// The count is of those whose tickets live, by the rule that ends them.
    #[test]
    fn a_ticket_is_counted_for_as_long_as_it_lives(
        steps in prop::collection::vec((0_u64..7, prop::collection::vec(0_u64..12, 0..5)), 1..40)
    ) {
        let mut door = Door::open();
        for (passes, polls) in steps {
            door.turn(door.second + passes);
            for n in polls {
                let place = Place::of_key(key(5, u32::MAX / 12 * u32::try_from(n).unwrap()));
                if door.seen.contains_key(&n) { door.heartbeat(n, place) } else { door.join(n, place) }
            }
            let now = at(door.second);
            let lives = door.seen.values().filter(|window| !ends(**window, now, TTL, &[], None)).count();
            prop_assert_eq!(door.alive(), i32::try_from(lives).unwrap());
        }
    }

    /// Many threads may count here, by the rule of the model.
    #[test]
    fn the_counts_are_those_of_the_model(
        steps in prop::collection::vec((0_u64..9_000, 0_u64..20, 0_u32..4, any::<bool>(), 0_u64..9), 1..120)
    ) {
        let (counts, mut plain) = (Counts::default(), Headcount::default());
        let (mut now, mut known) = (at(0), BTreeMap::new());
        for (passes, n, age, here, bucket) in steps {
            now = now.after(Duration::from_millis(passes));
            counts.turn(now, TTL);
            plain.turn(now, TTL);
            let window = Window::at(now, TTL);
            let key = *known.entry(n).or_insert(key(u32::try_from(bucket).unwrap() + 5, 77));
            if age == 3 {
                counts.join(id(n), Place::of_key(key), window);
                plain.join(id(n), key);
            } else {
                let seen = (0..age).fold(window, |window, _| window.previous(TTL));
                let signer = if here { Signer::Here } else { Signer::Elsewhere };
                let shown = Shown { id: id(n), seen, signer };
                counts.heartbeat(shown, Place::of_key(key), window);
                plain.heartbeat(shown, key);
            }
            let telling = Telling { now, ..telling(1, 0, 0) };
            let oldest = window.previous(TTL).previous(TTL);
            let told = |report: Vec<BucketCount>| -> Vec<_> {
                let says = |count: BucketCount| {
                    let counted = |presence: &Presence| presence.window >= oldest && presence.alive != 0;
                    let seen = count.seen.iter().filter(|presence| counted(presence));
                    let seen: Vec<_> = seen.map(|presence| (presence.window, presence.alive)).collect();
                    (count.bucket, count.joined, count.returned, seen)
                };
                report.into_iter().map(says).collect()
            };
            prop_assert_eq!(told(counts.report(telling)), told(plain.report(OrderKey::default())));
        }
    }
}

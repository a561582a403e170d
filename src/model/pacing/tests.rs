use proptest::prelude::*;

use super::*;
use crate::model::order::{Fraction, SLICES};

fn key(bucket: u32, fraction: u32) -> OrderKey {
    OrderKey::new(BucketStart(bucket), Fraction(fraction))
}

fn bucket(start: u32, waiting: f64) -> Cell {
    Cell { from: key(start, 0), to: key(start + 1, 0), waiting }
}

fn slices(start: u32, counts: &[u32]) -> Vec<Cell> {
    let start = BucketStart(start);
    let cell = |(slice, &count): (usize, &u32)| Cell {
        from: OrderKey::slice_start(start, slice),
        to: OrderKey::slice_start(start, slice + 1),
        waiting: f64::from(count),
    };
    counts.iter().enumerate().map(cell).collect()
}

#[test]
fn a_step_takes_the_share_of_the_bucket_that_is_wanted() {
    let step = advance(key(5, 0), 25.0, [bucket(5, 100.0)], OrderKey::END, Stride::Inside);
    assert_eq!(step, Step { watermark: key(5, 1 << 30), called: 25.0 });
}

#[test]
fn a_step_goes_on_into_the_next_bucket_and_skips_empty_ones() {
    let cells = [bucket(5, 10.0), bucket(6, 0.0), bucket(9, 100.0)];
    let step = advance(key(5, 0), 60.0, cells, OrderKey::END, Stride::Inside);
    assert_eq!(step, Step { watermark: key(9, 1 << 31), called: 60.0 });
}

#[test]
fn a_step_ends_at_the_limit() {
    let step = advance(key(5, 0), 60.0, [bucket(5, 100.0)], key(5, 1 << 29), Stride::Inside);
    assert_eq!(step, Step { watermark: key(5, 1 << 29), called: 12.5 });
}

#[test]
fn nobody_waiting_moves_nothing() {
    let step = advance(key(5, 3), 60.0, [bucket(5, 0.0), bucket(6, 0.0)], OrderKey::END, Stride::Inside);
    assert_eq!(step, Step { watermark: key(5, 3), called: 0.0 });
}

#[test]
fn what_is_not_even_is_never_split() {
    let mut counts = [0; SLICES];
    counts[3] = 7;
    counts[4] = 50;
    let step = advance(key(5, 0), 8.0, slices(5, &counts), OrderKey::END, Stride::Whole);
    assert_eq!(step, Step { watermark: OrderKey::slice_start(BucketStart(5), 5), called: 57.0 });
    let limit = OrderKey(OrderKey::slice_start(BucketStart(5), 5).0 - 1);
    let step = advance(key(5, 0), 8.0, slices(5, &counts), limit, Stride::Whole);
    assert_eq!(step, Step { watermark: OrderKey::slice_start(BucketStart(5), 4), called: 7.0 });
}

#[test]
fn calling_follows_slots_rate_and_those_who_ask() {
    let supply = Supply { free: 1000, per_sec: 100, elapsed: TICK, ..Supply::default() };
    let half = Supply { called: 100, claimed: 50, ..supply };
    let cases = [
        (supply, 25.0 + 78.65 + AT_HAND),
        (Supply { asking: 50, ..supply }, 53.65 + AT_HAND),
        (Supply { asking: 500, ..supply }, 0.0),
        (Supply { free: 0, ..supply }, 0.0),
        (Supply { free: 10, ..supply }, 20.0),
        (half, 2.0 * (25.0 + 78.65 + AT_HAND)),
    ];
    for (supply, calls) in cases {
        assert!((supply.wanted_calls() - calls).abs() < 1e-9, "{supply:?}");
    }
    assert_eq!(Supply { claimed: 0, ..half }.take_up(), 0.2);
}

/// The floor goes ahead of the watermark by as many; the farther, the less is left to the draw.
#[test]
fn no_more_can_be_wanted_soon_than_slots_and_rate_allow() {
    let empty = Supply { free: 200, per_sec: 20, ..Supply::default() };
    let soon = |supply: Supply| supply.calls_within(Duration::from_secs(1));
    assert!((soon(empty) - (20.0 + 15.73 + AT_HAND)).abs() < 1e-9, "{}", soon(empty));
    assert!((soon(Supply { free: 3, ..empty }) - 4.0).abs() < 1e-9);
    let full = Supply { free: 0, called: 300, claimed: 150, ..empty };
    assert!((soon(full) - 2.0 * 10.0).abs() < 1e-9, "twice five a second, at half take-up");
}

/// A line whose tickets poll at the front's interval, some of whom never come: the rate is kept, and nobody waits long.
#[test]
fn a_paced_line_admits_at_its_rate_in_spite_of_no_shows() {
    for (per_sec, no_shows) in [(50, 4), (4, 4), (400, 2)] {
        let (mut recent, mut asking) = (RecentCalls::default(), 0.0_f64);
        let (mut shows_up, mut called, mut admitted) = (VecDeque::new(), 0.0, 0.0);
        let mut credit = 0.0_f64;
        for tick in 1..2_400_u64 {
            let boot = BootTime(tick * 250);
            let per_tick = f64::from(per_sec) / 4.0;
            credit = (credit + per_tick).min(per_tick.max(1.0));
            while shows_up.front().is_some_and(|(at, _)| *at <= tick) {
                asking += shows_up.pop_front().map_or(0.0, |(_, count): (u64, f64)| count);
            }
            let passes = asking.min(credit);
            asking -= passes;
            credit -= passes;
            admitted += passes;
            let mut supply = Supply {
                free: 100_000,
                per_sec,
                elapsed: TICK,
                asking: asking as u32,
                called: called as u32,
                claimed: admitted as u32,
                pending: 0.0,
            };
            supply.pending = recent.pending(boot, supply.take_up());
            let wanted = supply.wanted_calls();
            recent.add(boot, wanted);
            called += wanted;
            let show = wanted * (1.0 - 1.0 / f64::from(no_shows));
            (1..=5).for_each(|later| shows_up.push_back((tick + later, show / 5.0)));
            let mut queue: Vec<_> = shows_up.drain(..).collect();
            queue.sort_by_key(|(at, _)| *at);
            shows_up = queue.into();
            assert!(
                asking <= f64::from(per_sec) * 2.5 + 2.0 + 5.0 * AT_HAND,
                "{per_sec}: {asking} ask at tick {tick}"
            );
        }
        let rate = admitted / 600.0;
        assert!(rate > 0.96 * f64::from(per_sec), "{per_sec}: {rate}");
    }
}

proptest! {
    #[test]
    fn a_step_never_goes_back_nor_past_the_limit(
        counts in prop::collection::vec(0_u32..1000, SLICES), from: u32, limit: u32, wanted in 0.0..100_000.0, whole: bool
    ) {
        let stride = if whole { Stride::Whole } else { Stride::Inside };
        let (from, limit) = (key(5, from), key(5, limit));
        let step = advance(from, wanted, slices(5, &counts), limit, stride);
        prop_assert!(step.watermark >= from);
        prop_assert!(step.watermark <= limit.max(from));
        prop_assert!(step.called >= 0.0);
        if stride == Stride::Inside {
            prop_assert!(step.called <= wanted + 1e-6);
        }
    }
}

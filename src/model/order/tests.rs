use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::exchange::Lottery;

const SECRET: [u8; 32] = [7; 32];
const SECOND: Duration = Duration::from_secs(1);

fn id(sequence: u64) -> TicketId {
    TicketId { node: 1, generation: 1, sequence }
}

/// The χ² statistic of counts that should be even.
fn chi_square(counts: &[u32]) -> f64 {
    let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
}

/// 99.99 % of even counts in 64 cells are below this (63 degrees of freedom).
const LIMIT_64: f64 = 113.0;

#[test]
fn draws_are_uniform_over_the_bucket() {
    for secret in 0..8 {
        let draws = Draws::new([secret; 32], None);
        let mut counts = [0; SLICES];
        for sequence in 0..20_000 {
            let base = KeyBase::Drawn { bucket: BucketStart(60), floor: Fraction(0) };
            counts[OrderKey::of(base, id(sequence), &draws).unwrap().slice()] += 1;
        }
        assert!(chi_square(&counts) < LIMIT_64, "secret {secret}: {}", chi_square(&counts));
    }
}

#[test]
fn draws_of_one_ticket_differ_between_buckets_and_events() {
    let draw = |secret, bucket| BucketDraw::of_bucket(&[secret; 32], BucketStart(bucket)).draw(id(1));
    assert_ne!(draw(1, 1), draw(1, 2));
    assert_ne!(draw(1, 1), draw(2, 1));
    assert_eq!(draw(1, 1), draw(1, 1));
}

#[test]
fn a_warm_bucket_draws_the_same_as_a_cold_one() {
    let cold = Draws::new(SECRET, None);
    let mut warm = cold.clone();
    warm.warm([BucketStart(5), BucketStart(6)]);
    warm.warm([BucketStart(6)]);
    for bucket in [5, 6, 7] {
        assert_eq!(warm.draw(BucketStart(bucket), id(9)), cold.draw(BucketStart(bucket), id(9)));
    }
}

#[test]
fn a_lottery_has_no_keys_before_it_is_drawn_and_an_order_of_its_own_after() {
    let mut lottery = Lottery { bucket: BucketStart(10), commitment: [0; 32], order: None, seed: None };
    let base = KeyBase::Drawn { bucket: BucketStart(10), floor: Fraction(0) };
    let undrawn = Draws::new(SECRET, Some(&lottery));
    assert_eq!(OrderKey::of(base, id(1), &undrawn), None);
    assert!(undrawn.is_undrawn(BucketStart(10)) && !undrawn.is_undrawn(BucketStart(11)));
    lottery.order = Some([3; 32]);
    let drawn = Draws::new(SECRET, Some(&lottery));
    let plain = Draws::new(SECRET, None);
    assert_ne!(OrderKey::of(base, id(1), &drawn), OrderKey::of(base, id(1), &plain));
    assert!(!drawn.is_undrawn(BucketStart(10)));
}

#[test]
fn the_exponential_variate_agrees_with_the_logarithm() {
    for draw in [0, 1, 2, 3, 1 << 20, 1 << 63, (1 << 63) + 1, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
        let exact = -((draw.max(1) as f64) / 2_f64.powi(64)).ln();
        let ours = exponential(Draw(draw)) as f64 / 2_f64.powi(32);
        assert!((exact - ours).abs() < 1e-9, "{draw}: {exact} {ours}");
    }
    assert_eq!(exponential(Draw(u64::MAX)), 1, "never 0: a key is above the clock");
}

/// The clock of `random` is memoryless: at any time, who waits long and who just joined are equally likely next.
#[test]
fn newcomers_of_random_are_exchangeable_with_those_who_wait() {
    let draws = Draws::new(SECRET, None);
    let mut line: Vec<(OrderKey, bool)> = Vec::new();
    let mut x = OrderKey(0);
    let mut called = [0_u32; 2];
    let mut expected = [0_f64; 2];
    for round in 0..40 {
        line.iter_mut().for_each(|ticket| ticket.1 = false);
        for _ in line.len()..4_000 {
            let base = KeyBase::Clock(x);
            let sequence = u64::try_from(line.len()).unwrap() + round * 10_000;
            line.push((OrderKey::of(base, id(sequence), &draws).unwrap(), true));
        }
        let newcomers = line.iter().filter(|ticket| ticket.1).count() as f64 / line.len() as f64;
        x = OrderKey(x.0 + (-(0.75_f64.ln()) * (1_u64 << 32) as f64) as u64);
        let gone: Vec<_> = line.extract_if(.., |ticket| ticket.0 < x).collect();
        if round == 0 {
            continue;
        }
        for ticket in &gone {
            called[usize::from(ticket.1)] += 1;
        }
        expected[1] += newcomers * gone.len() as f64;
        expected[0] += (1.0 - newcomers) * gone.len() as f64;
    }
    let chi: f64 = called.iter().zip(expected).map(|(&c, e)| (f64::from(c) - e).powi(2) / e).sum();
    assert!(chi < 10.8, "χ² of one degree of freedom: {chi} ({called:?} for {expected:?})");
}

proptest! {
    #[test]
    fn a_drawn_key_stays_in_its_bucket_and_above_the_floor(
        secret: [u8; 32], bucket: u32, floor: u32, sequence in 0..TicketId::SEQUENCE_LIMIT
    ) {
        let base = KeyBase::Drawn { bucket: BucketStart(bucket), floor: Fraction(floor) };
        let key = OrderKey::of(base, id(sequence), &Draws::new(secret, None)).unwrap();
        prop_assert_eq!(key.bucket(), BucketStart(bucket));
        prop_assert!(key.fraction() >= Fraction(floor));
    }

    #[test]
    fn draws_keep_their_order_under_any_floor(a: u64, b: u64, floor: u32) {
        let (low, high) = (Draw(a.min(b)), Draw(a.max(b)));
        prop_assert!(low.above(Fraction(floor)) <= high.above(Fraction(floor)));
    }

    #[test]
    fn a_key_of_random_is_above_the_clock(at in 0..u64::MAX / 2, sequence in 0_u64..1 << 40) {
        let key = OrderKey::of(KeyBase::Clock(OrderKey(at)), id(sequence), &Draws::new(SECRET, None)).unwrap();
        prop_assert!(key > OrderKey(at));
    }

    #[test]
    fn keys_of_fifo_follow_arrival_exactly(
        start in 1_u32..4_000_000_000, length in 1_u64..120, steps in prop::collection::vec(0_u64..400, 1..200)
    ) {
        let bucket = BucketStart(start);
        let (mut now, mut last) = (bucket.time(), bucket.first_key());
        for step in steps {
            now = FleetTime(now.0 + step);
            let key = arrival_key(bucket, Duration::from_secs(length), now, last);
            prop_assert!(key > last);
            prop_assert_eq!(key.bucket(), bucket);
            last = key;
        }
    }

    #[test]
    fn keys_of_fifo_follow_arrival_between_edges(start in 1_u32..4_000_000_000, a in 0_u64..10_000, b in 0_u64..10_000) {
        let bucket = BucketStart(start);
        let key = |offset| arrival_key(bucket, SECOND, FleetTime(bucket.time().0 + offset), OrderKey::default());
        prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
    }
}

#[test]
fn a_full_fifo_bucket_is_never_left() {
    let bucket = BucketStart(9);
    let last = OrderKey::new(bucket, Fraction::MAX);
    assert_eq!(arrival_key(bucket, SECOND, bucket.time(), last), last);
    assert!(arrival_key(bucket.next(), SECOND, bucket.next().time(), last) > last);
}

#[test]
fn slices_cut_a_bucket_in_sixty_four() {
    let bucket = BucketStart(3);
    assert_eq!(OrderKey::slice_start(bucket, 0), bucket.first_key());
    assert_eq!(OrderKey::slice_start(bucket, SLICES), bucket.next().first_key());
    for slice in 0..SLICES {
        assert_eq!(OrderKey::slice_start(bucket, slice).slice(), slice);
    }
}

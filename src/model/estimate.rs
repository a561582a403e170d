//! Positions and waiting times, as ranges (design §3 *Estimates*).

use std::time::Duration;

use super::exchange::TableRow;
use super::order::{BucketStart, OrderKey};

/// Where a ticket stands and how long it may take; ranges are rounded outward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// At least and at most this many are before the visitor, the visitor included; `[0, 0]` once called.
    pub position: (u32, u32),
    /// The likely wait; `None` where the line does not move.
    pub eta: Option<Duration>,
    /// The range of the wait.
    pub eta_range: Option<(Duration, Duration)>,
    /// How much of the way is done, 0..=1; never goes back by itself.
    pub progress: f32,
    /// How likely it is that nothing is left at the turn, 0..=1; `None` without an inventory.
    pub sold_out_likelihood: Option<f32>,
}

/// What an edge knows of the line, from its last pulse.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    /// How many wait below each key, ascending and cumulative.
    pub table: &'a [TableRow],
    /// How many of the line are likely to be admitted per second.
    pub admit_rate: f32,
    /// What is left to sell.
    pub inventory: Option<u64>,
    /// Those inside, who may still buy.
    pub live_passes: u32,
    /// How many of the visitor's bucket wait at this edge; the table may not count the latest of them yet.
    pub beside: u32,
}

/// Where a ticket stands, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Below the watermark.
    Called,
    /// In a bucket whose inner order is not told: it is still open, or its lottery has not been drawn.
    Within(BucketStart),
    /// At this key, so lately that some of those before it may not be counted yet.
    Arriving(OrderKey),
    /// At this key.
    At(OrderKey),
    /// Without a key: behind everybody who has one.
    Unkeyed,
}

/// What the visitor was shown before, from the token; both are 0 until its place was settled.
///
/// Only what is shown [`Standing::At`] a key binds: before that, others may still join into the places ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The upper end of the position range: the next one is never above it.
    pub upper: u32,
    /// The upper end that was shown first.
    pub first_position: u32,
}

/// What to tell a visitor, and what the token has to remember of it.
#[must_use]
pub fn estimate(outlook: &Outlook<'_>, standing: Standing, shown: Shown) -> (Estimate, Shown) {
    if standing == Standing::Called {
        let eta = outlook.inventory.map(|_| sold_out(outlook, (0, 0)));
        let estimate = Estimate {
            position: (0, 0),
            eta: Some(Duration::ZERO),
            eta_range: Some((Duration::ZERO, Duration::ZERO)),
            progress: 1.0,
            sold_out_likelihood: eta,
        };
        return (estimate, shown);
    }
    let (lower, upper) = range(outlook, standing);
    let upper = if shown.upper == 0 { upper } else { upper.min(shown.upper) };
    let position = (lower.min(upper), upper);
    let settled = shown.upper > 0 || matches!(standing, Standing::At(_));
    let first_position = if shown.first_position == 0 { upper } else { shown.first_position };
    let (eta, eta_range) = match wait(position, outlook.admit_rate) {
        Some((middle, range)) => (Some(middle), Some(range)),
        None => (None, None),
    };
    let estimate = Estimate {
        position,
        eta,
        eta_range,
        progress: (1.0 - upper as f32 / first_position.max(upper).max(1) as f32).clamp(0.0, 1.0),
        sold_out_likelihood: outlook.inventory.map(|_| sold_out(outlook, position)),
    };
    (estimate, if settled { Shown { upper, first_position } } else { shown })
}

/// What to tell a visitor while nothing is known of the line but how many of it waited at some time: what it was told
/// last. Its token remembers nothing new.
#[must_use]
pub fn as_shown(shown: Shown, waited: u32) -> Estimate {
    let upper = if shown.upper == 0 { waited.max(1) } else { shown.upper };
    Estimate {
        position: (1, upper),
        progress: (1.0 - upper as f32 / shown.first_position.max(upper) as f32).clamp(0.0, 1.0),
        ..Estimate::default()
    }
}

/// The range of positions, rounded outward to the rows around; at least (1, 1).
fn range(outlook: &Outlook<'_>, standing: Standing) -> (u32, u32) {
    let table = outlook.table;
    let (from, to) = match standing {
        Standing::Called => return (0, 0),
        Standing::At(key) | Standing::Arriving(key) => (key, key),
        Standing::Within(bucket) => (bucket.first_key(), OrderKey(bucket.next().first_key().0 - 1)),
        Standing::Unkeyed => (OrderKey::END, OrderKey::END),
    };
    let below = table.iter().rev().find(|row| row.key <= from);
    let above = table.iter().find(|row| row.key > to).or(table.last());
    let lower = below.map_or(0, |row| row.waiting.saturating_sub(row.uncertainty)).saturating_add(1);
    let upper = above.map_or(0, |row| row.waiting.saturating_add(row.uncertainty));
    let beside = if matches!(standing, Standing::At(_)) { 0 } else { outlook.beside };
    (lower, upper.max(lower).max(lower.saturating_add(beside).saturating_sub(1)))
}

/// The middle and the range of the wait for a position, at this many admissions per second.
fn wait(position: (u32, u32), admit_rate: f32) -> Option<(Duration, (Duration, Duration))> {
    let rate = f64::from(admit_rate);
    if rate.is_nan() || rate <= 0.0 {
        return None;
    }
    // Two standard deviations of what a minute at this rate tells, at least 15 %.
    let doubt = 1.0 + (2.0 / (rate * 60.0).sqrt()).max(0.15);
    let seconds = |wait: f64| Duration::try_from_secs_f64(wait.min(1e9)).unwrap_or(Duration::ZERO);
    let (lower, upper) = (f64::from(position.0), f64::from(position.1));
    let range = (seconds(lower / (rate * doubt)), seconds(upper * doubt / rate));
    Some((seconds((lower + upper) / 2.0 / rate), range))
}

/// How likely it is that those ahead leave nothing, if everybody takes one and those inside may or may not.
fn sold_out(outlook: &Outlook<'_>, position: (u32, u32)) -> f32 {
    let left = outlook.inventory.unwrap_or(u64::MAX) as f64;
    let least = f64::from(position.0.saturating_sub(1));
    let most = f64::from(position.1.saturating_sub(1)) + f64::from(outlook.live_passes);
    if left <= least {
        return 1.0;
    }
    if left > most {
        return 0.0;
    }
    ((most - left) / (most - least)).clamp(0.0, 1.0) as f32
}

/// Waits are told in steps of this: a tenth of a minute below one, a quarter below five, then minutes.
fn step_of(seconds: u64) -> u64 {
    match seconds {
        0..60 => 6,
        60..300 => 15,
        _ => 60,
    }
}

/// A wait in the steps that waits are told in, rounded down, in seconds.
#[must_use]
pub fn told_down(wait: Duration) -> u64 {
    let seconds = wait.as_secs();
    seconds - seconds % step_of(seconds)
}

/// A wait in the steps that waits are told in, rounded up, in seconds.
#[must_use]
pub fn told_up(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.next_multiple_of(step_of(seconds))
}

/// The poll interval of a visitor at the front: so that with the least jitter a ticket stays at 60 polls a minute.
pub const FRONT_POLL: Duration = Duration::from_millis(1_180);

/// When to ask again: a tenth of the least wait, from [`FRONT_POLL`] to `heartbeat_ttl_s`/2.5, with ±15 % jitter.
///
/// `jitter` is a random number in 0..=1.
#[must_use]
pub fn poll_after(estimate: &Estimate, heartbeat_ttl: Duration, jitter: f64) -> Duration {
    let most = heartbeat_ttl.as_secs_f64() / 2.5 / 1.15;
    let wait = match estimate.eta_range {
        Some((least, _)) => least.as_secs_f64() / 10.0,
        // A line that stands may move at any time: as if it moved by two a second.
        None => f64::from(estimate.position.0) / 20.0,
    };
    let interval = wait.min(most).max(FRONT_POLL.as_secs_f64());
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    Duration::from_secs_f64(interval * (0.85 + 0.3 * jitter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::order::Fraction;

    fn row(bucket: u32, fraction: u32, waiting: u32, uncertainty: u32) -> TableRow {
        TableRow { key: OrderKey::new(BucketStart(bucket), Fraction(fraction)), waiting, uncertainty }
    }

    fn end(waiting: u32) -> TableRow {
        TableRow { key: OrderKey::END, waiting, uncertainty: 0 }
    }

    fn outlook(table: &[TableRow]) -> Outlook<'_> {
        Outlook { table, admit_rate: 10.0, inventory: None, live_passes: 0, beside: 0 }
    }

    fn any_table() -> impl Strategy<Value = Vec<TableRow>> {
        prop::collection::vec((0_u64..1 << 40, 0_u32..1000, 0_u32..50), 0..64).prop_map(|mut rows| {
            rows.sort_unstable();
            let mut waiting = 0;
            let mut table: Vec<_> = rows
                .into_iter()
                .map(|(key, more, uncertainty)| {
                    waiting += more;
                    TableRow { key: OrderKey(key), waiting, uncertainty }
                })
                .collect();
            table.push(end(waiting));
            table
        })
    }

    #[test]
    fn a_position_lies_between_the_rows_around_the_key() {
        let table = [row(1, 0, 5, 0), row(1, 1 << 31, 20, 2), row(2, 0, 50, 4), end(80)];
        let at = |bucket, fraction| {
            let key = OrderKey::new(BucketStart(bucket), Fraction(fraction));
            estimate(&outlook(&table), Standing::At(key), Shown::default()).0.position
        };
        assert_eq!(at(1, 7), (6, 22));
        assert_eq!(at(1, 1 << 31), (19, 54));
        assert_eq!(at(9, 0), (47, 80));
        let within = estimate(&outlook(&table), Standing::Within(BucketStart(1)), Shown::default()).0;
        assert_eq!(within.position, (6, 54), "the whole bucket");
        let unkeyed = estimate(&outlook(&table), Standing::Unkeyed, Shown::default()).0;
        assert_eq!(unkeyed.position, (81, 81));
    }

    #[test]
    fn a_called_ticket_is_at_zero_and_an_empty_table_puts_first() {
        let called = estimate(&outlook(&[]), Standing::Called, Shown { upper: 9, first_position: 9 });
        assert_eq!((called.0.position, called.0.progress), ((0, 0), 1.0));
        assert_eq!(called.1, Shown { upper: 9, first_position: 9 });
        let first = estimate(&outlook(&[]), Standing::At(OrderKey(1)), Shown::default()).0;
        assert_eq!(first.position, (1, 1));
    }

    #[test]
    fn a_wait_is_the_position_over_the_rate_and_unknown_when_nothing_moves() {
        let table = [row(1, 0, 99, 0), end(101)];
        let key = Standing::At(BucketStart(2).first_key());
        let moving = estimate(&outlook(&table), key, Shown::default()).0;
        let (least, most) = moving.eta_range.unwrap();
        assert!(least < moving.eta.unwrap() && moving.eta.unwrap() < most);
        assert!((moving.eta.unwrap().as_secs_f64() - 10.05).abs() < 0.01);
        let standing = estimate(&Outlook { admit_rate: 0.0, ..outlook(&table) }, key, Shown::default()).0;
        assert_eq!((standing.eta, standing.eta_range), (None, None));
    }

    #[test]
    fn waits_are_told_in_steps_and_rounded_outward() {
        let told = |ms| {
            let wait = Duration::from_millis(ms);
            (told_down(wait), told_up(wait))
        };
        let cases = [
            (0, (0, 0)),
            (1, (0, 6)),
            (13_000, (12, 18)),
            (55_001, (54, 60)),
            (60_000, (60, 60)),
            (61_000, (60, 75)),
            (299_999, (285, 300)),
            (300_001, (300, 360)),
            (3_601_000, (3_600, 3_660)),
        ];
        for (ms, expected) in cases {
            assert_eq!(told(ms), expected, "{ms} ms");
        }
    }

    #[test]
    fn what_is_left_is_set_against_those_ahead() {
        let table = [row(1, 0, 99, 0), end(199)];
        let likelihood = |inventory, live_passes| {
            let outlook = Outlook { inventory: Some(inventory), live_passes, ..outlook(&table) };
            let key = Standing::At(BucketStart(2).first_key());
            estimate(&outlook, key, Shown::default()).0.sold_out_likelihood.unwrap()
        };
        assert_eq!((likelihood(0, 0), likelihood(99, 0), likelihood(199, 0)), (1.0, 1.0, 0.0));
        assert!(likelihood(150, 0) > 0.4 && likelihood(150, 0) < 0.6);
        assert!(likelihood(199, 50) > 0.0, "those inside may buy too");
        let key = Standing::At(BucketStart(2).first_key());
        assert_eq!(estimate(&outlook(&table), key, Shown::default()).0.sold_out_likelihood, None);
    }

    #[test]
    fn what_is_told_before_the_bucket_has_closed_is_no_promise() {
        let bucket = BucketStart(5);
        let key = OrderKey::new(bucket, Fraction(1 << 31));
        let before = [end(0)];
        let alone = Outlook { beside: 1, ..outlook(&before) };
        let (first, shown) = estimate(&alone, Standing::Within(bucket), Shown::default());
        assert_eq!((first.position, first.progress, shown), ((1, 1), 0.0, Shown::default()));
        let uncounted = Outlook { beside: 50, ..outlook(&before) };
        for standing in [Standing::Within(bucket), Standing::Arriving(key)] {
            let (many, shown) = estimate(&uncounted, standing, shown);
            assert_eq!((many.position, shown), ((1, 50), Shown::default()));
        }
        let table = [row(5, 0, 0, 0), row(5, 1 << 30, 10, 0), row(6, 0, 50, 0), end(50)];
        let (closed, shown) = estimate(&outlook(&table), Standing::At(key), shown);
        assert_eq!((closed.position, shown), ((11, 50), Shown { upper: 50, first_position: 50 }));
        let late = [end(90)];
        let (stale, shown) = estimate(&outlook(&late), Standing::Within(bucket), shown);
        assert_eq!((stale.position.1, shown.upper), (50, 50), "an edge that hears late keeps the promise");
    }

    proptest! {
        #[test]
        fn progress_never_goes_back_whenever_the_bucket_closes(
            tables in prop::collection::vec((any_table(), 0_u32..99), 1..9), open in 0_usize..9, key in 0_u64..1 << 40
        ) {
            let (key, mut shown, mut progress) = (OrderKey(key), Shown::default(), 0.0);
            for (turn, (table, beside)) in tables.iter().enumerate() {
                let standing =
                    if turn < open { Standing::Within(key.bucket()) } else { Standing::At(key) };
                let outlook = Outlook { beside: *beside, ..outlook(table) };
                let (estimate, next) = estimate(&outlook, standing, shown);
                let (lower, upper) = estimate.position;
                prop_assert!(1 <= lower && lower <= upper);
                prop_assert!(turn >= open || upper >= (lower - 1).saturating_add(*beside));
                prop_assert!(turn <= open || upper <= shown.upper);
                prop_assert!(estimate.progress >= progress && estimate.progress <= 1.0);
                prop_assert_eq!(next == Shown::default(), turn < open);
                progress = estimate.progress;
                shown = next;
            }
        }

        #[test]
        fn the_upper_end_never_rises_and_progress_never_goes_back(
            tables in prop::collection::vec(any_table(), 1..8), key in 0_u64..1 << 40, rate in 0_f32..100.0
        ) {
            let mut shown = Shown::default();
            let mut progress = 0.0;
            for table in &tables {
                let outlook = Outlook { admit_rate: rate, ..outlook(table) };
                let (estimate, next) = estimate(&outlook, Standing::At(OrderKey(key)), shown);
                let (lower, upper) = estimate.position;
                prop_assert!(1 <= lower && lower <= upper);
                prop_assert!(shown.upper == 0 || upper <= shown.upper);
                prop_assert!(estimate.progress >= progress && estimate.progress <= 1.0);
                prop_assert_eq!(next.upper, upper);
                progress = estimate.progress;
                shown = next;
            }
        }

        #[test]
        fn who_is_ahead_has_no_greater_position(table in any_table(), a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
            // Uncertainty widens a range unevenly, so rows without it.
            let table: Vec<_> = table.into_iter().map(|row| TableRow { uncertainty: 0, ..row }).collect();
            let at = |key| {
                estimate(&outlook(&table), Standing::At(OrderKey(key)), Shown::default()).0.position
            };
            let (ahead, behind) = (at(a.min(b)), at(a.max(b)));
            prop_assert!(ahead.0 <= behind.0 && ahead.1 <= behind.1);
        }

        #[test]
        fn a_poll_is_a_second_to_two_fifths_of_the_heartbeat_away(
            lower in 0_u32..10_000_000, rate in 0_f32..1000.0, ttl in 10_u64..3600, jitter in -1.0..2.0
        ) {
            let table = [row(1, 0, lower, 0), end(lower + 1)];
            let outlook = Outlook { admit_rate: rate, ..outlook(&table) };
            let estimate = estimate(&outlook, Standing::Unkeyed, Shown::default()).0;
            let after = poll_after(&estimate, Duration::from_secs(ttl), jitter);
            prop_assert!(after >= Duration::from_secs(1), "{after:?}: a ticket may poll 60 times a minute");
            prop_assert!(after.as_secs_f64() <= ttl as f64 / 2.5 + 0.001);
        }
    }
}

//! The real binary under a rush of every kind of visitor, judged by what they saw: three orderings, with nothing, a
//! crash, a reload, a key rotation and a downtime in the middle. `ANTEROOM_LONG=1` makes the rushes those of a real sale.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that fails here says where")]

mod room;
mod rushed;

use anteroom_load::check::{Ordering, Verdict};
use rushed::{Happening, LONG, SHORT, rushed};

/// The share of capacity that is in use while anybody waits, in the rush of a real sale. Sessions of the short ones
/// last no longer than a dozen turns of a poll, and share two cores with other tests.
const UTILISATION: f64 = 0.95;
const SHORT_UTILISATION: f64 = 0.85;

fn is_long() -> bool {
    std::env::var_os("ANTEROOM_LONG").is_some()
}

async fn kept(happening: Happening) -> [Verdict; 3] {
    let size = if is_long() { LONG } else { SHORT };
    let verdicts = tokio::join!(
        rushed(size, Ordering::BucketedRandom, happening),
        rushed(size, Ordering::Fifo, happening),
        rushed(size, Ordering::Random, happening),
    );
    let verdicts = [verdicts.0, verdicts.1, verdicts.2];
    for verdict in &verdicts {
        let figures = &verdict.figures;
        assert!(figures.most_live + 1 >= size.capacity, "the room filled: {figures:?}");
        assert!(figures.log_records > 0, "the event's log was read");
    }
    verdicts
}

fn was_used([bucketed, fifo, random]: &[Verdict; 3]) {
    let wanted = if is_long() { UTILISATION } else { SHORT_UTILISATION };
    for (name, verdict) in [("bucketed", bucketed), ("fifo", fifo), ("random", random)] {
        let utilisation = verdict.figures.utilisation;
        assert!(utilisation.is_some_and(|share| share >= wanted), "{name}: utilisation {utilisation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rush_keeps_the_contract_in_every_ordering() {
    was_used(&kept(Happening::Nothing).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_loses_no_place_and_no_slot() {
    was_used(&kept(Happening::Kill).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_the_middle_is_not_noticed() {
    was_used(&kept(Happening::Reload).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_rotation_in_the_middle_is_not_noticed() {
    was_used(&kept(Happening::Rotation).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downtime_longer_than_the_heartbeat_ends_no_ticket() {
    was_used(&kept(Happening::Downtime).await);
}

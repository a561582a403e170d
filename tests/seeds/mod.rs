//! Seeds, as many as are asked for, on every core.
//!
//! `ANTEROOM_SIM_SEEDS` sets how many are run, `ANTEROOM_SIM_FIRST` the first of them (0).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

/// Whether the long form of a test is asked for.
pub(crate) fn long() -> bool {
    std::env::var_os("ANTEROOM_LONG").is_some()
}

/// The seeds that are asked for: 300, with `ANTEROOM_LONG` so many as `in_long`, unless their number is given.
pub(crate) fn asked(in_long: u64) -> Range<u64> {
    let first = number("ANTEROOM_SIM_FIRST").unwrap_or(0);
    let count = number("ANTEROOM_SIM_SEEDS").unwrap_or(if long() { in_long } else { 300 });
    first..first + count
}

/// Runs seeds on every core, in any order, and hands over what each came to.
pub(crate) fn run_all<T>(seeds: Range<u64>, run: impl Fn(u64) -> T + Sync, seen: impl FnMut(u64, T) + Send) {
    let next = AtomicU64::new(seeds.start);
    let seen = Mutex::new(seen);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(seed);
                    seen.lock().unwrap_or_else(PoisonError::into_inner)(seed, outcome);
                }
            });
        }
    });
}

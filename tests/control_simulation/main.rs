//! The fault simulation of the control layer: the real desk, raft, streams and storage of every node in one thread,
//! over a network in memory, while nodes are killed and frozen, links fail, disks are lost and clocks are wrong.
//!
//! A seed decides the script of faults, the network and the visitors. Raft draws its own patience and maps their own
//! order, so a seed that fails once may pass the next time: the failure prints its whole story.
//!
//! `ANTEROOM_SIM_SEEDS` sets how many seeds are run (300, with `ANTEROOM_LONG` 5,000), `ANTEROOM_SIM_FIRST` the first
//! of them (0).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that fails here says where"
)]

mod defects;
mod disk;
mod net;
mod node;
mod oracle;
mod script;
mod steps;
mod visitors;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use defects::Defect;
use net::Link;
use node::Death;
use script::{Fault, Script};
use world::{Outcome, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

fn seeds() -> u64 {
    let usual = if std::env::var_os("ANTEROOM_LONG").is_some() { 5_000 } else { 300 };
    number("ANTEROOM_SIM_SEEDS").unwrap_or(usual)
}

fn first_seed() -> u64 {
    number("ANTEROOM_SIM_FIRST").unwrap_or(0)
}

/// Runs seeds on every core, in any order, and hands each outcome over.
fn run_all(first: u64, count: u64, defect: Defect, seen: impl FnMut(u64, Outcome) + Send) {
    let next = AtomicU64::new(first);
    let seen = Mutex::new(seen);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = World::of_seed(seed, defect).run();
                    seen.lock().unwrap_or_else(PoisonError::into_inner)(seed, outcome);
                }
            });
        }
    });
}

/// Shows what the nodes log, if `ANTEROOM_SIM_LOG` says which of it: for one seed at a time.
fn show_logs() {
    if let Ok(filter) = std::env::var("ANTEROOM_SIM_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).try_init();
    }
}

#[test]
fn no_seed_breaks_the_contract() {
    show_logs();
    let (mut broken, mut admitted, mut restarts, mut replaced) = (Vec::new(), 0, 0, 0);
    let mut most_live = 0;
    run_all(first_seed(), seeds(), Defect::None, |seed, outcome| {
        admitted += u64::from(outcome.admitted);
        restarts += u64::from(outcome.restarts);
        replaced += u64::from(outcome.replaced);
        most_live = most_live.max(outcome.most_live);
        if !outcome.violations.is_empty() || std::env::var_os("ANTEROOM_SIM_STORY").is_some() {
            println!("{}", outcome.story);
            outcome
                .violations
                .iter()
                .for_each(|broken| println!("{:>6} BROKEN {}", broken.at_ms, broken.what));
        }
        if !outcome.violations.is_empty() {
            broken.push(seed);
        }
    });
    let count = seeds();
    println!(
        "{count} seeds: {admitted} let in, at most {most_live} at once, {restarts} restarts, {replaced} controllers \
         replaced"
    );
    assert!(broken.is_empty(), "these seeds break the contract: {broken:?}");
    assert!(admitted > 20 * count, "only {admitted} let in: the simulation stands still");
    assert!(restarts >= count, "only {restarts} restarts");
}

#[test]
fn controllers_half_a_heartbeat_apart_keep_a_leader() {
    show_logs();
    let link = Link { least: 20, most: 30, loss: 0.0 };
    for seed in 0..3 {
        let script = Script { controllers: 3, edges: 2, link, faults: Vec::new() };
        let outcome = World::new(seed, script, Defect::None).run();
        assert!(outcome.violations.is_empty(), "{:?}\n{}", outcome.violations, outcome.story);
        assert!(outcome.admitted > 25, "only {} let in\n{}", outcome.admitted, outcome.story);
    }
}

/// Nobody has heard of fleet time then but the log: only clocks say how long the fleet was away.
#[test]
fn nobody_loses_a_place_when_the_whole_fleet_starts_anew_and_a_clock_is_wrong() {
    show_logs();
    let nodes: Vec<u16> = (1..=5).collect();
    for (seed, wrong) in [(0, vec![1]), (1, vec![2, 3]), (2, nodes.clone())] {
        let mut faults: Vec<_> =
            wrong.into_iter().map(|node| (8_000, Fault::Wall { node, error: 40_000 })).collect();
        faults.push((8_100, Fault::Kill { nodes: nodes.clone(), death: Death::Process, down: 1_000 }));
        let script = Script { controllers: 3, edges: 2, link: Link::NEAR, faults };
        let outcome = World::new(seed, script, Defect::None).run();
        assert!(outcome.violations.is_empty(), "{:?}\n{}", outcome.violations, outcome.story);
    }
}

#[test]
fn every_defect_is_caught() {
    for defect in Defect::ALL {
        let mut caught = 0;
        run_all(0, 12, defect, |_, outcome| caught += u32::from(!outcome.violations.is_empty()));
        println!("{defect:?}: caught by {caught} of 12 seeds");
        assert!(caught > 0, "{defect:?} is not caught");
    }
}

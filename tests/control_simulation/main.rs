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
#[path = "../../src/control/storage/platter.rs"]
mod platter;
mod script;
#[path = "../seeds/mod.rs"]
mod seeds;
mod steps;
mod visitors;
mod world;

use defects::Defect;
use net::Link;
use node::Death;
use script::{Fault, Script};
use seeds::{asked, run_all};
use world::World;

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
    let seeds = asked(5_000);
    let count = seeds.end - seeds.start;
    let outcome = |seed| World::new(seed, Script::of_seed(seed), Defect::None).run();
    run_all(seeds, outcome, |seed, outcome| {
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
    println!(
        "{count} seeds: {admitted} let in, at most {most_live} at once, {restarts} restarts, {replaced} controllers \
         replaced"
    );
    assert!(broken.is_empty(), "these seeds break the contract: {broken:?}");
    assert!(admitted > 20 * count, "only {admitted} let in: the simulation stands still");
    // A few seeds say nothing of what all of them do.
    assert!(restarts >= count || count < 100, "only {restarts} restarts");
    assert!(replaced > 0 || count < 100, "no controller was replaced");
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
fn every_defect_is_caught_by_what_it_breaks_and_nothing_is_found_without_it() {
    show_logs();
    for defect in Defect::ALL {
        let mut caught = 0;
        let with_and_without = |seed| {
            let script = defect.script(seed);
            let clean = World::new(seed, script.clone(), Defect::None).run();
            (World::new(seed, script, defect).run(), clean)
        };
        run_all(0..12, with_and_without, |seed, (broken, clean)| {
            assert!(
                clean.violations.is_empty(),
                "seed {seed} without {defect:?}: {:?}\n{}",
                clean.violations,
                clean.story
            );
            let shows = |what: &str| defect.shows().iter().any(|sign| what.contains(sign));
            broken.violations.iter().for_each(|broken| println!("{defect:?}, seed {seed}: {}", broken.what));
            caught += u32::from(broken.violations.iter().any(|broken| shows(&broken.what)));
        });
        println!("{defect:?}: caught by {caught} of 12 seeds");
        assert!(caught > 0, "{defect:?} is not caught");
    }
}

//! The fault simulation: no seed breaks the contract, and every mutant is caught.
//!
//! `ANTEROOM_SIM_SEEDS` sets how many seeds are run (300, with `ANTEROOM_LONG` 10,000), `ANTEROOM_SIM_FIRST` the first of them (0).

mod seeds;

use anteroom::model::policy::Ordering;
use anteroom::simulation::{Mutant, Scenario};

use seeds::{asked, long, run_all};

#[test]
fn no_seed_breaks_the_contract() {
    let (mut broken, mut admitted, mut changes) = (Vec::new(), 0, 0);
    let seeds = asked(10_000);
    let count = seeds.end - seeds.start;
    run_all(
        seeds,
        |seed| Scenario::faulty(seed).run(),
        |seed, (figures, violations)| {
            admitted += figures.admitted;
            changes += figures.leader_changes;
            broken.extend(violations.into_iter().map(|violation| (seed, violation)));
        },
    );
    println!("{count} seeds, {admitted} visitors admitted, {changes} leader changes");
    broken.iter().for_each(|(seed, violation)| println!("seed {seed}: {violation:?}"));
    assert!(
        broken.is_empty(),
        "{} violations, the first: {:#?}",
        broken.len(),
        &broken[..broken.len().min(5)]
    );
    assert!(u64::from(admitted) > 20 * count, "only {admitted} admitted: the simulation stands still");
    assert!(u64::from(changes) >= count, "only {changes} leader changes");
}

/// A run that was forgotten while its windows still counted made lines seem short, and nearly everybody was called.
#[test]
fn nobody_is_forgotten_with_the_run_that_counted_them() {
    for seed in [1008, 4590, 9381, 9762] {
        let (_, violations) = Scenario::faulty(seed).run();
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        // Grants that outlive their bound do harm only where one is used after its edge has been silent.
        let runs = if mutant == Mutant::NoExpMax { 80 } else { 20 };
        let mut caught = 0;
        run_all(
            0..runs,
            |seed| {
                let restarts = mutant == Mutant::RowsDropped;
                let scenario = if restarts { Scenario::restarting(seed) } else { Scenario::faulty(seed) };
                // Ids are looked through once a minute: what is forgotten too early shows after that.
                let forgets = mutant == Mutant::ConsumedForgotten;
                let duration_s = if forgets { 180 } else { scenario.duration_s };
                Scenario { mutant, duration_s, ..scenario }.run()
            },
            |_, (_, violations)| caught += usize::from(!violations.is_empty()),
        );
        println!("{mutant:?}: caught by {caught} of {runs} seeds");
        assert!(caught > 0, "{mutant:?} is not caught");
    }
}

#[test]
fn a_line_moves_at_its_rate_while_slots_are_free() {
    let mut slow = Vec::new();
    for ordering in [Ordering::BucketedRandom, Ordering::Fifo, Ordering::Random] {
        // At several nodes visitors come to another one each time.
        for (per_sec, edges) in [(1, 1), (2, 1), (5, 3), (10, 1), (25, 3)] {
            let runs = if long() { 40 } else { 2 };
            let (mut sum, mut worst) = (0.0, f64::INFINITY);
            run_all(
                0..runs,
                |seed| Scenario { edges, ..Scenario::rated(seed, ordering, per_sec) }.run(),
                |seed, (figures, violations)| {
                    assert!(violations.is_empty(), "{per_sec} a second, seed {seed}: {violations:?}");
                    sum += figures.rate;
                    worst = worst.min(figures.rate);
                },
            );
            let mean = sum / runs as f64;
            println!("{ordering:?} at {per_sec} a second, {edges} nodes: {mean:.2}, worst {worst:.2}");
            if mean < 0.9 * f64::from(per_sec) {
                slow.push((ordering, per_sec, mean));
            }
        }
    }
    assert!(slow.is_empty(), "lines that are slower than their rate: {slow:?}");
}

#[test]
fn slots_stay_in_use_while_anybody_waits() {
    for ordering in [Ordering::BucketedRandom, Ordering::Fifo, Ordering::Random] {
        let runs = if long() { 100 } else { 2 };
        let (mut sum, mut worst) = (0.0, 1.0_f64);
        run_all(
            0..runs,
            |seed| Scenario::healthy(seed, ordering).run(),
            |seed, (figures, violations)| {
                assert!(violations.is_empty(), "seed {seed}: {violations:?}");
                sum += figures.utilisation;
                worst = worst.min(figures.utilisation);
            },
        );
        let mean = sum / runs as f64;
        println!("{ordering:?}: utilisation {mean:.4} over {runs} seeds, worst {worst:.4}");
        assert!(mean >= 0.97, "{ordering:?}: utilisation {mean:.4}");
    }
}

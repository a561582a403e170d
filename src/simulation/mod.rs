//! The model under a seeded fault schedule: N edges, leaders that are deposed and wake late, visitors who stay, vanish,
//! replay and leave, over a network that loses, doubles and delays (design §11).
//!
//! The code under test is the model itself: `State::apply`, `Leader`, `EdgeSlots`, `judge`, `honour`. What is simulated
//! is only what surrounds it. One number, the seed, decides everything.

mod edge;
mod faults;
mod network;
mod oracle;
mod steps;
mod visitors;
mod world;

pub use faults::{Faults, Mutant};
pub use oracle::{Figures, Violation};
pub use visitors::Polling;

use crate::model::policy::Ordering;

/// One run of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Decides everything that is random.
    pub seed: u64,
    /// How many edges serve.
    pub edges: u16,
    /// Slots.
    pub capacity: u32,
    /// Admissions per second.
    pub max_admit_per_sec: u32,
    /// How the line is ordered.
    pub ordering: Ordering,
    /// Visitors who arrive, in all.
    pub visitors: u32,
    /// How long they take to arrive, in simulated seconds.
    pub arrival_s: u32,
    /// How long the run takes, in simulated seconds.
    pub duration_s: u32,
    /// How long a session lasts if its visitor ends it, in simulated seconds.
    pub session_s: u32,
    /// How visitors in line ask.
    pub polling: Polling,
    /// What goes wrong.
    pub faults: Faults,
    /// What is broken on purpose.
    pub mutant: Mutant,
}

impl Scenario {
    /// A short sale under all faults.
    #[must_use]
    pub fn faulty(seed: u64) -> Self {
        let orderings = [Ordering::BucketedRandom, Ordering::Fifo, Ordering::Random];
        let pick = usize::try_from(seed).unwrap_or_default() % orderings.len();
        Self {
            seed,
            edges: 3,
            capacity: 30,
            max_admit_per_sec: 8,
            ordering: orderings.get(pick).copied().unwrap_or_default(),
            visitors: 260,
            arrival_s: 12,
            duration_s: 80,
            session_s: 6,
            polling: Polling::Eager,
            faults: Faults::All,
            mutant: Mutant::None,
        }
    }

    /// A short sale through power cuts.
    #[must_use]
    pub fn restarting(seed: u64) -> Self {
        Self { faults: Faults::Restarts, ..Self::faulty(seed) }
    }

    /// A sale in health on one node, for figures.
    #[must_use]
    pub fn healthy(seed: u64, ordering: Ordering) -> Self {
        Self {
            seed,
            edges: 1,
            capacity: 200,
            max_admit_per_sec: 20,
            ordering,
            visitors: 900,
            arrival_s: 20,
            duration_s: 120,
            session_s: 60,
            polling: Polling::Eager,
            faults: Faults::None,
            mutant: Mutant::None,
        }
    }

    /// A line at one node that only the rate holds back, of browsers that ask when they are told to.
    #[must_use]
    pub fn rated(seed: u64, ordering: Ordering, per_sec: u32) -> Self {
        Self {
            capacity: 10_000,
            max_admit_per_sec: per_sec,
            visitors: 150 + 150 * per_sec,
            arrival_s: 10,
            duration_s: 80,
            session_s: 300,
            polling: Polling::AsTold,
            ..Self::healthy(seed, ordering)
        }
    }

    /// Runs it; every violation of the contract is reported, with the simulated time.
    #[must_use]
    pub fn run(self) -> (Figures, Vec<Violation>) {
        match world::World::new(self) {
            Ok(world) => world.run(),
            Err(what) => (Figures::default(), vec![Violation { at_ms: 0, what }]),
        }
    }
}

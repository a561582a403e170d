//! What goes wrong in a run, drawn from its seed.

use anteroom::model::policy::Fields;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::net::Link;
use super::node::Death;
use super::world::{CAPACITY, HEARTBEAT_TTL_MS, MAX_ADMIT_PER_SEC};

/// When faults may begin, in milliseconds: a line has formed by then.
pub(crate) const FROM_MS: u64 = 3_000;

/// When everything is mended.
pub(crate) const MENDED_MS: u64 = 14_000;

/// When a run ends.
pub(crate) const END_MS: u64 = 32_000;

/// Something that goes wrong, and for how long, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Kill {
        nodes: Vec<u16>,
        death: Death,
        down: u64,
    },
    Freeze {
        node: u16,
        lasts: u64,
    },
    /// No way from the first to the second; both ways if so.
    Cut {
        from: u16,
        to: u16,
        both: bool,
        lasts: u64,
    },
    /// The nodes are cut off from the others.
    Split {
        nodes: Vec<u16>,
        lasts: u64,
    },
    /// Streams between the two break.
    Reset {
        a: u16,
        b: u16,
    },
    /// Everything between these nodes and others is slow, and much of it lost.
    Slow {
        nodes: Vec<u16>,
        more: u64,
        loss: f64,
        lasts: u64,
    },
    /// A wall clock is set wrong by so many milliseconds, for good.
    Wall {
        node: u16,
        error: i64,
    },
    /// The disk of a controller is lost; its operator removes it and adds it anew.
    LoseDisk {
        node: u16,
        death: Death,
        down: u64,
    },
    /// A controller is removed by its operator, and added anew with an empty disk.
    Replace {
        node: u16,
    },
    /// The signing key is rotated.
    RotateKey,
    /// Where that is what is broken on purpose: edges go on to hear the leader of this moment, whatever becomes of it.
    PulsesGoOn,
}

/// A run's size and what goes wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) controllers: u16,
    pub(crate) edges: u16,
    /// What the network is like while nothing is wrong with it.
    pub(crate) link: Link,
    /// In the order of their times.
    pub(crate) faults: Vec<(u64, Fault)>,
}

impl Script {
    /// The script of a seed.
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::draw(&mut SmallRng::seed_from_u64(seed))
    }

    pub(crate) fn draw(dice: &mut SmallRng) -> Self {
        let controllers = match dice.random_range(0..10) {
            0 => 1,
            1..=7 => 3,
            _ => 5,
        };
        let edges = dice.random_range(2..=if controllers == 5 { 2 } else { 4 });
        let mut script = Self { controllers, edges, link: Link::NEAR, faults: Vec::new() };
        let mut replaces = false;
        for _ in 0..dice.random_range(3..=9) {
            let at = dice.random_range(FROM_MS..MENDED_MS - 2_000);
            let fault = script.draw_fault(dice);
            let is_replacement = matches!(fault, Fault::LoseDisk { .. } | Fault::Replace { .. });
            if is_replacement && replaces {
                continue;
            }
            replaces |= is_replacement;
            script.faults.push((at, fault));
        }
        script.faults.sort_by_key(|(at, _)| *at);
        script
    }

    pub(crate) fn nodes(&self) -> u16 {
        self.controllers + self.edges
    }

    fn draw_fault(&self, dice: &mut SmallRng) -> Fault {
        let any = |dice: &mut SmallRng| dice.random_range(1..=self.nodes());
        let controller = |dice: &mut SmallRng| dice.random_range(1..=self.controllers);
        let death = if dice.random_bool(0.5) { Death::Process } else { Death::Power };
        let pair = |dice: &mut SmallRng| {
            let from = dice.random_range(1..=self.controllers);
            let to = dice.random_range(1..self.nodes());
            (from, if to >= from { to + 1 } else { to })
        };
        match dice.random_range(0..100) {
            0..=13 => {
                Fault::Kill { nodes: vec![controller(dice)], death, down: dice.random_range(100..5_000) }
            }
            14..=21 => Fault::Kill { nodes: vec![any(dice)], death, down: dice.random_range(100..5_000) },
            22..=27 => {
                let nodes = (1..=self.controllers).collect();
                Fault::Kill { nodes, death, down: dice.random_range(100..6_000) }
            }
            28..=30 => {
                let nodes = (1..=self.nodes()).collect();
                Fault::Kill { nodes, death, down: dice.random_range(100..6_000) }
            }
            31..=46 => Fault::Freeze { node: any(dice), lasts: dice.random_range(200..8_000) },
            47..=60 => {
                let (from, to) = pair(dice);
                let both = dice.random_bool(0.6);
                Fault::Cut { from, to, both, lasts: dice.random_range(500..9_000) }
            }
            61..=70 => {
                let nodes: Vec<u16> = (1..=self.nodes()).filter(|_| dice.random_bool(0.5)).collect();
                Fault::Split { nodes, lasts: dice.random_range(500..8_000) }
            }
            71..=74 => {
                let (a, b) = pair(dice);
                Fault::Reset { a, b }
            }
            75..=82 => {
                let nodes: Vec<u16> = (1..=self.nodes()).filter(|_| dice.random_bool(0.4)).collect();
                let (more, loss) = (dice.random_range(0..150), dice.random_range(0.0..0.3));
                Fault::Slow { nodes, more, loss, lasts: dice.random_range(1_000..8_000) }
            }
            83..=89 => {
                let error = dice.random_range(-60_000..=60_000);
                Fault::Wall { node: any(dice), error }
            }
            90..=93 if self.controllers > 1 => {
                let node = controller(dice);
                Fault::LoseDisk { node, death, down: dice.random_range(100..3_000) }
            }
            94..=96 if self.controllers > 1 => Fault::Replace { node: controller(dice) },
            _ => Fault::RotateKey,
        }
    }
}

/// The event's rules: times short enough that sessions and tickets end within a run.
pub(crate) fn fields(ordering: u64) -> Fields {
    let ordering = ["bucketed_random", "fifo", "random"][usize::try_from(ordering % 3).unwrap()];
    let value = serde_json::json!({
        "capacity": CAPACITY,
        "max_admit_per_sec": MAX_ADMIT_PER_SEC,
        "ordering": ordering,
        "bucket_seconds": if ordering == "fifo" { 1 } else { 5 },
        "session_ttl_s": 6,
        "session_max_s": 12,
        "pass_claim_s": 4,
        "heartbeat_ttl_s": HEARTBEAT_TTL_MS / 1_000,
        "ticket_max_s": 600,
        "renew_on": "navigation",
        "origin": "shop",
    });
    let serde_json::Value::Object(map) = value else { panic!() };
    map.into()
}

//! By what a history is judged.

use clap::ValueEnum;

/// The order in which a line is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// Buckets follow arrival, a draw decides inside.
    #[value(name = "bucketed_random", alias = "bucketed-random")]
    BucketedRandom,
    /// Strictly by arrival.
    Fifo,
    /// Everybody who waits is equally likely next.
    Random,
}

/// Whether the run had faults, which loosens the bound on the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing was broken on purpose.
    Healthy,
    /// Nodes or links were broken.
    Faulty,
}

/// Whether the fleet's time was that of the machine that wrote the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetTime {
    /// As far as answers under way let tell.
    AsHere,
    /// A node's clock was set wrong, and fleet time follows it slowly.
    Steered,
}

/// The promises that a history is held against. Times in microseconds.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How many passes may live at once.
    pub capacity: u64,
    /// `max_admit_per_sec`.
    pub rate: f64,
    /// How the line is ordered.
    pub ordering: Ordering,
    /// Whether faults were made.
    pub health: Health,
    /// How fleet time was kept.
    pub fleet_time: FleetTime,
    /// How much later than one edge the others of a fleet may know; 0 with one edge.
    pub slack_us: u64,
    /// `bucket_seconds`.
    pub bucket_us: u64,
    /// `heartbeat_ttl_s`.
    pub heartbeat_us: u64,
    /// `session_ttl_s`.
    pub session_us: u64,
    /// `session_max_s`.
    pub session_max_us: u64,
    /// `pass_claim_s`.
    pub claim_us: u64,
    /// No admission for this long, with free slots and somebody waiting, means that slots were lost.
    pub stall_us: u64,
    /// Draws less likely than this are no draws.
    pub least_p: f64,
    /// Times in which the capacity was less.
    pub lowered: Vec<Lowered>,
    /// Times, from and to, that are known to be outages, beside those that the history shows.
    pub outages: Vec<(u64, u64)>,
    /// Times, from and to, in which edges were away in turn without anybody noticing: silence may be forgiven.
    pub forgiving: Vec<(u64, u64)>,
}

/// A time in which a lower capacity was in effect: passes of before live on, and only what it leaves room for is minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// From when on, in microseconds.
    pub from_us: u64,
    /// Until when.
    pub to_us: u64,
    /// How many passes may live.
    pub capacity: u64,
}

/// A second.
pub const SECOND: u64 = 1_000_000;

impl Rules {
    /// The rules of an event with the defaults of the configuration and this capacity and rate.
    #[must_use]
    pub fn new(capacity: u64, rate: f64, ordering: Ordering) -> Self {
        Self {
            capacity,
            rate,
            ordering,
            health: Health::Healthy,
            fleet_time: FleetTime::AsHere,
            slack_us: 0,
            bucket_us: if ordering == Ordering::Fifo { SECOND } else { 60 * SECOND },
            heartbeat_us: 90 * SECOND,
            session_us: 600 * SECOND,
            session_max_us: 3_600 * SECOND,
            claim_us: 120 * SECOND,
            stall_us: 15 * SECOND,
            least_p: 1e-6,
            lowered: Vec::new(),
            outages: Vec::new(),
            forgiving: Vec::new(),
        }
    }

    /// The most passes that may be minted in a sliding second.
    #[must_use]
    pub fn most_mints(&self) -> f64 {
        match self.health {
            Health::Healthy => 1.25 * self.rate + 1.0,
            Health::Faulty => 2.0 * self.rate + 1.0,
        }
    }
}

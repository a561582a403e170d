//! What an edge tells the leader, and the leader an edge, every tick (design §3, `fleet.md` §5.4).
//!
//! Both messages are state, not deltas: lost, doubled, late and reordered ones do no harm.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::{BlockId, EventId, LedgerEpoch, LineEpoch, LogIndex, NodeRun, Tenure, TicketId, Weight};
use super::ledger::{Extend, Gate, KeyRecord, LiveChange, LiveSet, Revoke, Settle, Span};
use super::order::{BucketStart, OrderKey};
use super::policy::Policy;
use super::presence::Window;
use super::time::{BootTime, FleetTime};

/// What an edge tells the leader: every tick, and at once when a visitor waits for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Who reports.
    pub run: NodeRun,
    /// The number of the report; rises.
    pub number: u64,
    /// When it was sent, on the edge's clock; the pulse echoes it.
    pub sent: BootTime,
    /// The latest that fleet time can be at this edge; before its first pulse, what its wall clock shows.
    pub upper: FleetTime,
    /// The number of the newest pulse that this edge has taken, and whose it was.
    pub pulse_seen: Option<(Tenure, u64)>,
    /// The log index that the edge's live set is true for.
    pub live_index: LogIndex,
    /// The newest key version that the edge verifies by.
    pub keys_version: u64,
    /// Whether the edge is on its way out.
    pub stage: EdgeStage,
    /// The events in which this edge has something to say.
    pub events: Vec<EventReport>,
}

/// Where in its life an edge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeStage {
    /// Serves.
    Serving,
    /// Asks for no more grants; its last ones close.
    Draining,
    /// Everything is settled: this was the last report.
    Gone,
}

/// What an edge says of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventReport {
    /// The event.
    pub event: EventId,
    /// The line epoch that the counts belong to.
    pub line: LineEpoch,
    /// What became of grants, until the pulse acknowledges it.
    pub outbox: Vec<Settle>,
    /// First uses and renewals, until the pulse acknowledges them.
    pub extend: Vec<Extend>,
    /// Ended sessions and tickets, until the live set shows them.
    pub revoke: Vec<Revoke>,
    /// The heartbeat window that the counts were taken in.
    pub window: Window,
    /// Per bucket, ascending; only buckets that changed since the last acknowledged report, and the front ones.
    pub counts: Vec<BucketCount>,
    /// Whether anybody has been put in line since the pulse that this report has seen.
    pub put_in_line: bool,
    /// Whether somebody waits for a bucket to be keyed by.
    pub wants_bucket: bool,
    /// Newcomers who wait at this moment for a slot, held or in need of a top-up.
    pub held: u32,
    /// Called visitors who asked, without `hold`, within two of their poll intervals, and have no pass.
    pub called_asking: u32,
    /// How many called tickets were counted for the first time as called in the last minute at this edge.
    pub called_last_minute: u32,
    /// Passes minted for called tickets in the last minute at this edge.
    pub claimed_last_minute: u32,
    /// Passes minted in the last minute at this edge, by the line and without it.
    pub admitted_last_minute: u32,
    /// Recent arrivals per second that express could serve.
    pub express_rate: f32,
}

/// One run's counts of one bucket. For `random` a bucket is a whole part of the clock.
///
/// Tickets that wait are counted by the heartbeat window that they were seen in last. Who is seen in a newer one is
/// taken out of the one before, also if another run counted it there: the sums over all runs count each ticket once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketCount {
    /// The bucket.
    pub bucket: BucketStart,
    /// Tickets keyed into it by this run, ever.
    pub joined: u32,
    /// Tickets that this run has counted though whoever counted them before does so no longer, ever.
    pub returned: u32,
    /// By window, ascending; windows in which nothing is to be said are left out.
    pub seen: Vec<Presence>,
    /// Whether so many full windows that nothing of before counts have passed since this run began to count this line.
    pub full: bool,
}

/// Tickets of a bucket that were last seen in one heartbeat window, less those of other runs who were seen since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The window.
    pub window: Window,
    /// How many; below zero if most of them were counted by other runs.
    pub alive: i32,
    /// `alive` by slice of the bucket's keys (`SLICES` of them); empty for buckets far from the front or undrawn.
    pub slices: Vec<i32>,
}

/// What the leader tells an edge: every tick after the commit, and at once for top-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pulse {
    /// Whose it is: a pulse of an earlier leader is ignored.
    pub tenure: Tenure,
    /// The number of the pulse among that leader's; rises.
    pub number: u64,
    /// To whom.
    pub run: NodeRun,
    /// The log index that this pulse is true for.
    pub index: LogIndex,
    /// Fleet time.
    pub now: FleetTime,
    /// The report that this answers.
    pub report: u64,
    /// When that report was sent, on the edge's clock.
    pub echo: BootTime,
    /// The ledger's epoch.
    pub ledger: LedgerEpoch,
    /// The keys, if the edge has not acknowledged the newest version.
    pub keys: Option<KeySet>,
    /// Forgiven spans, all of them.
    pub spans: Arc<Vec<Span>>,
    /// The events, all of them.
    pub events: Vec<EventPulse>,
}

/// The signing keys that an edge verifies by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeySet {
    /// Rises with every change.
    pub version: u64,
    /// The keys, ascending by id.
    pub keys: Vec<KeyRecord>,
}

/// What the leader says of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPulse {
    /// The event.
    pub event: EventId,
    /// Rises with every change of the policy: the ETag.
    pub version: u64,
    /// The policy.
    pub policy: Arc<Policy>,
    /// The line's epoch.
    pub line: LineEpoch,
    /// The secret that draws are made with (design §3 *Keys*).
    pub draw_secret: [u8; 32],
    /// The lottery of a scheduled event: its bucket, and its order once the bucket has closed.
    pub lottery: Option<Lottery>,
    /// Express, about to reopen, or a line.
    pub gate: Gate,
    /// Tickets below it are called.
    pub watermark: OrderKey,
    /// Joins are keyed above it.
    pub floor: OrderKey,
    /// The buckets that joins are keyed by, ascending: the last one whose start is not in the future counts.
    pub buckets: Vec<BucketStart>,
    /// Slots to spend; replaces what is unspent of the last grant.
    pub grant: Option<Grant>,
    /// The leader has no slot or no credit: a newcomer who waits for one is put in line.
    pub refused: bool,
    /// Which of the outbox is in the log: block, settled numbers, whether its closing is.
    pub settled: Vec<Settled>,
    /// How the live set has changed since the index that the edge reported.
    pub live: LiveUpdate,
    /// How many wait, up to each of at most 64 keys, ascending and cumulative.
    pub table: Arc<Vec<TableRow>>,
    /// Admissions per second over the last minute, by the line and without it.
    pub admit_rate: f32,
    /// How many of the line are likely to be admitted per second: what waits are estimated by.
    pub pace: f32,
    /// Slots that are neither live nor promised.
    pub slots_free: u32,
    /// Rate credit left, as a share of its cap, 0..=1.
    pub credit_share: f32,
    /// Live passes.
    pub live_passes: u32,
    /// Tickets that wait, the called ones who have no pass included.
    pub waiting: u32,
}

/// A lottery: everybody who joins before the opening goes into one bucket with an order of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lottery {
    /// The bucket: the start of the prequeue.
    pub bucket: BucketStart,
    /// The hash of the seed, published before the prequeue begins.
    pub commitment: [u8; 32],
    /// `H(seed ‖ joins per node at close)`, once the bucket has closed: draws in it are made with this.
    pub order: Option<[u8; 32]>,
    /// The seed, published after the close.
    pub seed: Option<[u8; 32]>,
}

/// Slots of a committed block, handed to one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The block.
    pub block: BlockId,
    /// How many slots.
    pub slots: u32,
    /// How long they may be spent, counted from the sending of the report that the pulse echoes.
    pub life: Duration,
    /// No unclaimed pass minted from it outlives this.
    pub exp_max: FleetTime,
}

/// What the log has settled of one block for one edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The block.
    pub block: BlockId,
    /// The settled numbers that the report still carried.
    pub numbers: Vec<u32>,
    /// Whether its closing is in the log, or the block itself is gone.
    pub closed: bool,
}

/// How an edge's live set becomes the leader's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LiveUpdate {
    /// Changes since the index that the edge reported, in order.
    Changes(Vec<(LogIndex, LiveChange)>),
    /// The whole set, since the edge's is too old.
    Whole(Box<LiveSet>),
}

impl LiveUpdate {
    /// The passes that it ends; `None`: it does not say.
    #[must_use]
    pub fn ended(&self) -> Option<Vec<TicketId>> {
        let Self::Changes(changes) = self else { return None };
        let ended = changes.iter().filter_map(|(_, change)| match change {
            LiveChange::Live(..) => None,
            LiveChange::Unclaimed(id, _) | LiveChange::Consumed(id, _) | LiveChange::Left(id, _) => Some(*id),
        });
        Some(ended.collect())
    }

    /// The set that `known` becomes by an update that is true for `index`.
    #[must_use]
    pub fn applied_to(self, known: &LiveSet, index: LogIndex) -> LiveSet {
        match self {
            Self::Whole(live) if live.index >= known.index => *live,
            Self::Whole(_) => known.clone(),
            Self::Changes(changes) => {
                let mut live = known.clone();
                for (at, change) in changes.iter().filter(|(at, _)| *at > known.index) {
                    live.apply(*at, change);
                }
                live.index = live.index.max(index);
                live
            }
        }
    }
}

/// One row of the table of those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// The key.
    pub key: OrderKey,
    /// How many wait below that key, the called ones included.
    pub waiting: u32,
    /// How far off that may be, in tickets.
    pub uncertainty: u32,
}

/// The weight of every visitor of the default line.
pub const DEFAULT_WEIGHT: Weight = Weight::ONE;

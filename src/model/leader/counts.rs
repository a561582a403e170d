//! How many wait where: what edges report, over what the log keeps of runs that do not report any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::exchange::BucketCount;
use crate::model::ids::{Generation, NodeId, NodeRun};
use crate::model::ledger::{RowState, waiting_of_runs};
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::pacing::{Cell, nearly_over};

/// Until every window is full, at least this share of those who joined and were not called counts as waiting.
const LEAST_SHARE: f64 = 0.05;

/// What a row stands for that says that nobody waits, though joins could still follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unstated {
    /// A ticket, so that the watermark goes through its bucket step by step.
    One,
    /// Nobody: what visitors are told follows what is known.
    None,
}

/// The counts of one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    buckets: BTreeMap<BucketStart, Bucket>,
    /// The cell that the watermark is in, and how many waited in it when the watermark came.
    front: Option<(OrderKey, f64)>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    counts: Vec<(NodeRun, BucketCount)>,
    /// Rows of runs that have not reported of this bucket to this leader.
    rows: Vec<(NodeRun, RowState)>,
    /// How many wait while none of the bucket is called; kept, since a line can have ten thousand buckets.
    whole: Option<f64>,
}

impl Counts {
    /// Counts of a new term or line: all that is known is what the log keeps.
    pub(super) fn from_rows<'a>(
        rows: impl Iterator<Item = (&'a (BucketStart, NodeRun), &'a RowState)>,
    ) -> Self {
        let mut counts = Self::default();
        for ((bucket, run), row) in rows {
            counts.buckets.entry(*bucket).or_default().rows.push((*run, *row));
        }
        counts
    }

    /// Takes what a run says of a bucket; it stands above the run's row.
    pub(super) fn take(&mut self, run: NodeRun, count: BucketCount) {
        let bucket = self.buckets.entry(count.bucket).or_default();
        bucket.whole = None;
        bucket.rows.retain(|(of, _)| *of != run);
        match bucket.counts.iter_mut().find(|(of, _)| *of == run) {
            Some((_, known)) => *known = count,
            None => bucket.counts.push((run, count)),
        }
    }

    /// Whether a newer run of the node counts what this one left behind, over windows that are full.
    pub(super) fn is_replaced(&self, run: NodeRun) -> bool {
        let newer = |(of, count): &(NodeRun, BucketCount)| {
            of.node == run.node && of.generation > run.generation && count.full
        };
        let stands = |bucket: &&Bucket| bucket.rows.iter().any(|(of, _)| *of == run);
        self.buckets.values().filter(stands).any(|bucket| bucket.counts.iter().any(newer))
    }

    /// Forgets runs: their rows have been dropped from the log.
    pub(super) fn forget(&mut self, runs: &[NodeRun]) {
        for bucket in self.buckets.values_mut() {
            let before = bucket.rows.len() + bucket.counts.len();
            bucket.rows.retain(|(run, _)| !runs.contains(run));
            bucket.counts.retain(|(run, _)| !runs.contains(run));
            if bucket.rows.len() + bucket.counts.len() != before {
                bucket.whole = None;
            }
        }
    }

    /// The runs whose rows stand though they do not report.
    pub(super) fn standing(&self) -> BTreeSet<NodeRun> {
        self.buckets.values().flat_map(|bucket| bucket.rows.iter().map(|(run, _)| *run)).collect()
    }

    /// What a run last said of a bucket.
    pub(super) fn count(&self, bucket: BucketStart, run: NodeRun) -> Option<&BucketCount> {
        let counts = &self.buckets.get(&bucket)?.counts;
        counts.iter().find(|(of, _)| *of == run).map(|(_, count)| count)
    }

    /// The last bucket that anybody was keyed into.
    pub(super) fn last_joined(&self) -> Option<BucketStart> {
        self.buckets.iter().rev().find(|(_, bucket)| bucket.joined() > 0).map(|(start, _)| *start)
    }

    /// Follows the watermark: buckets below it are over, and the cell that it is in is known to have been whole.
    pub(super) fn follow(&mut self, watermark: OrderKey) {
        if self.buckets.first_key_value().is_some_and(|(first, _)| *first < watermark.bucket()) {
            self.buckets = self.buckets.split_off(&watermark.bucket());
        }
        let start = watermark.bucket();
        let Some(bucket) = self.buckets.get_mut(&start) else {
            self.front = None;
            return;
        };
        bucket.whole = None;
        let cell = OrderKey::slice_start(start, watermark.slice());
        let told = bucket.slice(watermark.slice());
        self.front = match self.front {
            Some((at, entered)) if at == cell => Some((cell, entered.max(told))),
            // The watermark came from below, so the edges have counted the cell as a whole.
            Some((at, _)) if at < cell => Some((cell, told)),
            // Nothing is known of before: what is told is what is left.
            _ => {
                let left = (OrderKey::slice_start(start, watermark.slice() + 1).0 - watermark.0) as f64;
                Some((cell, told * (1_u64 << 26) as f64 / left.max(1.0)))
            }
        };
    }

    /// How many wait above the watermark.
    pub(super) fn waiting(&mut self, watermark: OrderKey) -> f64 {
        let front = self.front;
        self.buckets
            .range_mut(watermark.bucket()..)
            .map(|(start, bucket)| {
                if *start == watermark.bucket() {
                    return bucket.slices(*start, watermark, front, Unstated::None).iter().sum();
                }
                let total = || bucket_total(bucket, *start, start.first_key(), Unstated::None);
                let whole = bucket.whole.unwrap_or_else(total);
                bucket.whole = Some(whole);
                whole
            })
            .sum()
    }

    /// How many wait in one bucket, above the watermark.
    pub(super) fn waiting_in(&self, start: BucketStart, watermark: OrderKey) -> f64 {
        let slices = |bucket: &Bucket| bucket.slices(start, watermark, self.front, Unstated::One);
        self.buckets.get(&start).map_or(0.0, |bucket| slices(bucket).iter().sum())
    }

    /// The cells above the watermark that anybody may be in, slice by slice; a bucket is looked into only when the iterator gets there.
    pub(super) fn cells(&self, watermark: OrderKey) -> impl Iterator<Item = Cell> + '_ {
        let holds = |(_, bucket): &(&BucketStart, &Bucket)| {
            !bucket.rows.is_empty() || bucket.whole.is_none_or(|waiting| waiting > 0.0)
        };
        self.buckets.range(watermark.bucket()..).filter(holds).flat_map(move |(start, bucket)| {
            let slices = bucket.slices(*start, watermark, self.front, Unstated::One);
            let start = *start;
            slices.into_iter().enumerate().map(move |(slice, waiting)| Cell {
                from: OrderKey::slice_start(start, slice).max(watermark.min(start.next().first_key())),
                to: OrderKey::slice_start(start, slice + 1),
                waiting,
            })
        })
    }

    /// The cells above the watermark as a table needs them: the first few buckets by slices, the others whole.
    pub(super) fn coarse_cells(&mut self, watermark: OrderKey) -> Vec<Cell> {
        const BY_SLICES: usize = 3;
        // Fills what is kept of each bucket.
        self.waiting(watermark);
        let mut cells = Vec::with_capacity(self.buckets.len() + BY_SLICES * SLICES);
        let mut fine = 0;
        for (start, bucket) in self.buckets.range(watermark.bucket()..) {
            if fine < BY_SLICES && (bucket.is_sliced() || *start == watermark.bucket()) {
                fine += 1;
                let slices = bucket.slices(*start, watermark, self.front, Unstated::None);
                cells.extend(slices.into_iter().enumerate().map(|(slice, waiting)| Cell {
                    from: OrderKey::slice_start(*start, slice),
                    to: OrderKey::slice_start(*start, slice + 1),
                    waiting,
                }));
            } else {
                let waiting = bucket.whole.unwrap_or_default();
                cells.push(Cell { from: start.first_key(), to: start.next().first_key(), waiting });
            }
        }
        cells
    }

    /// The first bucket that a run of before may have more tickets in than it said, unless all but 2^-16 of it is
    /// called: it is not left yet, whatever the counts say.
    pub(super) fn first_doubtful(&self, watermark: OrderKey) -> Option<BucketStart> {
        let doubtful = |(start, bucket): &(&BucketStart, &Bucket)| {
            let not_empty = |(_, row): &(NodeRun, RowState)| row.stated_open || row.alive > 0;
            nearly_over(**start) > watermark && bucket.rows.iter().any(not_empty)
        };
        self.buckets.range(watermark.bucket()..).find(doubtful).map(|(start, _)| *start)
    }
}

impl Bucket {
    fn joined(&self) -> u64 {
        let counts = self.counts.iter().map(|(_, count)| u64::from(count.joined));
        let rows = self.rows.iter().map(|(_, row)| u64::from(row.joined));
        counts.chain(rows).sum()
    }

    fn is_sliced(&self) -> bool {
        self.counts.iter().any(|(_, count)| count.is_sliced())
    }

    /// What the edges tell of one slice.
    fn slice(&self, slice: usize) -> f64 {
        let told = |count: &BucketCount| match count.slices.get(slice) {
            Some(waiting) => f64::from(*waiting),
            None => f64::from(count.alive) / SLICES as f64,
        };
        self.counts.iter().map(|(_, count)| told(count)).sum()
    }

    /// How many wait above the watermark, by slices: as told, and what is not told evenly.
    fn slices(
        &self,
        start: BucketStart,
        watermark: OrderKey,
        front: Option<(OrderKey, f64)>,
        unstated: Unstated,
    ) -> [f64; SLICES] {
        let from = watermark.max(start.first_key());
        let share = |slice: usize| {
            let (begin, end) = (OrderKey::slice_start(start, slice), OrderKey::slice_start(start, slice + 1));
            (end.0.saturating_sub(from.0.max(begin.0))) as f64 / (end.0 - begin.0) as f64
        };
        let mut slices = [0.0; SLICES];
        for (slice, waiting) in slices.iter_mut().enumerate() {
            let share = share(slice);
            if share <= 0.0 {
                continue;
            }
            let told = self.slice(slice);
            let entered = front.filter(|(at, _)| *at == OrderKey::slice_start(start, slice));
            // An edge may count the called part of the slice or leave it out; both come out right.
            *waiting = entered.map_or(told * share, |(_, entered)| told.min(entered * share));
        }
        let total: f64 = slices.iter().sum();
        let missing = bucket_total(self, start, from, unstated) - total;
        let shares: f64 = (0..SLICES).map(share).sum();
        if missing > 0.0 && shares > 0.0 && !(self.rows.is_empty() && self.all_full()) {
            for (slice, waiting) in slices.iter_mut().enumerate() {
                *waiting += missing * share(slice) / shares;
            }
        }
        slices
    }

    fn all_full(&self) -> bool {
        self.counts.iter().all(|(_, count)| count.full)
    }
}

/// How many wait in a bucket above `from`, with the rows that stand.
fn bucket_total(bucket: &Bucket, start: BucketStart, from: OrderKey, unstated: Unstated) -> f64 {
    let Bucket { counts, rows, .. } = bucket;
    let (begin, end) = (start.first_key(), start.next().first_key());
    let above = |at: OrderKey| {
        let of = end.0.saturating_sub(at.0.max(begin.0)) as f64;
        let left = end.0.saturating_sub(from.0.max(at.0).max(begin.0)) as f64;
        if of > 0.0 { left / of } else { 0.0 }
    };
    let told = |count: &BucketCount| {
        if count.is_sliced() {
            let first = OrderKey(from.0.max(begin.0));
            let part = |(slice, waiting): (usize, &u32)| {
                let slice_end = OrderKey::slice_start(start, slice + 1).0;
                let slice_start = OrderKey::slice_start(start, slice).0.max(first.0);
                f64::from(*waiting) * slice_end.saturating_sub(slice_start) as f64 / (1_u64 << 26) as f64
            };
            count.slices.iter().enumerate().map(part).sum()
        } else {
            f64::from(count.alive) * above(begin)
        }
    };
    let least = |joined: u32| LEAST_SHARE * f64::from(joined) * above(begin);
    if rows.is_empty() {
        let of = |count: &BucketCount| told(count).max(if count.full { 0.0 } else { least(count.joined) });
        return counts.iter().map(|(_, count)| of(count)).sum();
    }
    let mut nodes: BTreeMap<NodeId, BTreeMap<Generation, RunTotal>> = BTreeMap::new();
    for (run, row) in rows {
        let counts_one = row.stated_open && unstated == Unstated::One;
        let open = if counts_one { above(begin) } else { 0.0 };
        let total = RunTotal {
            joined: f64::from(row.joined) * above(begin),
            alive: f64::from(row.alive) * above(row.at),
            least: least(row.joined),
            open,
        };
        nodes.entry(run.node).or_default().insert(run.generation, total);
    }
    for (run, count) in counts {
        let least = if count.full { 0.0 } else { least(count.joined) };
        let joined = f64::from(count.joined) * above(begin);
        let total = RunTotal { joined, alive: told(count), least, open: 0.0 };
        nodes.entry(run.node).or_default().insert(run.generation, total);
    }
    nodes.values().map(node_total).sum()
}

/// What one run says of a bucket, above a key.
#[derive(Clone, Copy, Debug)]
struct RunTotal {
    joined: f64,
    alive: f64,
    /// The share of those who joined that counts as waiting in any case.
    least: f64,
    /// One ticket at least, where joins could still follow.
    open: f64,
}

/// How many the runs of one node come to. Rows of before stand against reading empty: their tickets may come back, and
/// those that have are in the new run's count. At another node they would count twice until the rows are over, since
/// nobody can tell them from that node's own.
fn node_total(runs: &BTreeMap<Generation, RunTotal>) -> f64 {
    let waiting = waiting_of_runs(runs.values().map(|run| (run.joined, run.alive)));
    let least: f64 = runs.values().map(|run| run.least).sum();
    let open = runs.values().map(|run| run.open).fold(0.0, f64::max);
    waiting.max(least).max(open)
}

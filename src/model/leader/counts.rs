//! How many wait where: what edges report, over what the log keeps of runs that do not report any more.

use std::collections::{BTreeMap, BTreeSet};

use super::bucket::{Bucket, Unstated};
use super::told::Told;
use crate::model::exchange::BucketCount;
use crate::model::ids::NodeRun;
use crate::model::ledger::{Line, RowState};
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::pacing::{Cell, nearly_over};
use crate::model::presence::Window;

/// The counts of one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    buckets: BTreeMap<BucketStart, Bucket>,
    /// The cell that the watermark is in, and how many waited in it when the watermark came.
    front: Option<(OrderKey, f64)>,
    /// The first window that counts. All runs are summed over the same ones, for what one run has counted in a window
    /// another may have taken out of it.
    cut: Window,
    /// The runs that report.
    heard: BTreeSet<NodeRun>,
    /// Rows that have become other ones here.
    changed: Vec<(BucketStart, NodeRun)>,
}

impl Counts {
    /// Counts of a new tenure or line: all that is known is what the log keeps.
    pub(super) fn from_rows<'a>(
        rows: impl Iterator<Item = (&'a (BucketStart, NodeRun), &'a RowState)>,
    ) -> Self {
        let mut counts = Self::default();
        for ((bucket, run), row) in rows {
            counts.buckets.entry(*bucket).or_default().rows.push((*run, *row));
        }
        counts
    }

    /// Takes note of who reports, and that tickets live of the windows from `cut` on only.
    ///
    /// Whom a silent run has seen last stands in its row from then on: its visitors may come back to it.
    pub(super) fn attend(&mut self, heard: BTreeSet<NodeRun>, cut: Window, line: &Line) {
        if heard != self.heard {
            self.heard = heard;
            for (start, bucket) in &mut self.buckets {
                let stated = |run: &NodeRun| line.rows.get(&(*start, *run));
                bucket.stand_in(&self.heard, |run| stated(run).is_none_or(|row| row.stated_open));
            }
        }
        if cut > self.cut {
            let before = std::mem::replace(&mut self.cut, cut);
            for (start, bucket) in &mut self.buckets {
                let changed = bucket.outlive(before..cut, *start, line.watermark, &self.heard);
                self.changed.extend(changed.into_iter().map(|run| (*start, run)));
            }
        }
    }

    /// Takes what a run says of a bucket; it stands above the run's row.
    pub(super) fn take(&mut self, run: NodeRun, count: BucketCount, watermark: OrderKey) {
        let start = count.bucket;
        let bucket = self.buckets.entry(start).or_default();
        bucket.whole = None;
        let rows = bucket.rows.len();
        bucket.rows.retain(|(of, _)| *of != run);
        let told = Told::new(count, self.cut);
        let known = bucket.counts.iter_mut().find(|(of, _)| *of == run);
        let before = match &known {
            Some((_, known)) => known.returned(),
            // The log has what this run has told another leader.
            None if bucket.rows.len() < rows => told.returned(),
            None => 0,
        };
        let returned = told.returned().saturating_sub(before);
        match known {
            Some((_, known)) => *known = told,
            None => bucket.counts.push((run, told)),
        }
        let lowered = bucket.lower(returned, start, watermark, &self.heard);
        self.changed.extend(lowered.into_iter().map(|run| (start, run)));
    }

    /// Rows of silent runs that have changed since this was called last.
    pub(super) fn changed(&mut self) -> Vec<(BucketStart, NodeRun)> {
        std::mem::take(&mut self.changed)
    }

    /// Whether a newer run of the node counts what this one left behind, over windows that are full.
    pub(super) fn is_replaced(&self, run: NodeRun) -> bool {
        let newer = |(of, _): &&(NodeRun, Told)| of.node == run.node && of.generation > run.generation;
        let stands = |bucket: &&Bucket| bucket.rows.iter().any(|(of, _)| *of == run);
        let mut counts =
            self.buckets.values().filter(stands).flat_map(|bucket| &bucket.counts).filter(newer).peekable();
        // A bucket that was opened since is full from the start, and says nothing of those of before.
        counts.peek().is_some() && counts.all(|(_, told)| told.is_full())
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

    /// How many tickets of a bucket a run has keyed, and how many wait of those that it counts.
    pub(super) fn of_run(&self, bucket: BucketStart, run: NodeRun) -> Option<(u32, u32)> {
        let Bucket { counts, rows, .. } = self.buckets.get(&bucket)?;
        let told = counts.iter().find(|(of, _)| *of == run).map(|(_, told)| told);
        let row = rows.iter().find(|(of, _)| *of == run).map(|(_, row)| row);
        let joined = told.map(Told::joined).or(row.map(|row| row.joined))?;
        let alive = told.map_or(0, Told::alive) + row.map_or(0, |row| i64::from(row.alive));
        Some((joined, u32::try_from(alive.max(0)).unwrap_or(u32::MAX)))
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
        let told = bucket.told_slices().get(watermark.slice()).copied().unwrap_or_default();
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
                let total = || bucket.total(*start, start.first_key(), Unstated::None);
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

//! How many wait in one bucket: what the edges tell, and the rows of runs that do not report.

use std::collections::BTreeSet;
use std::ops::Range;

use super::told::Told;
use crate::model::ids::NodeRun;
use crate::model::ledger::RowState;
use crate::model::order::{BucketStart, OrderKey, SLICES};
use crate::model::presence::Window;

/// Until every window is full, at least this share of those who joined and were not called counts as waiting.
const LEAST_SHARE: f64 = 0.05;

/// The keys of a slice.
const SLICE_KEYS: f64 = (1_u64 << 26) as f64;

/// What a row stands for that says that nobody waits, though joins could still follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unstated {
    /// A ticket, so that the watermark goes through its bucket step by step.
    One,
    /// Nobody: what visitors are told follows what is known.
    None,
}

/// The counts of one bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    pub(super) counts: Vec<(NodeRun, Told)>,
    /// Rows of runs that have not reported of this bucket to this leader, or do not any more.
    pub(super) rows: Vec<(NodeRun, RowState)>,
    /// How many wait while none of the bucket is called; kept, since a line can have ten thousand buckets.
    pub(super) whole: Option<f64>,
}

impl Bucket {
    pub(super) fn joined(&self) -> u64 {
        let counts = self.counts.iter().map(|(_, told)| u64::from(told.joined()));
        let rows = self.rows.iter().map(|(_, row)| u64::from(row.joined));
        counts.chain(rows).sum()
    }

    pub(super) fn is_sliced(&self) -> bool {
        self.counts.iter().any(|(_, told)| told.is_sliced())
    }

    /// A row for each run that has fallen silent; `stated_open` says whether joins could still follow what it stated.
    pub(super) fn stand_in(&mut self, heard: &BTreeSet<NodeRun>, stated_open: impl Fn(&NodeRun) -> bool) {
        for (run, told) in self.counts.iter().filter(|(run, _)| !heard.contains(run)) {
            if self.rows.iter().all(|(of, _)| of != run) {
                let at = OrderKey::default();
                let row = RowState { joined: told.joined(), alive: 0, at, stated_open: stated_open(run) };
                self.rows.push((*run, row));
                self.whole = None;
            }
        }
    }

    /// Windows are over: who was seen in them last, and by a run that is silent, is left in its row. Returns whose rows
    /// have changed.
    pub(super) fn outlive(
        &mut self,
        windows: Range<Window>,
        start: BucketStart,
        watermark: OrderKey,
        heard: &BTreeSet<NodeRun>,
    ) -> Vec<NodeRun> {
        self.whole = None;
        let left: i64 = self.counts.iter().map(|(_, told)| told.between(&windows)).sum();
        // Fewer than nobody: who was counted by a run that this leader never heard was seen elsewhere since.
        let mut changed = self.lower(u32::try_from(-left).unwrap_or_default(), start, watermark, heard);
        let mut left = u32::try_from(left).unwrap_or_default();
        for (run, told) in &mut self.counts {
            told.sum(windows.end);
            if heard.contains(run) {
                continue;
            }
            let stays = u32::try_from(told.between(&windows)).unwrap_or_default().min(left);
            if let Some((_, row)) = self.rows.iter_mut().find(|(of, _)| of == run)
                && stays > 0
            {
                left -= stays;
                let from = watermark.max(start.first_key());
                let now = |alive: u32, at| (f64::from(alive) * part_above(start, at, from)).ceil() as u32;
                row.alive = now(row.alive, row.at) + now(stays, start.first_key());
                row.at = row.at.max(from);
                changed.push(*run);
            }
        }
        changed
    }

    /// Takes so many tickets out of the rows of runs that are silent, the oldest first: other runs count them by now.
    /// Returns whose rows have changed.
    pub(super) fn lower(
        &mut self,
        mut by: u32,
        start: BucketStart,
        watermark: OrderKey,
        heard: &BTreeSet<NodeRun>,
    ) -> Vec<NodeRun> {
        let mut lowered = Vec::new();
        if by == 0 {
            return lowered;
        }
        self.whole = None;
        self.rows.sort_unstable_by_key(|(run, _)| (run.generation, run.node));
        let from = watermark.max(start.first_key());
        for (run, row) in self.rows.iter_mut().filter(|(run, _)| !heard.contains(run)) {
            let alive = (f64::from(row.alive) * part_above(start, row.at, from)).ceil() as u32;
            let taken = alive.min(by);
            if taken > 0 {
                by -= taken;
                (row.alive, row.at) = (alive - taken, row.at.max(from));
                lowered.push(*run);
            }
        }
        lowered
    }

    /// What the edges tell of the slices. The draw of a lottery moves tickets to other slices than they were counted in:
    /// what that leaves below zero is missing from the others.
    pub(super) fn told_slices(&self) -> [f64; SLICES] {
        let mut slices = [0.0; SLICES];
        for (slice, told) in slices.iter_mut().enumerate() {
            *told = self.counts.iter().map(|(_, told)| told.slice(slice)).sum();
        }
        let (sum, above) = (slices.iter().sum::<f64>(), slices.iter().map(|told| told.max(0.0)).sum::<f64>());
        if above > sum {
            let left = sum.max(0.0) / above;
            slices.iter_mut().for_each(|told| *told = told.max(0.0) * left);
        }
        slices
    }

    /// How many wait above the watermark, by slices: as told, and what is not told evenly.
    pub(super) fn slices(
        &self,
        start: BucketStart,
        watermark: OrderKey,
        front: Option<(OrderKey, f64)>,
        unstated: Unstated,
    ) -> [f64; SLICES] {
        let from = watermark.max(start.first_key());
        let share = |slice: usize| share_above(start, slice, from);
        let mut slices = self.told_slices();
        for (slice, waiting) in slices.iter_mut().enumerate() {
            let (told, share) = (*waiting, share(slice));
            let entered = front.filter(|(at, _)| *at == OrderKey::slice_start(start, slice));
            // An edge may count the called part of the slice or leave it out; both come out right.
            *waiting = entered.map_or(told * share, |(_, entered)| told.min(entered * share));
        }
        let total: f64 = slices.iter().sum();
        let missing = self.total(start, from, unstated) - total;
        let shares: f64 = (0..SLICES).map(share).sum();
        if missing > 0.0 && shares > 0.0 && !(self.rows.is_empty() && self.all_full()) {
            for (slice, waiting) in slices.iter_mut().enumerate() {
                *waiting += missing * share(slice) / shares;
            }
        }
        slices
    }

    fn all_full(&self) -> bool {
        self.counts.iter().all(|(_, told)| told.is_full())
    }

    /// What a run tells of the tickets above `from`.
    pub(super) fn told_above(told: &Told, start: BucketStart, from: OrderKey) -> f64 {
        if told.is_sliced() && from > start.first_key() {
            (0..SLICES).map(|slice| told.slice(slice) * share_above(start, slice, from)).sum()
        } else {
            told.alive() as f64 * part_above(start, start.first_key(), from)
        }
    }

    /// How many wait above `from`, with the rows that stand.
    ///
    /// Rows stand against reading empty: their tickets may come back. Those that have are taken out of them, and so the
    /// sum counts each once.
    pub(super) fn total(&self, start: BucketStart, from: OrderKey, unstated: Unstated) -> f64 {
        let whole = part_above(start, start.first_key(), from);
        let told: f64 = self.counts.iter().map(|(_, told)| Self::told_above(told, start, from)).sum();
        let stands = |row: &RowState| f64::from(row.alive) * part_above(start, row.at, from);
        let rows: f64 = self.rows.iter().map(|(_, row)| stands(row)).sum();
        let in_doubt = self.counts.iter().filter(|(_, told)| !told.is_full()).map(|(_, told)| told.joined());
        let in_doubt = in_doubt.chain(self.rows.iter().map(|(_, row)| row.joined));
        let least = LEAST_SHARE * whole * in_doubt.map(f64::from).sum::<f64>();
        let open = unstated == Unstated::One && self.rows.iter().any(|(_, row)| row.stated_open);
        (told + rows).max(least).max(if open { whole } else { 0.0 })
    }
}

/// How much of a slice of a bucket lies above `from`.
fn share_above(start: BucketStart, slice: usize, from: OrderKey) -> f64 {
    let (begin, end) = (OrderKey::slice_start(start, slice), OrderKey::slice_start(start, slice + 1));
    end.0.saturating_sub(from.0.max(begin.0)) as f64 / SLICE_KEYS
}

/// How much of what lies above `at` in a bucket lies above `from` too.
fn part_above(start: BucketStart, at: OrderKey, from: OrderKey) -> f64 {
    let (begin, end) = (start.first_key(), start.next().first_key());
    let of = end.0.saturating_sub(at.0.max(begin.0)) as f64;
    let left = end.0.saturating_sub(from.0.max(at.0).max(begin.0)) as f64;
    if of > 0.0 { left / of } else { 0.0 }
}

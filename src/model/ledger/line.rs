//! A line: its watermark, its buckets, and the counts that survive a restart.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::command::{EventTick, Gate, Row};
use super::log::Decision;
use crate::model::ids::{Generation, LineEpoch, NodeId, NodeRun};
use crate::model::order::{BucketStart, OrderKey};
use crate::model::policy::Ordering;
use crate::model::schedule::Schedule;
use crate::model::time::FleetTime;

/// The least run of all.
const FIRST_RUN: NodeRun = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(0) };

/// Everything about the line of an event that has to survive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Rises at every reset.
    pub epoch: LineEpoch,
    /// Tickets below it are called; it only grows.
    pub watermark: OrderKey,
    /// Express, about to reopen, or a line.
    pub gate: Gate,
    /// The buckets that joins are keyed by, ascending, at most two; empty while nobody waits.
    pub buckets: Vec<BucketStart>,
    /// The newest bucket that ever was: the next one starts later.
    pub newest_bucket: Option<BucketStart>,
    /// What each run counted in each bucket.
    pub rows: BTreeMap<(BucketStart, NodeRun), RowState>,
    /// The secret that draws are made with.
    pub draw_secret: [u8; 32],
    /// The lottery of a scheduled event.
    pub lottery: Option<LotteryState>,
    /// Calls that the operator asked for beyond the pace, not served yet.
    pub admit_pending: u32,
}

/// One run's counts of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowState {
    /// Tickets keyed.
    pub joined: u32,
    /// Tickets that wait, uncalled.
    pub alive: u32,
    /// The watermark when this was stated.
    pub at: OrderKey,
    /// Whether joins could still follow: such a row is not empty, whatever it says.
    pub stated_open: bool,
}

/// A lottery as the log keeps it: the seed is secret until the bucket has closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotteryState {
    /// Its bucket: the start of the prequeue.
    pub bucket: BucketStart,
    /// The seed.
    pub seed: [u8; 32],
    /// Its hash, published beforehand.
    pub commitment: [u8; 32],
    /// `H(seed ‖ joins per node at close)`, once closed.
    pub order: Option<[u8; 32]>,
}

impl Line {
    pub(in crate::model) fn new(draw_secret: [u8; 32]) -> Self {
        Self {
            epoch: LineEpoch(0),
            watermark: OrderKey::default(),
            gate: Gate::Open,
            buckets: Vec::new(),
            newest_bucket: None,
            rows: BTreeMap::new(),
            draw_secret,
            lottery: None,
            admit_pending: 0,
        }
    }

    /// Whether anybody may be waiting.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.gate != Gate::Open || !self.buckets.is_empty() || self.rows.values().any(|row| row.alive > 0)
    }

    /// How many wait by what the rows say.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.rows.values().map(|row| u64::from(row.alive)).sum()
    }

    /// The bucket that joins are keyed by at `now`.
    #[must_use]
    pub fn open_bucket(&self, now: FleetTime) -> Option<BucketStart> {
        let now = BucketStart::from(now);
        self.buckets.iter().copied().filter(|start| *start <= now).max()
    }

    pub(super) fn tick(&mut self, now: FleetTime, ordering: Ordering, tick: &EventTick) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for row in &tick.rows {
            self.state_row(now, ordering, row, tick.watermark);
        }
        if !tick.drop_rows.is_empty() {
            self.rows.retain(|(_, run), _| !tick.drop_rows.contains(run));
        }
        if let Some(bucket) = tick.bucket {
            decisions.extend(self.set_bucket(bucket).map(Decision::Bucket));
        }
        if tick.draw_lottery {
            decisions.extend(self.draw_lottery());
        }
        if tick.watermark > self.watermark {
            self.watermark = tick.watermark;
            // Whoever a row counts below the watermark is called: those rows say nothing any more.
            let first = (self.watermark.bucket(), FIRST_RUN);
            if self.rows.first_key_value().is_some_and(|(row, _)| *row < first) {
                self.rows = self.rows.split_off(&first);
            }
            decisions.push(Decision::Watermark(self.watermark));
        }
        self.admit_pending = self.admit_pending.saturating_sub(tick.admitted);
        if let Some(gate) = tick.gate.filter(|gate| *gate != self.gate) {
            self.gate = gate;
            decisions.push(Decision::Gate(gate));
        }
        decisions
    }

    fn state_row(&mut self, now: FleetTime, ordering: Ordering, row: &Row, watermark: OrderKey) {
        // A key of the exponential clock may lie in any whole part from now on, so its rows never close.
        let stated_open = ordering == Ordering::Random || self.open_bucket(now) <= Some(row.bucket);
        let at = self.watermark.max(watermark);
        let state = RowState { joined: row.joined, alive: row.alive, at, stated_open };
        self.rows.insert((row.bucket, row.run), state);
    }

    fn set_bucket(&mut self, bucket: Option<BucketStart>) -> Option<Option<BucketStart>> {
        match bucket {
            None if self.buckets.is_empty() => None,
            None => {
                self.buckets.clear();
                Some(None)
            }
            Some(start) if Some(start) <= self.newest_bucket => None,
            Some(start) => {
                let keep = self.buckets.len().saturating_sub(1);
                self.buckets.drain(..keep);
                self.buckets.push(start);
                self.newest_bucket = Some(start);
                Some(Some(start))
            }
        }
    }

    /// Prepares the lottery of a schedule that has one: an edit moves only the end of one that has begun.
    pub(super) fn prepare_lottery(
        &mut self,
        now: FleetTime,
        schedule: &Schedule,
        seed: [u8; 32],
    ) -> Option<Decision> {
        let begun = self.lottery.as_ref().is_some_and(|lottery| lottery.bucket <= BucketStart::from(now));
        if begun {
            return None;
        }
        let bucket = schedule.lottery_bucket();
        if bucket == self.lottery.as_ref().map(|lottery| lottery.bucket) {
            return None;
        }
        self.lottery = bucket.map(|bucket| {
            let commitment = Sha256::digest(seed).into();
            LotteryState { bucket, seed, commitment, order: None }
        });
        self.lottery.as_ref().map(|lottery| Decision::Commitment(lottery.commitment))
    }

    fn draw_lottery(&mut self) -> Option<Decision> {
        let lottery = self.lottery.as_mut().filter(|lottery| lottery.order.is_none())?;
        let mut hash = Sha256::new();
        hash.update(lottery.seed);
        let bucket = lottery.bucket;
        let rows = self.rows.iter().filter(|((start, _), _)| *start == bucket);
        for ((_, run), row) in rows {
            hash.update(run.node.0.get().to_be_bytes());
            hash.update(run.generation.0.to_be_bytes());
            hash.update(row.joined.to_be_bytes());
        }
        let order = hash.finalize().into();
        lottery.order = Some(order);
        Some(Decision::Drawn { seed: lottery.seed, order })
    }

    pub(super) fn reset(&mut self, draw_secret: [u8; 32]) -> Decision {
        let epoch = LineEpoch(self.epoch.0.wrapping_add(1));
        *self = Self { epoch, newest_bucket: self.newest_bucket, ..Self::new(draw_secret) };
        Decision::Reset(epoch)
    }
}

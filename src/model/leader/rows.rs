//! Which counts go into the log, and when rows of before have had their time (design §3 *Counts survive*).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::counts::Counts;
use super::edges::Edges;
use crate::model::ids::NodeRun;
use crate::model::ledger::{Line, Row, Span};
use crate::model::order::BucketStart;
use crate::model::policy::Policy;
use crate::model::presence::{Missing, forgiven};
use crate::model::time::{BootTime, FleetTime};

/// `alive` goes into the log at most this often; `joined` with every tick.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked for rows that have had their time.
const OUTLIVED_EVERY: Duration = Duration::from_secs(1);

/// The leader's book of rows of one line.
#[derive(Debug)]
pub(super) struct Rows {
    dirty: BTreeSet<(BucketStart, NodeRun)>,
    alive_stated: BootTime,
    looked: BootTime,
    closed_before: Option<BucketStart>,
    /// Since when each run with standing rows has not been heard.
    gone: BTreeMap<NodeRun, FleetTime>,
}

impl Rows {
    pub(super) fn begin(boot: BootTime) -> Self {
        Self {
            dirty: BTreeSet::new(),
            alive_stated: boot,
            looked: boot,
            closed_before: None,
            gone: BTreeMap::new(),
        }
    }

    /// The run's count of the bucket may have changed.
    pub(super) fn touch(&mut self, bucket: BucketStart, run: NodeRun) {
        self.dirty.insert((bucket, run));
    }

    /// Nobody joins buckets below this one any more: their rows are stated once more, as closed.
    pub(super) fn close_before(&mut self, settled: BucketStart, line: &Line) {
        if self.closed_before >= Some(settled) {
            return;
        }
        self.closed_before = Some(settled);
        let open = line.rows.iter().take_while(|((bucket, _), _)| *bucket < settled);
        self.dirty.extend(open.filter(|(_, row)| row.stated_open).map(|(key, _)| *key));
    }

    /// Rows that change: a new number of joins at once, a new number alive once a second.
    pub(super) fn due(&mut self, line: &Line, counts: &Counts, boot: BootTime) -> Vec<Row> {
        let alive_too = boot.since(self.alive_stated) >= ALIVE_EVERY;
        let mut rows = Vec::new();
        let mut later = BTreeSet::new();
        for (bucket, run) in std::mem::take(&mut self.dirty) {
            let Some((joined, alive)) = counts.of_run(bucket, run) else { continue };
            let stated = line.rows.get(&(bucket, run));
            let joins = stated.map_or(joined > 0 || alive > 0, |row| row.joined != joined);
            let closes = stated.is_some_and(|row| row.stated_open) && self.closed_before > Some(bucket);
            let differs = stated.is_none_or(|row| row.alive != alive);
            if joins || closes || (differs && alive_too && stated.is_some()) {
                rows.push(Row { run, bucket, joined, alive });
                // Until the entry is applied nothing is certain.
                later.insert((bucket, run));
            } else if differs && stated.is_some() {
                later.insert((bucket, run));
            }
        }
        if alive_too && !rows.is_empty() {
            self.alive_stated = boot;
        }
        self.dirty = later;
        rows
    }

    /// Empty rows for a bucket that opens, so that it is known to be there before anybody is keyed by it.
    pub(super) fn opening<'a>(
        &self,
        bucket: BucketStart,
        line: &'a Line,
        runs: impl Iterator<Item = NodeRun> + 'a,
    ) -> impl Iterator<Item = Row> + 'a {
        let unknown = move |run: &NodeRun| !line.rows.contains_key(&(bucket, *run));
        runs.filter(unknown).map(move |run| Row { run, bucket, joined: 0, alive: 0 })
    }

    /// Runs whose rows are over: a newer run of the node has full windows, or every ticket of theirs has ended.
    pub(super) fn outlived(
        &mut self,
        counts: &mut Counts,
        edges: &Edges,
        policy: &Policy,
        spans: &[Span],
        now: FleetTime,
        boot: BootTime,
    ) -> Vec<NodeRun> {
        if boot.since(self.looked) < OUTLIVED_EVERY {
            return Vec::new();
        }
        self.looked = boot;
        let standing = counts.standing();
        self.gone.retain(|run, _| standing.contains(run));
        // Half a heartbeat more than a ticket lives: leaders let go of a window later than edges.
        let silence_allowed = policy.heartbeat_ttl * 2;
        let mut over = Vec::new();
        for run in standing {
            let since = *self.gone.entry(run).or_insert(now);
            // An edge that reports tells of every change: what the log has of the rest is still true.
            if edges.get(&run).is_some_and(|edge| edge.is_heard(boot)) {
                self.gone.remove(&run);
                continue;
            }
            let forgiven = forgiven(spans, Missing::AtNode(Some(run.node)), since, now);
            let gone = now.since(since).saturating_sub(forgiven) >= silence_allowed;
            if gone || counts.is_replaced(run) {
                over.push(run);
            }
        }
        counts.forget(&over);
        over
    }
}

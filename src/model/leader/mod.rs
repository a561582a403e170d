//! The leader's side of the exchange: takes reports, plans ticks, writes pulses.
//!
//! Everything here is volatile: whoever leads next begins with the ledger alone, and nothing is lost but moments.
//! Nothing here is a guard of capacity or rate either: that is the ledger's. What it guards is order: that the
//! watermark reaches nobody who is yet to be keyed, and leaves no bucket that may hold somebody.

mod bucket;
mod changes;
mod counts;
mod edges;
mod event;
mod gate;
mod line;
mod news;
mod patience;
mod rows;
mod share;
mod table;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::edges::{Edge, Edges, SILENCE};
use self::event::{Address, EventLead, Scene};
use super::exchange::{EdgeStage, KeySet, Pulse, Report};
use super::ids::{EventId, LedgerEpoch, LogIndex, NodeRun, Tenure};
use super::ledger::{Outcome, Span, State, Step, Tick};
use super::time::{BootTime, FleetTime};

/// The log is told at least this often that a run was heard.
const HEARD_EVERY: Duration = Duration::from_secs(60);

/// When one run's time is due, those that will be due soon are told too.
const HEARD_SOON: Duration = Duration::from_secs(30);

/// What a leading controller knows beyond the ledger.
#[derive(Debug)]
pub struct Leader {
    tenure: Tenure,
    edges: Edges,
    lost: BTreeMap<NodeRun, FleetTime>,
    draining: Vec<NodeRun>,
    events: BTreeMap<EventId, EventLead>,
    pulses: u64,
    seen: LogIndex,
    acknowledged: LogIndex,
    spans: Arc<Vec<Span>>,
}

impl Leader {
    /// A leader over the ledger as it stands when its tenure begins.
    #[must_use]
    pub fn begin(tenure: Tenure, state: &State) -> Self {
        let boot = tenure.began;
        let mut leader = Self {
            tenure,
            edges: Edges::new(),
            lost: BTreeMap::new(),
            draining: Vec::new(),
            events: BTreeMap::new(),
            pulses: 0,
            seen: state.index,
            acknowledged: LogIndex(0),
            spans: Arc::new(state.spans.clone()),
        };
        leader.follow(state, boot);
        leader
    }

    /// Takes an edge's report, in any order and any number of times.
    pub fn take(&mut self, report: Report, boot: BootTime) {
        match self.edges.get_mut(&report.run) {
            Some(edge) => edge.take(report, boot),
            None => {
                self.edges.insert(report.run, Edge::new(report, boot));
            }
        }
    }

    /// What to put into the log now; an empty tick is not worth an entry.
    ///
    /// To be called every tick, and at once when a report says that somebody waits.
    #[must_use]
    pub fn plan(&mut self, state: &State, now: FleetTime, boot: BootTime) -> Tick {
        self.follow(state, boot);
        let now = now.max(state.now);
        let acknowledged = self.acknowledged(state);
        let mut tick = Tick { now, acknowledged, ..Tick::default() };
        self.attend(state, now, boot, &mut tick);
        let ready = boot.since(self.tenure.began) >= SILENCE
            || state.runs.keys().all(|run| self.edges.contains_key(run));
        let news = acknowledged > self.acknowledged;
        for (id, lead) in &mut self.events {
            let Some(event) = state.events.get(id) else { continue };
            let scene = Scene {
                id,
                event,
                spans: &state.spans,
                lag: &state.lag,
                registered: &state.runs,
                now,
                boot,
                ready,
                news,
            };
            let planned = lead.plan(scene, self.tenure, &mut self.edges);
            tick.spans.extend(planned.span);
            tick.events.extend(planned.tick);
        }
        self.edges.values_mut().for_each(|edge| edge.inbox.clear());
        if news && state.keys.awaits_acknowledgement().is_some_and(|index| index <= acknowledged) {
            tick.heard.extend(state.runs.keys().next().map(|run| (*run, now)));
        }
        if !tick.is_empty() {
            self.acknowledged = acknowledged;
        }
        tick
    }

    /// Takes what applying an entry came to, every entry's, in the order of the log.
    pub fn applied(&mut self, state: &State, outcome: &Outcome, boot: BootTime) {
        if outcome.index.0 != self.seen.0 + 1 && outcome.index > self.seen {
            self.miss(outcome.index);
        }
        self.seen = self.seen.max(outcome.index);
        self.follow(state, boot);
        for (event, change) in &outcome.live {
            if let Some(lead) = self.events.get_mut(event) {
                lead.changes.push(outcome.index, *change);
            }
        }
        for step in &outcome.steps {
            let Step::Ticked(events) = step else { continue };
            for done in events {
                let Some(lead) = self.events.get_mut(&done.event) else { continue };
                if let Some(reserved) = done.reserved {
                    lead.hand_out(&done.event, reserved, boot, &mut self.edges);
                }
            }
        }
    }

    /// The pulse for an edge. Grants ride in one pulse only, so it has to be sent.
    #[must_use]
    pub fn pulse(&mut self, state: &State, run: NodeRun, now: FleetTime, boot: BootTime) -> Pulse {
        if state.index > self.seen {
            self.miss(state.index);
        }
        self.follow(state, boot);
        self.pulses += 1;
        if *self.spans != state.spans {
            self.spans = Arc::new(state.spans.clone());
        }
        let now = now.max(state.now);
        let mut events = Vec::with_capacity(self.events.len());
        for (id, lead) in &mut self.events {
            let Some(event) = state.events.get(id) else { continue };
            let edge = self.edges.get_mut(&run);
            let address = Address { run, number: self.pulses, index: state.index, now, boot };
            events.push(lead.pulse(id, event, edge, address));
        }
        let edge = self.edges.get(&run);
        let knows_keys = edge.is_some_and(|edge| edge.keys_version == state.keys.version);
        let keys = KeySet { version: state.keys.version, keys: state.keys.records().to_vec() };
        Pulse {
            tenure: self.tenure,
            number: self.pulses,
            run,
            index: state.index,
            now,
            report: edge.map_or(0, |edge| edge.number),
            echo: edge.map_or(BootTime(0), |edge| edge.sent),
            ledger: state.epoch.unwrap_or(LedgerEpoch(0)),
            keys: (!knows_keys).then_some(keys),
            spans: Arc::clone(&self.spans),
            events,
        }
    }

    /// How far in the log the knowledge of each edge that was heard lately reached when it reported last.
    pub fn acknowledgements(&self, boot: BootTime) -> impl Iterator<Item = (NodeRun, LogIndex)> {
        let heard = self.edges.iter().filter(move |(_, edge)| edge.is_heard(boot));
        heard.map(|(run, edge)| (*run, edge.live_index))
    }

    /// How long it takes until the rate allows a slot for which somebody waits: a tick is worth it then.
    #[must_use]
    pub fn next_slot(&self, state: &State, now: FleetTime) -> Option<Duration> {
        let of = |(id, lead): (&EventId, &EventLead)| lead.next_slot(state.events.get(id)?, now);
        self.events.iter().filter_map(of).min()
    }

    /// The runs for which slots are reserved that no pulse has carried yet.
    #[must_use]
    pub fn await_grants(&self) -> Vec<NodeRun> {
        self.edges.iter().filter(|(_, edge)| !edge.grants.is_empty()).map(|(run, _)| *run).collect()
    }

    /// The edges that were heard lately.
    #[must_use]
    pub fn heard(&self, boot: BootTime) -> Vec<NodeRun> {
        self.edges.iter().filter(|(_, edge)| edge.is_heard(boot)).map(|(run, _)| *run).collect()
    }

    /// Whether a run has said its last word: it is not to be registered anew.
    #[must_use]
    pub fn is_leaving(&self, run: NodeRun) -> bool {
        self.edges.get(&run).is_some_and(|edge| edge.stage == EdgeStage::Gone)
    }

    /// Entries were applied that this leader was not told of: what it kept of live sets has a hole.
    fn miss(&mut self, index: LogIndex) {
        let before = LogIndex(index.0.saturating_sub(1)).max(self.seen);
        self.seen = index;
        self.events.values_mut().for_each(|lead| lead.changes = changes::Changes::after(before.max(index)));
    }

    /// Keeps one lead per event and line of the ledger.
    fn follow(&mut self, state: &State, boot: BootTime) {
        self.events.retain(|id, _| state.events.contains_key(id));
        for (id, event) in &state.events {
            match self.events.get_mut(id) {
                Some(lead) if lead.is_of(&event.line) => {}
                Some(lead) => lead.restart(event, boot),
                None => {
                    self.events.insert(id.clone(), EventLead::new(event, self.seen, boot));
                }
            }
        }
    }

    /// The log index that every registered edge has acknowledged, and goes by this leader's clock.
    fn acknowledged(&self, state: &State) -> LogIndex {
        let hearing = |run: &NodeRun| self.edges.get(run).filter(|edge| edge.hears(self.tenure));
        let of = |run: &NodeRun| hearing(run).map_or(LogIndex(0), |edge| edge.live_index);
        let least = state.runs.keys().map(of).min().unwrap_or_default();
        least.max(self.acknowledged)
    }

    /// What the log has to know of the edges: who was heard, who is gone, whose visitors are forgiven their silence.
    fn attend(&mut self, state: &State, now: FleetTime, boot: BootTime, tick: &mut Tick) {
        let longest = state.events.values().map(|event| event.policy.heartbeat_ttl).max().unwrap_or_default();
        for (run, known) in &state.runs {
            let node = Some(run.node);
            let Some(edge) = self.edges.get(run).filter(|edge| edge.is_heard(boot)) else {
                if boot.since(self.tenure.began) > SILENCE && !self.lost.contains_key(run) {
                    let last =
                        self.edges.get(run).map_or(known.heard, |edge| now.before(boot.since(edge.heard)));
                    tick.spans.push(Span { node, from: last, to: now.after(longest) });
                    self.lost.insert(*run, last);
                }
                continue;
            };
            if let Some(from) = self.lost.remove(run) {
                tick.spans.push(Span { node, from, to: now });
            }
            match edge.stage {
                EdgeStage::Serving => {}
                EdgeStage::Draining if self.draining.contains(run) => {}
                EdgeStage::Draining => {
                    tick.spans.push(Span { node, from: now, to: now.after(longest) });
                    self.draining.push(*run);
                }
                EdgeStage::Gone => tick.ended.push(*run),
            }
        }
        let heard = |age: Duration| {
            let runs = state.runs.iter().filter(move |(_, known)| now.since(known.heard) >= age);
            runs.filter(|(run, _)| self.edges.get(run).is_some_and(|edge| edge.is_heard(boot)))
        };
        if heard(HEARD_EVERY).next().is_some() {
            tick.heard = heard(HEARD_SOON).map(|(run, _)| (*run, now)).collect();
        }
        self.draining.retain(|run| state.runs.contains_key(run));
        self.lost.retain(|run, _| state.runs.contains_key(run));
        // A run that is not registered may be on its way in, or have a last word.
        self.edges.retain(|run, edge| state.runs.contains_key(run) || edge.is_heard(boot));
    }
}

#[cfg(test)]
mod tests;

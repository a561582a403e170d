//! What is known of other nodes by gossip, for operators. Nothing is decided by it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::Desk;
use crate::model::ids::{EventId, LineEpoch, NodeRun, Term};
use crate::model::order::OrderKey;
use crate::model::tidings::{Tidings, Totals, stage_word};

/// Another node, as gossip knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its newest run.
    pub run: NodeRun,
    /// Where it is called.
    pub at: SocketAddr,
    /// Whether it is being heard of.
    pub life: Life,
    /// What it tells of itself; `None`: nothing yet.
    pub tidings: Option<Tidings>,
}

/// Whether a node is being heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is.
    Alive,
    /// It was silent for too long, or is new.
    Silent,
}

/// All that is known of other nodes.
#[derive(Debug, Default)]
pub(super) struct Neighbourhood {
    neighbours: ArcSwap<Vec<Neighbour>>,
    /// The greatest that was heard of, by event.
    watermarks: ArcSwap<BTreeMap<EventId, (LineEpoch, OrderKey)>>,
    /// The term in which this node leads; 0: it does not, for terms begin with 1.
    leads: AtomicU64,
}

impl Desk {
    /// What this node tells all others of itself.
    #[must_use]
    pub fn tidings(&self) -> Tidings {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let events = self.events.load();
        let totals = events.values().map(|event| {
            let view = event.view();
            let (pulse, tallies) = (&view.pulse, &event.tallies);
            let totals = Totals {
                line: pulse.line,
                joined: read(&tallies.joins),
                waiting: event.counts.load().alive_from(pulse.watermark.bucket()),
                admitted: read(&tallies.mints),
                live_passes: u32::try_from(view.live.len()).unwrap_or(u32::MAX),
                watermark: pulse.watermark,
            };
            (event.id.clone(), totals)
        });
        let leads = read(&self.neighbourhood.leads);
        Tidings {
            stage: self.stage(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leads: (leads > 0).then_some(Term(leads)),
            events: totals.collect(),
        }
    }

    /// Notes that this node leads in a term, or does not.
    pub fn set_leads(&self, term: Option<Term>) {
        self.neighbourhood.leads.store(term.map_or(0, |term| term.0), Ordering::Relaxed);
    }

    /// Notes what all other nodes tell. One caller at a time.
    pub fn meet(&self, neighbours: Vec<Neighbour>) {
        let events = self.events.load();
        let mut marks = BTreeMap::clone(&self.neighbourhood.watermarks.load());
        marks.retain(|event, _| events.contains_key(event));
        let own = events.values().map(|event| {
            let view = event.view();
            (event.id.clone(), (view.pulse.line, view.pulse.watermark))
        });
        let told = neighbours.iter().filter_map(|neighbour| neighbour.tidings.as_ref());
        let told = told.flat_map(|tidings| &tidings.events);
        let told = told.map(|(event, totals)| (event.clone(), (totals.line, totals.watermark)));
        for (event, mark) in own.chain(told).filter(|(event, _)| events.contains_key(event)) {
            let greatest = marks.entry(event).or_default();
            *greatest = mark.max(*greatest);
        }
        self.neighbourhood.watermarks.store(std::sync::Arc::new(marks));
        self.neighbourhood.neighbours.store(std::sync::Arc::new(neighbours));
    }

    /// The other nodes, as gossip knows them, by node.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.neighbourhood.neighbours.load().to_vec()
    }

    /// The greatest watermark of an event that any node has told of, and its line; it never goes back.
    #[must_use]
    pub fn greatest_watermark(&self, event: &EventId) -> Option<(LineEpoch, OrderKey)> {
        self.neighbourhood.watermarks.load().get(event).copied()
    }

    /// What is known by gossip, as JSON for the operator.
    #[must_use]
    pub fn describe_gossip(&self) -> Value {
        let marks = self.neighbourhood.watermarks.load();
        let marks: BTreeMap<_, _> = marks.iter().map(|(event, (_, mark))| (event.as_str(), mark.0)).collect();
        let neighbours = self.neighbourhood.neighbours.load();
        json!({ "watermarks": marks, "neighbours": neighbours.iter().map(describe).collect::<Vec<_>>() })
    }
}

fn describe(neighbour: &Neighbour) -> Value {
    let Neighbour { run, at, life, tidings } = neighbour;
    let event = |totals: &Totals| {
        json!({
            "joined": totals.joined,
            "waiting": totals.waiting,
            "admitted": totals.admitted,
            "live_passes": totals.live_passes,
            "line": totals.line,
            "watermark": totals.watermark,
        })
    };
    let events = |tidings: &Tidings| {
        let events = tidings.events.iter().map(|(id, totals)| (id.to_string(), event(totals)));
        events.collect::<serde_json::Map<_, _>>()
    };
    json!({
        "node": run.node,
        "generation": run.generation,
        "address": at.to_string(),
        "alive": *life == Life::Alive,
        "stage": tidings.as_ref().map(|tidings| stage_word(tidings.stage)),
        "version": tidings.as_ref().map(|tidings| tidings.version.as_str()),
        "leads_term": tidings.as_ref().and_then(|tidings| tidings.leads).map(Term::election),
        "events": tidings.as_ref().map(events),
    })
}

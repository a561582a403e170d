//! What a node keeps of the last pulses, so that it can start while no controller answers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use super::Desk;
use super::event::EventDesk;
use super::exchange::{Heard, Keys, route_table};
use crate::model::edge::Contact;
use crate::model::exchange::{EventPulse, KeySet, LiveUpdate};
use crate::model::ids::{EventId, LedgerEpoch, LineEpoch, NodeId};
use crate::model::ledger::Span;
use crate::model::time::FleetTime;
use crate::model::token::Keyring;

/// What a node kept. It holds secrets: whoever has them can sign tickets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keepsake {
    /// Who kept it.
    pub node: NodeId,
    /// Of which ledger it is.
    pub ledger: LedgerEpoch,
    /// Fleet time when it was made.
    pub at: FleetTime,
    keys: KeySet,
    spans: Arc<Vec<Span>>,
    events: Vec<EventPulse>,
}

impl Keepsake {
    /// Whether it says something that does not change all the time and that `kept` does not say.
    #[must_use]
    pub fn is_news_to(&self, kept: &Self) -> bool {
        (self.node, self.ledger, self.keys.version) != (kept.node, kept.ledger, kept.keys.version)
            || self.spans != kept.spans
            || !self.events.iter().map(what_lasts).eq(kept.events.iter().map(what_lasts))
    }

    /// How many events it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it knows no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// What of an event does not change with every pulse.
fn what_lasts(event: &EventPulse) -> (&EventId, u64, LineEpoch, [u8; 32], bool) {
    let drawn = event.lottery.as_ref().is_some_and(|lottery| lottery.order.is_some());
    (&event.event, event.version, event.line, event.draw_secret, drawn)
}

/// An event without what is true for a moment only: slots, the live set, how fast the line moves.
fn lasting(pulse: &EventPulse) -> EventPulse {
    EventPulse {
        grant: None,
        refused: true,
        settled: Vec::new(),
        live: LiveUpdate::Changes(Vec::new()),
        slots_free: 0,
        credit_share: 0.0,
        admit_rate: 0.0,
        pace: 0.0,
        ..pulse.clone()
    }
}

impl Desk {
    /// What to keep of what the leader says; `None` before the first pulse.
    #[must_use]
    pub fn keepsake(&self) -> Option<Keepsake> {
        let heard = self.heard.load();
        heard.link.newest()?;
        let keys = self.keys.load();
        let events = self.events.load();
        Some(Keepsake {
            node: self.run.node,
            ledger: heard.ledger?,
            at: heard.link.upper(self.clock.boot()),
            keys: keys.as_ref()?.set.clone(),
            spans: Arc::clone(&heard.spans),
            events: events.values().map(|event| lasting(&event.view().pulse)).collect(),
        })
    }

    /// Begins with what was kept: the line of every event is shown, and stands still, until the leader is heard. Nothing
    /// changes once it was.
    pub fn recall(&self, kept: Keepsake) {
        let _one_at_a_time = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.contact() != Contact::Unheard {
            return;
        }
        let mut heard = Heard::default();
        // Without a leader the wall clock is the best that there is.
        heard.link.guess(kept.at.max(self.clock.wall()), self.clock.boot());
        let now = heard.link.upper(self.clock.boot());
        let Some(ring) = Keyring::new(&kept.keys.keys, now) else { return };
        // The version of the keys is not told to the leader: of another ledger it would mean others.
        heard.ledger = Some(kept.ledger);
        heard.spans = kept.spans;
        let desk = |pulse: EventPulse| (pulse.event.clone(), Arc::new(EventDesk::new(self.run, pulse)));
        let events: BTreeMap<_, _> = kept.events.into_iter().map(desk).collect();
        self.keys.store(Some(Arc::new(Keys { ring, set: kept.keys })));
        self.routes.store(Arc::new(route_table(&events)));
        self.events.store(Arc::new(events));
        self.heard.store(Arc::new(heard));
    }

    /// The leader's ledger is another than what was kept is of.
    pub(super) fn forget_kept(&self) {
        tracing::warn!("what this node kept of the fleet is of another ledger, and is not used any more");
        let known = self.events.swap(Arc::default());
        known.values().for_each(|event| event.watchers.wake_all());
    }
}

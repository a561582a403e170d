//! The desk's side of the exchange with the leader: reports out, pulses in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Desk;
use super::event::{EventDesk, Frame};
use crate::model::edge::Link;
use crate::model::exchange::{EdgeStage, EventPulse, KeySet, Pulse, Report};
use crate::model::ids::{EventId, LedgerEpoch, LogIndex};
use crate::model::ledger::{SWEEP, Span};
use crate::model::presence::tickets_horizon;
use crate::model::route::RouteTable;
use crate::model::time::FleetTime;
use crate::model::token::Keyring;

/// What was heard of the leader, as every request reads it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    pub(super) link: Link,
    pub(super) index: LogIndex,
    pub(super) ledger: Option<LedgerEpoch>,
    pub(super) spans: Arc<Vec<Span>>,
    pub(super) keys_version: u64,
}

/// The keys in use and what they were made from.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) ring: Keyring,
    pub(super) set: KeySet,
}

impl Desk {
    /// What this node has to tell the leader now.
    #[must_use]
    pub fn report(&self) -> Report {
        let heard = self.heard.load();
        let now = self.clock.boot();
        let number = self.next_report.fetch_add(1, Ordering::Relaxed);
        let events = self.events.load();
        Report {
            run: self.run,
            number,
            sent: now,
            upper: heard.link.newest().map_or_else(|| self.clock.wall(), |_| heard.link.upper(now)),
            pulse_seen: heard.link.newest(),
            live_index: heard.index,
            keys_version: heard.keys_version,
            stage: self.stage(),
            // What was kept may be of another ledger: before the first pulse there is nothing to say of it.
            events: if heard.link.newest().is_some() {
                events.values().map(|event| event.report(number, &heard.link, now)).collect()
            } else {
                Vec::new()
            },
        }
    }

    /// Takes a pulse; an older one than was taken before changes nothing.
    pub fn take(&self, pulse: Pulse) {
        let mut swept = self.taking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = self.clock.boot();
        let mut heard = Heard::clone(&self.heard.load());
        if !heard.link.take(&pulse, now) {
            return;
        }
        if heard.ledger.is_some_and(|kept| kept != pulse.ledger) {
            self.forget_kept();
        }
        let Pulse { index, report, echo, ledger, keys, spans, events, now: fleet, .. } = pulse;
        let due = now.since(*swept) >= SWEEP;
        if due {
            *swept = now;
        }
        let horizon = due.then(|| tickets_horizon(&spans, fleet));
        heard.index = heard.index.max(index);
        heard.ledger = Some(ledger);
        heard.spans = spans;
        self.take_keys(keys, heard.link.upper(now), &mut heard);
        self.take_events(events, Frame { index, report, echo, now, horizon });
        self.heard.store(Arc::new(heard));
        self.pulses.send_modify(|count| *count += 1);
    }

    fn take_keys(&self, set: Option<KeySet>, now: FleetTime, heard: &mut Heard) {
        let known = self.keys.load();
        let due = known.as_ref().and_then(|keys| keys.ring.changes_at()).is_some_and(|at| at <= now);
        let set = match set {
            Some(set) => Some(set),
            None if due => known.as_ref().map(|keys| keys.set.clone()),
            None => None,
        };
        let Some(set) = set else { return };
        heard.keys_version = set.version;
        if let Some(ring) = Keyring::new(&set.keys, now) {
            self.keys.store(Some(Arc::new(Keys { ring, set })));
        }
    }

    fn take_events(&self, pulses: Vec<EventPulse>, frame: Frame) {
        let known = self.events.load_full();
        let mut events = BTreeMap::new();
        let mut rerouted = pulses.len() != known.len();
        for pulse in pulses {
            let before = known.get(&pulse.event);
            rerouted |= before.is_none_or(|event| event.view().pulse.version != pulse.version);
            let fresh = || Arc::new(EventDesk::new(self.run, pulse.clone()));
            let event = before.cloned().unwrap_or_else(fresh);
            events.insert(pulse.event.clone(), Arc::clone(&event));
            event.take(pulse, frame);
        }
        let same_events = !rerouted;
        if same_events {
            return;
        }
        self.routes.store(Arc::new(route_table(&events)));
        let gone: Vec<_> = known.iter().filter(|(id, _)| !events.contains_key(*id)).collect();
        self.events.store(Arc::new(events));
        gone.iter().for_each(|(_, event)| event.watchers.wake_all());
    }

    /// Drops what is unspent: the machine was suspended, and what was granted before is not known to be ours.
    pub fn drop_slots(&self) {
        self.events.load().values().for_each(|event| event.slots().edge.close());
    }

    /// Where in its life this node is.
    #[must_use]
    pub fn stage(&self) -> EdgeStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => EdgeStage::Serving,
            1 => EdgeStage::Draining,
            _ => EdgeStage::Gone,
        }
    }

    /// Moves on in this node's life; draining closes every grant.
    pub fn set_stage(&self, stage: EdgeStage) {
        let number = match stage {
            EdgeStage::Serving => 0,
            EdgeStage::Draining => 1,
            EdgeStage::Gone => 2,
        };
        self.stage.fetch_max(number, Ordering::Relaxed);
        if stage != EdgeStage::Serving {
            self.drop_slots();
        }
        self.report_wanted.notify_one();
    }

    /// Whether every pass minted here is in the ledger and every grant is closed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.events.load().values().all(|event| event.slots().is_settled())
    }
}

/// The log gives no route to two events, so the order decides nothing; it is one that no start changes.
pub(super) fn route_table(events: &BTreeMap<EventId, Arc<EventDesk>>) -> RouteTable {
    let policies: Vec<_> =
        events.iter().map(|(id, event)| (id, Arc::clone(&event.view().pulse.policy))).collect();
    RouteTable::build(policies.iter().map(|(id, policy)| ((*id).clone(), policy.as_ref())))
}

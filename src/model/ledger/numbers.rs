//! The numbers that were given to edges: each to one instance, and to no other while anything is left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::ids::NodeId;
use crate::model::numbered::{EdgeName, FIRST_GIVEN, Instance};
use crate::model::time::FleetTime;

/// How long a number stays with an edge that is gone, after the log has forgotten all else of it: who comes back with its
/// disk within a day is the same node.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The same for an edge that never served: nobody holds a ticket of it.
pub const UNUSED_KEPT: Duration = Duration::from_secs(600);

/// How many numbers there are to give.
const RANGE: u16 = u16::MAX - FIRST_GIVEN + 1;

/// Who has which number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    given: BTreeMap<NodeId, Holder>,
    /// Where the search for a free number begins, counted from the first: the one that was free longest comes last.
    next: u16,
}

/// Who has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The edge.
    pub instance: Instance,
    /// What its certificate calls it and its like.
    pub name: EdgeName,
    /// Until when the number stays its own at least.
    until: FleetTime,
}

impl Numbers {
    /// Who has a number.
    #[must_use]
    pub fn holder(&self, node: NodeId) -> Option<&Holder> {
        self.given.get(&node)
    }

    /// Whether this edge may call itself by this number.
    #[must_use]
    pub fn is_holder(&self, node: NodeId, instance: Instance) -> bool {
        self.holder(node).is_some_and(|holder| holder.instance == instance)
    }

    /// How many are given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether none is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// The number that an edge has, or one that it is given now; `None`: all are taken. No number is given that is
    /// `named` elsewhere in the ledger.
    pub(super) fn give(
        &mut self,
        now: FleetTime,
        name: &EdgeName,
        instance: Instance,
        named: &BTreeSet<NodeId>,
    ) -> Option<NodeId> {
        let until = now.after(UNUSED_KEPT);
        if let Some((node, holder)) = self.given.iter_mut().find(|(_, holder)| holder.instance == instance) {
            holder.until = holder.until.max(until);
            holder.name = name.clone();
            return Some(*node);
        }
        let is_free = |node: &NodeId| !self.given.contains_key(node) && !named.contains(node);
        let mut numbers = (0..RANGE).filter_map(|step| {
            let place = (u32::from(self.next) + u32::from(step)) % u32::from(RANGE);
            let number = FIRST_GIVEN.checked_add(u16::try_from(place).ok()?)?;
            NonZeroU16::new(number).map(NodeId)
        });
        let node = numbers.find(is_free)?;
        self.next = (node.0.get() - FIRST_GIVEN).wrapping_add(1) % RANGE;
        self.given.insert(node, Holder { instance, name: name.clone(), until });
        Some(node)
    }

    /// The node serves.
    pub(super) fn note_serving(&mut self, node: NodeId, now: FleetTime) {
        if let Some(holder) = self.given.get_mut(&node) {
            holder.until = holder.until.max(now.after(KEPT));
        }
    }

    /// Takes numbers back whose time is over, and that are not `named` elsewhere in the ledger.
    pub(super) fn sweep(&mut self, now: FleetTime, named: &BTreeSet<NodeId>) {
        named.iter().for_each(|node| self.note_serving(*node, now));
        self.given.retain(|_, holder| holder.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime(1_800_000_000_000);

    fn instance(number: u16) -> Instance {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        Instance(bytes)
    }

    fn name() -> EdgeName {
        "web".parse().unwrap()
    }

    #[test]
    fn when_all_numbers_are_taken_a_newcomer_gets_none_and_a_holder_its_own() {
        let numbers = (FIRST_GIVEN..=u16::MAX).map(|number| {
            let holder = Holder { instance: instance(number), name: name(), until: NOW.after(KEPT) };
            (NodeId(NonZeroU16::new(number).unwrap()), holder)
        });
        let mut full = Numbers { given: numbers.collect(), next: 77 };
        let mut give = |number| {
            let given = full.give(NOW, &name(), instance(number), &BTreeSet::new());
            given.map(|node| node.0.get())
        };
        assert_eq!((give(1), give(54_321)), (None, Some(54_321)));
        full.given.remove(&NodeId(NonZeroU16::new(FIRST_GIVEN).unwrap()));
        let last = full.give(NOW, &name(), instance(1), &BTreeSet::new());
        assert_eq!(last.map(|node| node.0.get()), Some(FIRST_GIVEN), "the search goes on from the beginning");
    }
}

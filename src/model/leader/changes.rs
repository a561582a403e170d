//! How the live set changed lately: what a pulse sends instead of the whole set.

use std::collections::VecDeque;

use crate::model::exchange::LiveUpdate;
use crate::model::ids::LogIndex;
use crate::model::ledger::{LiveChange, LiveSet};

/// Changes that are kept per event; an edge that is further behind gets the whole set.
const KEPT: usize = 20_000;

/// The changes of one event's live set after an index, all of them.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    complete_after: LogIndex,
    changes: VecDeque<(LogIndex, LiveChange)>,
}

impl Changes {
    /// No changes are known up to `index`.
    pub(super) fn after(index: LogIndex) -> Self {
        Self { complete_after: index, changes: VecDeque::new() }
    }

    /// Adds a change; the oldest give way, those of one entry together.
    pub(super) fn push(&mut self, index: LogIndex, change: LiveChange) {
        self.changes.push_back((index, change));
        while self.changes.len() > KEPT {
            let Some((oldest, _)) = self.changes.pop_front() else { break };
            self.complete_after = self.complete_after.max(oldest);
        }
    }

    /// What an edge needs whose set is true for `known`.
    pub(super) fn since(&self, known: LogIndex, index: LogIndex, whole: &LiveSet) -> LiveUpdate {
        if known < self.complete_after {
            let mut set = whole.clone();
            set.index = index;
            return LiveUpdate::Whole(Box::new(set));
        }
        let from = self.changes.partition_point(|(at, _)| *at <= known);
        LiveUpdate::Changes(self.changes.range(from..).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::TicketId;
    use crate::model::time::FleetTime;

    fn change(sequence: u64) -> LiveChange {
        LiveChange::Consumed(TicketId { node: 1, generation: 1, sequence }, FleetTime(0))
    }

    #[test]
    fn an_edge_gets_what_it_lacks_and_the_whole_set_when_that_is_not_known() {
        let mut changes = Changes::after(LogIndex(5));
        for index in 6..9 {
            changes.push(LogIndex(index), change(index));
        }
        let since = |known| changes.since(LogIndex(known), LogIndex(8), &LiveSet::default());
        assert_eq!(since(8), LiveUpdate::Changes(vec![]));
        assert_eq!(since(6), LiveUpdate::Changes(vec![(LogIndex(7), change(7)), (LogIndex(8), change(8))]));
        assert!(matches!(since(5), LiveUpdate::Changes(list) if list.len() == 3));
        assert!(matches!(since(4), LiveUpdate::Whole(set) if set.index == LogIndex(8)));
    }

    #[test]
    fn what_gives_way_is_missed_by_whole_entries() {
        let mut changes = Changes::after(LogIndex(0));
        for index in 1..=u64::try_from(KEPT).unwrap() {
            changes.push(LogIndex(index / 2 + 1), change(index));
        }
        changes.push(LogIndex(50_000), change(0));
        let since = |known| changes.since(LogIndex(known), LogIndex(50_000), &LiveSet::default());
        assert!(matches!(since(0), LiveUpdate::Whole(_)));
        assert!(matches!(since(1), LiveUpdate::Changes(_)));
    }
}

//! Sets of ids, as bitmaps over ticket sequence numbers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::ids::TicketId;
use crate::model::time::FleetTime;

/// Sequence numbers per chunk of the bitmap.
const CHUNK: u64 = 1 << 16;

const WORDS: usize = (CHUNK / 64) as usize;

/// A set of ids that only grows until it forgets: 1 bit per ticket of a run, 375 KB for 3 million tickets; a hash set
/// for identities.
///
/// Cheap to clone: clones share their chunks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct IdSet {
    chunks: rpds::HashTrieMapSync<(u16, u32, u32), Chunk>,
    identities: rpds::HashTrieMapSync<TicketId, FleetTime>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Chunk {
    bits: Arc<Vec<u64>>,
    /// Until when a ticket of this chunk could still be valid.
    until: FleetTime,
}

impl IdSet {
    /// Whether the id is in the set.
    #[must_use]
    pub(super) fn contains(&self, id: TicketId) -> bool {
        if is_identity(id) {
            return self.identities.contains_key(&id);
        }
        let (chunk, word, bit) = place(id);
        let chunk = self.chunks.get(&(id.node, id.generation, chunk));
        chunk.and_then(|chunk| chunk.bits.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// Adds an id, to be kept at least until `until`.
    pub(super) fn insert(&mut self, id: TicketId, until: FleetTime) {
        if is_identity(id) {
            self.identities.insert_mut(id, until);
            return;
        }
        let (number, word, bit) = place(id);
        let key = (id.node, id.generation, number);
        if self.chunks.get(&key).is_none() {
            self.chunks.insert_mut(key, Chunk { bits: Arc::new(vec![0; WORDS]), until });
        }
        // In place, so that only bits that a clone shares are copied.
        let Some(chunk) = self.chunks.get_mut(&key) else { return };
        if let Some(word) = Arc::make_mut(&mut chunk.bits).get_mut(word) {
            *word |= bit;
        }
        chunk.until = chunk.until.max(until);
    }

    /// Takes an id out again; nothing is copied for one that is not in the set.
    pub(super) fn remove(&mut self, id: TicketId) {
        if !self.contains(id) {
            return;
        }
        if is_identity(id) {
            self.identities.remove_mut(&id);
            return;
        }
        let (number, word, bit) = place(id);
        let Some(chunk) = self.chunks.get_mut(&(id.node, id.generation, number)) else { return };
        if let Some(word) = Arc::make_mut(&mut chunk.bits).get_mut(word) {
            *word &= !bit;
        }
    }

    /// Forgets ids whose tickets can no longer be valid.
    pub(super) fn forget_before(&mut self, now: FleetTime) {
        let over = self.chunks.iter().filter(|(_, chunk)| chunk.until < now).map(|(key, _)| *key);
        for key in over.collect::<Vec<_>>() {
            self.chunks.remove_mut(&key);
        }
        let over = self.identities.iter().filter(|(_, until)| **until < now).map(|(id, _)| *id);
        for id in over.collect::<Vec<_>>() {
            self.identities.remove_mut(&id);
        }
    }

    /// How many ids it holds; linear in the chunks.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        let ones = |chunk: &Chunk| chunk.bits.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        self.chunks.values().map(ones).sum::<usize>() + self.identities.size()
    }
}

fn is_identity(id: TicketId) -> bool {
    id.node == 0
}

fn place(id: TicketId) -> (u32, usize, u64) {
    let chunk = u32::try_from(id.sequence / CHUNK).unwrap_or(u32::MAX);
    let within = id.sequence % CHUNK;
    let word = usize::try_from(within / 64).unwrap_or_default();
    (chunk, word, 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn ids() -> impl Strategy<Value = Vec<TicketId>> {
        let id = (0u16..3, 0u32..3, 0u64..200_000).prop_map(|(node, generation, sequence)| TicketId {
            node,
            generation,
            sequence,
        });
        prop::collection::vec(id, 1..60)
    }

    proptest! {
        #[test]
        fn it_holds_exactly_what_was_inserted(inserted in ids(), asked in ids()) {
            let mut set = IdSet::default();
            for id in &inserted {
                set.insert(*id, FleetTime(10));
            }
            let all: HashSet<_> = inserted.iter().copied().collect();
            prop_assert_eq!(set.len(), all.len());
            for id in inserted.iter().chain(&asked) {
                prop_assert_eq!(set.contains(*id), all.contains(id));
            }
        }
    }

    #[test]
    fn an_id_is_kept_until_its_ticket_is_over_and_a_clone_is_unmoved() {
        let id = |sequence| TicketId { node: 1, generation: 1, sequence };
        let mut set = IdSet::default();
        set.insert(id(7), FleetTime(100));
        let before = set.clone();
        set.insert(id(8), FleetTime(200));
        assert!(!before.contains(id(8)));
        let both = set.clone();
        set.remove(id(8));
        set.remove(id(9));
        assert!(both.contains(id(8)) && !set.contains(id(8)) && set.contains(id(7)));
        set.insert(id(8), FleetTime(200));
        set.forget_before(FleetTime(200));
        assert!(set.contains(id(7)) && set.contains(id(8)));
        set.forget_before(FleetTime(201));
        assert_eq!(set.len(), 0);
    }
}

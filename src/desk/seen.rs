//! Which tickets were seen in a heartbeat window: a bit each, so that an old cookie sent twice counts once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::model::ids::TicketId;

const CHUNK: u64 = 1 << 16;

const WORDS: usize = (CHUNK / 64) as usize;

type Chunk = Arc<[AtomicU64; WORDS]>;

type Chunks = HashMap<(u16, u32, u64), Chunk>;

/// A set of ids that many threads add to: readers and markers take no lock once a chunk is there.
#[derive(Debug, Default)]
pub(super) struct Seen {
    chunks: ArcSwap<Chunks>,
    growing: Mutex<()>,
}

/// Whether an id was marked for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sighting {
    First,
    Again,
}

impl Seen {
    /// Marks an id as seen.
    pub(super) fn mark(&self, id: TicketId) -> Sighting {
        let key = (id.node, id.generation, id.sequence / CHUNK);
        let chunks = self.chunks.load();
        match chunks.get(&key) {
            Some(chunk) => mark_in(chunk, id),
            None => mark_in(&self.grow(key), id),
        }
    }

    /// Whether an id was seen.
    pub(super) fn contains(&self, id: TicketId) -> bool {
        let (word, bit) = place(id);
        let chunks = self.chunks.load();
        let chunk = chunks.get(&(id.node, id.generation, id.sequence / CHUNK));
        chunk.and_then(|chunk| chunk.get(word)).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Forgets everything: the set is used for a new window.
    pub(super) fn clear(&self) {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        self.chunks.store(Arc::default());
    }

    fn grow(&self, key: (u16, u32, u64)) -> Chunk {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chunks = Chunks::clone(&self.chunks.load());
        let fresh = || Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let chunk = Arc::clone(chunks.entry(key).or_insert_with(fresh));
        self.chunks.store(Arc::new(chunks));
        chunk
    }
}

fn mark_in(chunk: &Chunk, id: TicketId) -> Sighting {
    let (word, bit) = place(id);
    let Some(word) = chunk.get(word) else { return Sighting::First };
    // Read first: most are marked already, and a write takes the line from every other core. Relaxed: the bit stands for
    // itself alone.
    if word.load(Ordering::Relaxed) & bit != 0 || word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return Sighting::Again;
    }
    Sighting::First
}

fn place(id: TicketId) -> (usize, u64) {
    let within = id.sequence % CHUNK;
    (usize::try_from(within / 64).unwrap_or_default(), 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_first_seen_once_whoever_marks_it() {
        let seen = Seen::default();
        let firsts: usize = std::thread::scope(|scope| {
            let mark = || {
                let ids = (0..200_000u64).step_by(7);
                ids.filter(|n| {
                    seen.mark(TicketId { node: 1, generation: 1, sequence: *n }) == Sighting::First
                })
                .count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(mark)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(firsts, (0..200_000u64).step_by(7).count());
        seen.clear();
        assert!(!seen.contains(TicketId { node: 1, generation: 1, sequence: 7 }));
    }
}

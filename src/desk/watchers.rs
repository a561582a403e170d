//! Who waits for the end of a pass, as an open WebSocket does: woken by that end, and by no other news.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::model::ids::TicketId;

/// Those who wait, by pass.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<TicketId, Watched>>);

#[derive(Debug, Default)]
struct Watched {
    end: Arc<Notify>,
    by: usize,
}

/// One who waits, until it is dropped.
pub(super) struct Watcher<'a> {
    watchers: &'a Watchers,
    id: TicketId,
    end: Arc<Notify>,
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, HashMap<TicketId, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for the end of a pass.
    pub(super) fn watch(&self, id: TicketId) -> Watcher<'_> {
        let mut all = self.lock();
        let watched = all.entry(id).or_default();
        watched.by += 1;
        Watcher { watchers: self, id, end: Arc::clone(&watched.end) }
    }

    /// These passes are over.
    pub(super) fn wake(&self, ended: &[TicketId]) {
        if ended.is_empty() {
            return;
        }
        let all = self.lock();
        ended.iter().filter_map(|id| all.get(id)).for_each(|watched| watched.end.notify_waiters());
    }

    /// Any pass may be over.
    pub(super) fn wake_all(&self) {
        self.lock().values().for_each(|watched| watched.end.notify_waiters());
    }
}

impl Watcher<'_> {
    /// Resolves at the next word that the pass may be over, from this call on.
    pub(super) fn told(&self) -> Notified<'_> {
        self.end.notified()
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut watched) = self.watchers.lock().entry(self.id) {
            watched.get_mut().by -= 1;
            if watched.get().by == 0 {
                watched.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> TicketId {
        TicketId { node: 1, generation: 1, sequence }
    }

    #[tokio::test]
    async fn the_end_of_a_pass_wakes_those_who_wait_for_it_and_nobody_stays_behind() {
        let watchers = Watchers::default();
        let (one, same, other) = (watchers.watch(id(1)), watchers.watch(id(1)), watchers.watch(id(2)));
        let (first, second, third) = (one.told(), same.told(), other.told());
        watchers.wake(&[id(1), id(3)]);
        first.await;
        second.await;
        let mut third = Look(Box::pin(third));
        assert!(!third.is_woken().await);
        watchers.wake_all();
        assert!(third.is_woken().await);
        drop(third);
        drop((one, same, other));
        assert!(watchers.lock().is_empty());
    }

    /// A wait that is looked at without waiting.
    struct Look<'a>(std::pin::Pin<Box<Notified<'a>>>);

    impl Look<'_> {
        async fn is_woken(&mut self) -> bool {
            tokio::time::timeout(std::time::Duration::ZERO, self.0.as_mut()).await.is_ok()
        }
    }
}

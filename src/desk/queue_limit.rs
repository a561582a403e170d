//! How many places `queue_limit` leaves: the leader's count, and the places given here since.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Places given at this node, ever: only differences matter.
///
/// Places that other nodes give between two pulses are not known here.
#[derive(Debug, Default)]
pub(super) struct Places {
    given: AtomicU64,
    /// Of those, the ones that the counts for the leader hold.
    counted: AtomicU64,
    /// How many were counted when a report was made that no pulse has answered; ascending.
    reported: Mutex<VecDeque<(u64, u64)>>,
}

/// A place that is being given; it goes back unless it is counted.
#[derive(Debug)]
pub(super) struct Given<'a> {
    places: Option<&'a Places>,
}

impl Places {
    /// A place beside `waiting` others, who include the first `known` places given here.
    pub(super) fn take(&self, limit: Option<NonZeroU32>, waiting: u32, known: u64) -> Option<Given<'_>> {
        let next = |given: u64| {
            let here = given.saturating_sub(known);
            let has_room =
                |limit: NonZeroU32| u64::from(waiting).saturating_add(here) < u64::from(limit.get());
            limit.is_none_or(has_room).then_some(given + 1)
        };
        self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Given { places: Some(self) })
    }

    /// A place for a ticket that has been given out.
    pub(super) fn take_anyway(&self) -> Given<'_> {
        self.given.fetch_add(1, Ordering::Relaxed);
        Given { places: Some(self) }
    }

    /// Notes what the report of this number is sure to tell of; to be called before the counts are read.
    pub(super) fn reported(&self, number: u64) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        // Acquire: whoever counted a place here has put it into the counts before.
        reported.push_back((number, self.counted.load(Ordering::Acquire)));
    }

    /// How many of the places given here are in the leader's count, by the report that it answers.
    pub(super) fn known(&self, answered: u64) -> Option<u64> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = None;
        while let Some((_, counted)) = reported.front().copied().filter(|(number, _)| *number <= answered) {
            known = Some(counted);
            reported.pop_front();
        }
        known
    }
}

impl Given<'_> {
    /// The counts hold it.
    pub(super) fn counted(mut self) {
        if let Some(places) = self.places.take() {
            places.counted.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if let Some(places) = self.places {
            places.given.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

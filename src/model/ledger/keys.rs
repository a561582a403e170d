//! Signing keys: which one signs, which ones verify, and until when.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::KeyRecord;
use crate::model::ids::{KeyId, LogIndex};
use crate::model::time::FleetTime;

/// A new key signs at the latest after this, even if an edge has not acknowledged it.
const ACKNOWLEDGE_LIMIT: Duration = Duration::from_secs(60);

/// The signing keys, ascending by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Rises with every change.
    pub version: u64,
    records: Vec<KeyRecord>,
    unacknowledged: Option<LogIndex>,
}

impl Keys {
    /// The keys, ascending by id.
    #[must_use]
    pub fn records(&self) -> &[KeyRecord] {
        &self.records
    }

    /// The log index of a key that not every edge has acknowledged.
    #[must_use]
    pub fn awaits_acknowledgement(&self) -> Option<LogIndex> {
        self.unacknowledged
    }

    /// Adds a key; the keys before it go on to verify for `overlap` after it begins to sign.
    pub(super) fn add(
        &mut self,
        index: LogIndex,
        now: FleetTime,
        key: &KeyRecord,
        overlap: Duration,
    ) -> KeyId {
        let newest = self.records.last().map(|record| record.id.0);
        let id = KeyId(newest.map_or(key.id.0, |newest| newest.saturating_add(1)));
        let first = newest.is_none();
        let signs_from = if first { now } else { now.after(ACKNOWLEDGE_LIMIT) };
        for record in self.records.iter_mut().filter(|record| record.verifies_until.is_none()) {
            record.verifies_until = Some(signs_from.after(overlap));
        }
        let record = KeyRecord { id, signs_from, verifies_until: None, ..key.clone() };
        self.records.push(record);
        self.unacknowledged = (!first).then_some(index);
        self.version = index.0;
        id
    }

    /// Lets a key sign that every edge has acknowledged.
    pub(super) fn acknowledge(&mut self, index: LogIndex, now: FleetTime, acknowledged: LogIndex) {
        if self.unacknowledged.is_none_or(|waiting| waiting > acknowledged) {
            return;
        }
        self.unacknowledged = None;
        if let Some(newest) = self.records.last_mut().filter(|newest| newest.signs_from > now) {
            newest.signs_from = now;
            self.version = index.0;
        }
    }

    /// Lets the old keys verify longer: the whole fleet was away.
    pub(super) fn extend(&mut self, index: LogIndex, by: Duration) {
        for until in self.records.iter_mut().filter_map(|record| record.verifies_until.as_mut()) {
            *until = until.after(by);
            self.version = index.0;
        }
    }

    /// Drops keys whose tokens are refused anyway.
    pub(super) fn forget_before(&mut self, index: LogIndex, now: FleetTime) {
        let before = self.records.len();
        self.records.retain(|record| record.verifies_until.is_none_or(|until| until > now));
        if self.records.len() != before {
            self.version = index.0;
        }
    }
}

//! Which of the texts to tell next, so that a node with many events does not talk more than one with few.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::EVENT;

/// What has been told so far.
#[derive(Clone, Debug, Default)]
pub struct Telling {
    told: BTreeMap<String, String>,
    /// The event that was told last; the next one has its turn first.
    last: String,
}

/// A change of what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A text is new.
    Put(String, String),
    /// There is nothing under this name any more.
    Drop(String),
}

impl Telling {
    /// What to tell now, given all that there is: about the node all that is new, of the events at most `room` bytes of
    /// names and texts, but at least one. Events take turns.
    pub fn next(&mut self, all: &BTreeMap<String, String>, room: usize) -> Vec<Change> {
        let gone: Vec<String> = self.told.keys().filter(|name| !all.contains_key(*name)).cloned().collect();
        let mut changes = Vec::new();
        for name in gone {
            self.told.remove(&name);
            changes.push(Change::Drop(name));
        }
        let of_node = all.iter().filter(|(name, _)| !name.starts_with(EVENT));
        for (name, text) in of_node {
            self.tell(name, text, &mut changes);
        }
        let last = std::mem::take(&mut self.last);
        let after = all.range::<str, _>((Bound::Excluded(last.as_str()), Bound::Unbounded));
        let before = all.range::<str, _>((Bound::Unbounded, Bound::Included(last.as_str())));
        let mut taken = 0;
        self.last.clone_from(&last);
        for (name, text) in after.chain(before).filter(|(name, _)| name.starts_with(EVENT)) {
            if self.told.get(name) == Some(text) {
                continue;
            }
            let size = name.len() + text.len();
            if taken > 0 && taken + size > room {
                break;
            }
            taken += size;
            self.tell(name, text, &mut changes);
            self.last.clone_from(name);
        }
        changes
    }

    fn tell(&mut self, name: &str, text: &str, changes: &mut Vec<Change>) {
        if self.told.get(name).is_none_or(|told| told != text) {
            self.told.insert(name.to_owned(), text.to_owned());
            changes.push(Change::Put(name.to_owned(), text.to_owned()));
        }
    }
}

//! The three-way merge of a file's fields with live changes (design §8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use crate::model::ids::NodeId;

/// The fields of one event as a controller's file states them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The controller that submits.
    pub controller: NodeId,
    /// What its file says.
    pub fields: Fields,
}

/// The values last submitted from files: by anyone and by each controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submissions {
    by_anyone: Fields,
    by_controller: BTreeMap<NodeId, Fields>,
}

/// What a submission did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// Fields that took the file's value.
    pub applied: Vec<String>,
    /// Fields where a live change overrides the file.
    pub overridden: Vec<String>,
}

impl Submissions {
    /// The submission that created the event: all of it is in effect already.
    pub fn found(&mut self, submission: &Submission) -> Merged {
        self.record(submission);
        Merged { applied: submission.fields.0.keys().cloned().collect(), overridden: Vec::new() }
    }

    /// Merges a submission into the fields in effect.
    ///
    /// Only a field whose file value differs both from the value last submitted by anyone and from this controller's own
    /// last one takes effect; a controller's first submission to an event that exists is only recorded. So neither a
    /// restart nor a second controller with the same file undoes a live change, and an edited line always takes effect.
    pub fn merge(&mut self, effective: &mut Fields, submission: &Submission) -> Merged {
        let mut merged = Merged::default();
        let own = self.by_controller.get(&submission.controller);
        for (name, value) in &submission.fields.0 {
            let known_to_own = own.is_none_or(|own| own.0.get(name) == Some(value));
            let edited = !known_to_own && self.by_anyone.0.get(name) != Some(value);
            if edited {
                effective.0.insert(name.clone(), value.clone());
                merged.applied.push(name.clone());
            } else if effective.0.get(name) != Some(value) {
                merged.overridden.push(name.clone());
            }
        }
        let first = own.is_none();
        let kept = self.by_anyone.clone();
        self.record(submission);
        if first && !kept.0.is_empty() {
            // What is only recorded must not make another controller's unchanged file look edited.
            self.by_anyone = kept;
        }
        merged
    }

    fn record(&mut self, submission: &Submission) {
        self.by_anyone.0.extend(submission.fields.0.clone());
        self.by_controller.insert(submission.controller, submission.fields.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::num::NonZeroU16;

    fn fields(pairs: &[(&str, u32)]) -> Fields {
        Fields(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect())
    }

    fn from(node: u16, fields: &Fields) -> Submission {
        let controller = NodeId(NonZeroU16::new(node).unwrap());
        Submission { controller, fields: fields.clone() }
    }

    fn any_fields() -> impl Strategy<Value = Fields> {
        prop::collection::btree_map("[a-d]", "[0-3]", 0..4).prop_map(Fields)
    }

    proptest! {
        #[test]
        fn a_restart_with_the_same_file_never_undoes_a_live_change(file in any_fields(), live in any_fields()) {
            let (mut submissions, mut effective) = (Submissions::default(), file.clone());
            submissions.found(&from(1, &file));
            effective.0.extend(live.0);
            let before = effective.clone();
            for node in [1, 2, 1, 2] {
                submissions.merge(&mut effective, &from(node, &file));
            }
            prop_assert_eq!(effective, before);
        }

        #[test]
        fn an_edited_line_always_takes_effect(file in any_fields(), live in any_fields(), edit in "[4-9]") {
            let (mut submissions, mut effective) = (Submissions::default(), file.clone());
            submissions.found(&from(1, &file));
            effective.0.extend(live.0);
            let mut edited = file;
            edited.0.insert("a".to_owned(), edit.clone());
            let merged = submissions.merge(&mut effective, &from(1, &edited));
            prop_assert_eq!(effective.get("a"), Some(edit.as_str()));
            prop_assert!(merged.applied.contains(&"a".to_owned()));
        }
    }

    #[test]
    fn the_same_edit_on_a_second_controller_does_not_undo_a_live_change_made_in_between() {
        let old = fields(&[("capacity", 10)]);
        let new = fields(&[("capacity", 20)]);
        let (mut submissions, mut effective) = (Submissions::default(), old.clone());
        submissions.found(&from(1, &old));
        submissions.merge(&mut effective, &from(2, &old));
        submissions.merge(&mut effective, &from(1, &new));
        assert_eq!(effective, new);
        effective.0.insert("capacity".to_owned(), "15".to_owned());
        let merged = submissions.merge(&mut effective, &from(2, &new));
        assert_eq!(effective, fields(&[("capacity", 15)]));
        assert_eq!(merged.overridden, ["capacity"]);
    }

    #[test]
    fn a_controllers_first_submission_to_an_event_that_exists_is_only_recorded() {
        let (mut submissions, mut effective) = (Submissions::default(), fields(&[("capacity", 10)]));
        let merged = submissions.merge(&mut effective, &from(1, &fields(&[("capacity", 20)])));
        assert_eq!(effective, fields(&[("capacity", 10)]));
        assert_eq!(merged.overridden, ["capacity"]);
        submissions.merge(&mut effective, &from(1, &fields(&[("capacity", 30)])));
        assert_eq!(effective, fields(&[("capacity", 30)]));
    }
}

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

prop_compose! {
    fn any_totals()(
        (line, joined, waiting, admitted, live_passes, watermark) in any::<(u32, u64, u32, u64, u32, u64)>()
    ) -> Totals {
        let (line, watermark) = (LineEpoch(line), OrderKey(watermark));
        Totals { line, joined, waiting, admitted, live_passes, watermark }
    }
}

prop_compose! {
    fn any_tidings()(
        stage in prop_oneof![Just(EdgeStage::Serving), Just(EdgeStage::Draining), Just(EdgeStage::Gone)],
        version in "[!-~]{1,32}",
        leads in proptest::option::of(any::<u64>().prop_map(Term)),
        events in btree_map("[a-z0-9][a-z0-9-]{0,62}".prop_map(|id| id.parse().unwrap()), any_totals(), 0..8),
    ) -> Tidings {
        Tidings { stage, version, leads, events }
    }
}

fn read(entries: &BTreeMap<String, String>) -> Option<Tidings> {
    Tidings::read(entries.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

proptest! {
    #[test]
    fn what_is_told_is_understood_and_what_a_newer_version_adds_does_no_harm(
        tidings in any_tidings(), more in " [ -~]{0,20}",
    ) {
        let mut entries = tidings.entries();
        prop_assert_eq!(read(&entries), Some(tidings.clone()));
        for (name, text) in &mut entries {
            if name != LEADS {
                text.push_str(&more);
            }
        }
        entries.insert("z".to_owned(), more);
        prop_assert_eq!(read(&entries), Some(tidings));
    }

    #[test]
    fn any_texts_are_read_or_left_out(texts in vec(("(n|l|e:[a-z]?|.*)", ".*"), 0..6)) {
        let read = Tidings::read(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        prop_assert!(read.is_none_or(|tidings| tidings.version.len() <= LONGEST_VERSION));
    }

    #[test]
    fn everything_is_told_in_the_end_and_never_more_at_once_than_there_is_room_for(
        before in any_tidings(), after in any_tidings(), room in 0_usize..300,
    ) {
        let mut telling = Telling::default();
        let mut heard = BTreeMap::new();
        for all in [before.entries(), after.entries()] {
            for _ in 0..all.len() + 1 {
                let changes = telling.next(&all, room);
                let mut sizes = Vec::new();
                for change in changes {
                    match change {
                        Change::Put(name, text) => {
                            if name.starts_with(EVENT) {
                                sizes.push(name.len() + text.len());
                            }
                            heard.insert(name, text);
                        }
                        Change::Drop(name) => prop_assert!(heard.remove(&name).is_some()),
                    }
                }
                prop_assert!(sizes.len() <= 1 || sizes.iter().sum::<usize>() <= room);
            }
            prop_assert_eq!(&heard, &all);
            prop_assert_eq!(telling.next(&all, room), []);
        }
    }
}

#[test]
fn events_take_turns() {
    let mut telling = Telling::default();
    let entry = |event: char, turn: u32| (format!("{EVENT}{event}"), format!("{turn}"));
    let mut told = BTreeMap::<char, u32>::new();
    for turn in 0..30 {
        let all = "abcde".chars().map(|event| entry(event, turn)).collect();
        for change in telling.next(&all, 10) {
            let Change::Put(name, _) = change else { panic!("{change:?}") };
            *told.entry(name.chars().last().unwrap()).or_default() += 1;
        }
    }
    let (least, most) = (told.values().min().unwrap(), told.values().max().unwrap());
    assert!(told.len() == 5 && most - least <= 1, "{told:?}");
}

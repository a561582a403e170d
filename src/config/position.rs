//! Where in the text a path stands.
//!
//! The text is parsed once more by a visitor that follows the path and fails at its end: the parser then tells where.
//! So a position costs nothing but when there is a fault to tell.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fault::Position;

/// The line and column of a path, or of the nearest key above it that is in the text.
pub(super) fn find(text: &str, path: &str) -> Option<Position> {
    let steps = steps(path);
    (1..=steps.len()).rev().find_map(|length| find_exactly(text, steps.get(..length)?))
}

fn find_exactly(text: &str, steps: &[Step<'_>]) -> Option<Position> {
    let error = Follow { steps }.deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    if !error.to_string().contains(HERE) {
        return None;
    }
    error.location().map(|at| Position { line: at.line(), column: at.column() })
}

/// What the visitor says when it fails on purpose.
const HERE: &str = "the end of the path";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

/// `a.b[2].c` as steps; a name with a dot in it is not found whole, which leaves the key above it.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, items) = part.split_once('[').unwrap_or((part, ""));
        steps.push(Step::Key(name));
        let items = items.split('[').filter_map(|item| item.strip_suffix(']')?.parse().ok());
        steps.extend(items.map(Step::Item));
    }
    steps
}

#[derive(Clone, Copy)]
struct Follow<'a> {
    steps: &'a [Step<'a>],
}

impl<'de> DeserializeSeed<'de> for Follow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.steps.is_empty() {
            deserializer.deserialize_any(Fail)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Follow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what the path leads through")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), below)) = self.steps.split_first() else { return skip_map(map) };
        let last = below.is_empty();
        while let Some(found) = map.next_key_seed(Key { wanted, last })? {
            match found {
                Found::Wanted => return map.next_value_seed(Follow { steps: below }),
                Found::Other => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if let Some((Step::Item(wanted), below)) = self.steps.split_first() {
            for _ in 0..*wanted {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(());
                }
            }
            list.next_element_seed(Follow { steps: below })?;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// A key of a map: fails at the wanted one if the path ends there.
#[derive(Clone, Copy)]
struct Key<'a> {
    wanted: &'a str,
    last: bool,
}

enum Found {
    Wanted,
    Other,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Found, E> {
        match (key == self.wanted, self.last) {
            (true, true) => Err(E::custom(HERE)),
            (true, false) => Ok(Found::Wanted),
            (false, _) => Ok(Found::Other),
        }
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<Found, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<Found, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<Found, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(Found::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::Other)
    }
}

/// Fails at whatever it is shown.
struct Fail;

impl<'de> Visitor<'de> for Fail {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Err(E::custom(HERE))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(HERE))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(HERE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "node: { id: 1 }\nevents:\n  - id: a\n    match:\n      - path: /x\n      - { path: /y }\n";

    fn at(path: &str) -> Option<(usize, usize)> {
        find(TEXT, path).map(|position| (position.line, position.column))
    }

    #[test]
    fn a_key_stands_where_its_name_begins() {
        assert_eq!(at("node.id"), Some((1, 9)));
        assert_eq!(at("events"), Some((2, 1)));
        assert_eq!(at("events[0].match[1].path"), Some((6, 11)));
        assert_eq!(at("events[0].match[1]"), Some((6, 9)));
    }

    #[test]
    fn what_is_missing_stands_where_the_nearest_key_above_it_does() {
        assert_eq!(at("events[0].capacity"), Some((3, 5)));
        assert_eq!(at("node.data_dir.x"), Some((1, 1)));
        assert_eq!(at("listeners"), None);
    }
}

//! Typed reading of JSON values that collects every fault instead of stopping at the first.

use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields::Fault;
use crate::model::time::FleetTime;

/// Reads the keys of one object; whatever nobody asked for in the end is an unknown key.
#[derive(Debug)]
pub struct Reader<'a> {
    path: String,
    left: Map<String, Value>,
    asked: Vec<&'static str>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Reader<'a> {
    /// Reads `map`, which stands at `path` (empty: at the top).
    pub fn new(path: &str, map: Map<String, Value>, faults: &'a mut Vec<Fault>) -> Self {
        Self { path: path.to_owned(), left: map, asked: Vec::new(), faults }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes that a key is at fault.
    pub fn fault(&mut self, key: &str, problem: impl Into<String>) {
        let path = self.path_of(key);
        self.faults.push(Fault { path, problem: problem.into() });
    }

    /// How many faults have been noted so far.
    #[must_use]
    pub fn fault_count(&self) -> usize {
        self.faults.len()
    }

    /// Takes a value out; `null` counts as left out.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.left.remove(key).filter(|value| !value.is_null())
    }

    /// A whole number within a range.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(key)?;
        let number = value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            let (low, high) = range.into_inner();
            self.fault(key, format!("{value} is not a whole number from {low} to {high}"));
        }
        number
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => {
                self.fault(key, format!("{other} is not a text"));
                None
            }
        }
    }

    /// Yes or no.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        if value.as_bool().is_none() {
            self.fault(key, format!("{value} is neither true nor false"));
        }
        value.as_bool()
    }

    /// One of a few words.
    pub fn word<T: DeserializeOwned>(&mut self, key: &'static str, words: &str) -> Option<T> {
        let value = self.take(key)?;
        let word = serde_json::from_value(value.clone()).ok();
        if word.is_none() {
            self.fault(key, format!("{value} is not one of {words}"));
        }
        word
    }

    /// A time: RFC 3339 with a zone or an offset, as `2027-03-01T10:00:00+01:00`.
    pub fn time(&mut self, key: &'static str) -> Option<FleetTime> {
        let text = self.text(key)?;
        let time = parse_time(&text);
        if time.is_none() {
            let form = "write it as 2027-03-01T10:00:00+01:00 or 2027-03-01T10:00:00[Europe/Paris]";
            self.fault(key, format!("\"{text}\" is not a time with a zone; {form}"));
        }
        time
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &'static str) -> Vec<String> {
        let text = |reader: &mut Self, at: usize, value: Value| match value {
            Value::String(text) => Some(text),
            other => {
                reader.fault(&format!("{key}[{at}]"), format!("{other} is not a text"));
                None
            }
        };
        let list = self.list(key);
        list.into_iter().enumerate().filter_map(|(at, value)| text(self, at, value)).collect()
    }

    /// A list; empty if left out.
    pub fn list(&mut self, key: &'static str) -> Vec<Value> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.fault(key, format!("{other} is not a list"));
                Vec::new()
            }
        }
    }

    /// Reads an object below this one.
    pub fn object<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Reader<'_>) -> T) -> Option<T> {
        let value = self.take(key)?;
        self.object_of(key, value, read)
    }

    /// Reads a list of objects.
    pub fn objects<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Reader<'_>) -> T) -> Vec<T> {
        let list = self.list(key);
        let each = list.into_iter().enumerate();
        each.filter_map(|(at, value)| self.object_of(&format!("{key}[{at}]"), value, &mut read)).collect()
    }

    /// Reads an object whose values are objects under names of the operator's own.
    pub fn named_objects<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Reader<'_>) -> T,
    ) -> Vec<(String, T)> {
        let map = match self.take(key) {
            None => return Vec::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                self.fault(key, format!("{other} is not a set of names and what they stand for"));
                return Vec::new();
            }
        };
        let each = map.into_iter();
        each.filter_map(|(name, value)| {
            let read = self.object_of(&format!("{key}.{name}"), value, &mut read)?;
            Some((name, read))
        })
        .collect()
    }

    /// A text that spells a `T`; `form` says how to write one.
    pub fn parsed<T: FromStr>(&mut self, key: &'static str, form: &str) -> Option<T> {
        let text = self.text(key)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fault(key, format!("\"{text}\" is not {form}"));
        }
        parsed
    }

    /// Refuses a key, if it is there, with a sentence that says why.
    pub fn refuse(&mut self, key: &'static str, why: &str) {
        if self.take(key).is_some() {
            self.fault(key, why);
        }
    }

    fn object_of<T>(
        &mut self,
        key: &str,
        value: Value,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        let Value::Object(map) = value else {
            self.fault(key, format!("{value} is not a set of keys and values"));
            return None;
        };
        let mut reader = Reader::new(&self.path_of(key), map, self.faults);
        let read = read(&mut reader);
        reader.finish();
        Some(read)
    }

    /// Reports the keys that nobody asked for.
    pub fn finish(self) {
        let Self { path, left, asked, faults } = self;
        for key in left.keys() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let problem = format!("unknown key; known are {}", asked.join(", "));
            faults.push(Fault { path, problem });
        }
    }
}

fn parse_time(text: &str) -> Option<FleetTime> {
    let milliseconds = match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.as_millisecond(),
        Err(_) => text.parse::<jiff::ZonedDateTime>().ok()?.timestamp().as_millisecond(),
    };
    u64::try_from(milliseconds).ok().map(FleetTime)
}

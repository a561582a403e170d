//! The event's own log, read tolerantly: what is not known is left out.

use std::path::Path;

use serde_json::Value;

/// One decision of the event's log, as far as the checker wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum LogRecord {
    /// Tickets below this key are called.
    Watermark(u64),
    /// The capacity of the policy.
    Capacity(u64),
    /// A new line: the watermark begins anew.
    Reset,
}

/// What the event's log says, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLog(Vec<LogRecord>);

/// Why an event's log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("event log: {0}")]
    File(#[from] std::io::Error),
    /// It is no JSON.
    #[error("event log: {0}; give what GET /admin/events/{{event}}/log answers, or one record per line")]
    Json(#[from] serde_json::Error),
}

impl EventLog {
    /// Reads a saved log.
    ///
    /// # Errors
    /// When the file cannot be read or is no JSON.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    /// Parses an array, an object that holds one, or one record per line.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        let mut log = Self::default();
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            log.take(&value?);
        }
        Ok(log)
    }

    /// Adds what a JSON value tells: a record, an array of them, or an object that holds one.
    pub fn take(&mut self, value: &Value) {
        match value {
            Value::Array(records) => records.iter().for_each(|record| self.take(record)),
            Value::Object(fields) => {
                let list =
                    ["records", "log", "entries"].iter().find_map(|name| fields.get(*name)?.as_array());
                match list {
                    Some(list) => list.iter().for_each(|record| self.take(record)),
                    None => self.0.extend(decision(value)),
                }
            }
            _ => {}
        }
    }

    /// The greatest capacity that was ever in force.
    #[must_use]
    pub fn greatest_capacity(&self) -> Option<u64> {
        let capacity = |record: &LogRecord| match record {
            LogRecord::Capacity(slots) => Some(*slots),
            _ => None,
        };
        self.0.iter().filter_map(capacity).max()
    }

    /// Where the watermark went back within one line: before and after.
    #[must_use]
    pub fn steps_back(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let mut last = 0;
        for record in &self.0 {
            match *record {
                LogRecord::Reset => last = 0,
                LogRecord::Watermark(key) if key < last => steps.push((last, key)),
                LogRecord::Watermark(key) => last = key,
                LogRecord::Capacity(_) => {}
            }
        }
        steps
    }

    /// How many of its records the checker understood.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The decision of a record, which may lie in it under `what`, `decision` or flat.
fn decision(record: &Value) -> Option<LogRecord> {
    let what = ["what", "decision"].iter().find_map(|name| record.get(*name)).unwrap_or(record);
    if let Some(key) = what.get("watermark").or_else(|| record.get("watermark")).and_then(key) {
        return Some(LogRecord::Watermark(key));
    }
    if what.get("reset").is_some() || what.as_str() == Some("reset") {
        return Some(LogRecord::Reset);
    }
    let policy = what.get("policy").unwrap_or(what);
    let capacity = policy.get("capacity").or_else(|| record.get("capacity"))?;
    capacity.as_u64().map(LogRecord::Capacity)
}

/// An order key: a number, its decimal or hexadecimal text, or its bucket and fraction.
fn key(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        },
        Value::Object(fields) => {
            let part = |name: &str| fields.get(name).and_then(Value::as_u64);
            let bucket = part("bucket").filter(|bucket| *bucket <= u64::from(u32::MAX))?;
            Some(bucket << 32 | part("fraction").unwrap_or(0).min(u64::from(u32::MAX)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_read_in_every_shape_that_it_comes_in() {
        let record = r#"{"index":4,"at":1,"what":{"watermark":9}}"#;
        let expected = EventLog(vec![LogRecord::Watermark(9)]);
        for text in [
            record.to_owned(),
            format!("[{record}]"),
            format!(r#"{{"records":[{record}],"next":5}}"#),
            format!("{record}\n"),
        ] {
            assert_eq!(EventLog::parse(&text).unwrap(), expected, "{text}");
        }
        let flat = r#"{"index":4,"kind":"watermark","watermark":{"bucket":1,"fraction":2}}"#;
        assert_eq!(EventLog::parse(flat).unwrap(), EventLog(vec![LogRecord::Watermark(1 << 32 | 2)]));
        assert!(EventLog::parse("{").is_err());
        assert!(EventLog::parse(r#"[{"what":{"gate":"Open"}}, 3, null]"#).unwrap().is_empty());
    }

    #[test]
    fn the_watermark_may_go_back_only_at_a_reset() {
        let log = r#"[{"what":{"watermark":5}},{"what":{"reset":2}},{"what":{"watermark":3}}]"#;
        assert_eq!(EventLog::parse(log).unwrap().steps_back(), []);
        let log = r#"[{"what":{"watermark":5}},{"what":{"watermark":"0x3"}},{"what":{"watermark":4}}]"#;
        assert_eq!(EventLog::parse(log).unwrap().steps_back(), [(5, 3), (5, 4)]);
    }

    #[test]
    fn the_greatest_capacity_counts() {
        let log = r#"[{"what":{"policy":{"capacity":5,"paused":false}}},{"what":{"policy":{"capacity":3}}}]"#;
        assert_eq!(EventLog::parse(log).unwrap().greatest_capacity(), Some(5));
    }
}

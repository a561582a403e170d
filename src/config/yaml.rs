//! From YAML text to the JSON values that the readers of the model take.

use serde_json::{Map, Number, Value};

use super::fault::{Faults, Position};
use crate::model::policy::Fault;

/// The keys and values of a file; an empty file has none.
pub(super) fn to_map(text: &str) -> Result<Map<String, Value>, Faults> {
    let mut yaml: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| malformed(&error))?;
    yaml.apply_merge().map_err(|error| malformed(&error))?;
    let mut faults = Vec::new();
    match to_json(yaml, "", &mut faults) {
        _ if !faults.is_empty() => Err(Faults::located(faults, text)),
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Faults::malformed("the file is not a set of keys and values".to_owned(), None)),
    }
}

fn malformed(error: &serde_yaml::Error) -> Faults {
    let position = error.location().map(|at| Position { line: at.line(), column: at.column() });
    Faults::malformed(format!("is not well-formed YAML: {error}"), position)
}

fn to_json(value: serde_yaml::Value, path: &str, faults: &mut Vec<Fault>) -> Value {
    match value {
        serde_yaml::Value::Null => Value::Null,
        serde_yaml::Value::Bool(flag) => Value::Bool(flag),
        serde_yaml::Value::Number(number) => to_number(&number).map_or(Value::Null, Value::Number),
        serde_yaml::Value::String(text) => Value::String(text),
        serde_yaml::Value::Sequence(list) => {
            let each = list.into_iter().enumerate();
            each.map(|(at, value)| to_json(value, &format!("{path}[{at}]"), faults)).collect()
        }
        serde_yaml::Value::Mapping(map) => to_object(map, path, faults),
        serde_yaml::Value::Tagged(tagged) => {
            let problem = format!("the tag {} means nothing here; leave it out", tagged.tag);
            faults.push(Fault { path: path.to_owned(), problem });
            Value::Null
        }
    }
}

fn to_object(map: serde_yaml::Mapping, path: &str, faults: &mut Vec<Fault>) -> Value {
    let mut object = Map::new();
    for (key, value) in map {
        let name = match key {
            serde_yaml::Value::String(name) => name,
            serde_yaml::Value::Number(number) => number.to_string(),
            _ => {
                faults.push(Fault {
                    path: path.to_owned(),
                    problem: "has a key that is not a name".to_owned(),
                });
                continue;
            }
        };
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = to_json(value, &path, faults);
        object.insert(name, value);
    }
    Value::Object(object)
}

/// A number that JSON has no word for (`.inf`, `.nan`) is `None`.
fn to_number(number: &serde_yaml::Number) -> Option<Number> {
    let whole = number.as_u64().map(Number::from).or_else(|| number.as_i64().map(Number::from));
    whole.or_else(|| number.as_f64().and_then(Number::from_f64))
}

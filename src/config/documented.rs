//! Holds docs/configuration.md against the program: every key, every range, every default.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::read::read;
use super::settings::Settings;
use crate::model::policy::Fault;

const PAGE: &str = include_str!("../../docs/configuration.md");

struct Row {
    path: &'static str,
    range: &'static str,
    default: &'static str,
}

/// The rows of the tables whose first cell is a key.
fn rows() -> Vec<Row> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let row = |cells: Vec<&'static str>| match cells.as_slice() {
        [path, range, default, _] if path.starts_with('`') => {
            Some(Row { path: path.trim_matches('`'), range, default })
        }
        _ => None,
    };
    PAGE.lines().filter(|line| line.starts_with('|')).map(cells).filter_map(row).collect()
}

/// A file without fault in which everything that is required is there.
fn base() -> Value {
    json!({
        "listeners": [{ "address": "127.0.0.1:8080" }],
        "default_origin": "shop",
        "origins": { "shop": { "servers": ["127.0.0.1:3000"], "health": {} } },
        "events": [{
            "id": "tour", "capacity": 1, "max_admit_per_sec": 1,
            "match": [{ "host": "a.example", "path": "/" }], "bypass": [{ "path": "/x" }],
        }],
        "cluster": {
            "listen": "127.0.0.1:7946",
            "tls": { "ca": "ca.crt", "certificate": "node.crt", "key": "node.key" },
            "controllers": { "1": "127.0.0.1:7946" },
        },
    })
}

/// The base with a value at a path such as `events[].match[].path`; what is above it is made where it is missing.
fn base_with(path: &str, value: Value) -> Value {
    let mut root = base();
    let mut here = &mut root;
    for part in path.split('.') {
        let (name, item) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let name = if name == "NAME" { "shop" } else { name };
        if here.is_null() {
            *here = json!({});
        }
        here = here.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        if item {
            if here.is_null() {
                *here = json!([{}]);
            }
            here = &mut here[0];
        }
    }
    *here = value;
    root
}

fn read_value(value: Value) -> (Settings, Vec<Fault>) {
    let Value::Object(map) = value else { panic!("an object") };
    read(map)
}

/// The path as faults name it.
fn fault_path(path: &str) -> String {
    path.replace("[]", "[0]").replace("NAME", "shop")
}

fn is_out_of_range(path: &str, number: u128) -> bool {
    let Ok(number) = u64::try_from(number) else { return true };
    let (_, faults) = read_value(base_with(path, json!(number)));
    faults.iter().any(|fault| fault.path == fault_path(path) && fault.problem.contains("whole number"))
}

#[test]
fn every_key_is_documented_and_every_documented_key_is_known() {
    let documented: BTreeSet<_> = rows().iter().map(|row| row.path.to_owned()).collect();
    let above = |path: &str| path.rsplit_once('.').map(|(above, _)| above.to_owned()).unwrap_or_default();
    let mut parents: BTreeSet<_> = documented.iter().map(|path| above(path)).collect();
    parents.extend(parents.clone().iter().map(|path| above(path)));
    parents.remove("origins");
    let containers = |path: &str| parents.iter().any(|parent| parent.trim_end_matches("[]") == path);
    let not_supported = ["keys", "seal_key_file"];
    for parent in &parents {
        let odd = if parent.is_empty() { "odd".to_owned() } else { format!("{parent}.odd") };
        let (_, faults) = read_value(base_with(&odd, json!(1)));
        let wanted = fault_path(&odd);
        let told = faults
            .iter()
            .find(|fault| fault.path == wanted)
            .unwrap_or_else(|| panic!("{wanted}: {faults:?}"));
        for key in told.problem.split_once("known are ").unwrap().1.split(", ") {
            let path = if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") };
            let known = documented.contains(&path) || containers(&path) || path == "origins";
            assert!(known || not_supported.contains(&path.as_str()), "{path} is in docs/configuration.md");
        }
    }
    for path in &documented {
        let (_, faults) = read_value(base_with(path, Value::Null));
        assert!(!faults.iter().any(|fault| fault.problem.starts_with("unknown key")), "{path}: {faults:?}");
    }
}

#[test]
fn documented_ranges_are_the_ranges() {
    let mut checked = 0;
    for Row { path, range, .. } in rows() {
        let Some((low, high)) = range.split_once("..") else { continue };
        let (low, high): (u128, u128) = (low.parse().unwrap(), high.parse().unwrap());
        assert!(!is_out_of_range(path, low) && !is_out_of_range(path, high), "{path}");
        assert!(is_out_of_range(path, high + 1), "{path}");
        assert!(low == 0 || is_out_of_range(path, low - 1), "{path}");
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn documented_defaults_are_the_defaults() {
    let (plain, faults) = read_value(base());
    assert_eq!(faults, []);
    let mut checked = 0;
    for Row { path, default, .. } in rows() {
        let Some(default) = default.strip_prefix('`').and_then(|text| text.strip_suffix('`')) else {
            continue;
        };
        let Ok(value) = serde_json::from_str::<Value>(default) else { continue };
        let (mut stated, faults) = read_value(base_with(path, value));
        assert_eq!(faults, [], "{path}");
        // What a file states is kept as stated; only what it comes to is to be the same.
        for (event, plain) in stated.events.iter_mut().zip(&plain.events) {
            event.fields = plain.fields.clone();
        }
        assert_eq!(stated, plain, "{path}");
        checked += 1;
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn what_the_page_says_is_required_is_required() {
    for Row { path, default, .. } in rows() {
        let (_, faults) = read_value(base_with(path, Value::Null));
        let missing = faults.iter().any(|fault| fault.path == fault_path(path));
        assert_eq!(missing, default == "required", "{path}: {faults:?}");
    }
}

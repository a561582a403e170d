//! A fleet in lines for people: who leads, what is changing, one line for each controller and each run of a node.

use serde_json::Value;

/// What the answer of a node says of its fleet.
pub(super) fn told(fleet: &Value) -> String {
    let mut lines = vec![format!("{}; log index {}", who(fleet), known(fleet, "index"))];
    lines.extend(fleet.get("change").filter(|change| change.is_object()).map(change));
    lines.extend(aligned(rows(fleet, "controllers").map(controller).collect()));
    lines.extend(aligned(rows(fleet, "nodes").map(node).collect()));
    lines.join("\n")
}

fn rows<'a>(fleet: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    fleet.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn is(of: &Value, key: &str, value: bool) -> bool {
    of.get(key) == Some(&Value::Bool(value))
}

fn who(fleet: &Value) -> String {
    if is(fleet, "alone", true) {
        return "this node is alone".to_owned();
    }
    if rows(fleet, "controllers").count() == 0 {
        return "a fleet that is not founded; `anteroom cluster init` founds it".to_owned();
    }
    match fleet.get("leader").filter(|leader| leader.is_object()) {
        Some(leader) => {
            let time = time(leader, "leads_for_ms").unwrap_or_else(|| "a moment".to_owned());
            format!(
                "a fleet; controller {} leads, for {time}, in term {}",
                known(leader, "node"),
                known(leader, "term")
            )
        }
        None => "a fleet that nobody leads, as this controller knows it".to_owned(),
    }
}

fn change(change: &Value) -> String {
    let list = |key| rows(change, key).map(Value::to_string).collect::<Vec<_>>().join(", ");
    let waits = match list("waits_for") {
        silent if silent.is_empty() => "and goes on by itself".to_owned(),
        silent => format!("and waits for {silent} to answer"),
    };
    format!("a change of controllers is under way, from {} to {}, {waits}", list("from"), list("to"))
}

fn controller(row: &Value) -> [String; 5] {
    let doing = if is(row, "leads", true) {
        "leads".to_owned()
    } else if is(row, "answers", false) {
        silent("does not answer", row)
    } else {
        "follows".to_owned()
    };
    let votes = if is(row, "votes", true) { "votes" } else { "catches up" };
    [
        format!("controller {}", known(row, "node")),
        known(row, "address"),
        votes.to_owned(),
        doing,
        format!("log index {}", known(row, "log_index")),
    ]
}

fn node(row: &Value) -> [String; 4] {
    let heard = row.get("acknowledged_index").is_some_and(|index| !index.is_null());
    [
        format!("node {}", known(row, "node")),
        format!("run {}", known(row, "generation")),
        if heard { "heard".to_owned() } else { silent("not heard", row) },
        format!("log index {}", known(row, if heard { "acknowledged_index" } else { "last_index" })),
    ]
}

fn silent(how: &str, row: &Value) -> String {
    match time(row, "silent_ms") {
        Some(time) => format!("{how}, last {time} ago"),
        None => format!("{how}, and never did"),
    }
}

/// Lines in which every column begins at one place.
fn aligned<const COLUMNS: usize>(rows: Vec<[String; COLUMNS]>) -> Vec<String> {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A length of time in one unit.
fn time(of: &Value, key: &str) -> Option<String> {
    let seconds = of.get(key)?.as_u64()? / 1000;
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    })
}

/// A value as people read it.
pub(super) fn known(of: &Value, key: &str) -> String {
    match of.get(key) {
        None | Some(Value::Null) => "not known".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fleet_is_told_in_aligned_lines_and_who_is_dead_is_told_as_such() {
        let controller = |node, leads, answers, silent: Option<u64>, index: Option<u64>| {
            json!({
                "node": node, "address": format!("a-{node}:1"), "votes": node < 11, "leads": leads,
                "answers": answers, "silent_ms": silent, "log_index": index,
            })
        };
        let fleet = json!({
            "alone": false,
            "index": 42,
            "leader": { "node": 1, "term": 3, "leads_for_ms": 185_000 },
            "change": null,
            "controllers": [
                controller(1, true, true, None, Some(42)),
                controller(2, false, true, Some(80), Some(40)),
                controller(3, false, false, Some(61_000), None),
                controller(10, false, false, None, None),
                controller(11, false, true, Some(0), Some(7)),
            ],
            "nodes": [
                { "node": 1, "generation": 7, "acknowledged_index": 41, "last_index": 41, "silent_ms": 100 },
                { "node": 12, "generation": 300, "acknowledged_index": null, "last_index": 12, "silent_ms": 7_300_000 },
            ],
        });
        let lines = [
            "a fleet; controller 1 leads, for 3 min, in term 3; log index 42",
            "controller 1   a-1:1   votes       leads                           log index 42",
            "controller 2   a-2:1   votes       follows                         log index 40",
            "controller 3   a-3:1   votes       does not answer, last 61 s ago  log index not known",
            "controller 10  a-10:1  votes       does not answer, and never did  log index not known",
            "controller 11  a-11:1  catches up  follows                         log index 7",
            "node 1   run 7    heard                    log index 41",
            "node 12  run 300  not heard, last 2 h ago  log index 12",
        ];
        assert_eq!(told(&fleet), lines.join("\n"));
    }

    #[test]
    fn a_change_of_controllers_is_told_with_what_it_waits_for() {
        let fleet = |waits_for: &[u64]| {
            let change = json!({ "from": [1, 2, 3], "to": [1, 2], "waits_for": waits_for });
            let told = told(&json!({ "controllers": [{ "node": 1 }], "change": change, "index": 5 }));
            told.lines().nth(1).map(str::to_owned)
        };
        let told = "a change of controllers is under way, from 1, 2, 3 to 1, 2, and ";
        assert_eq!(fleet(&[2, 3]), Some(format!("{told}waits for 2, 3 to answer")));
        assert_eq!(fleet(&[]), Some(format!("{told}goes on by itself")));
    }

    #[test]
    fn a_fleet_without_a_leader_or_a_founder_is_told_as_such() {
        let controller =
            json!({ "node": 1, "address": "a:1", "votes": true, "leads": false, "log_index": 5 });
        let mut fleet = json!({ "alone": false, "index": 5, "controllers": [controller], "nodes": [] });
        assert!(told(&fleet).starts_with("a fleet that nobody leads"), "{}", told(&fleet));
        fleet["controllers"] = json!([]);
        assert!(told(&fleet).starts_with("a fleet that is not founded"), "{}", told(&fleet));
    }
}

//! A fleet in lines for people: who leads, what is changing, one line for each controller and each run of a node.

use serde_json::Value;

/// What the answer of a node says of its fleet.
pub(super) fn told(fleet: &Value) -> String {
    let mut lines = vec![format!("{}; log index {}", who(fleet), known(fleet, "index"))];
    lines.extend(fleet.get("change").filter(|change| change.is_object()).map(change));
    lines.extend(rows(fleet, "warnings").filter_map(Value::as_str).map(|told| format!("warning: {told}")));
    let view = View::of(fleet);
    lines.extend(aligned(rows(fleet, "controllers").map(|row| controller(row, &view)).collect()));
    lines.extend(aligned(rows(fleet, "nodes").map(|row| node(row, &view)).collect()));
    lines.join("\n")
}

/// Whose view is told.
enum View<'a> {
    /// That of who leads, or is alone: it hears everybody.
    All,
    /// That of a controller that does not lead: it hears the leader and who wants to be, and no reports.
    Own(&'a Value),
}

impl<'a> View<'a> {
    fn of(fleet: &'a Value) -> Self {
        let leader = fleet.get("leader").and_then(|leader| leader.get("node"));
        match fleet.get("seen_by") {
            Some(me) if leader != Some(me) => Self::Own(me),
            _ => Self::All,
        }
    }
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
            let time = time(leader, "leads_for_ms").map(|time| format!(" for {time},")).unwrap_or_default();
            format!(
                "a fleet; controller {} leads,{time} in term {}",
                known(leader, "node"),
                known(leader, "term")
            )
        }
        None => format!("a fleet that nobody leads, as controller {} knows it", known(fleet, "seen_by")),
    }
}

fn change(change: &Value) -> String {
    let list = |key| rows(change, key).map(Value::to_string).collect::<Vec<_>>().join(", ");
    let waits = |otherwise: &str| match list("waits_for") {
        silent if silent.is_empty() => otherwise.to_owned(),
        silent => format!("and waits for {silent} to answer"),
    };
    match list("newcomers") {
        nobody if nobody.is_empty() => {
            let (from, to, waits) = (list("from"), list("to"), waits("and goes on by itself"));
            format!("a change of controllers is under way, from {from} to {to}, {waits}")
        }
        new if is(change, "at_work", true) => {
            format!("controller {new} is being added, {}", waits("and catches up with the log"))
        }
        new => format!(
            "the addition of controller {new} was given up: it is taken back by itself, then add it again"
        ),
    }
}

fn controller(row: &Value, view: &View<'_>) -> [String; 5] {
    let doing = match view {
        _ if is(row, "leads", true) => "leads".to_owned(),
        View::Own(me) if row.get("node") == Some(*me) => "was asked".to_owned(),
        View::Own(_) => heard_last("heard", row),
        View::All if is(row, "answers", false) => silent("does not answer", row),
        View::All => "follows".to_owned(),
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

fn node(row: &Value, view: &View<'_>) -> [String; 4] {
    let heard = row.get("acknowledged_index").is_some_and(|index| !index.is_null());
    let index = known(row, if heard { "acknowledged_index" } else { "last_index" });
    let standing = match view {
        View::Own(me) if row.get("node") == Some(*me) => "was asked".to_owned(),
        View::Own(_) => heard_last("reported", row),
        View::All if heard => "heard".to_owned(),
        View::All => silent("not heard", row),
    };
    let (node, name) = (format!("node {}", known(row, "node")), row.get("name").and_then(Value::as_str));
    [
        name.map_or(node.clone(), |name| format!("{node} ({name})")),
        format!("run {}", known(row, "generation")),
        standing,
        format!("log index {index}"),
    ]
}

/// Who does not lead hears others now and then, which says nothing of how they are.
fn heard_last(how: &str, row: &Value) -> String {
    match time(row, "silent_ms") {
        Some(time) => format!("{how} {time} ago"),
        None => format!("not {how} yet"),
    }
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
                { "node": 10_000, "name": "web", "generation": 9, "acknowledged_index": 42, "silent_ms": 90 },
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
            "node 1            run 7    heard                    log index 41",
            "node 10000 (web)  run 9    heard                    log index 42",
            "node 12           run 300  not heard, last 2 h ago  log index 12",
        ];
        assert_eq!(told(&fleet), lines.join("\n"));
    }

    #[test]
    fn a_change_of_controllers_is_told_with_what_it_waits_for() {
        let line = |change: Value| {
            let told = told(&json!({ "controllers": [{ "node": 1 }], "change": change, "index": 5 }));
            told.lines().nth(1).map(str::to_owned)
        };
        let fleet = |waits_for: &[u64]| {
            let to = [1, 2];
            line(
                json!({ "from": [1, 2, 3], "to": to, "newcomers": [], "at_work": true, "waits_for": waits_for }),
            )
        };
        let told = "a change of controllers is under way, from 1, 2, 3 to 1, 2, and ";
        assert_eq!(fleet(&[2, 3]), Some(format!("{told}waits for 2, 3 to answer")));
        assert_eq!(fleet(&[]), Some(format!("{told}goes on by itself")));
        let addition = |at_work, waits_for: &[u64]| {
            let to = [1, 4];
            let told = json!({ "from": [1], "to": to, "newcomers": [4], "at_work": at_work, "waits_for": waits_for });
            line(told).unwrap()
        };
        assert_eq!(addition(true, &[4]), "controller 4 is being added, and waits for 4 to answer");
        assert_eq!(addition(true, &[]), "controller 4 is being added, and catches up with the log");
        let given_up =
            "the addition of controller 4 was given up: it is taken back by itself, then add it again";
        assert_eq!([addition(false, &[]), addition(false, &[4])], [given_up; 2]);
    }

    #[test]
    fn what_speaks_against_a_fleet_is_told_before_its_controllers() {
        let fleet = json!({ "controllers": [{ "node": 1 }], "warnings": ["two bear no loss"], "index": 5 });
        assert_eq!(told(&fleet).lines().nth(1), Some("warning: two bear no loss"));
    }

    #[test]
    fn a_controller_that_does_not_lead_tells_whom_it_has_heard_and_of_itself_that_it_was_asked() {
        let controller = |node, leads, silent: Option<u64>, index: Option<u64>| {
            json!({
                "node": node, "address": format!("a-{node}:1"), "votes": true, "leads": leads,
                "answers": node == 2 || leads, "silent_ms": silent, "log_index": index,
            })
        };
        let fleet = |leader: Value, leads| {
            json!({
                "alone": false, "index": 9, "seen_by": 2, "leader": leader, "change": null, "warnings": [],
                "controllers": [
                    controller(1, leads, Some(80), None),
                    controller(2, false, None, Some(9)),
                    controller(3, false, None, None),
                ],
                "nodes": [
                    { "node": 2, "generation": 7, "acknowledged_index": null, "last_index": 9, "silent_ms": 0 },
                    { "node": 4, "generation": 8, "acknowledged_index": null, "last_index": null, "silent_ms": 45_000 },
                ],
            })
        };
        let lines = [
            "a fleet that nobody leads, as controller 2 knows it; log index 9",
            "controller 1  a-1:1  votes  heard 0 s ago  log index not known",
            "controller 2  a-2:1  votes  was asked      log index 9",
            "controller 3  a-3:1  votes  not heard yet  log index not known",
            "node 2  run 7  was asked          log index 9",
            "node 4  run 8  reported 45 s ago  log index not known",
        ];
        assert_eq!(told(&fleet(Value::Null, false)), lines.join("\n"));
        let led = told(&fleet(json!({ "node": 1, "term": 3, "leads_for_ms": null }), true));
        assert!(led.starts_with("a fleet; controller 1 leads, in term 3; log index 9\n"), "{led}");
        assert!(led.contains("controller 1  a-1:1  votes  leads"), "{led}");
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

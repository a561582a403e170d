//! What the log says, as JSON for the operator. Secrets stay inside.

use serde_json::{Value, json};

use super::acknowledged::Acknowledged;
use super::council::Council;
use crate::model::ids::{EventId, LogIndex, NodeRun, TicketId};
use crate::model::ledger::{Event, State};
use crate::model::time::{FleetTime, as_millis};

/// A node that is alone.
pub(super) fn lone(state: &State, acknowledged: &Acknowledged, wall: FleetTime) -> Value {
    json!({ "alone": true, "index": state.index, "nodes": nodes(state, acknowledged, wall) })
}

/// A fleet: its controllers, and every node that is registered.
pub(super) fn fleet(state: &State, council: &Council, acknowledged: &Acknowledged, wall: FleetTime) -> Value {
    let mut told = council.describe();
    if let Some(told) = told.as_object_mut() {
        told.insert("alone".to_owned(), json!(false));
        told.insert("index".to_owned(), json!(state.index));
        let mut nodes = nodes(state, acknowledged, wall);
        nodes
            .iter_mut()
            .filter(|row| row.get("node") == told.get("seen_by"))
            .for_each(|own| hear_own(own, state));
        told.insert("nodes".to_owned(), nodes.into());
        // Only the leader hears nodes.
        let leads = told.get("leader").and_then(|leader| leader.get("node")) == told.get("seen_by");
        if let (true, Some(Value::Array(warnings))) = (leads, told.get_mut("warnings")) {
            warnings.extend(held_back(state, acknowledged).map(Value::from));
        }
    }
    told
}

/// What is to be done about nodes for which slots are held back.
fn held_back(state: &State, acknowledged: &Acknowledged) -> Option<String> {
    let held_back: u32 = state.events.values().map(|event| event.pool.held_back()).sum();
    let absent = state.runs.keys().filter(|run| acknowledged.of(run).is_none());
    let absent: Vec<_> = absent.map(|run| run.node.to_string()).collect();
    (held_back > 0 && !absent.is_empty()).then(|| {
        format!(
            "slots held back: {held_back}, since node {} is not heard and may still honour the passes of sessions that are over: if \
             it is gone for good, end it and run `anteroom cluster expel`; else they come back when those passes would have ended",
            absent.join(", ")
        )
    })
}

/// Who tells of itself needs nobody to hear that it is there.
fn hear_own(row: &mut Value, state: &State) {
    let Some(row) = row.as_object_mut() else { return };
    if row.get("acknowledged_index").is_some_and(Value::is_null) {
        row.insert("last_index".to_owned(), json!(state.index));
        row.insert("silent_ms".to_owned(), json!(0));
    }
}

fn nodes(state: &State, acknowledged: &Acknowledged, wall: FleetTime) -> Vec<Value> {
    let node = |(run, known): (&NodeRun, &crate::model::ledger::RunState)| {
        let last = acknowledged.last_of(run);
        // What the log knows of it is up to a minute old.
        let silence = last.map_or_else(|| wall.since(known.heard), |(_, silence)| silence);
        json!({
            "node": run.node,
            "name": state.numbers.holder(run.node).map(|holder| &holder.name),
            "generation": run.generation,
            "registered_heard_ms": known.heard.0,
            "acknowledged_index": acknowledged.of(run),
            "last_index": last.map(|(index, _)| index),
            "silent_ms": as_millis(silence),
        })
    };
    state.runs.iter().map(node).collect()
}

/// An event: its policy as stated and as it is in force, and what the log counts.
pub(super) fn event(state: &State, id: &EventId, event: &Event, acknowledged: &Acknowledged) -> Value {
    let (pool, line, policy) = (&event.pool, &event.line, &event.policy);
    let occupied = pool.occupied();
    json!({
        "id": id,
        "version": event.version,
        "policy": event.fields.to_map(),
        "effective": policy.effective(),
        "in_effect": {
            "index": event.changed,
            "nodes": acknowledged.count(state.runs.keys(), event.changed),
            "of": state.runs.len(),
        },
        "warnings": policy.warnings(),
        "index": state.index,
        "now_ms": state.now.0,
        "slots": {
            "capacity": policy.capacity,
            "occupied": occupied,
            "free": pool.free(policy.capacity.get()),
            "held_back": pool.held_back(),
            "live_passes": pool.live().len(),
            "consumed": pool.live().consumed_len(),
        },
        "line": {
            "epoch": line.epoch,
            "gate": line.gate,
            "watermark": line.watermark,
            "buckets": line.buckets,
            "admit_pending": line.admit_pending,
            "joined": line.rows.values().map(|row| u64::from(row.joined)).sum::<u64>(),
            "alive": line.waiting(),
            "lottery": line.lottery.as_ref().map(|lottery| json!({
                "bucket": lottery.bucket,
                "commitment": hex(&lottery.commitment),
                "order": lottery.order.as_ref().map(|order| hex(order)),
            })),
        },
        "nodes": state.runs.keys().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The records of an event's log after an index, oldest first.
pub(super) fn log(event: &Event, after: LogIndex, limit: usize) -> Vec<Value> {
    let records = event.log.after(after).take(limit);
    records.filter_map(|record| serde_json::to_value(record).ok()).collect()
}

/// One ticket.
pub(super) fn ticket(state: &State, event: &Event, id: TicketId) -> Value {
    let live = event.pool.live();
    let pass = live.pass(id);
    let standing = match pass {
        Some(pass) if pass.claim.is_some() => "admitted",
        Some(_) => "called",
        None if live.is_consumed(id) => "over",
        None => "unknown_to_the_log",
    };
    json!({
        "ticket": id.to_string(),
        "standing": standing,
        "left": live.has_left(id),
        "missed_a_turn": live.is_unclaimed_once(id),
        "pass": pass.map(|pass| json!({
            "expires_ms": pass.expires.0,
            "started_ms": pass.claim.map(|claim| claim.started.0),
            "acknowledged_at": pass.claim.map(|claim| claim.index),
            "minted_by": pass.at.run.to_string(),
            "weight": pass.weight,
        })),
        "index": state.index,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Single visitors, and the log of what was decided.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Admin;
use super::events::change;
use super::problem::Problem;
use super::wire::{Terms, answer, event_id};
use crate::model::ids::{LogIndex, TicketId};
use crate::model::ledger::ChangeKind;

/// Records of a log that are told at once unless asked otherwise, and at most.
const RECORDS: usize = 1000;
const MOST_RECORDS: usize = 20_000;

fn ticket_id(text: &str) -> Result<TicketId, Problem> {
    text.parse().map_err(|error| Problem::not_found(format!("\"{text}\": {error}")))
}

pub(super) async fn end_pass(
    State(admin): State<Admin>,
    Path((event, id)): Path<(String, String)>,
    terms: Terms,
) -> Result<Response, Problem> {
    change(&admin, event_id(&event)?, ChangeKind::EndPass(ticket_id(&id)?), terms).await
}

pub(super) async fn explain(
    State(admin): State<Admin>,
    Path((event, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (event, id) = (event_id(&event)?, ticket_id(&id)?);
    let ledger = admin.control()?.explain(event.clone(), id).await?;
    let told = json!({
        "event": event,
        "ticket": id.to_string(),
        "made_by": { "node": id.node, "generation": id.generation },
        "ledger": ledger,
        "this_node": admin.desk.explain(&event, id),
    });
    Ok(answer(StatusCode::OK, &told, None))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

pub(super) async fn log(
    State(admin): State<Admin>,
    Path(event): Path<String>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let event = event_id(&event)?;
    let wrong = "known are ?after=<log index>&limit=<1 to 20000>";
    let Query(LogQuery { after, limit }) = query.map_err(|_| Problem::malformed(wrong))?;
    let limit = limit.unwrap_or(RECORDS);
    if !(1..=MOST_RECORDS).contains(&limit) {
        return Err(Problem::malformed(wrong));
    }
    let mut records = admin.control()?.event_log(event, LogIndex(after), limit).await?;
    if records.len() == limit {
        keep_whole_entries(&mut records);
    }
    let next = records.last().and_then(index_of).unwrap_or(after);
    Ok(answer(StatusCode::OK, &json!({ "records": records, "next_after": next }), None))
}

/// Drops the records of the last entry, of which some may be left, unless there are of one entry only.
fn keep_whole_entries(records: &mut Vec<Value>) {
    let last = records.last().and_then(index_of);
    let whole = records.iter().position(|record| index_of(record) == last).unwrap_or_default();
    if whole > 0 {
        records.truncate(whole);
    }
}

fn index_of(record: &Value) -> Option<u64> {
    record.get("index").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_log_ends_with_a_whole_entry() {
        let records =
            |indices: &[u64]| -> Vec<_> { indices.iter().map(|at| json!({ "index": at })).collect() };
        let mut page = records(&[1, 2, 2, 3, 3]);
        keep_whole_entries(&mut page);
        assert_eq!(page, records(&[1, 2, 2]));
        let mut page = records(&[4, 4]);
        keep_whole_entries(&mut page);
        assert_eq!(page, records(&[4, 4]));
    }
}

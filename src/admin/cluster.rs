//! The fleet: who is in it, and how that changes.

use std::num::NonZeroU16;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;

use super::Admin;
use super::problem::Problem;
use super::wire::{Run, answer, only_field};
use crate::config::ServerAddress;
use crate::desk::FleetDeed;
use crate::model::ids::NodeId;
use crate::model::policy::Fault;

pub(super) async fn read(State(admin): State<Admin>) -> Result<Response, Problem> {
    perform(&admin, FleetDeed::Look).await
}

pub(super) async fn found(State(admin): State<Admin>, run: Run) -> Result<Response, Problem> {
    change(&admin, run, FleetDeed::Found).await
}

pub(super) async fn add(
    State(admin): State<Admin>,
    Path(node): Path<String>,
    run: Run,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let node = node_id(&node)?;
    let stated = only_field(bytes, "address")?;
    let Some(address) = stated.as_str().map(str::to_owned) else {
        let problem = format!("{stated} is not a text");
        return Err(Problem::faults(vec![Fault { path: "address".to_owned(), problem }]));
    };
    if let Err(problem) = address.parse::<ServerAddress>() {
        let problem = format!("\"{address}\" is no server: {problem}");
        return Err(Problem::faults(vec![Fault { path: "address".to_owned(), problem }]));
    }
    change(&admin, run, FleetDeed::AddController { node, address }).await
}

pub(super) async fn remove(
    State(admin): State<Admin>,
    Path(node): Path<String>,
    run: Run,
) -> Result<Response, Problem> {
    change(&admin, run, FleetDeed::RemoveController { node: node_id(&node)? }).await
}

pub(super) async fn expel(
    State(admin): State<Admin>,
    Path(node): Path<String>,
    run: Run,
) -> Result<Response, Problem> {
    change(&admin, run, FleetDeed::Expel { node: node_id(&node)? }).await
}

/// The node that a path names.
fn node_id(text: &str) -> Result<NodeId, Problem> {
    let id: Result<NonZeroU16, _> = text.parse();
    id.map(NodeId).map_err(|_| {
        Problem::not_found(format!(
            "\"{text}\": a node is named by its `node.id`, a whole number from 1 to 65535"
        ))
    })
}

/// Changes who is in the fleet. Whether it can be done shows only when other nodes are asked to do it, so it cannot be
/// tried.
async fn change(admin: &Admin, run: Run, deed: FleetDeed) -> Result<Response, Problem> {
    match run {
        Run::Real => perform(admin, deed).await,
        Run::Dry => Err(Problem::malformed(
            "what changes the fleet knows no dry run; nothing was changed, GET /admin/cluster tells how it is",
        )),
    }
}

async fn perform(admin: &Admin, deed: FleetDeed) -> Result<Response, Problem> {
    let mut fleet = admin.control()?.fleet(deed).await?;
    if let Some(told) = fleet.as_object_mut() {
        told.insert("gossip".to_owned(), admin.desk.describe_gossip());
    }
    Ok(answer(StatusCode::OK, &fleet, None))
}

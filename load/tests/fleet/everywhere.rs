//! One ticket, shown at every edge at the same time.

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::origin::Origin;
use anteroom_load::token::peek;
use anteroom_load::wire::{Connection, Site};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::net::Net;
use crate::nodes::Nodes;
use crate::revoked::{asking, opens, site, until};
use crate::room::{self, Directory};
use crate::{CONTROLLERS, EDGES};

const TICKETS: usize = 20;

const PATIENCE: Duration = Duration::from_secs(30);

/// Sessions outlast the test, so that every slot that was taken shows to the end.
const EVENTS: &str = "  - { id: sale, match: [ { path: /buy } ], origin: shop, capacity: 100, max_admit_per_sec: 100, \
                      bucket_seconds: 1, pass_claim_s: 300, session_ttl_s: 300 }\n";

async fn told(site: &Arc<Site>, method: Method, action: &str, ticket: Option<&str>) -> Value {
    let path = format!("/waitingroom/sale/{action}");
    let request = asking(site, method, &path, ticket.map(|ticket| ("anteroom-ticket", ticket)));
    let answer = Connection::new(Arc::clone(site)).exchange(request).await;
    answer.ok().and_then(|answer| serde_json::from_slice(&answer.body).ok()).unwrap_or_default()
}

/// Asks at one edge until it gives the pass.
async fn pass_at(site: Arc<Site>, ticket: String) -> String {
    let begun = Instant::now();
    loop {
        let told = told(&site, Method::GET, "status", Some(&ticket)).await;
        if let Some(pass) = told["pass"].as_str() {
            return pass.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "an edge gives no pass: {told}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// How many are inside, as each edge knows it.
async fn live_passes(nodes: &Nodes) -> Vec<Option<u64>> {
    let mut live = Vec::new();
    for node in nodes.all() {
        let told = nodes.operator(node).ask(Method::GET, "/admin/node", None).await.unwrap_or_default();
        live.push(told["events"][0]["live_passes"].as_u64());
    }
    live
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_that_is_shown_at_every_edge_at_once_buys_one_pass_and_one_slot() {
    let Some(net) = Net::new(EDGES) else {
        println!("SKIPPED: no network namespaces here, so NO TICKET WAS SHOWN TO A FLEET");
        return;
    };
    let directory =
        Directory(std::env::temp_dir().join(format!("anteroom-{}-everywhere", std::process::id())));
    let origin = Origin::start((net.host(), 0).into()).await.unwrap();
    let (binary, of) = (room::built().await, (CONTROLLERS, EDGES));
    let nodes = Nodes::start(net, &binary, &directory.0, of, origin.address, EVENTS).await;
    let operator = nodes.operator(1);
    operator.ask(Method::POST, "/admin/events/sale/pause", Some(&json!({}))).await.unwrap();
    let sites: Vec<_> = nodes.all().into_iter().map(|node| site(&nodes, node)).collect();
    let mut tickets = Vec::new();
    until("everybody has a ticket", async || {
        let told = told(&sites[tickets.len() % sites.len()], Method::POST, "join", None).await;
        assert_eq!(told["pass"], Value::Null, "the gate is paused");
        tickets.extend(told["ticket"].as_str().map(str::to_owned));
        tickets.len() == TICKETS
    })
    .await;
    operator.ask(Method::POST, "/admin/events/sale/resume", Some(&json!({}))).await.unwrap();

    let mut asking = JoinSet::new();
    for (number, ticket) in tickets.iter().enumerate() {
        for site in &sites {
            let pass = pass_at(Arc::clone(site), ticket.clone());
            asking.spawn(async move { (number, pass.await) });
        }
    }
    let passes = asking.join_all().await;
    assert_eq!(passes.len(), TICKETS * sites.len());
    for (number, pass) in &passes {
        let (ticket, pass) = (peek(&tickets[*number]).unwrap(), peek(pass).unwrap());
        assert_eq!(ticket.id, pass.id, "the pass is the ticket's own");
    }
    let all = u64::try_from(TICKETS).unwrap();
    let settled = async || live_passes(&nodes).await.iter().all(|live| *live == Some(all));
    until("every edge knows of as many slots as tickets", settled).await;
    for (at, (_, pass)) in passes.iter().enumerate() {
        let site = &sites[(at + 1) % sites.len()];
        until("the pass opens at another edge", async || opens(site, pass).await).await;
    }
    assert_eq!(live_passes(&nodes).await, vec![Some(all); sites.len()], "a slot each, and no more");
}

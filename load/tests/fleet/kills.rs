//! The leader is killed again and again; how long nobody is admitted.

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::origin::Origin;
use anteroom_load::wire::{Connection, Site};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::net::Net;
use crate::nodes::Nodes;
use crate::room::{self, Directory};
use crate::{CONTROLLERS, is_long};

/// The edge that is asked; no controller.
const EDGE: u8 = CONTROLLERS + 1;

/// Between two requests of a visitor.
const PACE: Duration = Duration::from_millis(100);

/// No election takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everybody gets in, as long as somebody leads.
const EVENTS: &str = "  - { id: sale, match: [ { path: /buy } ], origin: shop, capacity: 100000, \
                      max_admit_per_sec: 10000, pass_claim_s: 1, session_ttl_s: 5 }\n";

/// Visitors at an edge: several at a time, each followed by another once it is let in.
struct Arrivals {
    /// When the last one was admitted.
    admitted: watch::Receiver<Instant>,
    coming: Vec<JoinHandle<()>>,
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.coming.iter().for_each(JoinHandle::abort);
    }
}

/// How many visitors are on their way in at a time.
const AT_A_TIME: u8 = 8;

/// What a visitor is told, as far as it matters here.
enum Told {
    Admitted,
    /// With this ticket.
    Waiting(String),
    Nothing,
}

struct Visitors {
    site: Arc<Site>,
    connection: Connection,
    lane: u8,
    number: u16,
}

impl Visitors {
    async fn ask(&mut self, method: Method, action: &str, ticket: Option<&str>) -> Told {
        let [high, low] = self.number.to_be_bytes();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/waitingroom/sale/{action}"))
            .header(HOST, self.site.authority())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .header("x-forwarded-for", format!("10.{}.{high}.{low}", self.lane));
        if let Some(ticket) = ticket {
            request = request.header("anteroom-ticket", ticket);
        }
        let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let Ok(Ok(answer)) = timeout(PATIENCE, self.connection.exchange(request)).await else {
            self.connection = Connection::new(Arc::clone(&self.site));
            return Told::Nothing;
        };
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match (body["state"].as_str(), body["ticket"].as_str()) {
            (Some("admitted"), _) => Told::Admitted,
            (Some("waiting"), Some(ticket)) => Told::Waiting(ticket.to_owned()),
            _ => Told::Nothing,
        }
    }

    /// One visitor, until it is let in or turned away.
    async fn come(&mut self) -> Told {
        self.number = self.number.wrapping_add(1);
        let mut told = self.ask(Method::POST, "join", None).await;
        while let Told::Waiting(ticket) = &told {
            sleep(PACE).await;
            let ticket = ticket.clone();
            told = self.ask(Method::GET, "status", Some(&ticket)).await;
        }
        told
    }
}

impl Arrivals {
    fn begin(target: &str) -> Self {
        let site = Arc::new(Site::new(target, Some("shop.test"), None).unwrap());
        let (note, admitted) = watch::channel(Instant::now());
        let come = |lane: u8| {
            let (site, note) = (Arc::clone(&site), note.clone());
            tokio::spawn(async move {
                let connection = Connection::new(Arc::clone(&site));
                let mut visitors = Visitors { site, connection, lane, number: 0 };
                loop {
                    if matches!(visitors.come().await, Told::Admitted) {
                        note.send_replace(Instant::now());
                    }
                    sleep(PACE).await;
                }
            })
        };
        Self { admitted, coming: (0..AT_A_TIME).map(come).collect() }
    }

    /// Waits until visitors are admitted again after nobody was, counted from `since`: what was granted before the leader
    /// was lost may still be spent for half a second.
    async fn resume(&mut self, since: Instant) -> Duration {
        let mut last = since;
        let mut gap = (Duration::ZERO, since);
        loop {
            timeout(PATIENCE, self.admitted.changed()).await.expect("nobody was admitted any more").unwrap();
            let now = *self.admitted.borrow();
            if now - last > gap.0 {
                gap = (now - last, now);
            }
            last = now;
            // The longest pause is over once as much time has passed without another.
            if now - since > Duration::from_secs(1) && now - gap.1 > Duration::from_millis(500) {
                return gap.1 - since;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_leader_that_is_killed_has_a_successor() {
    let kills = if is_long() { 300 } else { 30 };
    let Some(net) = Net::new(EDGE) else {
        println!("SKIPPED: no network namespaces here, so NO LEADER WAS KILLED");
        return;
    };
    let directory = Directory(std::env::temp_dir().join(format!("anteroom-{}-kills", std::process::id())));
    let origin = Origin::start((net.host(), 0).into()).await.unwrap();
    let of = (CONTROLLERS, EDGE);
    let mut nodes = Nodes::start(net, &room::built().await, &directory.0, of, origin.address, EVENTS).await;
    let mut arrivals = Arrivals::begin(&nodes.target(EDGE));
    arrivals.resume(Instant::now()).await;
    let mut pauses = Vec::new();
    for _ in 0..kills {
        let leader = nodes.leader(&[EDGE]).await;
        let killed = Instant::now();
        nodes.kill(leader).await;
        pauses.push(arrivals.resume(killed).await);
        nodes.spawn(leader);
        nodes.ready().await;
        nodes.caught_up(EDGE).await;
    }
    pauses.sort_unstable();
    let at = |share: usize| pauses[(pauses.len() - 1) * share / 100].as_secs_f64();
    println!(
        "{kills} leaders killed; from the kill to the first new admission: p50 {:.2} s, p90 {:.2} s, p99 {:.2} s, at most \
         {:.2} s",
        at(50),
        at(90),
        at(99),
        at(100)
    );
}

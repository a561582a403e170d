//! The leader is killed again and again; how long nobody is admitted.

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::origin::Origin;
use anteroom_load::wire::{Connection, Site};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::Full;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::net::Net;
use crate::nodes::Nodes;
use crate::room::{self, Directory};
use crate::{CONTROLLERS, is_long};

/// The edge that is asked; no controller.
const EDGE: u8 = CONTROLLERS + 1;

/// Between two visitors.
const PACE: Duration = Duration::from_millis(20);

/// No election takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everybody gets in, as long as somebody leads.
const EVENTS: &str = "  - { id: sale, match: [ { path: /buy } ], origin: shop, capacity: 100000, \
                      max_admit_per_sec: 10000, pass_claim_s: 1, session_ttl_s: 5 }\n";

/// Visitors at an edge, one after the other.
struct Arrivals {
    /// When the last one was admitted.
    admitted: watch::Receiver<Instant>,
    coming: JoinHandle<()>,
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.coming.abort();
    }
}

impl Arrivals {
    fn begin(target: &str) -> Self {
        let site = Arc::new(Site::new(target, Some("shop.test"), None).unwrap());
        let (note, admitted) = watch::channel(Instant::now());
        let coming = tokio::spawn(async move {
            let mut connection = Connection::new(Arc::clone(&site));
            for visitor in 0u32.. {
                let [_, a, b, c] = visitor.to_be_bytes();
                let request = Request::builder()
                    .method(Method::POST)
                    .uri("/waitingroom/sale/join")
                    .header(HOST, site.authority())
                    .header(ACCEPT, "application/json")
                    .header(CONTENT_TYPE, "application/json")
                    .header("x-forwarded-for", format!("10.{a}.{b}.{c}"))
                    .body(Full::new(Bytes::from_static(b"{}")))
                    .unwrap();
                let asked = timeout(PACE * 50, connection.exchange(request)).await;
                let text = match asked {
                    Ok(Ok(answer)) => answer.body,
                    _ => {
                        connection = Connection::new(Arc::clone(&site));
                        Bytes::new()
                    }
                };
                if text.windows(10).any(|part| part == b"\"admitted\"") {
                    note.send_replace(Instant::now());
                }
                sleep(PACE).await;
            }
        });
        Self { admitted, coming }
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
    let Some(net) = Net::new(99, EDGE) else {
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

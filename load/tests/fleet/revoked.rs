//! A session that is revoked while its edge hears nobody.

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::token::peek;
use anteroom_load::wire::{Connection, Site};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::nodes::Nodes;

const PATIENCE: Duration = Duration::from_secs(15);

/// Somebody who is inside, and comes back every other second so that the session lives.
pub(crate) struct Insider {
    pass: String,
    edge: u8,
    coming_back: JoinHandle<()>,
}

impl Drop for Insider {
    fn drop(&mut self) {
        self.coming_back.abort();
    }
}

impl Insider {
    /// Goes in by an edge before anybody waits.
    pub(crate) async fn enter(nodes: &Nodes, edge: u8) -> Self {
        let site = site(nodes, edge);
        let begun = Instant::now();
        let pass = loop {
            let request = asking(&site, Method::POST, "/waitingroom/sale/join", None);
            let answer = Connection::new(Arc::clone(&site)).exchange(request).await.unwrap();
            let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            if let Some(pass) = told["pass"].as_str() {
                break pass.to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "an empty room lets nobody in: {told}");
            sleep(Duration::from_millis(200)).await;
        };
        let used = pass.clone();
        let coming_back = tokio::spawn(async move {
            loop {
                opens(&site, &used).await;
                sleep(Duration::from_secs(2)).await;
            }
        });
        let insider = Self { pass, edge, coming_back };
        until("the pass opens", async || insider.is_let_in(nodes, edge).await).await;
        insider
    }

    async fn is_let_in(&self, nodes: &Nodes, edge: u8) -> bool {
        opens(&site(nodes, edge), &self.pass).await
    }

    /// Is revoked while its edge is cut off: no other edge lets it in from then on, and its own does not either once it
    /// hears of it.
    pub(crate) async fn is_revoked(&self, nodes: &Nodes) {
        let others = nodes.all().into_iter().filter(|node| *node != self.edge);
        others.clone().for_each(|other| nodes.net.cut(self.edge, other));
        let others: Vec<u8> = others.collect();
        let leader = nodes.leader(&others).await;
        let id = peek(&self.pass).unwrap().id;
        let path = format!("/admin/events/sale/passes/{id}");
        nodes.operator(leader).ask(Method::DELETE, &path, None).await.unwrap();
        for other in others {
            let refused = async || !self.is_let_in(nodes, other).await;
            until("an edge that hears the leader refuses the pass", refused).await;
        }
        sleep(Duration::from_secs(3)).await;
        nodes.net.mend();
        let refused = async || !self.is_let_in(nodes, self.edge).await;
        until("its own edge refuses the pass", refused).await;
    }
}

pub(crate) fn site(nodes: &Nodes, edge: u8) -> Arc<Site> {
    Arc::new(Site::new(&nodes.target(edge), Some("shop.test"), None).unwrap())
}

/// A request of somebody who shows a token in a header.
pub(crate) fn asking(
    site: &Site,
    method: Method,
    path: &str,
    shown: Option<(&'static str, &str)>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, site.authority())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/json")
        .header("x-forwarded-for", "10.200.0.1");
    if let Some((name, token)) = shown {
        request = request.header(name, token);
    }
    request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

pub(crate) async fn opens(site: &Arc<Site>, pass: &str) -> bool {
    let request = asking(site, Method::GET, "/buy/again", Some(("anteroom-pass", pass)));
    let answer = Connection::new(Arc::clone(site)).exchange(request).await;
    answer.is_ok_and(|answer| answer.status == StatusCode::OK)
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        sleep(Duration::from_millis(100)).await;
    }
}

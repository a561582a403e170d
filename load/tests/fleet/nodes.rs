//! The real binary, as many times as the fleet has nodes.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anteroom_load::admin::Admin;
use http::Method;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::net::{Net, PEERS};

const PATIENCE: Duration = Duration::from_secs(60);

const VISITORS: u16 = 8080;
const ADMIN: u16 = 9900;
const METRICS: u16 = 9901;

/// The processes of a fleet.
pub(crate) struct Nodes {
    pub(crate) net: Net,
    binary: PathBuf,
    directory: PathBuf,
    controllers: u8,
    running: Vec<Option<Child>>,
    /// How far the wall clock of each is off, in seconds.
    skew: Vec<i64>,
}

impl Nodes {
    /// Starts and founds a fleet: controllers first, edges after them, all of them serving visitors.
    pub(crate) async fn start(
        net: Net,
        binary: &Path,
        directory: &Path,
        (controllers, all): (u8, u8),
        origin: SocketAddr,
        events: &str,
    ) -> Self {
        let running = (0..all).map(|_| None).collect();
        let skew = vec![0; usize::from(all)];
        let (binary, directory) = (binary.to_owned(), directory.to_owned());
        let mut nodes = Self { net, binary, directory, controllers, running, skew };
        nodes.write(origin, events).await;
        for node in 1..=all {
            nodes.spawn(node);
        }
        nodes.found().await;
        nodes.ready().await;
        nodes
    }

    fn home(&self, node: u8) -> PathBuf {
        self.directory.join(format!("node{node}"))
    }

    async fn certs(&self, args: &[&str]) {
        let made = Command::new(&self.binary).arg("certs").args(args).current_dir(&self.directory).output();
        let made = made.await.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    async fn write(&self, origin: SocketAddr, events: &str) {
        std::fs::create_dir_all(&self.directory).unwrap();
        std::fs::write(self.directory.join("admin.token"), "load-tool-token-0123456789abcdef\n").unwrap();
        self.certs(&["ca", "--out", "ca"]).await;
        let at = |node: u8, port: u16| format!("{}:{port}", self.net.address(node));
        let controllers: Vec<String> =
            (1..=self.controllers).map(|node| format!("{node}: \"{}\"", at(node, PEERS))).collect();
        for node in 1..=u8::try_from(self.running.len()).unwrap() {
            let home = self.home(node);
            self.certs(&["node", "--ca", "ca", "--id", &node.to_string(), "--out", home.to_str().unwrap()])
                .await;
            let events = if node <= self.controllers { format!("events:\n{events}") } else { String::new() };
            let text = format!(
                "node: {{ id: {node}, data_dir: ./data }}\n\
                 listeners:\n  - address: {}\n\
                 trusted_proxies: [\"{}/32\"]\n\
                 admin: {{ address: {}, token_file: ../admin.token }}\n\
                 metrics: {{ address: {} }}\n\
                 default_origin: shop\n\
                 origins:\n  shop: {{ servers: [\"{origin}\"] }}\n\
                 limits: {{ joins_per_sec: 100000, per_address: {{ joins_per_min: 1000000, strangers_per_min: 1000000 \
                 }} }}\n\
                 cluster:\n  listen: {}\n  tls: {{ ca: ca.crt, certificate: node.crt, key: node.key }}\n  \
                 controllers: {{ {} }}\n{events}",
                at(node, VISITORS),
                self.net.host(),
                at(node, ADMIN),
                at(node, METRICS),
                at(node, PEERS),
                controllers.join(", "),
            );
            std::fs::write(home.join("anteroom.yaml"), text).unwrap();
        }
    }

    /// Starts a node that does not run.
    pub(crate) fn spawn(&mut self, node: u8) {
        let started = self.start_with(node, &[]);
        self.running[usize::from(node) - 1] = Some(started);
    }

    fn start_with(&self, node: u8, arguments: &[&str]) -> Child {
        let home = self.home(node);
        let log = File::options().create(true).append(true).open(home.join("anteroom.log")).unwrap();
        let [program, args @ ..] = self.net.within(node);
        let mut command = Command::new(program);
        command.args(args);
        let at = usize::from(node) - 1;
        if self.skew[at] != 0 {
            command.args(["faketime", "-f", &format!("{:+}s", self.skew[at])]);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command
            .arg(&self.binary)
            .args(["run", "-c", "anteroom.yaml"])
            .args(arguments)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// Ends a node as an operator does, and waits for the end.
    pub(crate) async fn end(&mut self, node: u8) {
        self.signal(node, "TERM").await;
        self.await_end(node).await;
    }

    /// Has another process take over from a node, and waits until the first one has ended.
    pub(crate) async fn upgrade(&mut self, node: u8) {
        let next = self.start_with(node, &["--upgrade"]);
        self.await_end(node).await;
        self.running[usize::from(node) - 1] = Some(next);
    }

    async fn await_end(&mut self, node: u8) {
        let mut child = self.running[usize::from(node) - 1].take().unwrap();
        let Ok(ended) = tokio::time::timeout(PATIENCE, child.wait()).await else {
            panic!("node {node} does not end:\n{}", self.said(node));
        };
        assert!(ended.unwrap().success(), "node {node} ended badly:\n{}", self.said(node));
    }

    /// Changes the configuration of a node; one that does not have the text stays as it is.
    pub(crate) fn edit(&self, node: u8, from: &str, to: &str) {
        let file = self.home(node).join("anteroom.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text.replace(from, to)).unwrap();
    }

    /// Ends a node as `kill -9` does.
    pub(crate) async fn kill(&mut self, node: u8) {
        if let Some(mut child) = self.running[usize::from(node) - 1].take() {
            child.kill().await.unwrap();
        }
    }

    /// Sends a node a signal by name.
    pub(crate) async fn signal(&self, node: u8, name: &str) {
        let id = self.running[usize::from(node) - 1].as_ref().and_then(Child::id).unwrap();
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status().await.unwrap();
        assert!(sent.success());
    }

    /// Ends a node and everything that it knew.
    pub(crate) async fn wipe(&mut self, node: u8) {
        self.kill(node).await;
        std::fs::remove_dir_all(self.home(node).join("data")).unwrap();
    }

    /// Sets how far the wall clock of a node is off from its next start on, in seconds.
    pub(crate) fn set_clock(&mut self, node: u8, seconds: i64) {
        self.skew[usize::from(node) - 1] = seconds;
    }

    /// What a node has said.
    pub(crate) fn said(&self, node: u8) -> String {
        std::fs::read_to_string(self.home(node).join("anteroom.log")).unwrap_or_default()
    }

    /// Where visitors find a node.
    pub(crate) fn target(&self, node: u8) -> String {
        format!("http://{}:{VISITORS}", self.net.address(node))
    }

    /// The operator's API of a node.
    pub(crate) fn operator(&self, node: u8) -> Admin {
        let url = format!("http://{}:{ADMIN}", self.net.address(node));
        Admin::new(&url, Some(&self.directory.join("admin.token"))).unwrap()
    }

    async fn found(&self) {
        let begun = Instant::now();
        while let Err(error) = self.operator(1).ask(Method::POST, "/admin/cluster/init", None).await {
            assert!(begun.elapsed() < PATIENCE, "the fleet is not founded: {error:#}\n{}", self.said(1));
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until every node that runs serves.
    pub(crate) async fn ready(&self) {
        let begun = Instant::now();
        for (node, _) in (1u8..).zip(&self.running).filter(|(_, child)| child.is_some()) {
            let url = format!("http://{}:{METRICS}", self.net.address(node));
            let health = Admin::new(&url, None).unwrap();
            while !health.is_ready().await {
                assert!(begun.elapsed() < PATIENCE, "node {node} is not ready:\n{}", self.said(node));
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The controller that leads, once one does and any of these nodes says so.
    pub(crate) async fn leader(&self, asked: &[u8]) -> u8 {
        let begun = Instant::now();
        loop {
            for node in asked {
                let operator = self.operator(*node);
                let look = operator.ask(Method::GET, "/admin/cluster", None);
                let Ok(Ok(fleet)) = tokio::time::timeout(Duration::from_secs(2), look).await else {
                    continue;
                };
                if let Some(leader) = leader_in(&fleet) {
                    return leader;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "nobody leads");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every controller has the whole log.
    pub(crate) async fn caught_up(&self, asked: u8) {
        let begun = Instant::now();
        loop {
            let operator = self.operator(asked);
            if let Ok(fleet) = operator.ask(Method::GET, "/admin/cluster", None).await
                && let Some(controllers) = fleet["controllers"].as_array()
            {
                let reached = controllers.iter().map(|one| one["log_index"].as_u64().unwrap_or_default());
                // The log goes on meanwhile.
                let (least, most) =
                    (reached.clone().min().unwrap_or_default(), reached.max().unwrap_or_default());
                if controllers.len() == usize::from(self.controllers) && least > 0 && most - least < 20 {
                    return;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "a controller does not catch up");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The numbers of all nodes.
    pub(crate) fn all(&self) -> Vec<u8> {
        (1..=u8::try_from(self.running.len()).unwrap()).collect()
    }

    /// The numbers of the controllers.
    pub(crate) fn controllers(&self) -> Vec<u8> {
        (1..=self.controllers).collect()
    }
}

fn leader_in(fleet: &Value) -> Option<u8> {
    let controllers = fleet["controllers"].as_array()?;
    let leads = controllers.iter().find(|controller| controller["leads"] == true)?;
    leads["node"].as_u64()?.try_into().ok()
}

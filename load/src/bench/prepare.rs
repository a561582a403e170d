//! Sets the stage: an origin, the waiting room with tickets and passes, and bare Pingora with the same answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::BenchArgs;
use super::generator::{Requests, read_answer};
use super::pairs::Contest;
use crate::ports::free;
use crate::subject::{Plan, Subject, binary};
use crate::wire::{Connection, Site};

/// One event that is full, for polls, and one with room for everybody, for protected requests. What would end tickets
/// and passes in the middle of a run is far away.
const EVENTS: &str = "  - { id: full, match: [ { path: /full } ], origin: shop, capacity: 1, max_admit_per_sec: 1, \
                      heartbeat_ttl_s: 600, session_ttl_s: 3600, pass_claim_s: 3600, session_max_s: 86400 }\n  \
                      - { id: roomy, match: [ { path: /roomy } ], origin: shop, capacity: 100000, \
                      max_admit_per_sec: 100000, session_ttl_s: 3600, pass_claim_s: 3600, session_max_s: 86400 }\n";

/// Everything that runs during the measurements; it ends when this is dropped.
pub(super) struct Stage {
    /// Status polls.
    pub(super) polls: Contest,
    /// Requests with a pass.
    pub(super) protected: Contest,
    _subject: Subject,
    _children: Vec<Child>,
    directory: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left in the temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Stage {
    pub(super) async fn set(args: &BenchArgs) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("anteroom-bench-{}", std::process::id()));
        let binary = args.anteroom.clone().map_or_else(binary, Ok)?;
        let (origin, bare_polls, bare_proxy) = (free()?, free()?, free()?);
        let mut children = vec![run_self(&["origin", "--listen", &origin.to_string()])?];
        wait_for(origin).await?;
        let subject = Subject::start(Plan::new(&binary, &directory, origin, EVENTS)?).await?;
        let target = subject.plan.public;

        let tickets = collect(&subject.plan.target(), "full", "ticket", args.tickets).await?;
        let passes = collect(&subject.plan.target(), "roomy", "pass", args.connections).await?;
        let polls: Vec<Vec<u8>> = tickets.iter().map(|ticket| poll(target, ticket)).collect();
        let mut requests = Vec::with_capacity(passes.len());
        for pass in &passes {
            requests.push(protected(target, &in_use(target, pass).await?));
        }

        let answer = directory.join("answer");
        std::fs::write(&answer, once(target, polls.first().context("there are no tickets")?).await?)?;
        let threads = args.threads.to_string();
        let upstream = origin.to_string();
        let common = ["bare", "--upstream", &upstream, "--threads", &threads, "--listen"];
        let (polls_at, proxy_at) = (bare_polls.to_string(), bare_proxy.to_string());
        let answer = answer.to_str().context("the temporary directory is no UTF-8")?;
        children.push(run_self(&[&common[..], &[&polls_at, "--answer", answer]].concat())?);
        children.push(run_self(&[&common[..], &[&proxy_at]].concat())?);
        wait_for(bare_polls).await?;
        wait_for(bare_proxy).await?;
        Ok(Self {
            polls: Contest { subject: target, bare: bare_polls, requests: Arc::new(Requests::new(polls)?) },
            protected: Contest {
                subject: target,
                bare: bare_proxy,
                requests: Arc::new(Requests::new(requests)?),
            },
            _subject: subject,
            _children: children,
            directory,
        })
    }
}

fn run_self(args: &[&str]) -> anyhow::Result<Child> {
    let own: PathBuf = std::env::current_exe()?;
    let mut child = Command::new(Path::new(&own));
    child
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("this program could not be started again")
}

async fn wait_for(address: SocketAddr) -> anyhow::Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if begun.elapsed() > Duration::from_secs(10) {
            bail!("nothing listens on {address}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Joins until there are so many tokens of the kind.
async fn collect(
    target: &str,
    event: &str,
    kind: &'static str,
    wanted: usize,
) -> anyhow::Result<Vec<String>> {
    const JOINERS: usize = 32;
    let site = Arc::new(Site::new(target, None, None)?);
    let mut joiners = JoinSet::new();
    for number in 0..JOINERS {
        let share = wanted / JOINERS + usize::from(number < wanted % JOINERS);
        let (site, path) = (Arc::clone(&site), format!("/waitingroom/{event}/join"));
        joiners.spawn(async move {
            let mut connection = Connection::new(Arc::clone(&site));
            let (mut tokens, mut asked) = (Vec::with_capacity(share), 0);
            while tokens.len() < share {
                asked += 1;
                if asked > 3 * share + 300 {
                    bail!("{path} gave {} of {share} tokens in {asked} joins", tokens.len());
                }
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(path.as_str())
                    .header(HOST, site.authority())
                    .header(ACCEPT, "application/json")
                    .header(CONTENT_TYPE, "application/json")
                    .header("x-forwarded-for", format!("10.1.{number}.{}", asked % 256));
                let answer = connection.exchange(request.body(Full::new(Bytes::from_static(b"{}")))?).await?;
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                match body.get(kind).and_then(Value::as_str) {
                    Some(token) => tokens.push(token.to_owned()),
                    None if answer.status.is_success() => {}
                    None => sleep(Duration::from_millis(100)).await,
                }
            }
            Ok(tokens)
        });
    }
    let mut tokens = Vec::with_capacity(wanted);
    while let Some(joined) = joiners.join_next().await {
        tokens.extend(joined??);
    }
    Ok(tokens)
}

fn poll(target: SocketAddr, ticket: &str) -> Vec<u8> {
    format!(
        "GET /waitingroom/full/status HTTP/1.1\r\nHost: {target}\r\nAccept: application/json\r\n\
         Cookie: wr_ticket={ticket}\r\n\r\n"
    )
    .into_bytes()
}

fn protected(target: SocketAddr, pass: &str) -> Vec<u8> {
    format!(
        "GET /roomy/page HTTP/1.1\r\nHost: {target}\r\nAccept: text/html\r\nCookie: wr_pass_roomy={pass}; \
         wr_pass={pass}\r\n\r\n"
    )
    .into_bytes()
}

/// The pass that a browser keeps once it has used one for the first time.
async fn in_use(target: SocketAddr, pass: &str) -> anyhow::Result<String> {
    let answer = once(target, &protected(target, pass)).await?;
    let answer = String::from_utf8_lossy(&answer);
    let set = answer
        .lines()
        .filter_map(|line| line.split_once(": wr_pass"))
        .find_map(|(_, set)| set.split_once('='));
    let (_, value) = set.with_context(|| format!("the first use of a pass set no cookie: {answer}"))?;
    Ok(value.split(';').next().unwrap_or_default().to_owned())
}

/// The bytes of one answer.
async fn once(target: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(target).await?;
    stream.write_all(request).await?;
    let mut buffer = vec![0; 64 * 1024];
    let length = read_answer(&mut stream, &mut buffer).await?;
    buffer.truncate(length);
    Ok(buffer)
}

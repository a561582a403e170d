//! Visitors of the demo: each waits its turn as an app would, looks around for a while, leaves, and comes back.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The longest answer that a visitor reads, in bytes.
const LONGEST: usize = 64 * 1024;

/// Seconds that a visitor stays in the shop.
const STAY: std::ops::Range<u64> = 12..30;

/// Seconds until a visitor comes back.
const AWAY: std::ops::Range<u64> = 1..6;

#[derive(Default)]
struct Tokens {
    ticket: Option<String>,
    pass: Option<String>,
}

/// Comes, waits, looks around, leaves; again and again.
pub(super) async fn visit_for_ever(door: SocketAddr) {
    loop {
        // Whatever goes wrong on a visit, the next one begins anew.
        let _ = visit(door).await;
        pause(AWAY).await;
    }
}

async fn visit(door: SocketAddr) -> anyhow::Result<()> {
    let mut tokens = Tokens::default();
    let mut answer = ask(door, &mut tokens, Method::POST, "/waitingroom/demo/join").await?;
    while tokens.pass.is_none() {
        let wait = ["poll_after_ms", "retry_after_ms"].iter().find_map(|name| answer.get(name)?.as_u64());
        let Some(wait) = wait else { anyhow::bail!("the place is gone: {answer}") };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let what = if tokens.ticket.is_some() { (Method::GET, "status") } else { (Method::POST, "join") };
        answer = ask(door, &mut tokens, what.0, &format!("/waitingroom/demo/{}", what.1)).await?;
    }
    ask(door, &mut tokens, Method::GET, "/").await?;
    pause(STAY).await;
    ask(door, &mut tokens, Method::POST, "/waitingroom/demo/leave").await?;
    Ok(())
}

async fn pause(seconds: std::ops::Range<u64>) {
    let milliseconds = rand::random_range(seconds.start * 1000..seconds.end * 1000);
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Asks on a connection of its own, and keeps the tokens of the answer; an answer that is no JSON is `null`.
async fn ask(door: SocketAddr, tokens: &mut Tokens, method: Method, path: &str) -> anyhow::Result<Value> {
    let stream = TcpStream::connect(door).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("Host", door.to_string());
    request = request.header("Accept", "application/json").header("Content-Length", "0");
    for (name, token) in [("Anteroom-Ticket", &tokens.ticket), ("Anteroom-Pass", &tokens.pass)] {
        if let Some(token) = token {
            request = request.header(name, token);
        }
    }
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let body = Limited::new(response.into_body(), LONGEST)
        .collect()
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let token = |name: &str| -> Option<String> { answer.get(name)?.as_str().map(str::to_owned) };
    tokens.ticket = token("ticket").or(tokens.ticket.take());
    tokens.pass = token("pass").or(tokens.pass.take());
    Ok(answer)
}

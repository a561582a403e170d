//! A closed loop of requests over kept-alive connections, as cheap as it can be: prebuilt bytes out, lengths in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Answers are no longer than this.
const LONGEST: usize = 64 * 1024;

/// What is sent, and where to.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Who answers.
    pub(super) target: SocketAddr,
    /// The requests.
    pub(super) requests: Arc<Requests>,
    /// Connections.
    pub(super) connections: usize,
    /// How long before it counts.
    pub(super) warm_up: Duration,
    /// How long it counts.
    pub(super) measured: Duration,
}

/// Requests that all connections of all measurements send in one turn, so that each is sent as often as any other
/// however the connections fare.
#[derive(Debug)]
pub(super) struct Requests {
    all: Vec<Vec<u8>>,
    turn: AtomicUsize,
}

impl Requests {
    pub(super) fn new(all: Vec<Vec<u8>>) -> anyhow::Result<Self> {
        ensure!(!all.is_empty(), "there is nothing to send");
        Ok(Self { all, turn: AtomicUsize::new(0) })
    }

    fn next(&self) -> &[u8] {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.all.get(turn % self.all.len()).map_or(&[], Vec::as_slice)
    }
}

/// Answers per second. Any answer but 200 is an error: it would not be the same work.
pub(super) async fn measure(load: &Load) -> anyhow::Result<f64> {
    let answered = Arc::new(AtomicU64::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..load.connections {
        let requests = Arc::clone(&load.requests);
        connections.spawn(ask_again_and_again(load.target, requests, Arc::clone(&answered)));
    }
    let counted = async {
        sleep(load.warm_up).await;
        let (from, begun) = (answered.load(Ordering::Relaxed), Instant::now());
        sleep(load.measured).await;
        (answered.load(Ordering::Relaxed) - from) as f64 / begun.elapsed().as_secs_f64()
    };
    tokio::select! {
        rate = counted => Ok(rate),
        Some(ended) = connections.join_next() => match ended {
            Ok(Err(error)) => Err(error),
            _ => bail!("a connection ended"),
        },
    }
}

async fn ask_again_and_again(
    target: SocketAddr,
    requests: Arc<Requests>,
    answered: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; LONGEST];
    loop {
        stream.write_all(requests.next()).await?;
        let length = read_answer(&mut stream, &mut buffer).await?;
        let answer = buffer.get(..length).unwrap_or_default();
        if answer.get(9..12) != Some(b"200") {
            bail!("not 200: {}", String::from_utf8_lossy(answer));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads one answer whole, and says how long it is.
pub(super) async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
    let mut filled = 0;
    loop {
        let free =
            buffer.get_mut(filled..).filter(|free| !free.is_empty()).context("the answer is too long")?;
        let read = stream.read(free).await?;
        if read == 0 {
            bail!("the connection was closed in the middle of an answer");
        }
        filled += read;
        if let Some(length) = length_of(buffer.get(..filled).unwrap_or_default())?
            && filled >= length
        {
            return Ok(length);
        }
    }
}

/// How long the answer that begins so is, once its head is there.
fn length_of(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let lines = answer.get(..head).unwrap_or_default().split(|byte| *byte == b'\n');
    for line in lines {
        let name = line.get(..15).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"content-length:") {
            let digits = std::str::from_utf8(line.get(15..).unwrap_or_default())?.trim();
            return Ok(Some(head + 4 + digits.parse::<usize>()?));
        }
    }
    bail!("the answer does not tell its length: {}", String::from_utf8_lossy(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_turns() {
        let requests = Requests::new(vec![b"a".to_vec(), b"b".to_vec()]).unwrap();
        let sent: Vec<&[u8]> = (0..4).map(|_| requests.next()).collect();
        assert_eq!(sent, [b"a", b"b", b"a", b"b"]);
        assert!(Requests::new(Vec::new()).is_err());
    }

    #[test]
    fn lengths_are_known_once_the_head_is_there() {
        assert_eq!(length_of(b"HTTP/1.1 200 OK\r\ncontent-Length: 5\r\n").unwrap(), None);
        let head = b"HTTP/1.1 200 OK\r\ncontent-Length: 5\r\n\r\n";
        assert_eq!(length_of(head).unwrap(), Some(head.len() + 5));
        assert!(length_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[tokio::test]
    async fn a_closed_loop_counts_answers_and_stops_at_any_that_is_not_200() {
        let origin = crate::origin::Origin::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let load = |path: &str| Load {
            target: origin.address,
            requests: Arc::new(
                Requests::new(vec![format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()]).unwrap(),
            ),
            connections: 4,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
        };
        assert!(measure(&load("/buy")).await.unwrap() > 50.0);
        assert!(measure(&load("/status?code=503")).await.is_err());
    }
}

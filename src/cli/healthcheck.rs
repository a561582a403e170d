//! `anteroom healthcheck`: for containers that have no HTTP client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::{Ended, complain, say};
use crate::app::reachable;
use crate::config;

/// Where a node's probes are unless its file says otherwise.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);

/// How long connecting, and every read, may take.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn healthcheck(config: Option<&Path>) -> Ended {
    let address = match config.map(config::load).transpose() {
        Ok(settings) => settings.map_or(USUAL, |settings| reachable(settings.metrics.address)),
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    match ask(address) {
        Ok(answer) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") => {
            say("alive");
            Ended::Well
        }
        Ok(answer) => {
            complain(&format!("{address} answers: {}", answer.lines().next().unwrap_or_default()));
            Ended::Badly
        }
        Err(error) => {
            complain(&format!("{address} does not answer: {error}"));
            Ended::Badly
        }
    }
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET /livez HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

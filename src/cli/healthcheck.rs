//! `anteroom healthcheck`: for containers that have no HTTP client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::ask::{Question, ask};
use super::{Ended, complain, say};
use crate::app::reachable;
use crate::config;

/// Where a node's probes are unless its file says otherwise.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);

/// How long the answer may stay out.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn healthcheck(config: Option<&Path>) -> Ended {
    let address = match config.map(config::load).transpose() {
        Ok(settings) => settings.map_or(USUAL, |settings| reachable(settings.metrics.address)),
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    let question = Question { method: "GET", path: "/livez", token: None, body: "", patience: PATIENCE };
    match ask(address, question) {
        Ok(answer) if answer.status == 200 => {
            say("alive");
            Ended::Well
        }
        Ok(answer) => {
            complain(&format!("{address} answers with status {}", answer.status));
            Ended::Badly
        }
        Err(error) => {
            complain(&format!("{address} does not answer: {error}"));
            Ended::Badly
        }
    }
}

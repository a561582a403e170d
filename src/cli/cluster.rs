//! `anteroom cluster`: the operator's API for those who have a shell on a node.

mod told;

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use told::told;

use super::ask::{Answer, Question, ask};
use super::{Ended, complain, say};
use crate::app::reachable;
use crate::config::{self, ServerAddress};

/// How long the answer may stay out: a new controller catches up before its addition is answered.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Subcommand)]
pub(super) enum Cluster {
    /// Founds the fleet with the controllers of the configuration: once in its life, at one of them, while all run.
    Init {
        #[command(flatten)]
        node: Asked,
    },
    /// Tells who leads, who the controllers and the nodes are, which of them answer, and how far in the log each of them is.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        node: Asked,
    },
    /// Makes a node a controller: one that is new, or whose disk was lost and that was removed before.
    Add {
        /// Its `node.id`.
        #[arg(value_name = "ID")]
        id: NonZeroU16,
        /// Where other nodes reach its `cluster.listen`.
        #[arg(value_name = "HOST:PORT")]
        address: ServerAddress,
        #[command(flatten)]
        node: Asked,
    },
    /// Makes a controller a controller no more, whether it lives or not.
    Remove {
        /// Its `node.id`.
        #[arg(value_name = "ID")]
        id: NonZeroU16,
        #[command(flatten)]
        node: Asked,
    },
    /// Forgets a node that is gone for good.
    Expel {
        /// Its `node.id`.
        #[arg(value_name = "ID")]
        id: NonZeroU16,
        #[command(flatten)]
        node: Asked,
    },
}

/// The node that is asked.
#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The configuration file of the node that is asked, for the address and the token of `admin`.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

/// A request of the operator's API.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    method: &'static str,
    path: String,
    body: String,
}

impl Cluster {
    fn call(&self) -> (&Asked, Call) {
        let call = |method, path: &str, body| Call { method, path: format!("/admin/cluster{path}"), body };
        let nothing = String::new;
        match self {
            Self::Init { node } => (node, call("POST", "/init", nothing())),
            Self::Status { node, .. } => (node, call("GET", "", nothing())),
            Self::Add { id, address, node } => {
                let body = json!({ "address": address.to_string() }).to_string();
                (node, call("PUT", &format!("/controllers/{id}"), body))
            }
            Self::Remove { id, node } => (node, call("DELETE", &format!("/controllers/{id}"), nothing())),
            Self::Expel { id, node } => (node, call("DELETE", &format!("/nodes/{id}"), nothing())),
        }
    }
}

pub(super) fn cluster(what: &Cluster) -> Ended {
    let (node, call) = what.call();
    let settings = match config::load(&node.config) {
        Ok(settings) => settings,
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    let file = &settings.admin.token_file;
    let token = match std::fs::read_to_string(file) {
        Ok(token) => token,
        Err(error) => {
            complain(&format!(
                "anteroom: the token file {} cannot be read: {error}; the node makes it at its first start",
                file.display()
            ));
            return Ended::Badly;
        }
    };
    let address = reachable(settings.admin.address);
    let question = Question {
        method: call.method,
        path: &call.path,
        token: Some(token.trim()),
        body: &call.body,
        patience: PATIENCE,
    };
    match ask(address, question).map(|answer| understood(&answer)) {
        Ok(Ok(fleet)) => {
            say(&match what {
                Cluster::Status { json: true, .. } => format!("{fleet:#}"),
                _ => told(&fleet),
            });
            Ended::Well
        }
        Ok(Err(problem)) => {
            complain(&format!("anteroom: {problem}"));
            Ended::Badly
        }
        Err(error) => {
            complain(&format!(
                "anteroom: `admin.address` {address} does not answer: {error}; does the node run?"
            ));
            Ended::Badly
        }
    }
}

/// The fleet, or what is against it in the words of the node.
fn understood(answer: &Answer) -> Result<Value, String> {
    let told: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if answer.status == 200 && told.is_object() {
        return Ok(told);
    }
    let detail = told.get("detail").and_then(Value::as_str);
    let faults = told.get("faults").and_then(Value::as_array);
    let faults = faults
        .into_iter()
        .flatten()
        .map(|fault| format!("\n{}: {}", told::known(fault, "path"), told::known(fault, "problem")));
    match detail {
        Some(detail) => Err(detail.to_owned() + &faults.collect::<String>()),
        None => Err(format!("the node answers with status {}, and not as Anteroom does", answer.status)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        what: Cluster,
    }

    fn parse(line: &str) -> Result<Cluster, clap::Error> {
        let words = std::iter::once("cluster").chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.what)
    }

    #[test]
    fn every_command_asks_its_own_request() {
        let rows = [
            ("init -c f", "POST", "/admin/cluster/init", ""),
            ("status -c f --json", "GET", "/admin/cluster", ""),
            ("add 4 [::1]:7946 -c f", "PUT", "/admin/cluster/controllers/4", r#"{"address":"[::1]:7946"}"#),
            ("remove 4 -c f", "DELETE", "/admin/cluster/controllers/4", ""),
            ("expel 65535 -c f", "DELETE", "/admin/cluster/nodes/65535", ""),
        ];
        for (line, method, path, body) in rows {
            let what = parse(line).unwrap();
            let wanted = Call { method, path: path.to_owned(), body: body.to_owned() };
            assert_eq!(what.call().1, wanted, "{line}");
        }
    }

    #[test]
    fn a_line_that_names_no_node_no_address_or_no_file_is_refused() {
        for line in [
            "init",
            "status",
            "add 4 -c f",
            "add 4 there -c f",
            "add 0 a:1 -c f",
            "remove -c f",
            "expel 65536 -c f",
        ] {
            parse(line).unwrap_err();
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_node_with_every_fault() {
        let answer = |status, body: &str| Answer { status, body: body.to_owned() };
        let refused = answer(409, r#"{"detail":"node 4 is no controller"}"#);
        assert_eq!(understood(&refused).unwrap_err(), "node 4 is no controller");
        let faults = answer(422, r#"{"detail":"see","faults":[{"path":"address","problem":"is none"}]}"#);
        assert_eq!(understood(&faults).unwrap_err(), "see\naddress: is none");
        for strange in [answer(200, "[]"), answer(200, ""), answer(502, "<html>")] {
            assert!(understood(&strange).unwrap_err().contains("not as Anteroom does"));
        }
    }
}

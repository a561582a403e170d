//! `anteroom run`.

use std::path::PathBuf;

use super::{Ended, complain};
use crate::app::{self, LogFormat, Node, Numbered, Outcome, Signals};

/// How a node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Where none runs.
    Fresh,
    /// At the sockets of the process that runs.
    InPlaceOfAnother,
}

pub(super) fn run(signals: &Signals, config: PathBuf, start: Start, format: LogFormat) -> Ended {
    let settings = match app::check(&config) {
        Ok(settings) => settings,
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    app::start_logs(format);
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let numbered = match Numbered::learn(&settings, signals) {
        Ok(Some(numbered)) => numbered,
        Ok(None) => return Ended::Well,
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            return Ended::Badly;
        }
    };
    let mut node = match start {
        Start::Fresh => Node::open(settings, Some(config), numbered),
        Start::InPlaceOfAnother => Node::take_over(settings, config, numbered),
    };
    loop {
        let ended = node.map_err(anyhow::Error::from).and_then(|node| node.run(signals));
        match ended {
            Ok(Outcome::Ended) => return Ended::Well,
            Ok(Outcome::Left(left)) => node = Node::open_again(left),
            Err(error) => {
                complain(&format!("anteroom: {error}"));
                return Ended::Badly;
            }
        }
    }
}

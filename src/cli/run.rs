//! `anteroom run`.

use std::path::PathBuf;

use super::{Ended, complain};
use crate::app::{self, LogFormat, Node, Outcome, Signals};

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
    let mut node = match start {
        Start::Fresh => Node::open(settings, Some(config)),
        Start::InPlaceOfAnother => Node::take_over(settings, config),
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

//! `anteroom run`.

use std::path::PathBuf;

use super::{Ended, complain};
use crate::app::{self, LogFormat, Node, Signals};

pub(super) fn run(signals: &Signals, config: PathBuf, format: LogFormat) -> Ended {
    let settings = match app::check(&config) {
        Ok(settings) => settings,
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    app::start_logs(format);
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let node = match Node::open(settings, Some(config)) {
        Ok(node) => node,
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            return Ended::Badly;
        }
    };
    match node.run(signals) {
        Ok(()) => Ended::Well,
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            Ended::Badly
        }
    }
}

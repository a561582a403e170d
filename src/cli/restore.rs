//! `anteroom cluster restore`: the one command of the fleet that asks no node, since none is to run.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::cluster::{Cluster, cluster};
use super::{Ended, complain, say};
use crate::config;
use crate::control;
use crate::model::ids::NodeId;

/// What can be done about a fleet.
#[derive(Debug, Subcommand)]
pub(super) enum Fleet {
    #[command(flatten)]
    Running(Cluster),
    /// Makes the node of the configuration, which must not run, the only controller of its fleet: where more than half of
    /// them are lost for good.
    Restore {
        /// Every other controller of its log, by `node.id`; none of them may ever start again with the disk that it had.
        #[arg(long, value_name = "ID", required = true, num_args = 1..)]
        lost: Vec<NonZeroU16>,
        /// The configuration file of the node.
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
}

pub(super) fn fleet(what: &Fleet) -> Ended {
    match what {
        Fleet::Running(what) => cluster(what),
        Fleet::Restore { lost, config } => restore(config, lost),
    }
}

fn restore(file: &Path, lost: &[NonZeroU16]) -> Ended {
    let settings = match config::load(file) {
        Ok(settings) => settings,
        Err(faults) => {
            complain(&faults.to_string());
            return Ended::Misconfigured;
        }
    };
    let node = &settings.node;
    let Some(id) = node.id.configured() else {
        complain(
            "anteroom: an edge that the leader numbers keeps no control log; restore the fleet from a controller",
        );
        return Ended::Badly;
    };
    match control::restore(&node.data_dir, id, &lost.iter().copied().map(NodeId).collect()) {
        Ok(index) => {
            say(&format!(
                "node {} is the only controller of its fleet, with all that its log holds up to index {}; start it, then add \
                 the others with empty data directories",
                id, index.0
            ));
            Ended::Well
        }
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            Ended::Badly
        }
    }
}

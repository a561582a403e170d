//! Assembly: from a configuration to a running node, and back down again.

mod bind;
mod certificates;
mod ending;
mod learning;
mod logs;
mod node;
mod open_files;
mod operator;
mod peering;
mod rehearsal;
mod reload;
mod signals;
mod submit;

pub use bind::{BindError, reachable};
pub use certificates::CertificateError;
pub use logs::{LogFormat, start_logs};
pub use node::{Node, StartError, check};
pub use rehearsal::rehearse;
pub use signals::{Signal, Signals};

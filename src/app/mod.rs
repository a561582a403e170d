//! Assembly: from a configuration to a running node, and back down again.

mod bind;
mod certificates;
mod ending;
mod hand_over;
mod learning;
mod logs;
mod node;
mod numbered;
mod open_files;
mod operator;
mod peering;
mod rehearsal;
mod reload;
mod signals;
mod submit;
mod systemd;

pub use bind::{BindError, reachable};
pub use certificates::CertificateError;
pub use hand_over::TakeOverError;
pub use logs::{LogFormat, start_logs};
pub use node::{Left, Node, Outcome, StartError, check};
pub use numbered::Numbered;
pub use rehearsal::rehearse;
pub use signals::{Signal, Signals};

//! The control log: openraft over one redb file, and the loop that leads.

mod acknowledged;
mod describe;
mod lead;
mod port;
mod queue;
mod raft;
mod service;
mod stop;
mod storage;
#[cfg(test)]
mod tests;

pub use port::ControlLog;
pub use service::{Drained, OpenControl, RunningControl};
pub use storage::OpenError;

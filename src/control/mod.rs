//! The control log: openraft over one redb file, and the loop that leads.

mod absent;
mod acknowledged;
mod beginning;
mod change;
mod council;
mod describe;
mod fleet;
#[cfg(test)]
mod fleet_tests;
mod follow;
mod heard;
mod keep;
mod lead;
mod number;
mod peers;
mod port;
mod queue;
mod raft;
mod relay;
mod restore;
mod service;
mod stop;
mod storage;
mod streams;
mod tenure;
#[cfg(test)]
mod tests;

pub use fleet::{Incoming, Membership};
pub use port::ControlLog;
pub use restore::restore;
pub use service::{Drained, OpenControl, Part, RunningControl};
pub use storage::{OpenError, RestoreError};

//! One process takes over from another, at the same sockets, so that no visitor is turned away in between.
//!
//! The process that runs answers at `node.upgrade_sock`. The new one, once it knows that its configuration is in order,
//! asks there and is sent the sockets that the old one listens at. Nothing has been given up by then: whoever fails up
//! to here leaves the old one as it was. Once the new one is ready, the old one settles with the control log, accepts
//! nobody any more, closes the log and says so. Connections wait in the sockets' queues until the new one serves; if it
//! ends before that, the old one opens everything again.

mod predecessor;
mod sockets;
mod successor;
mod wire;

pub(super) use predecessor::Predecessor;
pub use predecessor::TakeOverError;
pub(super) use sockets::Sockets;
pub(super) use successor::{Candidates, Offer, Successor, Verdict};

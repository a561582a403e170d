//! The gate behind real sockets: a scripted desk, an origin that keeps what it was sent, and clients of bare bytes.

mod house;
mod protected;
mod room;

use house::{House, Reply, Script, pass, waiting};

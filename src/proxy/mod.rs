//! The visitors' door: a Pingora proxy that lets passes through and shows everybody else the waiting room.
//!
//! [`Gate`] answers requests, [`Front`] holds the connections. The gate decides by what [`FrontDesk`] says, and by
//! nothing else: it keeps no state of any visitor.

mod accept;
mod answer;
mod asked;
mod bypass;
mod cookies;
mod cors;
mod doors;
mod front;
mod front_desk;
mod gate;
mod limits;
mod names;
mod origins;
mod protected;
mod room;
mod settings;
#[cfg(test)]
mod tests;
mod way;

pub use doors::Doors;
pub use front::{Front, service};
pub use front_desk::FrontDesk;
pub use gate::{Gate, Passage};
pub use settings::ProxySettings;

//! Gossip: what every node knows of every other, by chitchat over the port between nodes.
//!
//! It feeds operators, not decisions: the ledger is never computed from it, and a node does its work without it. Each
//! node calls those it talks to and says its own address first; answers go back by a call of the other's own.

mod book;
mod callers;
mod line;
#[cfg(test)]
mod measured;
mod pace;
mod service;
#[cfg(test)]
mod tests;

pub use pace::Pace;
pub use service::Gossip;

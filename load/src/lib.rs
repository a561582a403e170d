//! Rushes a waiting room with simulated visitors, and judges what they saw from outside: nothing here shares code with
//! what it judges.

pub mod admin;
pub mod bench;
pub mod check;
pub mod clock;
pub mod dice;
pub mod history;

pub mod origin;
pub mod ports;
pub mod rush;
pub mod subject;
pub mod token;
pub mod visitor;
pub mod wire;

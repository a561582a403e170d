//! Layer 0: the waiting room without a network. Pure: `now` and randomness are arguments.

pub mod edge;
pub mod estimate;
pub mod exchange;
pub mod grant;
pub mod headcount;
pub mod ids;
pub mod language;
pub mod leader;
pub mod ledger;
pub mod numbered;
pub mod order;
pub mod pacing;
pub mod policy;
pub mod presence;
pub mod route;
pub mod schedule;
pub mod tidings;
pub mod time;
pub mod token;
pub(crate) mod words;

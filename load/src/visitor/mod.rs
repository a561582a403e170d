//! Visitors: what they carry, what they do, what they see.

mod browser;
mod jar;
mod line;
mod roles;
mod seen;
mod session;

pub use browser::{Addresses, Browser, Idle, Transport, World};
pub use roles::{Habits, live};
pub use seen::{ORIGIN_HEADER, Seen};

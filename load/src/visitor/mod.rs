//! Visitors: what they carry, what they do, what they see.

mod browser;
mod jar;
mod line;
mod roles;
mod seen;
mod session;

pub use browser::{Addresses, Ask, Browser, Idle, Instead, Transport, World};
pub use line::{Attendance, Outcome, arrive, poll, wait};
pub use roles::{Habits, live};
pub use seen::{ORIGIN_HEADER, Seen};
pub use session::{leave, use_once};

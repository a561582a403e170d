//! Heartbeat windows: who is still there, without a row per visitor.

use serde::{Deserialize, Serialize};

/// The number of a heartbeat window: fleet time divided by half of `heartbeat_ttl_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window(pub u32);

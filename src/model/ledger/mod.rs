//! The ledger: the replicated state machine that counts slots. `apply(state, command)` is a pure function.

mod command;
mod live;

pub use command::{
    Change, ChangeKind, Command, EventTick, Extend, Gate, KeyRecord, Mint, Row, Settle, Span, Tick,
};
pub use live::{Claim, LiveChange, LivePass, LiveSet};

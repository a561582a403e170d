//! The ledger: the replicated state machine that counts slots. `apply(state, command)` is a pure function.

mod block;
mod command;
mod event;
mod id_set;
mod keys;
mod lag;
mod line;
mod live;
mod log;
mod numbers;
mod outcome;
mod pool;
mod rate;
mod remains;
mod state;
#[cfg(test)]
mod tests;

pub use block::Block;
pub use command::{
    Change, ChangeKind, Command, Condition, EventTick, Extend, Gate, KeyRecord, Mint, Returned, Revoke,
    RevokeReason, Row, Settle, Span, Tick,
};
pub use event::{Event, EventOutcome};
pub use keys::Keys;
pub use lag::Lag;
pub use line::{Line, LotteryState, RowState};
pub use live::{Claim, LiveChange, LivePass, LiveSet};
pub use log::{Decision, EventLog, LogRecord};
pub use numbers::{Holder, KEPT, Numbers, UNUSED_KEPT};
pub use outcome::{ChangeApplied, ChangeError, ChangeOutcome, Outcome, Registration, Step};
pub use pool::{Pool, Reserved};
pub use rate::RateCredit;
pub use state::{RunState, SWEEP, State};

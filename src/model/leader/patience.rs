//! How many visitors may hold on for a slot instead of asking again later.

use std::num::NonZeroU32;

use crate::model::ledger::{Gate, RateCredit};

/// More called visitors than the rate lets in may hold on for a slot, so that the next one finds somebody.
const MOST_AT_HAND: u32 = 8;

/// How many visitors may hold on: newcomers while there is no line, else the called.
pub(super) fn most_held(gate: Gate, credit: RateCredit, per_sec: NonZeroU32) -> u32 {
    match gate {
        Gate::Open | Gate::Reopening => soon(credit, per_sec),
        Gate::Queue => within_a_second(credit, per_sec).saturating_add(MOST_AT_HAND),
    }
}

/// How many slots the rate allows while somebody can be asked to hold on: what there is, and half a second's, but one
/// at least: at one a second it is there within that second.
pub(super) fn soon(credit: RateCredit, per_sec: NonZeroU32) -> u32 {
    credit.slots().saturating_add(per_sec.get().div_ceil(2))
}

fn within_a_second(credit: RateCredit, per_sec: NonZeroU32) -> u32 {
    credit.slots().saturating_add(per_sec.get())
}

//! Those who come: most stay, some leave, vanish, do not show up, or replay what they have.

use super::Scenario;
use super::faults::{Dice, Faults};
use crate::model::ids::LogIndex;
use crate::model::ledger::LiveSet;
use crate::model::token::{Pass, Ticket};

/// What a visitor is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Waits, comes in, leaves when done.
    Ordinary,
    /// Leaves the line after a while.
    Impatient,
    /// Vanishes without a word, from the line or from inside.
    Ghost,
    /// Asks with the same ticket at several edges, and again after the session.
    Replayer,
}

/// How visitors in line ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// About once a second, wherever they stand; the called ones more often.
    Eager,
    /// As `poll_after_ms` says; who is called and gets no slot waits for it, at most a second, within the request.
    AsTold,
}

/// Where a visitor is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Comes at this time.
    Coming(u64),
    /// In line.
    Waiting(Box<Ticket>),
    /// Inside, until this time.
    Inside { pass: Pass, until: u64 },
    /// Gone.
    Gone,
}

/// A request that waits for a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// Since when.
    pub(super) since: u64,
    /// The report that it was made with.
    pub(super) asked_with: u64,
    /// The edge that it is at, by its place among the nodes.
    pub(super) edge: usize,
}

/// One visitor.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    pub(super) next: u64,
    pub(super) gives_up: u64,
    /// The last time that an edge answered.
    pub(super) answered: u64,
    /// Whether the last answer was that the ticket is called.
    pub(super) called: bool,
    /// The request that waits for a slot.
    pub(super) holds: Option<Hold>,
    /// What a replayer keeps.
    pub(super) kept: Option<Box<Ticket>>,
}

impl Visitor {
    pub(super) fn new(scenario: &Scenario, start: u64, dice: &mut Dice) -> Self {
        let comes = start + dice.between(0, u64::from(scenario.arrival_s) * 1_000);
        let share = dice.between(0, 100);
        let kind = match (share, scenario.faults) {
            (0..=11, _) => Kind::Impatient,
            (12..=24, _) => Kind::Ghost,
            (25..=34, Faults::All) => Kind::Replayer,
            _ => Kind::Ordinary,
        };
        Self {
            kind,
            stage: Stage::Coming(comes),
            next: comes,
            gives_up: comes + dice.between(2_000, 40_000),
            answered: comes,
            called: false,
            holds: None,
            kept: None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }
}

/// A pass as its holder's cookie has it: what an edge acknowledged is written into it.
pub(super) fn renew(pass: &mut Pass, live: &LiveSet) {
    let Some(known) = live.pass(pass.id) else { return };
    if let Some(claim) = known.claim.filter(|claim| claim.index > pass.index) {
        pass.index = claim.index;
        pass.started = u32::try_from(claim.started.unix_seconds()).unwrap_or(u32::MAX);
        pass.expires = known.expires;
    }
}

/// The token of a pass that was just minted.
pub(super) fn unclaimed(minted: &crate::model::grant::Minted) -> Pass {
    Pass {
        id: minted.pass,
        at: minted.at,
        weight: minted.weight,
        index: LogIndex(0),
        started: 0,
        expires: minted.expires,
    }
}

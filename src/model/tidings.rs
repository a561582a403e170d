//! What a node tells every other by gossip: short texts under short names, so that only what has changed is sent.
//!
//! Nothing is decided by it: whoever forges tidings misleads operators only.

mod telling;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::exchange::EdgeStage;
use super::ids::{EventId, LineEpoch, Term};
use super::order::OrderKey;

pub use telling::{Change, Telling};

/// The name of what a node says of itself.
const NODE: &str = "n";

/// The name of the term in which a node leads; an empty text: it does not.
const LEADS: &str = "l";

/// What the names of events begin with.
const EVENT: &str = "e:";

/// No version is longer, in characters.
const LONGEST_VERSION: usize = 32;

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tidings {
    /// Where in its life it is.
    pub stage: EdgeStage,
    /// The version of the program, at most 32 characters without spaces.
    pub version: String,
    /// The term in which it leads, if it does.
    pub leads: Option<Term>,
    /// What it counts, by event.
    pub events: BTreeMap<EventId, Totals>,
}

/// What a node counts of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The line that the counts and the watermark belong to.
    pub line: LineEpoch,
    /// Joins at this node since it started.
    pub joined: u64,
    /// Tickets that wait, uncalled, and poll this node.
    pub waiting: u32,
    /// Passes minted at this node since it started.
    pub admitted: u64,
    /// Live passes of the whole fleet, as far as this node knows.
    pub live_passes: u32,
    /// The watermark that this node goes by.
    pub watermark: OrderKey,
}

impl Tidings {
    /// The texts to gossip, by name.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<String, String> {
        let Self { stage, version, leads, events } = self;
        let term = leads.map(|term| format!("{:x}", term.0)).unwrap_or_default();
        let own = [(NODE, format!("{} {version}", stage_word(*stage))), (LEADS, term)];
        let own = own.into_iter().map(|(name, text)| (name.to_owned(), text));
        own.chain(events.iter().map(|(event, totals)| (format!("{EVENT}{event}"), totals.text()))).collect()
    }

    /// What texts by name say; what cannot be read is left out. `None`: the node has said nothing of itself yet.
    #[must_use]
    pub fn read<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (mut own, mut leads, mut events) = (None, None, BTreeMap::new());
        for (name, text) in entries {
            if name == NODE {
                own = read_own(text);
            } else if name == LEADS {
                leads = hex(text).map(Term);
            } else if let Some(event) = name.strip_prefix(EVENT)
                && let (Ok(event), Some(totals)) = (event.parse(), Totals::read(text))
            {
                events.insert(event, totals);
            }
        }
        let (stage, version) = own?;
        Some(Self { stage, version, leads, events })
    }
}

impl Totals {
    fn text(&self) -> String {
        let Self { line, joined, waiting, admitted, live_passes, watermark } = self;
        format!("{:x} {joined:x} {waiting:x} {admitted:x} {live_passes:x} {:x}", line.0, watermark.0)
    }

    /// A newer version may say more: what comes after is left alone.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(hex);
        let mut next = || numbers.next().flatten();
        let small = |number: u64| u32::try_from(number).ok();
        Some(Self {
            line: LineEpoch(small(next()?)?),
            joined: next()?,
            waiting: small(next()?)?,
            admitted: next()?,
            live_passes: small(next()?)?,
            watermark: OrderKey(next()?),
        })
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The word for a stage, also for the operator.
#[must_use]
pub fn stage_word(stage: EdgeStage) -> &'static str {
    match stage {
        EdgeStage::Serving => "serving",
        EdgeStage::Draining => "draining",
        EdgeStage::Gone => "gone",
    }
}

fn read_own(text: &str) -> Option<(EdgeStage, String)> {
    let mut parts = text.split(' ');
    let (word, version) = (parts.next()?, parts.next()?);
    let stages = [EdgeStage::Serving, EdgeStage::Draining, EdgeStage::Gone];
    let stage = stages.into_iter().find(|stage| stage_word(*stage) == word)?;
    Some((stage, version.chars().filter(char::is_ascii_graphic).take(LONGEST_VERSION).collect()))
}

//! Names of things: every identifier has a type of its own, so that no bare number crosses a module.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::time::BootTime;

/// The id of an event: `[a-z0-9][a-z0-9-]{0,62}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventId(Arc<str>);

/// Why a text is no [`EventId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event id is 1 to 63 characters of a-z, 0-9 and '-', and does not begin with '-'")]
pub struct InvalidEventId;

impl EventId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=63).contains(&text.len());
        if fits && !text.starts_with('-') && text.chars().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidEventId)
        }
    }
}

impl TryFrom<String> for EventId {
    type Error = InvalidEventId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node of the fleet, 1..=65535, unique in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub NonZeroU16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One run of a node; rises at every start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// A node in one of its runs: who holds grants, sends reports and makes tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeRun {
    /// The node.
    pub node: NodeId,
    /// Its run.
    pub generation: Generation,
}

impl fmt::Display for NodeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.generation.0)
    }
}

/// The id of a ticket, and of the pass that it turns into: `node:u16 ‖ generation:u32 ‖ sequence:u48`.
///
/// Node 0 is kept for ids derived from an identity, where the other 80 bits are a PRF of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TicketId {
    /// The node that made it; 0 for an identity's.
    pub node: u16,
    /// The run of that node.
    pub generation: u32,
    /// Its number in that run, below 2^48.
    pub sequence: u64,
}

impl TicketId {
    /// Sequence numbers are below this.
    pub const SEQUENCE_LIMIT: u64 = 1 << 48;

    /// The `sequence`th id of a run; the sequence wraps at 2^48.
    #[must_use]
    pub fn of_run(run: NodeRun, sequence: u64) -> Self {
        Self {
            node: run.node.0.get(),
            generation: run.generation.0,
            sequence: sequence % Self::SEQUENCE_LIMIT,
        }
    }

    /// The 12 bytes of the id, big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let (node, rest) = bytes.split_at_mut(2);
        let (generation, sequence) = rest.split_at_mut(4);
        node.copy_from_slice(&self.node.to_be_bytes());
        generation.copy_from_slice(&self.generation.to_be_bytes());
        let [_, _, low @ ..] = self.sequence.to_be_bytes();
        sequence.copy_from_slice(&low);
        bytes
    }

    /// The id that these bytes spell; every 12 bytes do.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 12]) -> Self {
        let [n0, n1, g0, g1, g2, g3, s0, s1, s2, s3, s4, s5] = bytes;
        Self {
            node: u16::from_be_bytes([n0, n1]),
            generation: u32::from_be_bytes([g0, g1, g2, g3]),
            sequence: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]),
        }
    }
}

/// The short public name of a ticket, as pages and the operator's API show it: `node-generation-sequence` in base 36.
impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::with_capacity(32);
        push_base36(&mut name, u64::from(self.node));
        name.push('-');
        push_base36(&mut name, u64::from(self.generation));
        name.push('-');
        push_base36(&mut name, self.sequence);
        f.write_str(&name)
    }
}

/// Why a text is no [`TicketId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ticket reference is three numbers in base 36, as the waiting page shows it")]
pub struct InvalidTicketId;

impl FromStr for TicketId {
    type Err = InvalidTicketId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('-').map(|part| u64::from_str_radix(part, 36));
        let (Some(Ok(node)), Some(Ok(generation)), Some(Ok(sequence)), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidTicketId);
        };
        let node = u16::try_from(node).map_err(|_| InvalidTicketId)?;
        let generation = u32::try_from(generation).map_err(|_| InvalidTicketId)?;
        if sequence >= Self::SEQUENCE_LIMIT {
            return Err(InvalidTicketId);
        }
        Ok(Self { node, generation, sequence })
    }
}

fn push_base36(text: &mut String, mut number: u64) {
    // Thirteen digits spell every number of 64 bits.
    let mut digits = ['0'; 13];
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = u32::try_from(number % 36).ok().and_then(|digit| char::from_digit(digit, 36)).unwrap_or('0');
        first = at;
        number /= 36;
        if number == 0 {
            break;
        }
    }
    text.extend(digits.iter().skip(first));
}

/// A block of slots reserved by one entry of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(pub u64);

/// Where a pass was minted: the `number`th slot that `run` spent of `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coordinates {
    /// The block that the slot belongs to.
    pub block: BlockId,
    /// Who spent it.
    pub run: NodeRun,
    /// Which slot of the node's grants from that block, counted from 1.
    pub number: u32,
}

/// A signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of the control log: a new random number at founding and at a restore from backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LedgerEpoch(pub u32);

/// One life of an event's line: rises at every *reset*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineEpoch(pub u32);

/// A position in the control log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogIndex(pub u64);

/// The number of an election: of two leaders the one with the greater term is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

impl Term {
    /// How many of its bits tell the node.
    const NODE_BITS: u32 = 16;

    /// The term of a node, below 2^16, that won an election, below 2^48: no two nodes ever have the same one.
    #[must_use]
    pub fn of(election: u64, node: u64) -> Self {
        Self((election << Self::NODE_BITS) | node)
    }

    /// The number of the election: what people are told.
    #[must_use]
    pub fn election(self) -> u64 {
        self.0 >> Self::NODE_BITS
    }
}

/// One time of leading. A node may lead a term twice, after a restart or a moment without a quorum, and knows nothing then
/// of the first time: neither its clock goes on nor what it was told. Of two the greater one is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tenure {
    /// The term.
    pub term: Term,
    /// Which run of the term's node leads.
    pub generation: Generation,
    /// When it began to, on its own clock.
    pub began: BootTime,
}

/// Where capacity belongs. There is one pool per event so far, the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolId(pub u16);

/// What is queued for a pool, with its own watermark. There is one line per event so far, the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineId(pub u16);

/// How many slots a pass takes: 1..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Weight(u8);

/// A weight outside 1..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a weight is 1 to 100 slots")]
pub struct InvalidWeight;

impl Weight {
    /// The weight of an ordinary visitor.
    pub const ONE: Self = Self(1);

    /// The weight in slots.
    #[must_use]
    pub fn slots(self) -> u32 {
        u32::from(self.0)
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u8> for Weight {
    type Error = InvalidWeight;

    fn try_from(slots: u8) -> Result<Self, Self::Error> {
        if (1..=100).contains(&slots) { Ok(Self(slots)) } else { Err(InvalidWeight) }
    }
}

impl From<Weight> for u8 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ticket_id_survives_its_bytes_and_its_public_name(bytes: [u8; 12]) {
            let id = TicketId::from_bytes(bytes);
            prop_assert_eq!(id.to_bytes(), bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn any_text_as_a_ticket_reference_is_parsed_or_refused(text: String) {
            let _ = text.parse::<TicketId>();
            let _ = text.parse::<EventId>();
        }
    }

    #[test]
    fn event_ids_are_short_lower_case_words() {
        for good in ["a", "0", "spring-tour", &"x".repeat(63)] {
            assert!(good.parse::<EventId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b", "ä", &"x".repeat(64)] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn weights_are_one_to_a_hundred() {
        assert_eq!(Weight::try_from(0), Err(InvalidWeight));
        assert_eq!(Weight::try_from(101), Err(InvalidWeight));
        assert_eq!(Weight::try_from(100).map(Weight::slots), Ok(100));
    }
}

//! The bytes inside a token: fixed width, big-endian, total to read.

use super::keyring::Content;
use super::{Pass, Seat, Ticket};
use crate::model::ids::{
    BlockId, Coordinates, Generation, KeyId, LedgerEpoch, LineEpoch, LogIndex, NodeId, NodeRun, TicketId,
    Weight,
};
use crate::model::order::{BucketStart, Fraction, KeyBase, OrderKey};
use crate::model::presence::Window;
use crate::model::time::FleetTime;

/// The version of the layout.
pub(super) const VERSION: u8 = 1;

/// What every payload begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) kind: u8,
    pub(super) key: KeyId,
    pub(super) event: &'a [u8],
    pub(super) epoch: LedgerEpoch,
}

impl<'a> Head<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.kind]);
        out.extend(self.key.0.to_be_bytes());
        out.push(u8::try_from(self.event.len()).unwrap_or(u8::MAX));
        out.extend(self.event);
        out.extend(self.epoch.0.to_be_bytes());
    }

    pub(super) fn read(from: &mut Reader<'a>) -> Option<Self> {
        if from.byte()? != VERSION {
            return None;
        }
        let kind = from.byte()?;
        let key = KeyId(from.u32()?);
        let length = from.byte()?;
        let event = from.slice(usize::from(length))?;
        let epoch = LedgerEpoch(from.u32()?);
        Some(Self { kind, key, event, epoch })
    }
}

/// Bytes still to be read.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn node(&mut self) -> Option<NodeId> {
        self.u16()?.try_into().ok().map(NodeId)
    }

    fn id(&mut self) -> Option<TicketId> {
        self.array().map(TicketId::from_bytes)
    }
}

fn write_base(base: KeyBase, out: &mut Vec<u8>) {
    match base {
        KeyBase::Unkeyed => out.push(0),
        KeyBase::Drawn { bucket, floor } => {
            out.push(1);
            out.extend(bucket.0.to_be_bytes());
            out.extend(floor.0.to_be_bytes());
        }
        KeyBase::Arrival(key) => {
            out.push(2);
            out.extend(key.0.to_be_bytes());
        }
        KeyBase::Clock(key) => {
            out.push(3);
            out.extend(key.0.to_be_bytes());
        }
    }
}

fn read_base(from: &mut Reader<'_>) -> Option<KeyBase> {
    Some(match from.byte()? {
        0 => KeyBase::Unkeyed,
        1 => KeyBase::Drawn { bucket: BucketStart(from.u32()?), floor: Fraction(from.u32()?) },
        2 => KeyBase::Arrival(OrderKey(from.u64()?)),
        3 => KeyBase::Clock(OrderKey(from.u64()?)),
        _ => return None,
    })
}

impl Content for Ticket {
    const KIND: u8 = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.line.0.to_be_bytes());
        out.extend(self.id.to_bytes());
        out.extend(self.issued.to_be_bytes());
        write_base(self.base, out);
        out.extend(self.last_seen.to_number().to_be_bytes());
        out.extend(self.refreshed_by.0.get().to_be_bytes());
        out.extend(self.holder.to_be_bytes());
        for number in [self.shown_upper, self.first_position, self.offered_at, self.excused, self.told_at] {
            out.extend(number.to_be_bytes());
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            line: LineEpoch(from.u32()?),
            id: from.id()?,
            issued: from.u32()?,
            base: read_base(from)?,
            last_seen: Window::from_number(from.u32()?),
            refreshed_by: from.node()?,
            holder: from.u16()?,
            shown_upper: from.u32()?,
            first_position: from.u32()?,
            offered_at: from.u32()?,
            excused: from.u32()?,
            told_at: from.u32()?,
        })
    }
}

impl Content for Pass {
    const KIND: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_bytes());
        out.extend(self.at.block.0.to_be_bytes());
        out.extend(self.at.run.node.0.get().to_be_bytes());
        out.extend(self.at.run.generation.0.to_be_bytes());
        out.extend(self.at.number.to_be_bytes());
        out.push(self.weight.into());
        out.extend(self.index.0.to_be_bytes());
        out.extend(self.started.to_be_bytes());
        out.extend(self.expires.0.to_be_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let id = from.id()?;
        let block = BlockId(from.u64()?);
        let run = NodeRun { node: from.node()?, generation: Generation(from.u32()?) };
        let at = Coordinates { block, run, number: from.u32()? };
        Some(Self {
            id,
            at,
            weight: Weight::try_from(from.byte()?).ok()?,
            index: LogIndex(from.u64()?),
            started: from.u32()?,
            expires: FleetTime(from.u64()?),
        })
    }
}

impl Content for Seat {
    const KIND: u8 = 3;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_bytes());
        out.extend(self.issued.to_be_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { id: from.id()?, issued: from.u32()? })
    }
}

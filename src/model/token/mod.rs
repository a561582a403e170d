//! Signed tokens: what a visitor carries (design §4).
//!
//! `base64url(payload) "." base64url(HMAC-SHA256(key, base64url(payload)))`, without padding. The payload begins with
//! the version, the kind and the key id; event and ledger epoch follow, then what the kind says. Kinds lie inside the
//! MAC, so a ticket never reads as a pass.

mod keyring;
mod payload;
#[cfg(test)]
mod tests;

pub use keyring::{Content, Keyring, TokenError};

use super::ids::{Coordinates, LineEpoch, LogIndex, NodeId, TicketId, Weight};
use super::order::KeyBase;
use super::presence::Window;
use super::time::FleetTime;

/// A token whose MAC holds, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A place in line.
    Ticket(Ticket),
    /// Access for a bounded time.
    Pass(Pass),
    /// The id of the ticket to be.
    Seat(Seat),
}

/// A place in line; never access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The life of the line that it was made in.
    pub line: LineEpoch,
    /// Its id.
    pub id: TicketId,
    /// When it was made, in unix seconds of fleet time.
    pub issued: u32,
    /// What its order key is made from.
    pub base: KeyBase,
    /// The heartbeat window in which it was last refreshed.
    pub last_seen: Window,
    /// The node that signed it last.
    pub refreshed_by: NodeId,
    /// Which of the holders of this place it belongs to; 0 for the first.
    pub holder: u16,
    /// The upper end of the position range that was last shown; 0: none was.
    pub shown_upper: u32,
    /// The upper end of the first position range that was shown; 0: none was.
    pub first_position: u32,
    /// When its turn was first offered, in unix seconds of fleet time; 0: it was not.
    pub offered_at: u32,
    /// Seconds since the first offer in which the turn could not have been taken: they do not count.
    pub excused: u32,
    /// When it was last told that it is called, up to when `excused` counts, in unix seconds of fleet time; 0: never.
    pub told_at: u32,
}

impl Ticket {
    /// A ticket made at `issued`, in unix seconds of fleet time, that nobody has been told anything about yet.
    #[must_use]
    pub fn new(id: TicketId, line: LineEpoch, base: KeyBase, issued: u32, seen: Window, by: NodeId) -> Self {
        Self {
            line,
            id,
            issued,
            base,
            last_seen: seen,
            refreshed_by: by,
            holder: 0,
            shown_upper: 0,
            first_position: 0,
            offered_at: 0,
            excused: 0,
            told_at: 0,
        }
    }
}

/// Access for a bounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Its id, which is the ticket's.
    pub id: TicketId,
    /// The slot that it was minted against.
    pub at: Coordinates,
    /// How many slots it takes.
    pub weight: Weight,
    /// The log index of the newest acknowledged use; 0: not used yet, as far as this token knows.
    pub index: LogIndex,
    /// When the session began, in unix seconds of fleet time; 0: not used yet.
    pub started: u32,
    /// When it ends.
    pub expires: FleetTime,
}

/// The signed id of a ticket to be, in the page's cookie: two tabs and a repeated join make one ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The id.
    pub id: TicketId,
    /// When it was made, in unix seconds of fleet time.
    pub issued: u32,
}

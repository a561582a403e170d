//! What visitors saw: one record per request, one JSON object per line.

mod file;

use serde::{Deserialize, Serialize};

pub use file::{HistoryError, Recorder, read, read_all};

/// One thing that a visitor did, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When the request was sent, in microseconds since the Unix epoch.
    pub t_sent_us: u64,
    /// When its answer had arrived, or was given up.
    pub t_answered_us: u64,
    /// Who: one cookie jar, one number.
    pub visitor: u64,
    /// Which of its tabs, from 0: tabs of one visitor may hold tokens of different age.
    #[serde(default, skip_serializing_if = "is_first")]
    pub tab: u16,
    /// What kind of visitor.
    pub role: Role,
    /// What it did.
    pub kind: Kind,
    /// What it saw.
    pub saw: Saw,
    /// The HTTP status; 0 without an answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub http: u16,
    /// The `state` of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why something ended or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the line is as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The ticket that the request showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_ticket: Option<String>,
    /// The pass that the request showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_pass: Option<String>,
    /// The ticket to be that the page's cookie in the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_seat: Option<String>,
    /// Whether what was shown had been tampered with.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forged: bool,
    /// The ticket that the answer gave or renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// The pass that the answer gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Whether the ticket has been called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<bool>,
    /// Whether the visitor held its turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
    /// Where in the line, from and to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_range: Option<[u64; 2]>,
    /// The middle of the expected wait, in minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_min: Option<f64>,
    /// The expected wait, from and to, in minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_range_min: Option<[f64; 2]>,
    /// When the pass ends, in unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// When the pass ends, in unix milliseconds, where its token tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// When to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_after_ms: Option<u64>,
    /// The bucket of the ticket, where its token tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u64>,
    /// The floor of that bucket at the join, 0..=1 (`fifo`: the arrival in it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(status: &u16) -> bool {
    *status == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(tab: &u16) -> bool {
    *tab == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What a visitor did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Asked for a protected path, without a pass that it believes in.
    Navigate,
    /// Opened the waiting page.
    Page,
    /// Joined by the API.
    Join,
    /// Asked for its place.
    Poll,
    /// Used its pass at the origin.
    Use,
    /// Left.
    Leave,
    /// Not a request: from and to when the server is known to have been away.
    Outage,
}

/// What a visitor saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saw {
    /// The origin answered.
    Origin,
    /// The waiting page.
    Page,
    /// A redirection.
    Moved,
    /// A place in the line.
    Waiting,
    /// A pass.
    Admitted,
    /// Come back later.
    Retry,
    /// No: 403 or 429.
    Refused,
    /// The token is none of theirs: 401.
    Invalid,
    /// The ticket has ended: 410.
    Ended,
    /// The leave was taken.
    Left,
    /// 503.
    Unavailable,
    /// No answer.
    Nothing,
    /// An answer that fits none of these.
    Other,
}

/// Kinds of visitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Waits, visits, leaves or just stops.
    Ordinary,
    /// Loses patience and leaves the line.
    Impatient,
    /// Stops polling; some come back much later.
    Ghost,
    /// Replays tickets: in several tabs at once, and after use.
    Replayer,
    /// Keeps no cookies.
    Bot,
    /// Waits in a hidden tab, and takes its turn late.
    Hidden,
    /// Waits on the page alone, which it loads again and again: no scripts.
    Plain,
    /// An app without a cookie jar: tokens in headers.
    App,
    /// Not a visitor: the one who stops and starts the server.
    Operator,
}

impl Record {
    /// A record of nothing yet, sent and answered at `at_us`.
    #[must_use]
    pub fn new(visitor: u64, role: Role, kind: Kind, at_us: u64) -> Self {
        Self {
            t_sent_us: at_us,
            t_answered_us: at_us,
            visitor,
            tab: 0,
            role,
            kind,
            saw: Saw::Nothing,
            http: 0,
            state: None,
            reason: None,
            phase: None,
            shown_ticket: None,
            shown_pass: None,
            shown_seat: None,
            forged: false,
            ticket: None,
            pass: None,
            called: None,
            hold: false,
            position_range: None,
            eta_min: None,
            eta_range_min: None,
            expires_at: None,
            expires_ms: None,
            poll_after_ms: None,
            bucket: None,
            floor: None,
            error: None,
        }
    }

    /// The ticket that the record is about: the one given, else the one shown.
    #[must_use]
    pub fn about(&self) -> Option<&str> {
        let ids = [&self.ticket, &self.pass, &self.shown_ticket, &self.shown_pass];
        ids.into_iter().find_map(|id| id.as_deref())
    }

    /// When the pass ends by what the answer says, in microseconds.
    #[must_use]
    pub fn expires_us(&self) -> Option<u64> {
        let told = self.expires_at.map(|seconds| seconds.saturating_mul(1000));
        self.expires_ms.or(told).map(|millis| millis.saturating_mul(1000))
    }

    /// Whether the server answered at all.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.saw != Saw::Nothing
    }
}

#[cfg(test)]
mod tests;

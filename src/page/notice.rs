//! The pages that tell one thing.

use super::locale::{Locale, Told};

/// What a notice page tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// The ticket ended because it was silent for too long.
    MissedHeartbeat,
    /// The turn was missed.
    MissedTurn,
    /// The ticket is too old.
    TooOld,
    /// The line was reset.
    Reset,
    /// The visitor has left.
    Left,
    /// Joins are refused.
    Closed,
    /// The line is as long as it may be.
    Full,
    /// The node cannot tell yet.
    #[default]
    Busy,
    /// The browser keeps no cookies.
    CookiesNeeded,
    /// A form or request could not be passed on.
    NotSent,
    /// There is no such event.
    NotFound,
    /// The origin does not answer.
    OriginDown,
}

impl Notice {
    /// Every notice.
    pub const ALL: [Self; 12] = [
        Self::MissedHeartbeat,
        Self::MissedTurn,
        Self::TooOld,
        Self::Reset,
        Self::Left,
        Self::Closed,
        Self::Full,
        Self::Busy,
        Self::CookiesNeeded,
        Self::NotSent,
        Self::NotFound,
        Self::OriginDown,
    ];

    /// Title and sentence.
    pub(super) fn told(self, locale: &Locale) -> &Told {
        let notices = &locale.notices;
        match self {
            Self::MissedHeartbeat => &notices.missed_heartbeat,
            Self::MissedTurn => &notices.missed_turn,
            Self::TooOld => &notices.too_old,
            Self::Reset => &notices.reset,
            Self::Left => &notices.left,
            Self::Closed => &notices.closed,
            Self::Full => &notices.full,
            Self::Busy => &notices.busy,
            Self::CookiesNeeded => &notices.cookies_needed,
            Self::NotSent => &notices.not_sent,
            Self::NotFound => &notices.not_found,
            Self::OriginDown => &notices.origin_down,
        }
    }

    /// The text of the link on.
    pub(super) fn link(self, locale: &Locale) -> &str {
        let links = &locale.links;
        match self {
            Self::MissedHeartbeat | Self::MissedTurn | Self::TooOld | Self::Reset => &links.rejoin,
            Self::Left => &links.join_again,
            Self::Closed | Self::Full | Self::Busy | Self::OriginDown => &links.try_again,
            Self::CookiesNeeded => &links.go_on,
            Self::NotSent => &links.join,
            Self::NotFound => &links.start,
        }
    }
}

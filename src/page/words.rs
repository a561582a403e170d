//! The sentences of the pages.

use std::time::Duration;

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

    /// Title, sentence, and the text of the link on.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::MissedHeartbeat => (
                "You lost your place",
                "We did not hear from this page for too long, so your place went to the next in line.",
                "Back to the line",
            ),
            Self::MissedTurn => (
                "You missed your turn",
                "It was your turn, but nobody went in with it in time, so it went to the next in line.",
                "Back to the line",
            ),
            Self::TooOld => (
                "Your place has expired",
                "This place in line has become too old to be used.",
                "Back to the line",
            ),
            Self::Reset => (
                "The line has begun anew",
                "The organiser has started the line afresh, so everybody has to join it again.",
                "Back to the line",
            ),
            Self::Left => ("You have left the line", "Your place went to the next in line.", "Join again"),
            Self::Closed => ("The line is closed", "Nobody can join the line any more.", "Try again"),
            Self::Full => (
                "The line is full",
                "No more places are given at this moment. This page tries again by itself.",
                "Try again",
            ),
            Self::Busy => (
                "One moment, please",
                "Very many people are arriving right now. This page tries again by itself.",
                "Try again",
            ),
            Self::CookiesNeeded => (
                "Cookies are needed",
                "Your place in line is kept in a cookie, and your browser did not send it back. \
                 Allow cookies for this site, then go on.",
                "Go on",
            ),
            Self::NotSent => (
                "Your request was not sent",
                "There is a line in front of this site, so what you sent was not passed on and nothing has \
                 happened. Join the line, then go back and send it again.",
                "Join the line",
            ),
            Self::NotFound => ("Not found", "There is no waiting room at this address.", "To the start"),
            Self::OriginDown => (
                "The site does not answer",
                "You are let in, but the site behind this waiting room does not answer. Try again in a moment.",
                "Try again",
            ),
        }
    }
}

/// The sentence for a phase of the line, by its word in the visitor API.
#[must_use]
pub fn sentence_of(phase: &str) -> &'static str {
    match phase {
        "prequeue" => "You are early. The line opens soon; everybody who is here then gets a place by lot.",
        "paused" => "The line is paused. You keep your place.",
        "frozen" => "The line stands still for a moment. You keep your place.",
        "sold_out" => "Everything seems to be sold. You keep your place in case something comes back.",
        "closed" => "The line is closed to newcomers. You keep your place.",
        "full" => "The line is full. You keep your place.",
        _ => "You are in line.",
    }
}

/// A range of waiting times, in whole minutes.
#[must_use]
pub fn wait_in_words((low, high): (Duration, Duration)) -> String {
    let (low, high) = (low.as_secs() / 60, high.as_secs().div_ceil(60));
    match (low, high) {
        (_, 0 | 1) => "about a minute".into(),
        (low, high) if low == high => format!("{low} minutes"),
        (0, high) => format!("up to {high} minutes"),
        (low, high) => format!("{low}–{high} minutes"),
    }
}

/// A range of places; empty for `(0, 0)`.
pub(super) fn range((low, high): (u32, u32)) -> String {
    match (low, high) {
        (_, 0) => String::new(),
        (low, high) if low == high => grouped(low),
        (low, high) => format!("{}–{}", grouped(low), grouped(high)),
    }
}

fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_waits_read_naturally() {
        assert_eq!(range((0, 0)), "");
        assert_eq!(range((7, 7)), "7");
        assert_eq!(range((999, 1_234_567)), "999–1,234,567");
        let minutes = |low, high| wait_in_words((Duration::from_secs(low), Duration::from_secs(high)));
        assert_eq!(minutes(0, 59), "about a minute");
        assert_eq!(minutes(10, 150), "up to 3 minutes");
        assert_eq!(minutes(120, 120), "2 minutes");
        assert_eq!(minutes(130, 601), "2–11 minutes");
    }
}

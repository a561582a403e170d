//! The sentences of the pages.

use std::time::Duration;

use crate::model::estimate::{told_down, told_up};

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

/// A range of waiting times: in seconds below a minute, then in minutes.
#[must_use]
pub fn wait_in_words((low, high): (Duration, Duration)) -> String {
    let (low, high) = (told_down(low), told_up(high));
    let (low, high, unit) = match high {
        0..=6 => return "a few seconds".into(),
        7..60 => (low.to_string(), high.to_string(), "seconds"),
        60 => return if low < 30 { "up to a minute".into() } else { "about a minute".into() },
        61..300 => (clock(low), clock(high), "minutes"),
        _ => ((low / 60).to_string(), (high / 60).to_string(), "minutes"),
    };
    if low == high {
        format!("{low} {unit}")
    } else if matches!(low.as_str(), "0" | "0:00") {
        format!("up to {high} {unit}")
    } else {
        format!("{low}–{high} {unit}")
    }
}

/// Minutes and seconds.
fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
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
        let words = |low, high| wait_in_words((Duration::from_secs(low), Duration::from_secs(high)));
        let cases = [
            ((0, 4), "a few seconds"),
            ((3, 17), "up to 18 seconds"),
            ((12, 23), "12–24 seconds"),
            ((10, 59), "up to a minute"),
            ((45, 59), "about a minute"),
            ((0, 61), "up to 1:15 minutes"),
            ((50, 130), "0:48–2:15 minutes"),
            ((120, 120), "2:00 minutes"),
            ((130, 601), "2–11 minutes"),
            ((10, 400), "up to 7 minutes"),
            ((600, 600), "10 minutes"),
        ];
        for ((low, high), expected) in cases {
            assert_eq!(words(low, high), expected);
        }
    }
}

//! From the first request to the front of the line.

use std::time::Duration;

use http::Method;
use tokio::time::{Instant, sleep, timeout_at};

use super::browser::{Ask, Browser, Transport};
use super::roles::Habits;
use super::seen::Seen;
use crate::dice::Dice;
use crate::history::{Kind, Saw};

/// A visitor follows this many redirections.
const HOPS: usize = 8;

/// Where arriving, or waiting, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The origin is open to it.
    In,
    /// In line.
    InLine,
    /// The ticket is over.
    Over,
    /// Called, and holding its turn.
    Called,
    /// Time was up.
    TimeUp,
}

/// How a visitor asks for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// Takes its turn at once.
    Asking,
    /// Holds it.
    Holding,
}

/// How long to wait after an answer that was none.
pub(super) fn backoff(dice: &mut Dice, seen: &Seen) -> Duration {
    match seen.after_ms {
        Some(after) => Duration::from_millis(after.min(5_000)).mul_f64(dice.between(1.0, 1.2)),
        None => dice.seconds(0.2, 1.0),
    }
}

/// Goes to the protected path and wherever it is sent, until it is in, in line, or out of time.
pub async fn arrive(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) -> Outcome {
    while Instant::now() < until {
        let seen = match tab.transport {
            Transport::Headers => join(tab, habits).await,
            _ => navigate(tab, habits).await,
        };
        match seen.saw {
            Saw::Origin | Saw::Admitted => return Outcome::In,
            Saw::Page | Saw::Waiting => return Outcome::InLine,
            _ => pause(backoff(dice, &seen), until).await,
        }
    }
    Outcome::TimeUp
}

async fn join(tab: &mut Browser, habits: &Habits) -> Seen {
    tab.ask(Ask::new(Kind::Join, Method::POST, habits.room("/join"))).await
}

async fn navigate(tab: &mut Browser, habits: &Habits) -> Seen {
    let mut seen = tab.ask(Ask::new(Kind::Navigate, Method::GET, &habits.path)).await;
    for _ in 0..HOPS {
        let Some(path) = seen.location.as_deref().and_then(local) else { break };
        let kind = if path.starts_with(&habits.base) { Kind::Page } else { Kind::Navigate };
        let kind =
            if kind == Kind::Navigate && tab.jar.value("wr_pass").is_some() { Kind::Use } else { kind };
        seen = tab.ask(Ask::new(kind, Method::GET, path)).await;
    }
    seen
}

/// The path of a location on the same host.
fn local(location: &str) -> Option<String> {
    if location.starts_with('/') {
        return Some(location.to_owned());
    }
    let (_, rest) = location.split_once("://")?;
    rest.find('/').and_then(|at| rest.get(at..)).map(str::to_owned)
}

/// Asks once for its place.
pub async fn poll(tab: &mut Browser, habits: &Habits, attendance: Attendance) -> Seen {
    let path = match attendance {
        Attendance::Asking => "/status",
        Attendance::Holding => "/status?hold=1",
    };
    let mut ask = Ask::new(Kind::Poll, Method::GET, habits.room(path));
    ask.hold = attendance == Attendance::Holding;
    tab.ask(ask).await
}

/// Polls as it is told to, until it is let in, called while it holds, ended, or out of time.
pub async fn wait(
    tab: &mut Browser,
    habits: &Habits,
    dice: &mut Dice,
    attendance: Attendance,
    until: Instant,
) -> Outcome {
    pause(dice.seconds(0.0, 0.5), until).await;
    while Instant::now() < until {
        let seen = poll(tab, habits, attendance).await;
        let after = match seen.saw {
            Saw::Admitted => return Outcome::In,
            Saw::Ended | Saw::Invalid => return Outcome::Over,
            Saw::Waiting if seen.called && attendance == Attendance::Holding => return Outcome::Called,
            Saw::Waiting => Duration::from_millis(seen.after_ms.unwrap_or(1_000)),
            _ => backoff(dice, &seen),
        };
        tab.rest();
        pause(after, until).await;
    }
    Outcome::TimeUp
}

/// Sleeps, but not beyond `until`.
pub(super) async fn pause(duration: Duration, until: Instant) {
    let _ = timeout_at(until, sleep(duration)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_followed_on_the_same_host_only() {
        assert_eq!(local("/a?b").as_deref(), Some("/a?b"));
        assert_eq!(local("http://x:1/a").as_deref(), Some("/a"));
        assert_eq!(local("http://x"), None);
        assert_eq!(local("a"), None);
    }
}

//! What visitors do once they are in.

use std::time::Duration;

use http::Method;
use tokio::time::Instant;

use super::browser::{Ask, Browser, Instead};
use super::line::{backoff, pause};
use super::roles::Habits;
use super::seen::Seen;
use crate::dice::Dice;
use crate::history::{Kind, Saw};

/// Whether a session was as long as its visitor wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It was.
    Whole,
    /// It did not begin: the pass never opened, and its holder was sent to the line.
    SentBack,
    /// The pass no longer opened.
    Cut,
}

/// Uses the origin once.
pub async fn use_once(tab: &mut Browser, habits: &Habits) -> Seen {
    tab.ask(Ask::new(Kind::Use, Method::GET, &habits.path)).await
}

/// Uses the origin at even distances for about the time that sessions last.
pub(super) async fn visit(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) -> Visit {
    let length = dice.seconds(0.6 * habits.session_s, 1.4 * habits.session_s);
    let end = (Instant::now() + length).min(until);
    let gap = length.div_f64(f64::from(habits.requests.max(1)));
    let mut turned_away = Visit::SentBack;
    loop {
        let seen = use_once(tab, habits).await;
        let wait = match seen.saw {
            Saw::Moved | Saw::Refused => return turned_away,
            Saw::Invalid | Saw::Ended => return Visit::Cut,
            Saw::Origin => {
                turned_away = Visit::Cut;
                gap.mul_f64(dice.between(0.7, 1.3))
            }
            _ => backoff(dice, &seen),
        };
        tab.rest();
        if Instant::now() + wait >= end {
            pause(end.saturating_duration_since(Instant::now()), until).await;
            return Visit::Whole;
        }
        pause(wait, until).await;
    }
}

/// Leaves by the button.
pub async fn leave(tab: &mut Browser, habits: &Habits) -> Seen {
    tab.ask(Ask::new(Kind::Leave, Method::POST, habits.room("/leave"))).await
}

/// Says goodbye to the line by the API.
pub(super) async fn give_up(tab: &mut Browser, habits: &Habits) -> Seen {
    tab.ask(Ask::new(Kind::Leave, Method::DELETE, habits.room("/ticket"))).await
}

/// Shows a ticket in the place of a pass.
pub(super) async fn show_ticket_as_pass(tab: &mut Browser, habits: &Habits) {
    if let Some(token) = tab.jar.value("wr_ticket").map(str::to_owned) {
        show(tab, habits, Instead { name: "wr_pass".to_owned(), token, forged: false }).await;
    }
}

/// Shows a pass with one letter changed.
pub(super) async fn show_altered_pass(tab: &mut Browser, habits: &Habits, dice: &mut Dice) {
    let Some(token) = tab.jar.value("wr_pass").map(str::to_owned) else { return };
    let at = dice.between(0.0, token.len() as f64) as usize;
    let altered = token.chars().enumerate().map(|(place, letter)| match (place == at, letter) {
        (true, 'A') => 'B',
        (true, _) => 'A',
        (false, letter) => letter,
    });
    let altered: String = altered.collect();
    if altered != token {
        show(tab, habits, Instead { name: "wr_pass".to_owned(), token: altered, forged: true }).await;
    }
}

async fn show(tab: &mut Browser, habits: &Habits, instead: Instead) {
    let mut ask = Ask::new(Kind::Navigate, Method::GET, &habits.path);
    ask.instead = Some(instead);
    tab.ask(ask).await;
}

/// Comes back with the same pass after it must have run out.
pub(super) async fn come_back_late(tab: &mut Browser, habits: &Habits, until: Instant) {
    let away = Duration::from_secs_f64(habits.session_ttl_s + 5.0);
    if Instant::now() + away < until {
        pause(away, until).await;
        use_once(tab, habits).await;
    }
}

//! Kinds of visitors, from arriving to the end.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::time::Instant;

use super::browser::{Ask, Browser, Transport, World};
use super::line::{Attendance, Outcome, arrive, pause, poll, wait};
use super::session::{
    Visit, come_back_late, give_up, leave, show_altered_pass, show_ticket_as_pass, use_once, visit,
};
use crate::dice::Dice;
use crate::history::{Kind, Role};

/// What visitors know and are like.
#[derive(Clone, Debug)]
pub struct Habits {
    /// The protected path.
    pub path: String,
    /// The base path of the waiting room.
    pub base: String,
    /// The event.
    pub event: String,
    /// How long a session lasts, on average, in seconds.
    pub session_s: f64,
    /// Requests in a session, on average.
    pub requests: u32,
    /// How many leave by the button when they are done; the others just stop: 0..=1.
    pub leaving: f64,
    /// How long the impatient stay in line, on average, in seconds.
    pub patience_s: f64,
    /// The event's `heartbeat_ttl_s`.
    pub heartbeat_s: f64,
    /// The event's `session_ttl_s`.
    pub session_ttl_s: f64,
    /// How many of those who stop come back when their pass has run out: 0..=1.
    pub returning: f64,
}

impl Habits {
    /// A path of the event's waiting room.
    #[must_use]
    pub fn room(&self, path: &str) -> String {
        format!("{}/{}{path}", self.base, self.event)
    }
}

/// Lives the life of one visitor, until it has seen enough or time is up.
pub async fn live(
    world: Arc<World>,
    visitor: u64,
    role: Role,
    habits: Arc<Habits>,
    mut dice: Dice,
    until: Instant,
) {
    let transport = match role {
        Role::App => Transport::Headers,
        Role::Bot => Transport::None,
        _ => Transport::Cookies,
    };
    let mut tab = Browser::new(world, visitor, role, transport);
    let (tab, habits, dice) = (&mut tab, &*habits, &mut dice);
    match role {
        Role::Impatient => impatient(tab, habits, dice, until).await,
        Role::Ghost => ghost(tab, habits, dice, until).await,
        Role::Replayer => replayer(tab, habits, dice, until).await,
        Role::Bot => bot(tab, habits, dice, until).await,
        Role::Plain => plain(tab, habits, dice, until).await,
        Role::Hidden => hidden(tab, habits, dice, until).await,
        Role::Ordinary | Role::App | Role::Operator => ordinary(tab, habits, dice, until).await,
    }
}

async fn queue(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) -> Outcome {
    match arrive(tab, habits, dice, until).await {
        Outcome::InLine => wait(tab, habits, dice, Attendance::Asking, until).await,
        other => other,
    }
}

async fn ordinary(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    if queue(tab, habits, dice, until).await == Outcome::In {
        session(tab, habits, dice, until).await;
    }
}

async fn session(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    loop {
        match visit(tab, habits, dice, until).await {
            Visit::Whole => break,
            Visit::Cut => return,
            // The ticket buys the pass again.
            Visit::SentBack => {
                if wait(tab, habits, dice, Attendance::Asking, until).await != Outcome::In {
                    return;
                }
            }
        }
    }
    if dice.chance(habits.leaving) {
        leave(tab, habits).await;
    } else if dice.chance(habits.returning) {
        come_back_late(tab, habits, until).await;
    }
}

/// Leaves the line when patience ends, and tries the ticket once more.
async fn impatient(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    let patience = dice.seconds(0.3 * habits.patience_s, 1.7 * habits.patience_s);
    let enough = (Instant::now() + patience).min(until);
    match queue(tab, habits, dice, enough).await {
        Outcome::In => session(tab, habits, dice, until).await,
        Outcome::TimeUp if Instant::now() < until => {
            let mut old = tab.tab(1);
            if dice.chance(0.5) {
                leave(tab, habits).await;
            } else {
                give_up(tab, habits).await;
            }
            pause(dice.seconds(2.0, 4.0), until).await;
            if Instant::now() < until {
                poll(&mut old, habits, Attendance::Asking).await;
            }
        }
        _ => {}
    }
}

/// Stops polling, and may come back when its ticket must be over.
async fn ghost(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    if arrive(tab, habits, dice, until).await != Outcome::InLine {
        return;
    }
    let seen_enough = (Instant::now() + dice.seconds(0.0, habits.patience_s)).min(until);
    if wait(tab, habits, dice, Attendance::Asking, seen_enough).await != Outcome::TimeUp {
        return;
    }
    let away = Duration::from_secs_f64(1.5 * habits.heartbeat_s) + dice.seconds(3.0, 6.0);
    if dice.chance(0.5) && Instant::now() + away < until {
        tab.rest();
        pause(away, until).await;
        poll(tab, habits, Attendance::Asking).await;
    }
}

/// One ticket in three tabs at once, shown as a pass, altered, and replayed after use.
async fn replayer(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    match arrive(tab, habits, dice, until).await {
        Outcome::InLine => {}
        Outcome::In => return session(tab, habits, dice, until).await,
        _ => return,
    }
    show_ticket_as_pass(tab, habits).await;
    let (mut second, mut third) = (tab.tab(1), tab.tab(2));
    let (mut dice_2, mut dice_3) = (dice.clone(), dice.clone());
    let (first, _, _) = tokio::join!(
        wait(tab, habits, dice, Attendance::Asking, until),
        wait(&mut second, habits, &mut dice_2, Attendance::Asking, until),
        wait(&mut third, habits, &mut dice_3, Attendance::Asking, until),
    );
    if first != Outcome::In {
        return;
    }
    show_altered_pass(tab, habits, dice).await;
    tokio::join!(use_once(tab, habits), use_once(&mut second, habits));
    poll(&mut third, habits, Attendance::Asking).await;
    visit(tab, habits, dice, until).await;
    let mut old = tab.tab(3);
    leave(tab, habits).await;
    pause(dice.seconds(2.0, 4.0), until).await;
    if Instant::now() < until {
        poll(&mut third, habits, Attendance::Asking).await;
        use_once(&mut old, habits).await;
    }
}

/// Keeps no cookies, and asks again and again.
async fn bot(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    let enough = (Instant::now() + dice.seconds(habits.patience_s, 3.0 * habits.patience_s)).min(until);
    while Instant::now() < enough {
        let seen = tab.ask(Ask::new(Kind::Navigate, Method::GET, &habits.path)).await;
        if let Some(page) = seen.location.filter(|_| dice.chance(0.3)) {
            tab.ask(Ask::new(Kind::Page, Method::GET, page)).await;
        }
        tab.rest();
        pause(dice.seconds(1.0, 4.0), enough).await;
    }
}

/// Loads the page again and again, until it sends the visitor on.
async fn plain(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    while Instant::now() < until {
        match arrive(tab, habits, dice, until).await {
            Outcome::In => return session(tab, habits, dice, until).await,
            Outcome::InLine => {
                tab.rest();
                pause(dice.seconds(2.0, 0.3 * habits.heartbeat_s + 2.0), until).await;
            }
            _ => return,
        }
    }
}

/// Waits in the background, and takes its turn some time after it was called.
async fn hidden(tab: &mut Browser, habits: &Habits, dice: &mut Dice, until: Instant) {
    let arrived = arrive(tab, habits, dice, until).await;
    let outcome = match arrived {
        Outcome::InLine => wait(tab, habits, dice, Attendance::Holding, until).await,
        other => other,
    };
    match outcome {
        Outcome::In => session(tab, habits, dice, until).await,
        Outcome::Called => {
            pause(dice.seconds(0.5, 0.3 * habits.heartbeat_s), until).await;
            if wait(tab, habits, dice, Attendance::Asking, until).await == Outcome::In {
                session(tab, habits, dice, until).await;
            }
        }
        _ => {}
    }
}

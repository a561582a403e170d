//! Those who come: they join, poll as they are told, take a pass, use it, leave, and roam between edges meanwhile.

use std::sync::Arc;

use anteroom::desk::{Activity, Attendance, Desk, JoinAnswer, PassAnswer, StatusAnswer};
use anteroom::model::ids::{EventId, TicketId};
use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::sync::oneshot;

/// What a visitor is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Waits, comes in, leaves when done.
    Ordinary,
    /// Leaves the line after a while.
    Impatient,
    /// Never says that it leaves.
    Ghost,
    /// Asks with the same ticket at several edges at once, and again after the session.
    Replayer,
}

/// What a visitor asks.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Join,
    Status(String),
    Pass(String, Activity),
    Leave { ticket: Option<String>, pass: Option<String> },
}

/// What it is answered.
#[derive(Debug)]
pub(crate) enum Told {
    Joined(JoinAnswer),
    Status(StatusAnswer),
    /// With what the desk took for the time.
    Pass(PassAnswer, u64),
    Left,
}

/// Asks a desk.
pub(crate) async fn put(desk: Arc<Desk>, event: EventId, question: Question) -> Told {
    match question {
        Question::Join => Told::Joined(desk.join(&event, None).await),
        Question::Status(ticket) => Told::Status(desk.status(&event, &ticket, Attendance::Asking).await),
        Question::Pass(pass, activity) => {
            let answer = desk.check_pass(&event, &[&pass], activity).await;
            Told::Pass(answer, desk.now().0)
        }
        Question::Leave { ticket, pass } => {
            let tickets: Vec<&str> = ticket.as_deref().into_iter().collect();
            let passes: Vec<&str> = pass.as_deref().into_iter().collect();
            desk.leave(&event, &tickets, &passes).await;
            Told::Left
        }
    }
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) at: u64,
    pub(crate) of: u16,
    pub(crate) answer: oneshot::Receiver<Told>,
}

/// A pass as its holder knows it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) token: String,
    /// When it ends, by the last answer, in fleet time.
    pub(crate) expires: u64,
    /// Whether its first use was acknowledged: before that, only the edge that minted it can be sure of it.
    pub(crate) claimed: bool,
    /// Until when its holder stays, in true time.
    pub(crate) until: u64,
}

/// Where a visitor is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Coming,
    Waiting,
    Inside(Held),
    /// Has left, or thinks so; tries the old pass still.
    Over(Option<Held>),
    Gone,
}

#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) kind: Kind,
    pub(crate) stage: Stage,
    pub(crate) id: Option<TicketId>,
    pub(crate) ticket: Option<String>,
    /// When the next question is due.
    pub(crate) next: u64,
    /// When an impatient one leaves.
    pub(crate) gives_up: u64,
    /// When the ticket was last answered.
    pub(crate) answered: u64,
    /// The edge that it keeps to, unless it roams.
    pub(crate) edge: u16,
    pub(crate) asked: Vec<Asked>,
    /// Whether a question of its was lost: what that did is not known.
    pub(crate) lost: bool,
    pub(crate) has_left: bool,
}

impl Visitor {
    pub(crate) fn new(comes: u64, nodes: u16, dice: &mut SmallRng) -> Self {
        let kind = match dice.random_range(0..100) {
            0..=9 => Kind::Impatient,
            10..=19 => Kind::Ghost,
            20..=29 => Kind::Replayer,
            _ => Kind::Ordinary,
        };
        Self {
            kind,
            stage: Stage::Coming,
            id: None,
            ticket: None,
            next: comes,
            gives_up: comes + dice.random_range(2_000..20_000),
            answered: comes,
            edge: dice.random_range(1..=nodes),
            asked: Vec::new(),
            lost: false,
            has_left: false,
        }
    }

    /// Comes so much later.
    pub(crate) fn delay(&mut self, by: u64) {
        (self.next, self.gives_up, self.answered) = (self.next + by, self.gives_up + by, self.answered + by);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting)
    }
}

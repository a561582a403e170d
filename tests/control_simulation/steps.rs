//! What visitors do in a step: take answers, and ask anew.

use anteroom::desk::{Activity, IssuedPass, JoinAnswer, PassAnswer, StatusAnswer};
use anteroom::model::edge::Ending;
use anteroom::model::ids::TicketId;
use rand::RngExt;
use tokio::sync::oneshot::error::TryRecvError;

use super::oracle::Answer;
use super::visitors::{Asked, Held, Kind, Question, Stage, Told, Visitor, put};
use super::world::{HEARTBEAT_TTL_MS, World};

/// A visitor who is not answered for so long asks somewhere else.
const PATIENCE_MS: u64 = 5_000;

/// How often an old pass is tried.
const TRIES: u64 = 20;

/// Everybody takes what has been answered, and asks what is due.
pub(crate) fn visit(world: &mut World) {
    let mut visitors = std::mem::take(&mut world.visitors);
    for visitor in &mut visitors {
        hear(world, visitor);
        if visitor.next <= world.now && visitor.asked.is_empty() {
            ask(world, visitor);
        }
    }
    world.visitors = visitors;
}

fn hear(world: &mut World, visitor: &mut Visitor) {
    for mut asked in std::mem::take(&mut visitor.asked) {
        match asked.answer.try_recv() {
            Ok(told) => take(world, visitor, asked.at, asked.of, told),
            Err(TryRecvError::Empty) if asked.at + PATIENCE_MS > world.now => visitor.asked.push(asked),
            Err(_) => {
                visitor.lost = true;
                visitor.next = visitor.next.min(world.now + 200);
            }
        }
    }
}

fn ask(world: &mut World, visitor: &mut Visitor) {
    let question = match &visitor.stage {
        Stage::Coming => Question::Join,
        Stage::Waiting if visitor.kind == Kind::Impatient && world.now >= visitor.gives_up => {
            visitor.has_left = true;
            visitor.stage = Stage::Over(None);
            Question::Leave { ticket: visitor.ticket.clone(), pass: None }
        }
        Stage::Waiting => Question::Status(visitor.ticket.clone().unwrap()),
        Stage::Inside(held) if world.now >= held.until => {
            let held = held.clone();
            visitor.stage = Stage::Over(Some(Held { until: world.now, ..held.clone() }));
            if visitor.kind == Kind::Ghost {
                return;
            }
            visitor.has_left = true;
            Question::Leave { ticket: visitor.ticket.clone(), pass: Some(held.token) }
        }
        Stage::Inside(held) => {
            let navigates = world.dice.random_bool(0.7);
            let activity = if navigates { Activity::Navigation } else { Activity::Background };
            Question::Pass(held.token.clone(), activity)
        }
        Stage::Over(Some(held)) => Question::Pass(held.token.clone(), Activity::Background),
        Stage::Over(None) => match &visitor.ticket {
            Some(ticket) if visitor.kind == Kind::Replayer => Question::Status(ticket.clone()),
            _ => {
                visitor.stage = Stage::Gone;
                return;
            }
        },
        Stage::Gone => return,
    };
    visitor.next = world.now + 500;
    let times = if visitor.kind == Kind::Replayer && matches!(question, Question::Status(_)) { 2 } else { 1 };
    for _ in 0..times {
        if world.dice.random_bool(0.4) {
            visitor.edge = world.dice.random_range(1..=u16::try_from(world.nodes.len()).unwrap());
        }
        let node = &world.nodes[&visitor.edge];
        // A visitor whose edge is gone is sent to another one at once.
        let Some(desk) = node.desk() else {
            visitor.edge = world.dice.random_range(1..=u16::try_from(world.nodes.len()).unwrap());
            visitor.next = world.now + 100;
            continue;
        };
        let answer = node.ask(put(std::sync::Arc::clone(desk), world.event.clone(), question.clone()));
        visitor.asked.push(Asked { at: world.now, of: visitor.edge, answer });
    }
}

fn take(world: &mut World, visitor: &mut Visitor, asked: u64, of: u16, told: Told) {
    let now = world.now;
    match told {
        Told::Joined(JoinAnswer::Waiting(waiting)) => {
            if !world.tickets.insert(waiting.id) {
                world.oracle.report(now, format!("two visitors have the ticket {}", waiting.id));
            }
            visitor.id = Some(waiting.id);
            visitor.ticket = Some(waiting.ticket);
            visitor.answered = asked;
            visitor.stage = Stage::Waiting;
            visitor.next = now + millis(waiting.poll_after);
        }
        Told::Joined(JoinAnswer::Admitted(pass)) => {
            if !world.tickets.insert(pass.id) {
                world.oracle.report(now, format!("two visitors have the pass {}", pass.id));
            }
            visitor.id = Some(pass.id);
            // What an earlier question did was for another ticket.
            enter(world, visitor, pass, Answer::First, of);
        }
        Told::Joined(JoinAnswer::Retry(after)) => visitor.next = now + millis(after),
        Told::Joined(JoinAnswer::Refused(phase)) => {
            world.oracle.report(now, format!("a newcomer was refused by node {of}: {phase:?}"));
        }
        Told::Status(answer) => take_status(world, visitor, asked, of, answer),
        Told::Pass(answer, fleet) => take_pass(world, visitor, of, answer, fleet),
        Told::Left => visitor.next = now + 100,
    }
}

fn take_status(world: &mut World, visitor: &mut Visitor, asked: u64, of: u16, answer: StatusAnswer) {
    let now = world.now;
    match answer {
        StatusAnswer::Waiting(waiting) => {
            if Some(waiting.id) != visitor.id {
                world.oracle.report(now, format!("{:?} became {}", visitor.id, waiting.id));
            }
            if visitor.is_waiting() {
                visitor.ticket = Some(waiting.ticket);
                visitor.answered = visitor.answered.max(asked);
                visitor.next = now + millis(waiting.poll_after);
            }
        }
        StatusAnswer::Admitted(pass) => {
            let answer = if visitor.lost { Answer::Perhaps } else { Answer::First };
            if Some(pass.id) != visitor.id {
                world.oracle.report(now, format!("{:?} bought the pass {}", visitor.id, pass.id));
            }
            if visitor.is_waiting() {
                enter(world, visitor, pass, answer, of);
            } else {
                world.oracle.let_in(now, pass.id, answer, of);
                // A replayer tries what it was given, and then no more.
                if let Stage::Over(None) = visitor.stage {
                    visitor.stage = Stage::Over(Some(held(&pass, now)));
                }
            }
        }
        StatusAnswer::Ended(ending) => {
            let silent = now - visitor.answered;
            let is_late = silent * 10 >= HEARTBEAT_TTL_MS * 9;
            let uncertain = visitor.lost || visitor.kind == Kind::Replayer;
            let is_fair = match ending {
                Ending::MissedHeartbeat => is_late,
                Ending::MissedTurn | Ending::Used => uncertain,
                Ending::Left => visitor.has_left,
                Ending::TooOld | Ending::Reset => false,
            };
            if visitor.is_waiting() && !is_fair {
                let id = visitor.id;
                world
                    .oracle
                    .report(now, format!("node {of} ended {id:?}: {ending:?}, {silent} ms after its answer"));
            }
            if visitor.is_waiting() || matches!(visitor.stage, Stage::Over(None)) {
                visitor.stage = Stage::Gone;
            }
        }
        StatusAnswer::Invalid => {
            world.oracle.report(now, format!("node {of} does not know the ticket {:?}", visitor.id));
        }
        StatusAnswer::Unavailable(after) => visitor.next = now + millis(after),
    }
}

fn take_pass(world: &mut World, visitor: &mut Visitor, of: u16, answer: PassAnswer, fleet: u64) {
    let now = world.now;
    let pause = world.dice.random_range(150..500);
    let (is_inside, held) = match &mut visitor.stage {
        Stage::Inside(held) => (true, held),
        Stage::Over(Some(held)) => (false, held),
        _ => return,
    };
    match answer {
        PassAnswer::Valid { id, expires, renewed, .. } => {
            world.oracle.opened(now, id, of);
            if Some(id) != visitor.id {
                world.oracle.report(now, format!("the pass of {:?} is {id}", visitor.id));
            }
            held.expires = expires.0;
            if let Some(renewed) = renewed {
                held.token = renewed.token;
                held.claimed = true;
            }
            visitor.next = now + pause;
            if !is_inside && now > held.until + TRIES * 1_000 {
                visitor.stage = Stage::Gone;
            }
        }
        PassAnswer::None => {
            if is_inside && held.claimed && fleet + 500 < held.expires {
                let what = format!(
                    "node {of} refuses {:?}, which lives {} ms more",
                    visitor.id,
                    held.expires - fleet
                );
                world.oracle.report(now, what);
            }
            visitor.stage = Stage::Over(None);
            visitor.next = now + pause;
        }
        PassAnswer::Unavailable(_) => {
            visitor.next = now + pause;
            if !is_inside && now > held.until + TRIES * 1_000 {
                visitor.stage = Stage::Gone;
            }
        }
    }
}

fn enter(world: &mut World, visitor: &mut Visitor, pass: IssuedPass, answer: Answer, of: u16) {
    let now = world.now;
    let id: TicketId = pass.id;
    world.oracle.let_in(now, id, answer, of);
    let stays = world.dice.random_range(1_000..6_000);
    visitor.stage = Stage::Inside(held(&pass, now + stays));
    visitor.next = now;
}

fn held(pass: &IssuedPass, until: u64) -> Held {
    Held { token: pass.token.clone(), expires: pass.expires.0, claimed: false, until }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap().max(50)
}

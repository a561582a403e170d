//! Group commit: whatever is asked for while a commit is in flight goes into the next one together.

use tokio::sync::{mpsc, oneshot};

use crate::model::ids::LogIndex;
use crate::model::ledger::{Command, Outcome, Step, Tick};

/// Requests that may wait; whoever comes after them is told that the log is busy.
const LONGEST: usize = 1024;

/// What became of a request: where it stands in the log, and what it did.
pub(super) type Answer = Result<(LogIndex, Step), String>;

/// A command that somebody waits for.
#[derive(Debug)]
pub(super) struct Request {
    command: Command,
    answer: oneshot::Sender<Answer>,
}

/// Where requests go in.
#[derive(Clone, Debug)]
pub(super) struct Asking(mpsc::Sender<Request>);

/// Where they come out.
#[derive(Debug)]
pub(super) struct Queue(mpsc::Receiver<Request>);

/// The queue of requests.
pub(super) fn queue() -> (Asking, Queue) {
    let (sender, receiver) = mpsc::channel(LONGEST);
    (Asking(sender), Queue(receiver))
}

impl Asking {
    /// Asks for a command to be put into the log; `None`: too many wait already, or the log is closed.
    pub(super) fn ask(&self, command: Command) -> Option<oneshot::Receiver<Answer>> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Request { command, answer }).ok().map(|()| answered)
    }
}

impl Queue {
    /// Waits for a request; never ends while nobody asks.
    pub(super) async fn next(&mut self) -> Request {
        match self.0.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// One entry of the log: the tick, if it changes anything, then everything that waits, in the order it came.
    ///
    /// What waits gets the time of the tick, which is the fleet's. The tick goes first: it was planned on the state as it is,
    /// which a change before it could pull away.
    pub(super) fn gather(&mut self, first: Option<Request>, tick: Tick) -> Option<Entry> {
        let (ticks, now) = (!tick.is_empty(), tick.now);
        let mut commands = Vec::new();
        let mut answers = Vec::new();
        if ticks {
            commands.push(Command::Tick(tick));
        }
        let waiting = std::iter::from_fn(|| self.0.try_recv().ok());
        for request in first.into_iter().chain(waiting) {
            let mut command = request.command;
            command.set_time(now);
            commands.push(command);
            answers.push(request.answer);
        }
        let command = match commands.len() {
            0 => return None,
            1 => commands.pop()?,
            _ => Command::Batch(commands),
        };
        Some(Entry { command, ticks, answers })
    }

    /// Tells everybody who waits that the log takes nothing.
    pub(super) fn refuse(&mut self, reason: &str) {
        while let Ok(request) = self.0.try_recv() {
            request.refuse(reason);
        }
    }
}

impl Request {
    pub(super) fn refuse(self, reason: &str) {
        let _ = self.answer.send(Err(reason.to_owned()));
    }
}

/// An entry on its way into the log.
#[derive(Debug)]
pub(super) struct Entry {
    command: Command,
    ticks: bool,
    answers: Vec<oneshot::Sender<Answer>>,
}

impl Entry {
    /// The command, once, and who is to be answered.
    pub(super) fn split(self) -> (Command, Answers) {
        (self.command, Answers { skip: usize::from(self.ticks), answers: self.answers })
    }
}

/// Who waits for an entry.
#[derive(Debug)]
pub(super) struct Answers {
    skip: usize,
    answers: Vec<oneshot::Sender<Answer>>,
}

impl Answers {
    /// Tells everybody what their command did.
    pub(super) fn applied(self, outcome: &Outcome) {
        let steps = outcome.steps.iter().skip(self.skip);
        for (answer, step) in self.answers.into_iter().zip(steps) {
            let _ = answer.send(Ok((outcome.index, step.clone())));
        }
    }

    /// Forgets them without an answer: nobody knows whether the entry will come to light again.
    pub(super) fn lost(self) {
        drop(self.answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{Generation, NodeId, NodeRun};
    use crate::model::ledger::{Registration, Span, State};
    use crate::model::time::FleetTime;
    use std::num::NonZeroU16;

    fn register(generation: u32) -> Command {
        let run = NodeRun { node: NodeId(NonZeroU16::MIN), generation: Generation(generation) };
        Command::Register { run, now: FleetTime(1) }
    }

    fn tick() -> Tick {
        let span = Span { node: None, from: FleetTime(1), to: FleetTime(2) };
        Tick { spans: vec![span], ..Tick::default() }
    }

    #[test]
    fn nothing_to_do_makes_no_entry() {
        let (_asking, mut queue) = queue();
        assert!(queue.gather(None, Tick::default()).is_none());
    }

    #[tokio::test]
    async fn everything_that_waits_goes_into_one_entry_and_everybody_gets_the_answer_to_the_own_command() {
        let (asking, mut queue) = queue();
        let asked: Vec<_> = [5, 7, 6].map(|generation| asking.ask(register(generation)).unwrap()).into();
        let (command, answers) = queue.gather(None, tick()).unwrap().split();
        let Command::Batch(commands) = &command else { panic!("no batch: {command:?}") };
        assert!(matches!(commands[..], [Command::Tick(_), ..]));
        assert_eq!(commands.len(), 4);
        let outcome = State::default().apply(LogIndex(3), &command);
        answers.applied(&outcome);
        let mut registrations = Vec::new();
        for answer in asked {
            let (index, step) = answer.await.unwrap().unwrap();
            assert_eq!(index, LogIndex(3));
            let Step::Registered(registration) = step else { panic!("another's answer: {step:?}") };
            registrations.push(registration);
        }
        assert_eq!(registrations, [Registration::Accepted, Registration::Accepted, Registration::Outdated]);
        assert!(queue.gather(None, Tick::default()).is_none());
    }

    #[tokio::test]
    async fn a_wrong_clock_of_whoever_asks_does_not_move_the_time_of_the_ledger() {
        let (asking, mut queue) = queue();
        let tomorrow = FleetTime(86_400_000);
        let key = crate::control::lead::new_key(tomorrow);
        let _asked = asking.ask(Command::RotateKey { now: tomorrow, key });
        let now = FleetTime(7_000);
        let (command, _) = queue.gather(None, Tick { now, ..Tick::default() }).unwrap().split();
        let mut state = State::default();
        state.apply(LogIndex(1), &command);
        assert_eq!(state.now, now);
        assert!(state.keys.records().iter().all(|key| key.made_at == now && key.signs_from <= now));
    }

    #[tokio::test]
    async fn a_lone_request_is_an_entry_of_its_own() {
        let (asking, mut queue) = queue();
        let asked = asking.ask(register(5)).unwrap();
        let first = queue.next().await;
        let (command, answers) = queue.gather(Some(first), Tick::default()).unwrap().split();
        assert!(matches!(command, Command::Register { .. }));
        answers.applied(&State::default().apply(LogIndex(1), &command));
        assert!(asked.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn who_asks_a_log_that_takes_nothing_hears_why() {
        let (asking, mut queue) = queue();
        let asked = asking.ask(register(5)).unwrap();
        queue.refuse("the disk is full");
        assert_eq!(asked.await.unwrap(), Err("the disk is full".to_owned()));
    }

    #[test]
    fn a_flood_of_requests_is_refused_at_the_door() {
        let (asking, _queue) = queue();
        let asked = (0..2 * LONGEST).filter_map(|_| asking.ask(register(1))).count();
        assert_eq!(asked, LONGEST);
    }
}

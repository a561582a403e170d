//! One visitor, led by a test, and the operator beside it.

use std::time::Duration;

use anteroom_load::dice::Dice;
use anteroom_load::history::{Kind, Role};
use anteroom_load::visitor::{
    Ask, Attendance, Browser, Habits, Instead, Outcome, Seen, Transport, arrive, leave, poll, use_once, wait,
};
use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::room::Room;

/// Nothing that a test waits for takes longer, also on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(40);

/// What visitors of an event are like, who wait at `path`, stay about `session_s` seconds, and leave by the button.
pub(crate) fn habits(event: &str, path: &str, session_s: f64) -> Habits {
    Habits {
        path: path.to_owned(),
        base: "/waitingroom".to_owned(),
        event: event.to_owned(),
        session_s,
        requests: 3,
        leaving: 1.0,
        patience_s: 30.0,
        heartbeat_s: 8.0,
        session_ttl_s: 12.0,
        returning: 0.0,
    }
}

/// A visitor with cookies.
pub(crate) struct Guest {
    pub(crate) tab: Browser,
    habits: Habits,
    dice: Dice,
}

impl Guest {
    /// Numbers tell visitors, and the addresses that they come from, apart.
    pub(crate) fn new(room: &Room, number: u64, event: &str, path: &str) -> Self {
        let tab = Browser::new(room.world(), number, Role::Ordinary, Transport::Cookies);
        Self { tab, habits: habits(event, path, 5.0), dice: Dice::new(7, number) }
    }

    /// Goes on to another event with the cookies that it has.
    pub(crate) fn turn_to(&mut self, event: &str, path: &str) {
        self.habits = habits(event, path, 5.0);
    }

    /// Goes to the protected path and wherever it is sent.
    pub(crate) async fn arrive(&mut self) -> Outcome {
        arrive(&mut self.tab, &self.habits, &mut self.dice, Instant::now() + PATIENCE).await
    }

    /// Waits for its turn.
    pub(crate) async fn wait(&mut self) -> Outcome {
        let until = Instant::now() + PATIENCE;
        wait(&mut self.tab, &self.habits, &mut self.dice, Attendance::Asking, until).await
    }

    /// Asks once for its place.
    pub(crate) async fn poll(&mut self) -> Seen {
        poll(&mut self.tab, &self.habits, Attendance::Asking).await
    }

    /// Asks the origin for the protected path once.
    pub(crate) async fn visit(&mut self) -> Seen {
        use_once(&mut self.tab, &self.habits).await
    }

    /// Asks for the protected path once, with this token as its only cookie.
    pub(crate) async fn visit_as(&mut self, name: &str, token: &str) -> Seen {
        let mut ask = Ask::new(Kind::Use, Method::GET, self.habits.path.as_str());
        ask.instead = Some(Instead { name: name.to_owned(), token: token.to_owned(), forged: false });
        self.tab.ask(ask).await
    }

    /// Leaves by the button.
    pub(crate) async fn leave(&mut self) -> Seen {
        leave(&mut self.tab, &self.habits).await
    }
}

/// The operator's side of one event.
pub(crate) struct Operator<'a> {
    room: &'a Room,
    path: String,
}

impl<'a> Operator<'a> {
    pub(crate) fn of(room: &'a Room, event: &str) -> Self {
        Self { room, path: format!("/admin/events/{event}") }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        self.room.subject.plan.operator().unwrap().ask(method, path, body).await.unwrap()
    }

    /// What the control log says of the event.
    pub(crate) async fn read(&self) -> Value {
        self.ask(Method::GET, &self.path, None).await
    }

    /// Reads until it is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let read = self.read().await;
            if is_so(&read) {
                return read;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {what}: {read}");
            sleep(Duration::from_millis(40)).await;
        }
    }

    /// Says a verb, such as "/pause", and waits until it is in effect.
    pub(crate) async fn say(&self, verb: &str) {
        let done = self.ask(Method::POST, &format!("{}{verb}", self.path), None).await;
        self.takes_effect(&done).await;
    }

    /// Changes fields, and waits until that is in effect.
    pub(crate) async fn change(&self, fields: &Value) -> Value {
        let done = self.ask(Method::PATCH, &self.path, Some(fields)).await;
        self.takes_effect(&done).await;
        done
    }

    /// Puts the event: the status and what the answer says.
    pub(crate) async fn put(&self, fields: &Value) -> (u16, Value) {
        let admin = self.room.subject.plan.operator().unwrap();
        let (status, done) = admin.answer(Method::PUT, &self.path, Some(fields)).await.unwrap();
        self.takes_effect(&done).await;
        (status.as_u16(), done)
    }

    /// Waits until every node acts by a change.
    async fn takes_effect(&self, done: &Value) {
        let changed_at = done["index"].as_u64();
        let acts = |read: &Value| {
            let told = &read["in_effect"];
            told["index"].as_u64() >= changed_at && told["nodes"] == told["of"]
        };
        self.until("the change is in effect", acts).await;
    }
}

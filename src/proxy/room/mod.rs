//! The waiting room itself: everything below the public path (design §5).

mod calls;
mod page;
mod shape;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::Guard;
use http::{Method, StatusCode, header};
use pingora_proxy::Session;
use serde_json::json;

use super::accept::Format;
use super::answer::Answer;
use super::asked::{Asked, Attention, Manner, encode};
use super::cookies::Writer;
use super::cors;
use super::front_desk::FrontDesk;
use super::gate::{Gate, Setup};
use super::protected::{Counted, Ruling, Verdict, cannot_tell};
use crate::desk::{Carried, IssuedPass, PassAnswer, Waiting};
use crate::metrics::{RequestOutcome, StrayOutcome};
use crate::model::ids::EventId;
use crate::model::language::Language;
use crate::model::policy::Policy;
use crate::model::route::{RouteTable, normalise};
use crate::page::{Elsewhere, Notice, NoticePage, language_of};

/// A longer wish is not kept, in bytes: as long as the target of a request may be.
const LONGEST_TO: usize = 8 * 1024;

/// A request to the room of an event.
struct Visit<'a> {
    asked: &'a Asked,
    setup: &'a Setup,
    event: EventId,
    policy: Arc<Policy>,
    /// The event's path in the waiting room.
    room: String,
    routes: Guard<Arc<RouteTable>>,
    /// See [`Visit::to`].
    to: OnceLock<String>,
    /// The ticket or seat that counts, of those shown.
    ticket: Option<&'a str>,
}

impl<D: FrontDesk> Gate<D> {
    /// Rules on a request below the public path.
    pub(super) async fn room(&self, session: &mut Session, asked: &Asked, setup: &Setup) -> Ruling {
        let (event, answer) = self.answer_in_room(session, asked, setup).await;
        let counted = match event {
            Some(event) => Counted::Event(event, RequestOutcome::Room),
            None => Counted::Stray(StrayOutcome::Room),
        };
        Ruling { verdict: Verdict::Answer(answer), counted }
    }

    async fn answer_in_room(
        &self,
        session: &mut Session,
        asked: &Asked,
        setup: &Setup,
    ) -> (Option<EventId>, Answer) {
        let public = setup.settings.public_path.as_str();
        if let Some(asset) = setup.pages.asset(asked.path()) {
            let reads = asked.method == Method::GET || asked.method == Method::HEAD;
            return (None, if reads { Answer::asset(asset) } else { wrong_method("GET, HEAD") });
        }
        let below = asked.path().strip_prefix(public).and_then(|rest| rest.strip_prefix('/'));
        let (name, action) = below.map(|rest| rest.split_once('/').unwrap_or((rest, ""))).unwrap_or_default();
        let known = name.parse::<EventId>().ok().and_then(|event| {
            let policy = self.desk.policy(&event)?;
            Some((event, policy))
        });
        let Some(routes) = self.desk.routes() else { return (None, cannot_tell(Duration::from_secs(1))) };
        let Some((event, policy)) = known else { return (None, not_found(asked, setup)) };
        let visit = Visit {
            asked,
            setup,
            room: [public, "/", event.as_str()].concat(),
            routes,
            to: OnceLock::new(),
            ticket: self.best_ticket(asked, &event),
            event,
            policy,
        };
        let allowed = methods_of(action);
        if asked.manner == Manner::Preflight && !allowed.is_empty() {
            return (Some(visit.event.clone()), cors::preflight(asked, &visit.policy, allowed));
        }
        let answer = match (action, &asked.method) {
            ("", &Method::GET | &Method::HEAD) => self.page(&visit).await.cookies(visit.language_cookie()),
            ("join", &Method::POST) => self.join(session, &visit).await,
            ("status", &Method::GET | &Method::HEAD) => self.status(&visit).await,
            ("ticket", &Method::DELETE) | ("leave", &Method::POST)
                if cors::is_forged(asked, &visit.policy) =>
            {
                let detail = "a page of another site asks to leave; only the visitor's own page may";
                Answer::problem(StatusCode::FORBIDDEN, "foreign_origin", detail, json!({}))
            }
            ("ticket", &Method::DELETE) | ("leave", &Method::POST) => self.leave(&visit).await,
            ("challenge", &Method::GET | &Method::HEAD) => {
                Answer::json(StatusCode::OK, &json!({ "kind": "none" }))
            }
            _ if !allowed.is_empty() => wrong_method(allowed),
            _ => not_found(asked, setup),
        };
        (Some(visit.event), cors::readable(answer, asked, &visit.policy))
    }

    /// Of several tickets the one that is good: after a change of the cookies' domain browsers send the old one too.
    fn best_ticket<'a>(&self, asked: &'a Asked, event: &EventId) -> Option<&'a str> {
        let shown = &asked.shown;
        if let [only] = shown.tickets.as_slice() {
            return shown.ticket_header.as_deref().or(Some(only));
        }
        let worth = |token: &&str| match self.desk.carried(event, token) {
            Carried::Ticket(_) => 0,
            Carried::Seat => 1,
            Carried::Ended(_) => 2,
            Carried::Nothing => 3,
        };
        // Of equals the first one counts.
        shown.ticket_header.as_deref().or_else(|| shown.tickets.iter().map(String::as_str).min_by_key(worth))
    }

    /// The pass that the visitor shows, if it opens: newer token, or nothing new.
    async fn open_pass(&self, visit: &Visit<'_>) -> Option<Option<IssuedPass>> {
        let tokens = visit.asked.shown.passes();
        if tokens.is_empty() {
            return None;
        }
        match self.desk.check_pass(&visit.event, &tokens, crate::desk::Activity::Background).await {
            PassAnswer::Valid { renewed, .. } => Some(renewed),
            PassAnswer::None | PassAnswer::Unavailable(_) => None,
        }
    }

    /// The cookies of a visitor who has been let in.
    fn admission_cookies(&self, visit: &Visit<'_>, pass: &IssuedPass) -> Vec<String> {
        let writer = visit.writer();
        vec![writer.pass(&pass.token, pass.expires.since(self.desk.now())), writer.no_marker()]
    }
}

impl Visit<'_> {
    /// Where the visitor wants to go; always a path of the event. Made when it is first asked for: few answers tell it.
    fn to(&self) -> &str {
        self.to.get_or_init(|| destination(self.asked, &self.routes, &self.event, &self.policy))
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            policy: &self.policy.cookie,
            transport: self.asked.transport,
            event: &self.event,
            room: &self.room,
            shares_host: self.routes.shares_host(self.asked.host.as_deref()),
        }
    }

    /// The cookies of a visitor who waits.
    fn waiting_cookies(&self, waiting: &Waiting) -> Vec<String> {
        let writer = self.writer();
        vec![writer.ticket(&waiting.ticket, self.policy.ticket_max), writer.marker(self.policy.ticket_max)]
    }

    /// The language that the address asks for; only below the public path, where no site has a `lang` of its own.
    fn chosen(&self) -> Option<Language> {
        language_of(self.asked.parameter("lang")?.as_ref())
    }

    fn language(&self) -> Language {
        self.chosen().unwrap_or_else(|| self.asked.language(self.policy.language))
    }

    /// Remembers the language that the address asks for; not if nobody looks, as where a page of another site embeds it.
    fn language_cookie(&self) -> Option<String> {
        let chosen = self.chosen().filter(|_| self.asked.attention == Attention::Somebody);
        chosen.map(|language| self.writer().language(language))
    }

    /// The address of the waiting page, with the visitor's wish.
    fn page_url(&self) -> String {
        format!("{}?{}", self.room, self.wish())
    }

    /// An address of the room, with the visitor's wish.
    fn url_of(&self, action: &str) -> String {
        format!("{}/{action}?{}", self.room, self.wish())
    }

    /// Where the visitor wants to go and in which language, as a query: cookies may be refused.
    fn wish(&self) -> String {
        let to = encode(self.to());
        match self.chosen() {
            Some(language) => format!("to={to}&lang={}", language.as_str()),
            None => format!("to={to}"),
        }
    }

    /// A notice in the format that the asker prefers for a page.
    fn notice(&self, status: StatusCode, state: &str, page: &NoticePage<'_>) -> Answer {
        // Who has left would join anew by asking for the page, and one that asks again by itself is gone too soon.
        let stays = !matches!(page.notice, Notice::Left | Notice::Busy);
        let elsewhere = stays.then(|| Elsewhere { room_url: &self.room, to: self.to() });
        let page = NoticePage { elsewhere, ..page.clone() };
        let format = self.asked.accepted.preferred_for_page();
        notice(self.setup, self.language(), status, state, &page, format)
    }
}

/// A notice as a page or as a problem.
fn notice(
    setup: &Setup,
    language: Language,
    status: StatusCode,
    state: &str,
    page: &NoticePage<'_>,
    format: Format,
) -> Answer {
    let html = match format {
        Format::Html => setup.pages.notice(language, page).ok(),
        Format::Json => None,
    };
    let answer = match html {
        Some(html) => Answer::page(status, html),
        None => Answer::problem(status, state, setup.pages.detail(page.notice), json!({})),
    };
    match page.retry_after {
        Some(after) => answer.retry_after(after),
        None => answer,
    }
}

fn not_found(asked: &Asked, setup: &Setup) -> Answer {
    let page = NoticePage { notice: Notice::NotFound, link: Some("/"), ..NoticePage::default() };
    let language = asked.language(Language::default());
    notice(setup, language, StatusCode::NOT_FOUND, "not_found", &page, asked.accepted.preferred())
}

/// By which methods an address below an event's path is asked; empty: there is none.
fn methods_of(action: &str) -> &'static str {
    match action {
        "" | "status" | "challenge" => "GET, HEAD",
        "join" | "leave" => "POST",
        "ticket" => "DELETE",
        _ => "",
    }
}

fn wrong_method(allowed: &'static str) -> Answer {
    let detail = "this address is asked with another method";
    Answer::problem(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail, json!({}))
        .header(header::ALLOW, allowed)
}

/// Where the visitor wants to go, byte by byte (what is no ASCII is percent-encoded, as browsers do), if that is a path of the event on this host; else its first route.
fn destination(asked: &Asked, routes: &RouteTable, event: &EventId, policy: &Policy) -> String {
    let host = asked.host.as_deref();
    let wish = asked.parameter("to").filter(|to| {
        // Browsers read `//x` and `/\x` as another host.
        let local = to.starts_with('/') && !to.starts_with("//") && !to.starts_with("/\\");
        let plain = to.len() <= LONGEST_TO && to.bytes().all(|byte| matches!(byte, 0x21..=0x7e | 0x80..));
        let path = normalise(to.as_bytes());
        local
            && plain
            && path.is_ok_and(|path| routes.find(host, &path).is_ok_and(|found| found == Some(event)))
    });
    match wish {
        Some(wish) if wish.is_ascii() => wish,
        Some(wish) => wish
            .chars()
            .map(|c| if c.is_ascii() { c.to_string() } else { encode(c.encode_utf8(&mut [0; 4])) })
            .collect(),
        None => {
            let first = policy.routes.first().map_or("/", |route| route.path.as_str());
            if first.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
                first.to_owned()
            } else {
                encode(first)
            }
        }
    }
}

/// How long to wait, at least a second.
fn at_least_a_second(after: Duration) -> Duration {
    after.max(Duration::from_secs(1))
}

//! A protected request, and how it can be answered.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::super::accept::Format;
use super::super::answer::Answer;
use super::super::asked::{Asked, Manner, encode};
use super::super::cors;
use super::super::gate::Setup;
use super::ruling::{Counted, Entry, OpenSession, Opened, Ruling, SetPass, Verdict};
use crate::metrics::RequestOutcome;
use crate::model::ids::{EventId, TicketId};
use crate::model::language::Language;
use crate::model::policy::{Mode, Policy};
use crate::model::time::{FleetTime, as_millis};
use crate::page::{Notice, NoticePage};

/// How long whoever is put off at the gate should wait before trying again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A protected request and what it is about.
pub(super) struct Case<'a> {
    pub(super) asked: &'a Asked,
    pub(super) setup: &'a Setup,
    pub(super) event: &'a EventId,
    pub(super) policy: &'a Policy,
    pub(super) shares_host: bool,
}

impl Case<'_> {
    /// Lets the request go on.
    pub(super) fn enter(
        &self,
        outcome: RequestOutcome,
        set_pass: Option<SetPass>,
        session: Option<OpenSession>,
    ) -> Ruling {
        let settings = &self.setup.settings;
        let name = self.policy.origin.as_deref().or(settings.default_origin.as_deref());
        match name.and_then(|name| self.setup.origins.get(name)) {
            Some(origin) => self.ruling(outcome, Verdict::Pass(Entry { origin, set_pass, session })),
            None => {
                tracing::warn!(event = %self.event, "the event's origin is not configured on this node");
                let detail = "the event's origin is not configured on this node";
                let answer =
                    Answer::problem(StatusCode::BAD_GATEWAY, "origin_unavailable", detail, json!({}))
                        .cookies(set_pass.map(|set_pass| set_pass.line));
                self.ruling(RequestOutcome::Unavailable, Verdict::Answer(answer))
            }
        }
    }

    /// Lets the request go on without a pass.
    pub(super) fn let_by(&self) -> Ruling {
        self.enter(RequestOutcome::Bypassed, None, None)
    }

    /// The pass that opened.
    pub(super) fn session(&self, opened: Opened, id: TicketId, expires: FleetTime) -> OpenSession {
        OpenSession { opened, event: self.event.clone(), id, expires }
    }

    /// Too many requests without a pass come from this address.
    pub(super) fn too_many(&self, after: Duration) -> Ruling {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let answer = self.busy_page(status, after).unwrap_or_else(|| {
            let detail = "too many requests without a pass come from this address; wait and try again";
            let more = json!({ "retry_after_ms": as_millis(after) });
            let answer = Answer::problem(status, "retry", detail, more).retry_after(after);
            cors::readable(answer, self.asked, self.policy)
        });
        self.ruling(RequestOutcome::Limited, Verdict::Answer(answer))
    }

    /// The node cannot tell yet.
    pub(super) fn unavailable(&self, after: Duration) -> Ruling {
        let answer = self
            .busy_page(StatusCode::SERVICE_UNAVAILABLE, after)
            .unwrap_or_else(|| cors::readable(cannot_tell(after), self.asked, self.policy));
        self.ruling(RequestOutcome::Unavailable, Verdict::Answer(answer))
    }

    /// For a person who goes to a page: one that asks again by itself.
    fn busy_page(&self, status: StatusCode, after: Duration) -> Option<Answer> {
        if self.asked.manner != Manner::Navigation {
            return None;
        }
        let notice = NoticePage {
            notice: Notice::Busy,
            message: self.policy.message.as_deref(),
            retry_after: Some(after.max(Duration::from_secs(1))),
            ..NoticePage::default()
        };
        let html = self.setup.pages.notice(self.language(), &notice).ok()?;
        Some(Answer::page(status, html).retry_after(after))
    }

    fn language(&self) -> Language {
        self.asked.language(self.policy.language)
    }

    fn ruling(&self, outcome: RequestOutcome, verdict: Verdict) -> Ruling {
        Ruling { verdict, counted: Counted::Event(self.event.clone(), outcome) }
    }

    /// Sends a navigation to the waiting page, and tells everybody else where to join.
    pub(super) fn put_off(&self) -> Ruling {
        let room = format!("{}/{}", self.setup.settings.public_path, self.event);
        let page = format!("{room}?to={}", encode(&self.asked.target));
        if self.asked.manner == Manner::Navigation {
            let answer = Answer::redirect(StatusCode::FOUND, page);
            return self.ruling(RequestOutcome::Redirected, Verdict::Answer(answer));
        }
        let closed = self.policy.mode == Mode::Closed;
        let status = if closed { StatusCode::FORBIDDEN } else { StatusCode::TOO_MANY_REQUESTS };
        if !closed && self.asked.accepted.preferred() == Format::Html && self.asked.manner == Manner::Call {
            // A form that a person sent: it must not look as if it had arrived.
            let notice = NoticePage { notice: Notice::NotSent, link: Some(&room), ..NoticePage::default() };
            if let Ok(html) = self.setup.pages.notice(self.language(), &notice) {
                let answer = Answer::page(status, html).retry_after(TRY_AGAIN);
                return self.ruling(RequestOutcome::Refused, Verdict::Answer(answer));
            }
        }
        let more = json!({
            "event": self.event.as_str(),
            "join": format!("{room}/join"),
            "page": room,
            "present": "Anteroom-Pass",
            "retry_after_ms": 5000,
        });
        let (state, detail) = if closed {
            ("closed", "the waiting room is closed: nobody new is let in")
        } else {
            ("waiting", "there is a line: join it, and show the pass that you get with every request")
        };
        let answer = Answer::problem(status, state, detail, more).retry_after(TRY_AGAIN);
        self.ruling(RequestOutcome::Refused, Verdict::Answer(cors::readable(answer, self.asked, self.policy)))
    }
}

/// The node cannot tell yet: come back.
pub(in crate::proxy) fn cannot_tell(after: Duration) -> Answer {
    let detail = "this node cannot tell yet; passes and places stay valid, try again";
    let more = json!({ "phase": "frozen", "retry_after_ms": as_millis(after) });
    Answer::problem(StatusCode::SERVICE_UNAVAILABLE, "frozen", detail, more).retry_after(after)
}

//! Requests for the site behind: who may go on, and what the others are told (design §6).

mod case;
mod ruling;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::accept::Format;
use super::answer::Answer;
use super::asked::{Asked, Manner};
use super::bypass::{self, Bypass};
use super::cookies::Writer;
use super::front::Watch;
use super::front_desk::FrontDesk;
use super::gate::{Gate, Setup};
use super::limits::Allowance;
use crate::desk::{Activity, Carried, ExpressAnswer, ExpressKind, IssuedPass, PassAnswer, RenewalUrgency};
use crate::metrics::{RequestOutcome, StrayOutcome};
use crate::model::ids::EventId;
use crate::model::language::Language;
use crate::model::policy::Mode;
use crate::model::route::NormalPath;
use crate::page::{Notice, NoticePage};
use case::Case;
pub(super) use case::cannot_tell;
use ruling::Opened;
pub(super) use ruling::{Counted, Entry, OpenSession, Ruling, SetPass, Verdict};

/// When a node that has not heard the leader yet is worth asking again.
const SOON: Duration = Duration::from_secs(1);

impl<D: FrontDesk> Gate<D> {
    /// Decides about a request for the site behind.
    pub(super) async fn judge(
        &self,
        asked: &Asked,
        path: &NormalPath<'_>,
        headers: &HeaderMap,
        setup: &Setup,
    ) -> Ruling {
        let Some(routes) = self.desk.routes() else {
            return stray(StrayOutcome::Unavailable, cannot_tell(SOON));
        };
        let event = match routes.find(asked.host.as_deref(), path) {
            Ok(Some(event)) => event,
            Ok(None) => return unguarded(setup, asked),
            Err(refused) => return bad_request(&refused.to_string()),
        };
        // Routes and policies come from one pulse, but are not read in one step.
        let Some(policy) = self.desk.policy(event) else {
            return stray(StrayOutcome::Unavailable, cannot_tell(SOON));
        };
        let case = Case {
            asked,
            setup,
            event,
            policy: &policy,
            shares_host: routes.shares_host(asked.host.as_deref()),
        };
        self.decide(&case, path, headers).await
    }

    async fn decide(&self, case: &Case<'_>, path: &NormalPath<'_>, headers: &HeaderMap) -> Ruling {
        let Case { asked, policy, event, .. } = *case;
        if policy.mode == Mode::Bypass || is_certificate_check(asked, path) {
            return case.let_by();
        }
        if asked.manner == Manner::Preflight {
            return match self.counters.stranger(&case.setup.settings.limits, asked.address) {
                Allowance::Granted => case.let_by(),
                Allowance::Exceeded(after) => case.too_many(after),
            };
        }
        let bypass = bypass::judge(&policy.bypass, asked, path, headers);
        if bypass == Bypass::Free {
            return case.let_by();
        }
        let tokens = asked.shown.passes();
        if !tokens.is_empty() {
            match self.desk.check_pass(event, &tokens, activity_of(asked)).await {
                PassAnswer::Valid { id, expires, renewed, urgency } => {
                    let set_pass = renewed.map(|pass| self.set_pass(case, &pass, urgency));
                    let session = case.session(Opened::ByPass, id, expires);
                    return case.enter(RequestOutcome::Passed, set_pass, Some(session));
                }
                PassAnswer::Unavailable(_) if bypass == Bypass::Counted || policy.mode == Mode::Observe => {
                    return case.let_by();
                }
                PassAnswer::Unavailable(after) => return case.unavailable(after),
                PassAnswer::None => {}
            }
        }
        let regardless = bypass == Bypass::Counted || policy.mode == Mode::Observe;
        if !regardless {
            // Whoever waits costs the node nothing here, and is nobody's neighbour: limits are for strangers.
            if self.is_known_in_line(asked, event) {
                return case.put_off();
            }
            if let Allowance::Exceeded(after) =
                self.counters.stranger(&case.setup.settings.limits, asked.address)
            {
                return case.too_many(after);
            }
            if policy.mode == Mode::Closed || asked.shown.stands_in_line(event) {
                return case.put_off();
            }
        }
        let kind = express_kind(asked);
        match self.desk.express(event, kind).await {
            ExpressAnswer::Admitted(pass) => {
                // A pass that an address shares is no one visitor's to keep.
                let keep = !matches!(kind, ExpressKind::PerAddress(_));
                let set_pass = keep.then(|| self.set_pass(case, &pass, RenewalUrgency::Now));
                let opened = if keep { Opened::OnTheSpot } else { Opened::ByPass };
                let session = case.session(opened, pass.id, pass.expires);
                case.enter(RequestOutcome::Expressed, set_pass, Some(session))
            }
            _ if regardless => case.let_by(),
            ExpressAnswer::CookieCheck | ExpressAnswer::Line => case.put_off(),
            ExpressAnswer::Unavailable(after) => case.unavailable(after),
        }
    }

    /// Whether the visitor shows the marker of the line, or a ticket of the event.
    fn is_known_in_line(&self, asked: &Asked, event: &EventId) -> bool {
        let shown = &asked.shown;
        let holds = |token: &str| matches!(self.desk.carried(event, token), Carried::Ticket(_));
        shown.is_marked(event) || shown.ticket_header.as_deref().is_some_and(holds)
    }

    fn set_pass(&self, case: &Case<'_>, pass: &IssuedPass, urgency: RenewalUrgency) -> SetPass {
        let writer = Writer {
            policy: &case.policy.cookie,
            transport: case.asked.transport,
            event: case.event,
            room: "",
            shares_host: case.shares_host,
        };
        SetPass { line: writer.pass(&pass.token, pass.expires.since(self.desk.now())), urgency }
    }

    /// Ends the connection that this task serves, an upgraded one, when its pass ends.
    pub(super) fn watch(&self, open: &OpenSession) -> Option<Watch> {
        let (desk, event) = (Arc::clone(&self.desk), open.event.clone());
        let (id, expires) = (open.id, open.expires);
        Watch::start(async move { desk.pass_ended(&event, id, expires).await })
    }

    /// The response has ended: a pass that it gave has to be presented soon.
    pub(super) fn answered(&self, session: &OpenSession) {
        if session.opened == Opened::OnTheSpot {
            self.desk.response_ended(&session.event, session.id);
        }
    }
}

/// A request that no event guards.
fn unguarded(setup: &Setup, asked: &Asked) -> Ruling {
    let origin = setup.settings.default_origin.as_deref().and_then(|name| setup.origins.get(name));
    if let Some(origin) = origin {
        let verdict = Verdict::Pass(Entry { origin, set_pass: None, session: None });
        return Ruling { verdict, counted: Counted::Stray(StrayOutcome::Proxied) };
    }
    let page = match asked.accepted.preferred() {
        Format::Html => {
            let notice = NoticePage { notice: Notice::NotFound, ..NoticePage::default() };
            setup.pages.notice(asked.language(Language::default()), &notice).ok()
        }
        Format::Json => None,
    };
    let answer = match page {
        Some(html) => Answer::page(StatusCode::NOT_FOUND, html),
        None => {
            let detail = "no event and no default origin serves this address";
            Answer::problem(StatusCode::NOT_FOUND, "not_found", detail, json!({}))
        }
    };
    stray(StrayOutcome::NotFound, answer)
}

fn bad_request(detail: &str) -> Ruling {
    stray(StrayOutcome::Malformed, Answer::problem(StatusCode::BAD_REQUEST, "refused", detail, json!({})))
}

fn stray(outcome: StrayOutcome, answer: Answer) -> Ruling {
    Ruling { verdict: Verdict::Answer(answer), counted: Counted::Stray(outcome) }
}

fn express_kind(asked: &Asked) -> ExpressKind {
    let bare = asked.manner != Manner::Navigation && !asked.shown.shows_cookies();
    if bare { ExpressKind::PerAddress(asked.address) } else { ExpressKind::OnTheSpot }
}

fn activity_of(asked: &Asked) -> Activity {
    match asked.manner {
        Manner::Navigation | Manner::Upgrade => Activity::Navigation,
        Manner::Preflight | Manner::Call => Activity::Background,
    }
}

/// Certificate authorities must reach the origin whatever the line is like.
fn is_certificate_check(asked: &Asked, path: &NormalPath<'_>) -> bool {
    (asked.method == Method::GET || asked.method == Method::HEAD)
        && path.is_below("/.well-known/acme-challenge")
}

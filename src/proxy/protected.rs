//! Requests for the site behind: who may go on, and what the others are told (design §6).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use serde_json::json;

use super::accept::Format;
use super::answer::Answer;
use super::asked::{Asked, Manner, encode};
use super::bypass::{self, Bypass};
use super::cookies::Writer;
use super::front::Watch;
use super::front_desk::FrontDesk;
use super::gate::{Gate, Setup};
use super::limits::Allowance;
use super::origins::Origin;
use crate::desk::{Activity, ExpressAnswer, ExpressKind, IssuedPass, PassAnswer, RenewalUrgency};
use crate::metrics::{EventCounters, RequestOutcome, StrayOutcome};
use crate::model::ids::{EventId, TicketId};
use crate::model::policy::{Mode, Policy};
use crate::model::route::{NormalPath, normalise, normalise_host};
use crate::page::{Notice, NoticePage};

/// How long whoever is put off at the gate should wait before trying again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What becomes of a request.
pub(super) enum Verdict {
    /// It goes on to the origin.
    Pass(Entry),
    /// The gate answers.
    Answer(Answer),
}

/// A request that goes on.
pub(super) struct Entry {
    pub(super) origin: Arc<Origin>,
    pub(super) set_pass: Option<SetPass>,
    /// The pass that opened, where one did.
    pub(super) session: Option<OpenSession>,
    /// Where what becomes of it is counted; `None`: it belongs to no event.
    pub(super) counters: Option<Arc<EventCounters>>,
}

/// A pass in use.
pub(super) struct OpenSession {
    event: EventId,
    id: TicketId,
}

/// A `Set-Cookie` line for the origin's response.
pub(super) struct SetPass {
    pub(super) line: String,
    urgency: RenewalUrgency,
}

impl SetPass {
    /// Whether the response may carry it: sharing caches must not lose what they could have kept, unless it is urgent.
    pub(super) fn fits(&self, navigation: bool, headers: &HeaderMap) -> bool {
        let kept_private = || {
            let values =
                headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|directive| {
                let directive = directive.trim().to_ascii_lowercase();
                directive == "no-store" || directive == "private"
            })
        };
        self.urgency == RenewalUrgency::Now || navigation || kept_private()
    }
}

/// A protected request and what it is about.
struct Case<'a> {
    asked: &'a Asked,
    setup: &'a Setup,
    event: &'a EventId,
    policy: &'a Policy,
    shares_host: bool,
}

impl<D: FrontDesk> Gate<D> {
    /// Decides about a request for the site behind.
    pub(super) async fn judge(&self, asked: &Asked, headers: &HeaderMap, setup: &Setup) -> Verdict {
        let path = match normalise(asked.target.as_bytes()) {
            Ok(path) => path,
            Err(refused) => return self.malformed(&refused.to_string()),
        };
        let routes = self.desk.routes();
        let event = match routes.find(asked.host.as_deref(), &path) {
            Ok(event) => event.cloned(),
            Err(refused) => return self.malformed(&refused.to_string()),
        };
        let known = event.and_then(|event| self.desk.policy(&event).map(|policy| (event, policy)));
        let Some((event, policy)) = known else {
            let verdict = open_to(setup, setup.settings.default_origin.as_deref(), asked);
            let proxied = matches!(verdict, Verdict::Pass(_));
            self.metrics.stray(if proxied { StrayOutcome::Proxied } else { StrayOutcome::NotFound });
            return verdict;
        };
        let case = Case {
            asked,
            setup,
            event: &event,
            policy: &policy,
            shares_host: routes.events_on(asked.host.as_deref()) > 1,
        };
        let (outcome, verdict) = self.decide(&case, &path, headers).await;
        let counters = self.metrics.event(&event);
        counters.request(outcome);
        match verdict {
            Verdict::Pass(entry) => Verdict::Pass(Entry { counters: Some(counters), ..entry }),
            answer @ Verdict::Answer(_) => answer,
        }
    }

    fn malformed(&self, detail: &str) -> Verdict {
        self.metrics.stray(StrayOutcome::Malformed);
        bad_request(detail)
    }

    async fn decide(
        &self,
        case: &Case<'_>,
        path: &NormalPath<'_>,
        headers: &HeaderMap,
    ) -> (RequestOutcome, Verdict) {
        let Case { asked, policy, event, .. } = *case;
        if policy.mode == Mode::Bypass || is_certificate_check(asked, path) {
            return (RequestOutcome::Bypassed, case.enter(None, None));
        }
        if asked.manner == Manner::Preflight {
            return match self.counters.stranger(&case.setup.settings.limits, asked.address) {
                Allowance::Granted => (RequestOutcome::Bypassed, case.enter(None, None)),
                Allowance::Exceeded(after) => (RequestOutcome::Limited, too_many(after)),
            };
        }
        let bypass = bypass::judge(&policy.bypass, asked, path, headers);
        if bypass == Bypass::Free {
            return (RequestOutcome::Bypassed, case.enter(None, None));
        }
        let tokens = asked.shown.passes();
        if !tokens.is_empty() {
            match self.desk.check_pass(event, &tokens, activity_of(asked)).await {
                PassAnswer::Valid { id, renewed, urgency, .. } => {
                    return (RequestOutcome::Passed, self.admit(case, id, renewed, urgency));
                }
                PassAnswer::Unavailable(_) if bypass == Bypass::Counted || policy.mode == Mode::Observe => {
                    return (RequestOutcome::Bypassed, case.enter(None, None));
                }
                PassAnswer::Unavailable(after) => return (RequestOutcome::Unavailable, unavailable(after)),
                PassAnswer::None => {}
            }
        }
        let regardless = bypass == Bypass::Counted || policy.mode == Mode::Observe;
        if !regardless {
            if let Allowance::Exceeded(after) =
                self.counters.stranger(&case.setup.settings.limits, asked.address)
            {
                return (RequestOutcome::Limited, too_many(after));
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
                (RequestOutcome::Expressed, case.enter(set_pass, Some(case.session(pass.id))))
            }
            _ if regardless => (RequestOutcome::Bypassed, case.enter(None, None)),
            ExpressAnswer::CookieCheck | ExpressAnswer::Line => case.put_off(),
            ExpressAnswer::Unavailable(after) => (RequestOutcome::Unavailable, unavailable(after)),
        }
    }

    fn admit(
        &self,
        case: &Case<'_>,
        id: TicketId,
        renewed: Option<IssuedPass>,
        urgency: RenewalUrgency,
    ) -> Verdict {
        let set_pass = renewed.map(|pass| self.set_pass(case, &pass, urgency));
        case.enter(set_pass, Some(case.session(id)))
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
    pub(super) fn watch(&self, open: OpenSession) -> Option<Watch> {
        let desk = Arc::clone(&self.desk);
        Watch::start(async move { desk.pass_ended(&open.event, open.id).await })
    }
}

impl Case<'_> {
    fn enter(&self, set_pass: Option<SetPass>, session: Option<OpenSession>) -> Verdict {
        let settings = &self.setup.settings;
        let name = self.policy.origin.as_deref().or(settings.default_origin.as_deref());
        match name.and_then(|name| self.setup.origins.get(name)) {
            Some(origin) => Verdict::Pass(Entry { origin, set_pass, session, counters: None }),
            None => {
                tracing::warn!(event = %self.event, "the event's origin is not configured on this node");
                no_origin()
            }
        }
    }

    fn session(&self, id: TicketId) -> OpenSession {
        OpenSession { event: self.event.clone(), id }
    }

    /// Sends a navigation to the waiting page, and tells everybody else where to join.
    fn put_off(&self) -> (RequestOutcome, Verdict) {
        let room = format!("{}/{}", self.setup.settings.public_path, self.event);
        let page = format!("{room}?to={}", encode(&self.asked.target));
        if self.asked.manner == Manner::Navigation {
            return (RequestOutcome::Redirected, Verdict::Answer(Answer::redirect(StatusCode::FOUND, page)));
        }
        let closed = self.policy.mode == Mode::Closed;
        let status = if closed { StatusCode::FORBIDDEN } else { StatusCode::TOO_MANY_REQUESTS };
        if !closed && self.asked.accepted.preferred() == Format::Html && self.asked.manner == Manner::Call {
            // A form that a person sent: it must not look as if it had arrived.
            let notice = NoticePage { notice: Notice::NotSent, link: Some(&room), ..NoticePage::default() };
            if let Ok(html) = self.setup.pages.notice(&notice) {
                let answer = Answer::page(status, html).retry_after(TRY_AGAIN);
                return (RequestOutcome::Refused, Verdict::Answer(answer));
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
        let mut answer = Answer::problem(status, state, detail, more).retry_after(TRY_AGAIN);
        if let Some(origin) = self.allowed_origin() {
            answer = answer
                .header("access-control-allow-origin", origin)
                .header("access-control-allow-credentials", "true")
                .header("access-control-expose-headers", "Retry-After")
                .header("vary", "Origin");
        }
        (RequestOutcome::Refused, Verdict::Answer(answer))
    }

    /// The page's origin, if its scripts may read the answer: on the same host, or within the cookies' domain.
    fn allowed_origin(&self) -> Option<String> {
        let origin = self.asked.origin.as_deref()?;
        let (_, authority) = origin.split_once("://")?;
        let host = normalise_host(authority).ok()?;
        let within = |domain: &str| {
            let domain = domain.trim_start_matches('.');
            *host == *domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        let same = self.asked.host.as_deref() == Some(&*host);
        let allowed = same || self.policy.cookie.domain.as_deref().is_some_and(within);
        allowed.then(|| origin.to_owned())
    }
}

/// A request that no event guards.
fn open_to(setup: &Setup, origin: Option<&str>, asked: &Asked) -> Verdict {
    match origin.and_then(|name| setup.origins.get(name)) {
        Some(origin) => Verdict::Pass(Entry { origin, set_pass: None, session: None, counters: None }),
        None if asked.accepted.preferred() == Format::Html => {
            let notice = NoticePage { notice: Notice::NotFound, ..NoticePage::default() };
            match setup.pages.notice(&notice) {
                Ok(html) => Verdict::Answer(Answer::page(StatusCode::NOT_FOUND, html)),
                Err(_) => no_origin(),
            }
        }
        None => Verdict::Answer(Answer::problem(
            StatusCode::NOT_FOUND,
            "not_found",
            "no event and no default origin serves this address",
            json!({}),
        )),
    }
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

fn bad_request(detail: &str) -> Verdict {
    Verdict::Answer(Answer::problem(StatusCode::BAD_REQUEST, "refused", detail, json!({})))
}

fn no_origin() -> Verdict {
    let detail = "no origin is configured for this address";
    Verdict::Answer(Answer::problem(StatusCode::BAD_GATEWAY, "origin_unavailable", detail, json!({})))
}

fn too_many(after: Duration) -> Verdict {
    let detail = "too many requests without a pass come from this address; wait and try again";
    let more = json!({ "retry_after_ms": crate::model::time::as_millis(after) });
    Verdict::Answer(Answer::problem(StatusCode::TOO_MANY_REQUESTS, "retry", detail, more).retry_after(after))
}

fn unavailable(after: Duration) -> Verdict {
    let detail = "this node cannot tell yet whether the pass is valid; it stays valid, try again";
    let more = json!({ "phase": "frozen", "retry_after_ms": crate::model::time::as_millis(after) });
    Verdict::Answer(
        Answer::problem(StatusCode::SERVICE_UNAVAILABLE, "frozen", detail, more).retry_after(after),
    )
}

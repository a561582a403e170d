//! The calls of scripts, apps and forms: join, status, leave.

use std::time::Duration;

use http::{StatusCode, header};
use pingora_proxy::Session;
use serde_json::json;

use super::super::accept::Format;
use super::super::answer::Answer;
use super::super::front_desk::FrontDesk;
use super::super::gate::Gate;
use super::super::limits::Allowance;
use super::{Visit, at_least_a_second, page, shape};
use crate::desk::{Attendance, Beat, Carried, JoinAnswer, StatusAnswer, Waiting};
use crate::model::edge::{Ending, Phase};
use crate::model::time::as_millis;
use crate::page::{Notice, NoticePage};

/// A longer body of a join is refused, in bytes.
const LONGEST_JOIN: usize = 16 * 1024;

/// The body of a join may take this long.
const JOIN_BODY: Duration = Duration::from_secs(30);

impl<D: FrontDesk> Gate<D> {
    /// Answers `POST …/join`: JSON to programs, the way on to forms.
    pub(super) async fn join(&self, session: &mut Session, visit: &Visit<'_>) -> Answer {
        match tokio::time::timeout(JOIN_BODY, read_join(session)).await {
            Ok(Ok(())) => {}
            Ok(Err(answer)) => return answer,
            Err(_) => {
                let detail = "the body of the join took too long";
                return Answer::problem(StatusCode::REQUEST_TIMEOUT, "refused", detail, json!({}));
            }
        }
        let answer = self.join_or_go_on(visit).await;
        if visit.asked.accepted.preferred() == Format::Html {
            return self.joined_by_form(visit, &answer);
        }
        match answer {
            JoinAnswer::Waiting(waiting) => {
                let cookies = visit.waiting_cookies(&waiting);
                Answer::json(StatusCode::OK, &shape::waiting(&waiting, Some(&waiting.ticket)))
                    .cookies(cookies)
            }
            JoinAnswer::Admitted(pass) => {
                let cookies = self.admission_cookies(visit, &pass);
                Answer::json(StatusCode::OK, &shape::admitted(&pass)).cookies(cookies)
            }
            JoinAnswer::Retry(after) => retry(after),
            JoinAnswer::Refused(Phase::Full) => {
                let more = json!({ "phase": "full", "retry_after_ms": 30_000 });
                let detail = "the line is as long as it may be; try again later";
                Answer::problem(StatusCode::TOO_MANY_REQUESTS, "full", detail, more)
                    .retry_after(Duration::from_secs(30))
            }
            JoinAnswer::Refused(phase) => {
                let more = json!({ "phase": phase });
                Answer::problem(StatusCode::FORBIDDEN, "closed", "the line takes nobody new", more)
            }
        }
    }

    /// A valid ticket is limited as a ticket; only who makes a new place is limited by address.
    async fn join_or_go_on(&self, visit: &Visit<'_>) -> JoinAnswer {
        let carried = visit.ticket.map(|token| (token, self.desk.carried(&visit.event, token)));
        if let Some((token, Carried::Ticket(_))) = carried {
            match self.desk.status(&visit.event, token, Attendance::Asking).await {
                StatusAnswer::Waiting(waiting) => {
                    return match self.poll(&waiting) {
                        Allowance::Granted => JoinAnswer::Waiting(waiting),
                        Allowance::Exceeded(after) => JoinAnswer::Retry(after),
                    };
                }
                StatusAnswer::Admitted(pass) => return JoinAnswer::Admitted(pass),
                StatusAnswer::Unavailable(after) => return JoinAnswer::Retry(after),
                StatusAnswer::Ended(_) | StatusAnswer::Invalid => {}
            }
        }
        match self.counters.join(&visit.setup.settings.limits, visit.asked.address) {
            Allowance::Granted => self.desk.join(&visit.event, visit.ticket).await,
            Allowance::Exceeded(after) => JoinAnswer::Retry(after),
        }
    }

    /// Counts a poll. One that is a heartbeat is never refused: several tabs may use up what a ticket may ask, and the
    /// place would be lost.
    pub(super) fn poll(&self, waiting: &Waiting) -> Allowance {
        match self.counters.poll(waiting.id) {
            Allowance::Exceeded(_) if waiting.beat == Beat::First => Allowance::Granted,
            allowance => allowance,
        }
    }

    fn joined_by_form(&self, visit: &Visit<'_>, answer: &JoinAnswer) -> Answer {
        match answer {
            JoinAnswer::Waiting(waiting) => Answer::redirect(StatusCode::SEE_OTHER, visit.page_url())
                .cookies(visit.waiting_cookies(waiting)),
            JoinAnswer::Admitted(pass) => Answer::redirect(StatusCode::SEE_OTHER, visit.to().to_owned())
                .cookies(self.admission_cookies(visit, pass)),
            JoinAnswer::Retry(after) => page::busy_page(visit, StatusCode::TOO_MANY_REQUESTS, *after),
            JoinAnswer::Refused(phase) => page::refused_page(visit, *phase),
        }
    }

    /// Answers `GET …/status`.
    pub(super) async fn status(&self, visit: &Visit<'_>) -> Answer {
        let shown = &visit.asked.shown;
        let Some(ticket) = visit.ticket else { return self.invalid(visit) };
        let attendance = match visit.asked.parameter("hold").as_deref() {
            Some("1") => Attendance::Holding,
            _ => Attendance::Asking,
        };
        match self.desk.status(&visit.event, ticket, attendance).await {
            StatusAnswer::Waiting(waiting) => {
                if let Allowance::Exceeded(after) = self.poll(&waiting) {
                    return retry(after);
                }
                if shown.ticket_header.is_some() {
                    return Answer::json(StatusCode::OK, &shape::waiting(&waiting, Some(&waiting.ticket)));
                }
                let cookie = visit.writer().ticket(&waiting.ticket, visit.policy.ticket_max);
                Answer::json(StatusCode::OK, &shape::waiting(&waiting, None)).cookie(cookie)
            }
            StatusAnswer::Admitted(pass) => {
                let cookies = self.admission_cookies(visit, &pass);
                Answer::json(StatusCode::OK, &shape::admitted(&pass)).cookies(cookies)
            }
            StatusAnswer::Ended(reason) => {
                self.metrics.ended(&visit.event, reason);
                gone(visit, reason)
            }
            StatusAnswer::Invalid => self.invalid(visit),
            StatusAnswer::Unavailable(after) => {
                let more =
                    json!({ "phase": "frozen", "retry_after_ms": as_millis(at_least_a_second(after)) });
                let detail = "this node cannot tell yet; the place is kept, ask again";
                Answer::problem(StatusCode::SERVICE_UNAVAILABLE, "frozen", detail, more)
                    .retry_after(at_least_a_second(after))
            }
        }
    }

    /// The answer to a status that nobody can have.
    fn invalid(&self, visit: &Visit<'_>) -> Answer {
        let limits = &visit.setup.settings.limits;
        if let Allowance::Exceeded(after) = self.counters.stranger(limits, visit.asked.address) {
            return retry(after);
        }
        let more = json!({ "join": format!("{}/join", visit.room) });
        Answer::problem(StatusCode::UNAUTHORIZED, "invalid", "no valid ticket is shown; join the line", more)
    }

    /// Answers `DELETE …/ticket` and `POST …/leave`.
    pub(super) async fn leave(&self, visit: &Visit<'_>) -> Answer {
        let shown = &visit.asked.shown;
        self.desk.leave(&visit.event, &shown.tickets(), &shown.passes()).await;
        let writer = visit.writer();
        let gone = [writer.no_ticket(), writer.no_pass(), writer.no_marker()];
        if visit.asked.accepted.preferred() == Format::Html {
            let link = visit.page_url();
            let left = NoticePage { notice: Notice::Left, link: Some(&link), ..NoticePage::default() };
            return visit.notice(StatusCode::OK, "left", &left).cookies(gone);
        }
        Answer::empty(StatusCode::NO_CONTENT).cookies(gone)
    }
}

fn gone(visit: &Visit<'_>, reason: Ending) -> Answer {
    let more = json!({ "reason": reason, "join": format!("{}/join", visit.room) });
    Answer::problem(StatusCode::GONE, "expired", "this ticket has ended; join anew", more)
        .cookie(visit.writer().no_marker())
}

/// Come back.
fn retry(after: Duration) -> Answer {
    let more = json!({ "retry_after_ms": as_millis(after) });
    Answer::problem(
        StatusCode::TOO_MANY_REQUESTS,
        "retry",
        "too many at once; come back a little later",
        more,
    )
    .retry_after(after)
}

/// Takes the body of a join; what it says matters only to challenges and entry codes, and there are none yet.
async fn read_join(session: &mut Session) -> Result<(), Answer> {
    let too_long = || {
        let detail = "the body of a join is at most 16 KiB";
        Answer::problem(StatusCode::PAYLOAD_TOO_LARGE, "refused", detail, json!({}))
    };
    let headers = &session.req_header().headers;
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > LONGEST_JOIN) {
        return Err(too_long());
    }
    let broken = |_| Answer::problem(StatusCode::BAD_REQUEST, "refused", "the body broke off", json!({}));
    if headers.contains_key(header::EXPECT) {
        session.downstream_session.write_continue_response().await.map_err(broken)?;
    }
    let mut body = Vec::new();
    while let Some(chunk) = session.downstream_session.read_request_body().await.map_err(broken)? {
        if body.len() + chunk.len() > LONGEST_JOIN {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    let kind = session.req_header().headers.get(header::CONTENT_TYPE);
    if is_form_or_object(kind.map_or(b"", |kind| kind.as_bytes()), body.trim_ascii()) {
        return Ok(());
    }
    let detail = "the body of a join is a JSON object, or empty";
    Err(Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail, json!({})))
}

/// Whether a body is what a form sends, or a JSON object; programs often leave the type of what they send to a default.
fn is_form_or_object(kind: &[u8], body: &[u8]) -> bool {
    let starts =
        |prefix: &[u8]| kind.get(..prefix.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(prefix));
    let is_form = starts(b"application/x-www-form-urlencoded") || starts(b"multipart/form-data");
    if body.is_empty() || (is_form && body.first() != Some(&b'{')) {
        return true;
    }
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}

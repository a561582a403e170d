//! The waiting page: it puts visitors in line by itself, so that nobody needs JavaScript to wait.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::json;

use super::super::accept::Format;
use super::super::answer::Answer;
use super::super::asked::Attention;
use super::super::front_desk::FrontDesk;
use super::super::gate::Gate;
use super::super::limits::Allowance;
use super::{Visit, at_least_a_second, shape};
use crate::desk::{Attendance, Carried, IssuedPass, JoinAnswer, StatusAnswer, Waiting};
use crate::model::edge::{Ending, Phase};
use crate::model::policy::Mode;
use crate::page::{Notice, NoticePage, Standing, WaitingPage};

/// How long a seat is kept for a visitor who has not come back with it.
const SEAT_LIFE: Duration = Duration::from_secs(600);

impl<D: FrontDesk> Gate<D> {
    /// Answers `GET /waitingroom/{event}`.
    pub(super) async fn page(&self, visit: &Visit<'_>) -> Answer {
        if visit.policy.mode == Mode::Bypass {
            return Answer::redirect(StatusCode::SEE_OTHER, visit.to().to_owned());
        }
        if let Some(renewed) = self.open_pass(visit).await {
            let cookies = renewed.iter().flat_map(|pass| self.admission_cookies(visit, pass));
            return Answer::redirect(StatusCode::SEE_OTHER, visit.to().to_owned()).cookies(cookies);
        }
        let Some(shown) = visit.ticket else { return self.seat(visit) };
        if visit.asked.attention == Attention::Nobody {
            return unseen_page(visit);
        }
        match self.desk.status(&visit.event, shown, Attendance::Asking).await {
            StatusAnswer::Waiting(waiting) => match self.poll(&waiting) {
                Allowance::Granted => self.waiting_page(visit, &waiting),
                Allowance::Exceeded(after) => busy_page(visit, StatusCode::TOO_MANY_REQUESTS, after),
            },
            StatusAnswer::Admitted(pass) => self.enter(visit, &pass),
            // Whoever was in, or has left, and comes back, begins anew.
            StatusAnswer::Ended(Ending::Used | Ending::Left) => self.join_at_page(visit, shown).await,
            StatusAnswer::Ended(reason) => {
                self.metrics.ended(&visit.event, reason);
                ended_page(visit, reason)
            }
            StatusAnswer::Invalid if self.desk.carried(&visit.event, shown) != Carried::Nothing => {
                self.join_at_page(visit, shown).await
            }
            StatusAnswer::Invalid => self.seat(visit),
            StatusAnswer::Unavailable(after) => busy_page(visit, StatusCode::SERVICE_UNAVAILABLE, after),
        }
    }

    /// Offers a seat to a visitor without a ticket, and sees on its return whether it keeps cookies.
    fn seat(&self, visit: &Visit<'_>) -> Answer {
        let limits = &visit.setup.settings.limits;
        if let Allowance::Exceeded(after) = self.counters.stranger(limits, visit.asked.address) {
            return busy_page(visit, StatusCode::TOO_MANY_REQUESTS, after);
        }
        let Some(seat) = self.desk.seat_token(&visit.event) else {
            return busy_page(visit, StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(2));
        };
        let cookie = visit.writer().ticket(&seat, SEAT_LIFE);
        let page_url = visit.page_url();
        if visit.asked.parameter("j").as_deref() == Some("1") {
            let notice =
                NoticePage { notice: Notice::CookiesNeeded, link: Some(&page_url), ..NoticePage::default() };
            return visit.notice(StatusCode::OK, "cookies_needed", &notice).cookie(cookie);
        }
        Answer::redirect(StatusCode::FOUND, format!("{page_url}&j=1")).cookie(cookie)
    }

    async fn join_at_page(&self, visit: &Visit<'_>, shown: &str) -> Answer {
        let limits = &visit.setup.settings.limits;
        if let Allowance::Exceeded(after) = self.counters.join(limits, visit.asked.address) {
            return busy_page(visit, StatusCode::TOO_MANY_REQUESTS, after);
        }
        match self.desk.join(&visit.event, Some(shown)).await {
            JoinAnswer::Waiting(waiting) => self.waiting_page(visit, &waiting),
            JoinAnswer::Admitted(pass) => self.enter(visit, &pass),
            JoinAnswer::Retry(after) => busy_page(visit, StatusCode::TOO_MANY_REQUESTS, after),
            JoinAnswer::Refused(phase) => refused_page(visit, phase),
        }
    }

    fn waiting_page(&self, visit: &Visit<'_>, waiting: &Waiting) -> Answer {
        let cookies = visit.waiting_cookies(waiting);
        if visit.asked.accepted.preferred_for_page() == Format::Json {
            return Answer::json(StatusCode::OK, &shape::waiting(waiting, None)).cookies(cookies);
        }
        let (reference, page_url) = (waiting.id.to_string(), visit.page_url());
        let (status_url, leave_url) = (format!("{}/status", visit.room), visit.url_of("leave"));
        let page = WaitingPage {
            standing: match waiting.turn {
                Some(_) => Standing::Called,
                None => Standing::InLine(waiting.phase),
            },
            position: waiting.estimate.position,
            wait: waiting.estimate.eta_range,
            progress: waiting.estimate.progress,
            message: waiting.message.as_deref(),
            poll_after: waiting.poll_after,
            heartbeat_ttl: waiting.heartbeat_ttl,
            reference: &reference,
            to: visit.to(),
            room_url: &visit.room,
            page_url: &page_url,
            status_url: &status_url,
            leave_url: &leave_url,
        };
        match visit.setup.pages.waiting(visit.language(), &page) {
            Ok(html) => Answer::page(StatusCode::OK, html).cookies(cookies),
            Err(error) => {
                tracing::error!(%error, "the waiting page cannot be rendered");
                busy_page(visit, StatusCode::SERVICE_UNAVAILABLE, waiting.poll_after).cookies(cookies)
            }
        }
    }

    fn enter(&self, visit: &Visit<'_>, pass: &IssuedPass) -> Answer {
        let cookies = self.admission_cookies(visit, pass);
        Answer::redirect(StatusCode::SEE_OTHER, visit.to().to_owned()).cookies(cookies)
    }
}

/// What is told where nobody looks at the page: such a request takes no place and no turn.
fn unseen_page(visit: &Visit<'_>) -> Answer {
    if visit.asked.method == Method::HEAD {
        return Answer::page(StatusCode::OK, String::new());
    }
    let detail = "the waiting page puts in line who goes to it; this request was made by something else";
    Answer::problem(StatusCode::SERVICE_UNAVAILABLE, "unseen", detail, json!({}))
        .retry_after(Duration::from_secs(1))
}

/// The page of a ticket that has ended, with one click to begin anew.
pub(super) fn ended_page(visit: &Visit<'_>, reason: Ending) -> Answer {
    let notice = match reason {
        Ending::MissedHeartbeat => Notice::MissedHeartbeat,
        Ending::MissedTurn => Notice::MissedTurn,
        Ending::TooOld | Ending::Used => Notice::TooOld,
        Ending::Reset => Notice::Reset,
        Ending::Left => Notice::Left,
    };
    let (join, message) = (visit.url_of("join"), visit.policy.message.as_deref());
    let page = NoticePage { notice, message, rejoin_url: Some(&join), ..NoticePage::default() };
    visit.notice(StatusCode::GONE, "expired", &page).cookie(visit.writer().no_marker())
}

/// The page of a line that takes nobody.
pub(super) fn refused_page(visit: &Visit<'_>, phase: Phase) -> Answer {
    let (page_url, message) = (visit.page_url(), visit.policy.message.as_deref());
    let link = Some(page_url.as_str());
    if phase == Phase::Full {
        let retry_after = Some(Duration::from_secs(30));
        let page = NoticePage { notice: Notice::Full, message, link, retry_after, ..NoticePage::default() };
        visit.notice(StatusCode::TOO_MANY_REQUESTS, "full", &page)
    } else {
        let page = NoticePage { notice: Notice::Closed, message, link, ..NoticePage::default() };
        visit.notice(StatusCode::FORBIDDEN, "closed", &page).cookie(visit.writer().no_marker())
    }
}

/// A page that asks again by itself.
pub(super) fn busy_page(visit: &Visit<'_>, status: StatusCode, after: Duration) -> Answer {
    let page = NoticePage {
        notice: Notice::Busy,
        message: visit.policy.message.as_deref(),
        retry_after: Some(at_least_a_second(after)),
        ..NoticePage::default()
    };
    visit.notice(status, "retry", &page)
}

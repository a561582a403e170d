//! Pingora's hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::{HeaderValue, StatusCode, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use serde_json::json;

use super::accept::Format;
use super::answer::Answer;
use super::asked::{Asked, Manner};
use super::cookies;
use super::front;
use super::front_desk::FrontDesk;
use super::limits::Counters;
use super::names::{
    ANTEROOM_PASS, ANTEROOM_TICKET, OTHER_PATHS, SHARED_CACHES, X_FORWARDED_FOR, X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
};
use super::origins::{Origin, Origins, Server};
use super::protected::{Counted, OpenSession, SetPass, Verdict};
use super::settings::ProxySettings;
use crate::clock::Clock;
use crate::metrics::{Metrics, StrayOutcome};
use crate::model::route::{Refused, normalise};
use crate::page::{Notice, NoticePage, Pages};

/// An idle keep-alive connection is closed after this long.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(75);

/// The longest silence inside a request's body.
const READ: Duration = Duration::from_secs(30);

/// The longest wait for a visitor to take some bytes.
const WRITE: Duration = Duration::from_secs(30);

/// The door: decides about every request. Clones share everything.
pub struct Gate<D> {
    pub(super) desk: Arc<D>,
    pub(super) counters: Arc<Counters>,
    pub(super) metrics: Arc<Metrics>,
    flights: Arc<Flights>,
    /// Whether connections end with their next answer.
    parting: Arc<AtomicBool>,
    clock: Clock,
    setup: Arc<ArcSwap<Setup>>,
}

impl<D> Clone for Gate<D> {
    fn clone(&self) -> Self {
        Self {
            desk: Arc::clone(&self.desk),
            counters: Arc::clone(&self.counters),
            metrics: Arc::clone(&self.metrics),
            flights: Arc::clone(&self.flights),
            parting: Arc::clone(&self.parting),
            clock: self.clock,
            setup: Arc::clone(&self.setup),
        }
    }
}

/// Every request under way holds what is inside, which counts them.
#[derive(Default)]
struct Flights(Arc<()>);

/// What a reload replaces as a whole.
pub(super) struct Setup {
    pub(super) settings: ProxySettings,
    pub(super) origins: Origins,
    pub(super) pages: Pages,
}

/// What the gate remembers of one request.
#[derive(Default)]
pub struct Passage {
    asked: Option<Box<Asked>>,
    origin: Option<Arc<Origin>>,
    server: Option<Arc<Server>>,
    tries: usize,
    set_pass: Option<SetPass>,
    session: Option<OpenSession>,
    counted: Option<Counted>,
    /// Counts the request while it is under way.
    _flight: Option<Arc<()>>,
    /// Ends the connection when the pass of an upgraded one ends; stops with the request.
    _watch: Option<front::Watch>,
}

impl Setup {
    fn new(settings: ProxySettings) -> anyhow::Result<Self> {
        let origins = Origins::open(&settings.origins);
        let pages = Pages::new(&settings.public_path)?;
        Ok(Self { settings, origins, pages })
    }
}

impl<D: FrontDesk> Gate<D> {
    /// A gate; resolves the names of origins, so it may take a moment.
    ///
    /// # Errors
    /// If a page template is at fault.
    pub fn new(
        desk: Arc<D>,
        settings: ProxySettings,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let setup = Arc::new(ArcSwap::from_pointee(Setup::new(settings)?));
        let (counters, flights, parting) = (Arc::new(Counters::new()), Arc::default(), Arc::default());
        Ok(Self { desk, counters, metrics, flights, parting, clock, setup })
    }

    /// Goes on with other settings; requests under way end by the old ones. Resolves names, so it may take a moment.
    ///
    /// # Errors
    /// If a page template is at fault: then nothing has changed.
    pub fn reload(&self, settings: ProxySettings) -> anyhow::Result<()> {
        if self.setup.load().settings != settings {
            self.setup.store(Arc::new(Setup::new(settings)?));
        }
        Ok(())
    }

    /// How many requests are under way, open WebSockets among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        Arc::strong_count(&self.flights.0).saturating_sub(1)
    }

    /// From now on every HTTP/1 connection ends with its next answer, which says so: whoever has more to ask comes anew.
    pub fn part(&self) {
        self.parting.store(true, Ordering::Relaxed);
    }

    /// Connections stay open after an answer again.
    pub fn stay(&self) {
        self.parting.store(false, Ordering::Relaxed);
    }

    /// Resolves and probes origins, for ever.
    pub async fn tend(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut elapsed = Duration::ZERO;
        ticks.tick().await;
        loop {
            ticks.tick().await;
            elapsed += Duration::from_secs(1);
            self.setup.load_full().origins.tend(elapsed).await;
        }
    }

    fn count(&self, counted: &Counted) {
        match counted {
            Counted::Event(event, outcome) => self.metrics.request(event, *outcome),
            Counted::Stray(outcome) => self.metrics.stray(*outcome),
        }
    }

    /// Answers a request that nobody should be asked to make sense of.
    async fn refuse(&self, session: &mut Session, refused: Refused) -> pingora::Result<bool> {
        self.count(&Counted::Stray(StrayOutcome::Malformed));
        let status = match refused {
            Refused::TooLong => StatusCode::URI_TOO_LONG,
            _ => StatusCode::BAD_REQUEST,
        };
        tracing::debug!(%refused, method = %session.req_header().method, "a request was refused");
        Answer::problem(status, "refused", &refused.to_string(), json!({})).send(session).await?;
        Ok(true)
    }
}

#[async_trait]
impl<D: FrontDesk> ProxyHttp for Gate<D> {
    type CTX = Passage;

    fn new_ctx(&self) -> Passage {
        Passage { _flight: Some(Arc::clone(&self.flights.0)), ..Passage::default() }
    }

    /// None: Pingora's own would look at every response for a compression that nobody asks for.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, _: &mut Passage) -> pingora::Result<()> {
        front::head_is_read();
        // Pingora makes these anew for every request; keep-alive stays off where it has switched it off.
        if session.get_keepalive().is_some() {
            let parting = self.parting.load(Ordering::Relaxed);
            session.set_keepalive((!parting).then_some(KEEPALIVE.as_secs()));
        }
        session.set_read_timeout(Some(READ));
        if session.is_http2() {
            session.set_write_timeout(Some(WRITE));
        }
        session.set_total_drain_timeout(Some(Duration::from_secs(2)));
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, passage: &mut Passage) -> pingora::Result<bool> {
        let setup = self.setup.load();
        let asked = match Asked::read(session, &setup.settings.trusted_proxies) {
            Ok(asked) => Box::new(asked),
            Err(refused) => return self.refuse(session, refused).await,
        };
        let path = match normalise(asked.target.as_bytes()) {
            Ok(path) => path,
            Err(refused) => return self.refuse(session, refused).await,
        };
        // The room's, if it is in every reading.
        let ruling = if path.is_below(&setup.settings.public_path) {
            self.room(session, &asked, &setup).await
        } else {
            self.judge(&asked, &path, &session.req_header().headers, &setup).await
        };
        self.count(&ruling.counted);
        match ruling.verdict {
            Verdict::Answer(answer) => {
                answer.send(session).await?;
                Ok(true)
            }
            Verdict::Pass(entry) => {
                // What the gate itself answers fits into the buffers of an HTTP/1 connection.
                session.set_write_timeout(Some(WRITE));
                if asked.manner == Manner::Upgrade {
                    session.set_read_timeout(None);
                    passage._watch = entry.session.as_ref().and_then(|open| self.watch(open));
                }
                passage.origin = Some(entry.origin);
                passage.set_pass = entry.set_pass;
                passage.session = entry.session;
                passage.asked = Some(asked);
                passage.counted = Some(ruling.counted);
                Ok(false)
            }
        }
    }

    async fn upstream_peer(&self, _: &mut Session, passage: &mut Passage) -> pingora::Result<Box<HttpPeer>> {
        let unavailable =
            || Error::explain(ErrorType::HTTPStatus(503), "the origin has no server with an address");
        let origin = passage.origin.as_ref().ok_or_else(unavailable)?;
        let server = origin.next(self.clock.boot()).ok_or_else(unavailable)?;
        let upgrade = passage.asked.as_deref().is_some_and(|asked| asked.manner == Manner::Upgrade);
        let peer = origin.peer(&server, upgrade);
        passage.server = Some(server);
        passage.tries += 1;
        Ok(Box::new(peer))
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        passage: &mut Passage,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some(server) = &passage.server {
            server.failed(self.clock.boot());
        }
        let breadth = passage.origin.as_ref().map_or(0, |origin| origin.breadth());
        error.set_retry(passage.tries < breadth.min(4));
        error
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        passage: &mut Passage,
    ) -> pingora::Result<()> {
        let Some(asked) = &passage.asked else { return Ok(()) };
        asked.state_target(session.req_header(), request)?;
        asked.take_off_hearsay(request);
        request.remove_header(&header::COOKIE);
        for line in session.req_header().headers.get_all(header::COOKIE) {
            if let Some(kept) = cookies::without_ours(line.as_bytes()) {
                request.append_header(header::COOKIE, kept)?;
            }
        }
        request.remove_header(&ANTEROOM_TICKET);
        request.remove_header(&ANTEROOM_PASS);
        request.remove_header(&header::FORWARDED);
        // Some frameworks take these for the path: it would not be the one that was judged.
        for name in &OTHER_PATHS {
            request.remove_header(name);
        }
        request.insert_header(X_FORWARDED_FOR.clone(), asked.addresses(&session.req_header().headers))?;
        request
            .insert_header(X_FORWARDED_PROTO.clone(), HeaderValue::from_static(asked.transport.scheme()))?;
        match &asked.named_host {
            Some(host) => request.insert_header(X_FORWARDED_HOST.clone(), host.as_str())?,
            None => drop(request.remove_header(&X_FORWARDED_HOST)),
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        _: &mut Session,
        response: &mut ResponseHeader,
        passage: &mut Passage,
    ) -> pingora::Result<()> {
        // It would send visitors past this gate.
        response.remove_header(&header::ALT_SVC);
        let Some(set_pass) = &passage.set_pass else { return Ok(()) };
        let navigation = passage.asked.as_deref().is_some_and(|asked| asked.manner == Manner::Navigation);
        if set_pass.fits(navigation, &response.headers) && !response.status.is_informational() {
            response.append_header(header::SET_COOKIE, set_pass.line.as_str())?;
            response.insert_header(header::CACHE_CONTROL, "private, no-store")?;
            response.remove_header(&header::EXPIRES);
            for shared in &SHARED_CACHES {
                response.remove_header(shared);
            }
        }
        Ok(())
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        passage: &mut Passage,
    ) -> FailToProxy {
        let status = match (error.etype(), error.esource()) {
            (ErrorType::HTTPStatus(code), _) => {
                StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_GATEWAY)
            }
            (
                ErrorType::ReadTimedout | ErrorType::ConnectTimedout | ErrorType::WriteTimedout,
                ErrorSource::Upstream,
            ) => StatusCode::GATEWAY_TIMEOUT,
            (_, ErrorSource::Upstream) => StatusCode::BAD_GATEWAY,
            (
                ErrorType::WriteError | ErrorType::ReadError | ErrorType::ConnectionClosed,
                ErrorSource::Downstream,
            ) => {
                return FailToProxy { error_code: 0, can_reuse_downstream: false };
            }
            (_, ErrorSource::Downstream) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if let Some(Counted::Event(event, _)) = &passage.counted {
            self.metrics.origin_failed(event);
        }
        if session.response_written().is_none() {
            session.set_keepalive(None);
            // The pass is the visitor's although the origin failed: without it the next try would take another slot.
            let set_pass = passage.set_pass.take().map(|set_pass| set_pass.line);
            let answer = self.origin_failed(passage, status).cookies(set_pass);
            if let Err(error) = answer.send(session).await {
                tracing::debug!(%error, "the visitor was gone before it could be told of an error");
            }
        }
        FailToProxy { error_code: status.as_u16(), can_reuse_downstream: false }
    }

    async fn logging(&self, _: &mut Session, _: Option<&Error>, passage: &mut Passage) {
        front::request_is_served();
        if let Some(session) = &passage.session {
            self.answered(session);
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &Passage, error: &Error) -> bool {
        // Visitors who go away are no faults.
        matches!(error.esource(), ErrorSource::Downstream)
    }

    fn request_summary(&self, session: &Session, _: &Passage) -> String {
        // Never the query: it may carry secrets of the site behind.
        let request = session.req_header();
        let version = if request.version == Version::HTTP_2 { "h2" } else { "h1" };
        format!("{version} {} {}", request.method, request.uri.path())
    }
}

impl<D: FrontDesk> Gate<D> {
    fn origin_failed(&self, passage: &Passage, status: StatusCode) -> Answer {
        let asked = passage.asked.as_deref().filter(|asked| asked.accepted.preferred() == Format::Html);
        if let Some(asked) = asked {
            let policy = match &passage.counted {
                Some(Counted::Event(event, _)) => self.desk.policy(event),
                _ => None,
            };
            let of_event = policy.map(|policy| policy.language).unwrap_or_default();
            let setup = self.setup.load();
            let page = NoticePage { notice: Notice::OriginDown, ..NoticePage::default() };
            if let Ok(html) = setup.pages.notice(asked.language(of_event), &page) {
                return Answer::page(status, html);
            }
        }
        let detail = "the origin does not answer; the pass stays valid, try again in a moment";
        Answer::problem(status, "origin_unavailable", detail, json!({})).retry_after(Duration::from_secs(2))
    }
}

//! The listener for Prometheus and for probes: no token, nothing that is secret, nothing that changes anything.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;

use crate::desk::{Desk, EventFigures, Figures};
use crate::lifecycle::{LifeStage, Lifecycle};
use crate::metrics::{EventReading, Metrics, NodeReading};
use crate::model::edge::Contact;
use crate::model::policy::Ordering;
use crate::peer::{Refusal, Refusals};

/// What a scrape and the probes read.
#[derive(Clone, Debug)]
pub struct Probes {
    /// What this node knows.
    pub desk: Arc<Desk>,
    /// What adapters counted.
    pub metrics: Arc<Metrics>,
    /// Where in its life the process is.
    pub lifecycle: Arc<Lifecycle>,
    /// Whom this node did not let in.
    pub refusals: Arc<Refusals>,
}

/// Serves `/metrics`, `/livez` and `/readyz` until `end` resolves.
///
/// # Errors
/// If the listener fails.
pub async fn serve_probes(
    listener: TcpListener,
    probes: Probes,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes(probes)).with_graceful_shutdown(end).await
}

fn routes(probes: Probes) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/livez", get(async || plain(StatusCode::OK, "alive\n")))
        .route("/readyz", get(ready))
        .with_state(probes)
}

async fn ready(State(probes): State<Probes>) -> Response {
    let contact = probes.desk.contact();
    match (probes.lifecycle.stage(), contact) {
        (LifeStage::Starting, _) => plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        (LifeStage::Draining, _) => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        (LifeStage::Serving, Contact::CutOff | Contact::Unheard) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, "cut off from the leader\n")
        }
        (LifeStage::Serving, Contact::Fresh | Contact::Stale) => plain(StatusCode::OK, "ready\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = (status, text).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn scrape(State(probes): State<Probes>) -> Response {
    let figures = probes.desk.figures();
    let events: Vec<_> = figures.events.iter().map(|event| reading_of(event, &probes.desk)).collect();
    match probes.metrics.render(&node_reading(&figures, &probes), &events) {
        Ok(text) => {
            let mut response = text.into_response();
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written down");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written down\n")
        }
    }
}

fn node_reading(figures: &Figures, Probes { desk, refusals, .. }: &Probes) -> NodeReading {
    NodeReading {
        contact: figures.contact,
        pulse_age: figures.pulse_age,
        round_trip: Duration::from_millis(figures.round_trip_ms),
        index: figures.index,
        leads: desk.control().is_ok_and(|control| control.leads()),
        peers_refused: Refusal::ALL.iter().map(|why| (why.as_str(), refusals.count(*why))).collect(),
    }
}

fn reading_of(figures: &EventFigures, desk: &Desk) -> EventReading {
    let ordering = desk.event(&figures.event).map(|event| event.policy.ordering);
    let called = u64::from(figures.watermark.bucket().0);
    let lag = match ordering {
        // The keys of `random` are no times.
        None | Some(Ordering::Random) => None,
        Some(Ordering::BucketedRandom | Ordering::Fifo) if figures.waiting == 0 || called == 0 => {
            Some(Duration::ZERO)
        }
        Some(Ordering::BucketedRandom | Ordering::Fifo) => {
            Some(Duration::from_secs(desk.now().unix_seconds().saturating_sub(called)))
        }
    };
    EventReading {
        event: figures.event.clone(),
        capacity: figures.capacity,
        slots_free: figures.slots_free,
        live_passes: figures.live_passes,
        waiting: figures.waiting,
        admit_rate: figures.admit_rate,
        watermark_lag: lag,
        phase: figures.phase,
        joins: figures.joins_total,
        polls: figures.polls_total,
        mints: figures.mints_total,
        express: figures.express_total,
        left: figures.left_total,
    }
}

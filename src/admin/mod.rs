//! The operator's API, on a listener of its own, and the listener for metrics and probes.
//!
//! Every request shows the bearer token. Nothing is changed by GET. Every error is `application/problem+json`.

mod assembly;
mod cluster;
mod duplicates;
mod events;
mod node;
mod problem;
mod scrape;
#[cfg(test)]
mod tests;
mod token;
mod verbs;
mod visitors;
mod wire;

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use tokio::net::TcpListener;

pub use assembly::{Assembly, ReloadError, ReloadTried, Reloaded};
pub use scrape::{Probes, serve_probes};
pub use token::{AdminToken, AdminTokenError};

use crate::desk::{ControlError, ControlPort, Desk};
use problem::Problem;
use wire::Run;

/// The largest body that a request may have, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// What the operator's API works with.
#[derive(Clone)]
pub struct Admin {
    /// What this node knows, and the way to the control log.
    pub desk: Arc<Desk>,
    /// Who shows it may do everything.
    pub token: Arc<AdminToken>,
    /// What only the assembled process can do.
    pub assembly: Arc<dyn Assembly>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("desk", &self.desk).finish_non_exhaustive()
    }
}

impl Admin {
    fn control(&self) -> Result<Arc<dyn ControlPort>, ControlError> {
        self.desk.control()
    }
}

/// Serves the operator's API until `end` resolves and the requests in flight are answered.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    admin: Admin,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes(admin)).with_graceful_shutdown(end).await
}

fn routes(admin: Admin) -> Router {
    let event = Router::new()
        .route("/", get(events::read).put(events::put).patch(events::patch).delete(events::delete))
        .route("/pause", post(verbs::pause))
        .route("/resume", post(verbs::resume))
        .route("/open", post(verbs::open))
        .route("/close", post(verbs::close))
        .route("/reset", post(verbs::reset))
        .route("/admit", post(verbs::admit))
        .route("/inventory", put(verbs::inventory))
        .route("/message", put(verbs::message))
        .route("/passes/{id}", delete(visitors::end_pass))
        .route("/tickets/{ref}", get(visitors::explain))
        .route("/log", get(visitors::log));
    Router::new()
        .route("/admin/events", get(events::list))
        .nest("/admin/events/{event}", event)
        .route("/admin/node", get(node::read))
        .route("/admin/cluster", get(cluster::read))
        .route("/admin/cluster/init", post(cluster::found))
        .route("/admin/cluster/controllers/{node}", put(cluster::add).delete(cluster::remove))
        .route("/admin/cluster/nodes/{node}", delete(cluster::expel))
        .route("/admin/keys/rotate", post(node::rotate_key))
        .route("/admin/reload", post(node::reload))
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn_with_state(admin.clone(), guard))
        .with_state(admin)
}

/// Lets in who shows the token, and writes down who changed something.
async fn guard(State(admin): State<Admin>, request: Request, next: Next) -> Result<Response, Problem> {
    if !admin.token.is_shown_by(request.headers()) {
        return Err(Problem::unauthorised());
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if method.is_safe() {
        return Ok(next.run(request).await);
    }
    // Of whatever path, also of one whose handler knows no dry run: what is not understood is not done.
    let dry_run = Run::of(request.uri().query())? == Run::Dry;
    let response = next.run(request).await;
    let status = response.status().as_u16();
    tracing::info!(%method, path, dry_run, status, "the operator's API was asked for a change");
    Ok(response)
}

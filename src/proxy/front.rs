//! The connections: an application of Pingora's that lets the gate end a connection from outside.
//!
//! Pingora gives its hooks no way to end an upgraded connection that is silent, and a WebSocket must end with its pass;
//! nor does it limit how long the head of a request may take. So every connection runs beside a watch; hooks find it
//! through the task that it runs in.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::{ALPN, Stream};
use pingora::server::ShutdownWatch;
use pingora::server::configuration::ServerConf;
use pingora::services::listening::Service;
use pingora_proxy::{HttpProxy, http_proxy};
use tokio::sync::Notify;

use super::front_desk::FrontDesk;
use super::gate::{Gate, KEEPALIVE};

/// How long a connection may take over what costs it nothing: clients that send a byte now and then would use up the
/// files that this process may open.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For the head of a request.
    head: Duration,
    /// Before the next head begins.
    idle: Duration,
}

const PATIENCE: Patience = Patience { head: Duration::from_secs(30), idle: KEEPALIVE };

tokio::task_local! {
    static CONNECTION: Arc<Connection>;
}

/// What hooks tell of the connection that they serve.
#[derive(Debug, Default)]
struct Connection {
    over: Notify,
    /// Heads and responses that are done with: even while a head is awaited, odd while a request is served.
    steps: AtomicU64,
}

impl Connection {
    /// Ends when the connection shall.
    async fn watch(&self, heads: Heads, patience: Patience) {
        let too_slow = async {
            let mut limit = patience.head;
            loop {
                let seen = self.steps.load(Ordering::Relaxed);
                tokio::time::sleep(limit).await;
                if seen.is_multiple_of(2) && seen == self.steps.load(Ordering::Relaxed) {
                    return;
                }
                // From now on a head may follow a silence of keep-alive.
                limit = patience.head + patience.idle;
            }
        };
        tokio::select! {
            () = self.over.notified() => {}
            () = too_slow, if heads == Heads::OneByOne => {}
        }
    }
}

/// How heads come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heads {
    /// One after the other.
    OneByOne,
    /// In streams of one HTTP/2 connection, which limits them by itself.
    InStreams,
}

/// A request's head is there: from now on it takes as long as it takes.
pub(super) fn head_is_read() {
    step_to_parity(1);
}

/// A request has been served: the connection awaits the next head.
pub(super) fn request_is_served() {
    step_to_parity(0);
}

fn step_to_parity(parity: u64) {
    let step = |steps: u64| (steps % 2 != parity).then_some(steps + 1);
    // Streams of HTTP/2 run in tasks of their own, and are not watched.
    let _ = CONNECTION
        .try_with(|connection| connection.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step));
}

/// Serves connections with a gate.
pub struct Front<D: FrontDesk> {
    proxy: Arc<HttpProxy<Gate<D>>>,
}

/// The service that serves visitors; the caller adds its listeners.
pub fn service<D: FrontDesk>(conf: &Arc<ServerConf>, gate: Gate<D>) -> Service<Front<D>> {
    Service::new("visitors".to_owned(), Front { proxy: Arc::new(http_proxy(conf, gate)) })
}

#[async_trait]
impl<D: FrontDesk> ServerApp for Front<D> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let connection = Arc::new(Connection::default());
        let heads = match stream.selected_alpn_proto() {
            Some(ALPN::H2) => Heads::InStreams,
            _ => Heads::OneByOne,
        };
        let (proxy, shutdown) = (Arc::clone(&self.proxy), shutdown.clone());
        let serve = async move { ServerApp::process_new(&proxy, stream, &shutdown).await };
        // A task of its own, so that what happens in it does not wake the watch.
        let mut serving = Serving(tokio::spawn(CONNECTION.scope(Arc::clone(&connection), serve)));
        tokio::select! {
            stream = &mut serving.0 => stream.ok().flatten(),
            () = connection.watch(heads, PATIENCE) => None,
        }
    }

    async fn cleanup(&self) {
        ServerApp::cleanup(self.proxy.as_ref()).await;
    }
}

/// The task that serves a connection; it ends when this is dropped.
struct Serving(tokio::task::JoinHandle<Option<Stream>>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Watches a pass for an upgraded connection; stops when dropped.
pub(super) struct Watch(tokio::task::AbortHandle);

impl Watch {
    /// Ends the connection that this task serves once `over` is.
    pub(super) fn start(over: impl Future<Output = ()> + Send + 'static) -> Option<Self> {
        let connection = CONNECTION.try_with(Arc::clone).ok()?;
        let task = tokio::spawn(async move {
            over.await;
            connection.over.notify_one();
        });
        Some(Self(task.abort_handle()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_that_never_ends_ends_the_connection_and_a_long_request_does_not() {
        let short = Patience { head: Duration::from_millis(2), idle: Duration::from_millis(2) };
        Connection::default().watch(Heads::OneByOne, short).await;
        let connection = Arc::new(Connection::default());
        let within = CONNECTION.scope(Arc::clone(&connection), async {
            head_is_read();
            head_is_read();
            let many_heads = 50 * short.head;
            let watch = connection.watch(Heads::OneByOne, short);
            assert!(tokio::time::timeout(many_heads, watch).await.is_err(), "it is being served");
            request_is_served();
            connection.watch(Heads::OneByOne, short).await;
        });
        within.await;
    }
}

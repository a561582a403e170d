//! The connections: an application of Pingora's that lets the gate end a connection from outside.
//!
//! Pingora gives its hooks no way to end an upgraded connection that is silent, and a WebSocket must end with its pass.
//! So every connection runs beside a signal; a hook finds it through the task that it runs in.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;
use pingora::server::configuration::ServerConf;
use pingora::services::listening::Service;
use pingora_proxy::{HttpProxy, http_proxy};
use tokio::sync::Notify;

use super::front_desk::FrontDesk;
use super::gate::Gate;

tokio::task_local! {
    static ENDING: Arc<Notify>;
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
        let ending = Arc::new(Notify::new());
        let serve = ENDING.scope(Arc::clone(&ending), ServerApp::process_new(&self.proxy, stream, shutdown));
        tokio::select! {
            stream = serve => stream,
            () = ending.notified() => None,
        }
    }

    async fn cleanup(&self) {
        ServerApp::cleanup(self.proxy.as_ref()).await;
    }
}

/// Watches a pass for an upgraded connection; stops when dropped.
pub(super) struct Watch(tokio::task::AbortHandle);

impl Watch {
    /// Ends the connection that this task serves once `over` is.
    pub(super) fn start(over: impl Future<Output = ()> + Send + 'static) -> Option<Self> {
        let ending = ENDING.try_with(Arc::clone).ok()?;
        let task = tokio::spawn(async move {
            over.await;
            ending.notify_one();
        });
        Some(Self(task.abort_handle()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

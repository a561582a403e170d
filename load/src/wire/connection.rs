//! One kept-alive connection, opened again when it has gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Site;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(15);

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection broke under the request.
    #[error("broken: {0}")]
    Broken(String),
    /// It took too long.
    #[error("no answer in time")]
    Late,
}

/// A connection to a site; opened at the first request.
#[derive(Debug)]
pub struct Connection {
    site: Arc<Site>,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Not connected yet.
    #[must_use]
    pub fn new(site: Arc<Site>) -> Self {
        Self { site, open: None }
    }

    /// Closes it.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Sends a request and takes the whole answer. A kept-alive connection that closed under a request that changes
    /// nothing is opened again once, as browsers do.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Lost> {
        let reused = self.open.as_ref().is_some_and(|open| !open.is_closed());
        let again = (reused && request.method() == Method::GET).then(|| request.clone());
        match (timeout(PATIENCE, self.once(request)).await, again) {
            (Ok(Err(Lost::Broken(_))), Some(request)) => {
                self.close();
                timeout(PATIENCE, self.once(request)).await.unwrap_or(Err(Lost::Late))
            }
            (Ok(outcome), _) => outcome,
            (Err(_), _) => Err(Lost::Late),
        }
        .inspect_err(|_| self.close())
    }

    async fn once(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Lost> {
        let broken = |error: hyper::Error| Lost::Broken(error.to_string());
        let mut open = match self.open.take() {
            Some(open) if !open.is_closed() => open,
            _ => connect(&self.site).await?,
        };
        open.ready().await.map_err(broken)?;
        let (parts, body) = open.send_request(request).await.map_err(broken)?.into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        self.open = Some(open);
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

async fn connect(site: &Site) -> Result<SendRequest<Full<Bytes>>, Lost> {
    let lost = |error: std::io::Error| Lost::Connect(error.to_string());
    let _turn = site.opening.acquire().await.map_err(|error| Lost::Connect(error.to_string()))?;
    let stream = TcpStream::connect(site.address()).await.map_err(lost)?;
    stream.set_nodelay(true).map_err(lost)?;
    match &site.tls {
        Some(tls) => greet(tls.connector.connect(tls.name.clone(), stream).await.map_err(lost)?).await,
        None => greet(stream).await,
    }
}

async fn greet<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Lost>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, driver) =
        handshake(TokioIo::new(stream)).await.map_err(|error| Lost::Connect(error.to_string()))?;
    tokio::spawn(driver);
    Ok(sender)
}

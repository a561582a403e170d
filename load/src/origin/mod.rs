//! `anteroom-load origin`: a site to be protected, that answers everything and counts who it sees.

mod answer;
mod socket;

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves a stand-in for the site behind the waiting room: /echo, /slow?ms=, /ws, /counts and pages everywhere else.
#[derive(Args, Clone, Debug)]
pub struct OriginArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    pub listen: SocketAddr,
}

/// What the origin has seen.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: AtomicU64,
    /// Requests that it works on at this moment.
    pub active: AtomicU64,
    /// The most that it worked on at once.
    pub most_active: AtomicU64,
    /// Requests that showed a cookie or header of the waiting room, which must never reach an origin.
    pub leaked: AtomicU64,
}

impl Counts {
    fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_active.fetch_max(active, Ordering::Relaxed);
    }

    fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An origin that runs until it is dropped.
#[derive(Debug)]
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it has seen.
    pub counts: Arc<Counts>,
    task: JoinHandle<()>,
}

impl Origin {
    /// Starts one; port 0 takes any that is free.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub async fn start(listen: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(serve(listener, Arc::clone(&counts)));
        Ok(Self { address, counts, task })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, counts: Arc<Counts>) {
    loop {
        // A connection that is gone before it is accepted, or a lack of files, is no reason to stop.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let counts = Arc::clone(&counts);
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let service = service_fn(|request| {
                let counts = Arc::clone(&counts);
                async move {
                    counts.begin();
                    let answer = answer::answer(request, &counts).await;
                    counts.end();
                    Ok::<_, Infallible>(answer)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // Visitors may break off as they like.
            let _ = connection.with_upgrades().await;
        });
    }
}

/// Serves until it is stopped.
///
/// # Errors
/// When it cannot listen there.
pub async fn run(args: &OriginArgs) -> anyhow::Result<ExitCode> {
    let mut origin = Origin::start(args.listen).await?;
    writeln!(std::io::stdout(), "listening on {}", origin.address)?;
    (&mut origin.task).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;

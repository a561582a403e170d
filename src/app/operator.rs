//! The operator's side: API, metrics and probes, on a thread that no flood of visitors reaches.

use std::io;
use std::net::TcpListener;
use std::thread::JoinHandle;

use tokio::sync::watch;

use crate::admin::{Admin, Probes, serve, serve_probes};

/// The operator's listeners at work.
#[derive(Debug)]
pub(super) struct Operator {
    end: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Operator {
    /// Serves on listeners that are bound already.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(api: (TcpListener, Admin), probes: (TcpListener, Probes)) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = watch::channel(false);
        let wait = move |mut ended: watch::Receiver<bool>| async move {
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let work = async move {
            let api_listener = tokio::net::TcpListener::from_std(api.0)?;
            let probes_listener = tokio::net::TcpListener::from_std(probes.0)?;
            tokio::select! {
                served = async {
                    tokio::try_join!(
                        serve(api_listener, api.1, wait(ended.clone())),
                        serve_probes(probes_listener, probes.1, wait(ended.clone())),
                    )
                } => served.map(drop),
                // A request in flight that never ends does not hold up the end.
                () = async { wait(ended.clone()).await; tokio::time::sleep(LAST_ANSWERS).await } => Ok(()),
            }
        };
        let thread = std::thread::Builder::new().name("operator".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(work) {
                tracing::error!("the operator's listeners have ended: {error}");
            }
        })?;
        Ok(Self { end, thread })
    }

    /// Accepts nobody from now on.
    pub(super) fn close(&self) {
        self.end.send_replace(true);
    }

    /// Ends once requests in flight are answered.
    pub(super) fn stop(self) {
        self.close();
        if self.thread.join().is_err() {
            tracing::error!("the operator's thread ended by a fault in the program");
        }
    }
}

/// How long requests in flight may take once the node ends.
const LAST_ANSWERS: std::time::Duration = std::time::Duration::from_secs(2);

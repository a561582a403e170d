//! Signals of the operating system, taken from the first moment on, so that none kills the process by default.

use std::io;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tokio::sync::{Mutex, mpsc};

/// What somebody asks of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM: finish, then end.
    Drain,
    /// SIGINT, SIGQUIT: end now.
    Quit,
}

/// The signals that have come, in their order.
#[derive(Clone, Debug)]
pub struct Signals(Arc<Mutex<mpsc::UnboundedReceiver<Signal>>>);

impl Signals {
    /// Takes the process's signals from now on.
    ///
    /// # Errors
    /// When the system does not let them be taken.
    pub fn take() -> io::Result<Self> {
        let (sender, signals) = Self::channel();
        let mut taken = signal_hook::iterator::Signals::new([SIGHUP, SIGTERM, SIGINT, SIGQUIT])?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for number in taken.forever() {
                let signal = match number {
                    SIGHUP => Signal::Reload,
                    SIGTERM => Signal::Drain,
                    _ => Signal::Quit,
                };
                if sender.send(signal).is_err() {
                    return;
                }
            }
        })?;
        Ok(signals)
    }

    /// Signals that the caller makes up.
    #[must_use]
    pub fn channel() -> (mpsc::UnboundedSender<Signal>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(Arc::new(Mutex::new(receiver))))
    }

    /// The next signal; never comes once nobody can send one.
    pub async fn next(&self) -> Signal {
        match self.0.lock().await.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next signal that ends the process; a reload is declined, `meanwhile` says in words why.
    pub async fn order(&self, meanwhile: &str) -> Signal {
        loop {
            match self.next().await {
                Signal::Reload => tracing::warn!("the configuration is not read again while {meanwhile}"),
                order => return order,
            }
        }
    }
}

//! `anteroom-load rush`: many visitors at once.

mod crowd;
mod curve;
mod mix;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

pub use crowd::{Crowd, rush};
pub use curve::Curve;
pub use mix::Mix;

use crate::admin::Admin;
use crate::clock::Clock;
use crate::history::Recorder;
use crate::visitor::{Addresses, Habits, Idle, World};
use crate::wire::{Edges, Roaming, Site};

/// Sends visitors to a waiting room and writes down what they see.
#[derive(Args, Clone, Debug)]
pub struct RushArgs {
    /// Where visitors go, as http://127.0.0.1:8080; more than one for the edges of a fleet, `*8` after it for its share.
    #[arg(long, required = true)]
    pub target: Vec<String>,
    /// Whether a visitor stays at an edge of a fleet.
    #[arg(long, value_enum, default_value_t)]
    pub roaming: Roaming,
    /// The host that visitors ask for, where it is not the target's.
    #[arg(long)]
    pub host: Option<String>,
    /// For https:// targets: a PEM file of the certificates to trust.
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// The protected path.
    #[arg(long, default_value = "/")]
    pub path: String,
    /// The base path of the waiting room.
    #[arg(long, default_value = "/waitingroom")]
    pub base: String,
    /// The event.
    #[arg(long)]
    pub event: String,
    /// How many visitors.
    #[arg(long, default_value_t = 500)]
    pub visitors: u64,
    /// How they arrive.
    #[arg(long, value_enum, default_value = "burst")]
    pub curve: Curve,
    /// Over how long they arrive, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub over_s: f64,
    /// How long the rush lasts at the longest, in seconds.
    #[arg(long, default_value_t = 600.0)]
    pub for_s: f64,
    /// Shares of the kinds of visitors.
    #[arg(long, default_value_t = Mix::default())]
    pub mix: Mix,
    /// How long a session lasts, on average, in seconds.
    #[arg(long, default_value_t = 20.0)]
    pub session_s: f64,
    /// Requests in a session, on average.
    #[arg(long, default_value_t = 6)]
    pub requests: u32,
    /// How many leave by the button: 0 to 1. The others just stop.
    #[arg(long, default_value_t = 0.8)]
    pub leaving: f64,
    /// How many of those who stop come back when their pass has run out: 0 to 1.
    #[arg(long, default_value_t = 0.3)]
    pub returning: f64,
    /// How long the impatient stay, on average, in seconds.
    #[arg(long, default_value_t = 30.0)]
    pub patience_s: f64,
    /// The event's `heartbeat_ttl_s`.
    #[arg(long, default_value_t = 90.0)]
    pub heartbeat_s: f64,
    /// The event's `session_ttl_s`.
    #[arg(long, default_value_t = 600.0)]
    pub session_ttl_s: f64,
    /// The same seed sends the same visitors.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The history to write.
    #[arg(long)]
    pub history: PathBuf,
    /// Close connections while visitors wait; done anyway where open files are too few.
    #[arg(long)]
    pub idle_close: bool,
    /// All visitors come from one address; else each names its own in `X-Forwarded-For`, for a target that trusts us.
    #[arg(long)]
    pub one_address: bool,
    /// Where the operator's API is: the event's log is fetched when the rush is over.
    #[arg(long, requires = "log_out")]
    pub admin: Option<String>,
    /// The file with the token of the admin API.
    #[arg(long)]
    pub admin_token_file: Option<PathBuf>,
    /// Where to write the event's log.
    #[arg(long)]
    pub log_out: Option<PathBuf>,
}

impl RushArgs {
    /// The visitors that these arguments spell.
    #[must_use]
    pub fn crowd(&self) -> Crowd {
        Crowd {
            visitors: self.visitors,
            curve: self.curve,
            over: Duration::from_secs_f64(self.over_s.max(0.0)),
            most: Duration::from_secs_f64(self.for_s.max(0.0)),
            mix: self.mix.clone(),
            seed: self.seed,
            habits: Arc::new(Habits {
                path: self.path.clone(),
                base: self.base.clone(),
                event: self.event.clone(),
                session_s: self.session_s,
                requests: self.requests,
                leaving: self.leaving,
                patience_s: self.patience_s,
                heartbeat_s: self.heartbeat_s,
                session_ttl_s: self.session_ttl_s,
                returning: self.returning,
            }),
        }
    }

    fn edges(&self) -> anyhow::Result<Edges> {
        let site = |target: &String| {
            let (url, share) = target.split_once('*').unwrap_or((target, "1"));
            let share = share.parse().with_context(|| format!("{target}: a share is a whole number"))?;
            anyhow::Ok((Site::new(url, self.host.as_deref(), self.ca.as_deref())?, share))
        };
        let sites = self.target.iter().map(site).collect::<Result<Vec<_>, _>>()?;
        Edges::new(sites, self.roaming).context("no --target is left to go to")
    }

    /// The world that they live in.
    ///
    /// # Errors
    /// When the target is none.
    pub fn world(&self, recorder: Recorder) -> anyhow::Result<Arc<World>> {
        let edges = self.edges()?;
        let scarce = open_files().is_some_and(|files| files < self.visitors.saturating_mul(3) / 2 + 200);
        Ok(Arc::new(World {
            edges,
            clock: Clock::start(),
            recorder,
            idle: if self.idle_close || scarce { Idle::Close } else { Idle::Keep },
            addresses: if self.one_address { Addresses::One } else { Addresses::Many },
        }))
    }
}

/// How many files this process may have open.
fn open_files() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Rushes, and writes the history and the event's log.
///
/// # Errors
/// When a file cannot be written or the target is none.
pub async fn run(args: &RushArgs) -> anyhow::Result<ExitCode> {
    let (recorder, writer) = Recorder::create(&args.history)?;
    let world = args.world(recorder)?;
    rush(Arc::clone(&world), &args.crowd()).await;
    drop(world);
    let written = tokio::task::spawn_blocking(move || writer.join()).await?;
    let written = written.ok().context("the history's writer was stopped")??;
    writeln!(std::io::stdout(), "{written} records in {}", args.history.display())?;
    if let (Some(url), Some(path)) = (&args.admin, &args.log_out) {
        let admin = Admin::new(url, args.admin_token_file.as_deref())?;
        let log = admin.event_log_json(&args.event).await?;
        std::fs::write(path, serde_json::to_vec(&log)?)
            .with_context(|| format!("event log {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

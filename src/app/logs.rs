//! Logs: lines or JSON on standard error; what libraries say is heard only when it matters.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// What is logged unless `ANTEROOM_LOG` says otherwise. Openraft and chitchat log what the
/// control log and gossip say better themselves.
const FILTER: &str = "info,openraft=off,chitchat=off,rustls=off,hyper=warn";

/// The variable that sets another filter.
const VARIABLE: &str = "ANTEROOM_LOG";

/// What a log line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is never logged, whatever the filter says: below `info` libraries write out what visitors send, tokens and
/// cookies too, and Pingora does so at every level (a head that it cannot parse is in its error).
fn discretion() -> Targets {
    let all = Targets::new().with_default(LevelFilter::INFO);
    all.with_target("anteroom", LevelFilter::TRACE).with_target("pingora", LevelFilter::OFF)
}

/// Starts logging; a second call changes nothing.
pub fn start_logs(format: LogFormat) {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(FILTER));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = tracing_subscriber::registry().with(filter).with(discretion());
    let started = match format {
        LogFormat::Text => set_global_default(logs.with(lines.with_target(false))).is_ok(),
        LogFormat::Json => set_global_default(logs.with(lines.json().flatten_event(true))).is_ok(),
    };
    if started {
        // Libraries alone log by that way. Already set only if another library bridges the same lines.
        let _ = tracing_log::LogTracer::builder().with_max_level(tracing_log::log::LevelFilter::Info).init();
    }
}

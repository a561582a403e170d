//! Logs: lines or JSON on standard error; what libraries say is heard only when it matters.

use tracing_subscriber::EnvFilter;

/// What is logged unless `ANTEROOM_LOG` says otherwise. Pingora logs every failed handshake and broken connection as
/// an error, and openraft what the control log says better itself.
const FILTER: &str = "info,pingora_core=off,pingora_proxy=off,openraft=off,rustls=off,hyper=warn";

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

/// Starts logging; a second call changes nothing.
pub fn start_logs(format: LogFormat) {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(FILTER));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => logs.with_target(false).try_init().is_ok(),
        LogFormat::Json => logs.json().flatten_event(true).try_init().is_ok(),
    };
    if started {
        // Already set only if another library bridges the same lines.
        let _ = tracing_log::LogTracer::init();
    }
}

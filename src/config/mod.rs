//! The configuration file: read, checked whole, and told apart from the one before.
//!
//! Every fault is reported at once, each with its path and with the line and column that it stands at. What this
//! version does not support is refused with a sentence, never accepted and ignored.

mod cluster;
mod difference;
#[cfg(test)]
mod documented;
mod fault;
mod files;
mod position;
mod read;
mod settings;
mod surroundings;
#[cfg(test)]
mod tests;
mod yaml;

use std::path::Path;

pub use cluster::{ClusterSettings, PeerFiles, SignerFiles};
pub use difference::Difference;
pub use fault::{Fault, Faults, Position};
pub use settings::{
    AdminSettings, EventSettings, HealthSettings, InvalidServerAddress, Limits, ListenerSettings,
    MetricsSettings, NodeSettings, OriginSettings, OwnNumber, ServerAddress, Settings, TlsFiles,
};

/// Reads and checks a configuration file and the files that it names; relative paths start at its directory.
///
/// # Errors
/// All faults at once; or that the file cannot be read.
pub fn load(path: &Path) -> Result<Settings, Faults> {
    let text = std::fs::read_to_string(path).map_err(|error| Faults::unreadable(path, &error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parse(&text, directory.unwrap_or(Path::new("."))).map_err(|faults| faults.in_file(path))
}

/// Checks the text of a configuration file; relative paths in it start at `directory`.
///
/// # Errors
/// All faults at once.
pub fn parse(text: &str, directory: &Path) -> Result<Settings, Faults> {
    let map = yaml::to_map(text)?;
    let (mut settings, mut faults) = read::read(map);
    settings.start_paths_at(directory);
    files::check(&settings, &mut faults);
    if faults.is_empty() { Ok(settings) } else { Err(Faults::located(faults, text)) }
}

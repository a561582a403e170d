//! `anteroom-load bench`: what the waiting room costs, against bare Pingora that sends the same bytes, in one run and
//! on the same cores.

mod bare;
mod generator;
mod pairs;
mod prepare;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

pub use bare::{BareArgs, serve_bare};
pub use pairs::Pairs;

use crate::check::Out;

/// Measures status polls and protected requests against bare Pingora: medians of pairs, and their ratios.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// The binary to measure; left out: ANTEROOM_BIN, or the one beside this program.
    #[arg(long)]
    pub anteroom: Option<PathBuf>,
    /// Pairs of each measurement.
    #[arg(long, default_value_t = 5)]
    pub pairs: usize,
    /// How long each half of a pair is measured, in seconds.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Connections. A waiting room has many; its threads keep to their own, and few would be shared out unevenly.
    #[arg(long, default_value_t = 256)]
    pub connections: usize,
    /// Tickets that poll. One ticket may poll 60 times a minute, and all of them are counted in a sketch, so there must be
    /// many.
    #[arg(long, default_value_t = 150_000)]
    pub tickets: usize,
    /// Threads of bare Pingora.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// How to print the figures.
    #[arg(long, value_enum, default_value = "text")]
    pub out: Out,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Figures {
    /// Status polls.
    pub polls: Pairs,
    /// Requests with a pass.
    pub protected: Pairs,
}

/// Measures, and prints the figures.
///
/// # Errors
/// When something does not start, or answers anything but 200.
pub async fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let stage = prepare::Stage::set(args).await?;
    let measured = Duration::from_secs_f64(args.seconds);
    let polls = pairs::measure(&stage.polls, args, measured).await?;
    let protected = pairs::measure(&stage.protected, args, measured).await?;
    let figures = Figures { polls, protected };
    let mut out = std::io::stdout().lock();
    match args.out {
        Out::Json => {
            serde_json::to_writer_pretty(&mut out, &figures)?;
            out.write_all(b"\n")?;
        }
        Out::Text => {
            writeln!(out, "status polls       {}", figures.polls)?;
            writeln!(out, "protected requests {}", figures.protected)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

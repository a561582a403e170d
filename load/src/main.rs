//! The load tool's command line.

use std::process::ExitCode;

use anteroom_load::{check, origin, rush};
use clap::{Parser, Subcommand};

/// Rushes a waiting room with simulated visitors, and judges what they saw.
#[derive(Parser, Debug)]
#[command(name = "anteroom-load", version)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    Rush(Box<rush::RushArgs>),
    Check(check::CheckArgs),
    Origin(origin::OriginArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Command::parse().task {
        Task::Rush(args) => rush::run(&args).await,
        Task::Check(args) => check::run(&args).await,
        Task::Origin(args) => origin::run(&args).await,
    }
}

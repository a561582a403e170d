//! The load tool's command line.

use std::process::ExitCode;

use anteroom_load::{bench, check, origin, rush};
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
    Bench(bench::BenchArgs),
    Bare(bench::BareArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Command::parse().task {
        // Pingora makes runtimes of its own.
        Task::Bare(args) => bench::serve_bare(&args),
        task => tokio::runtime::Runtime::new()?.block_on(run(task)),
    }
}

async fn run(task: Task) -> anyhow::Result<ExitCode> {
    match task {
        Task::Rush(args) => rush::run(&args).await,
        Task::Check(args) => check::run(&args).await,
        Task::Origin(args) => origin::run(&args).await,
        Task::Bench(args) => bench::run(&args).await,
        Task::Bare(args) => bench::serve_bare(&args),
    }
}

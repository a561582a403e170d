//! The command line.

mod ask;
mod certs;
mod check;
mod cluster;
mod demo;
mod healthcheck;
mod restore;
mod run;

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::app::{LogFormat, Signals};

/// A virtual waiting room in front of any website.
#[derive(Debug, Parser)]
#[command(name = "anteroom", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a node until it is told to end (SIGTERM drains, SIGINT ends at once, SIGHUP reads the file again).
    Run {
        /// The configuration file.
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
        /// Takes over from the process that runs this node, without turning a visitor away; if that fails, the other
        /// goes on.
        #[arg(short, long)]
        upgrade: bool,
        /// What a log line looks like.
        #[arg(long, value_enum, default_value_t)]
        log_format: LogFormat,
    },
    /// Says what is wrong with a configuration file, as a start would, without starting anything.
    Check {
        /// The configuration file.
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Makes the certificates by which the nodes of a fleet know each other.
    Certs {
        #[command(subcommand)]
        what: certs::Certs,
    },
    /// Tells who is in the fleet, and changes it: asks the node of a configuration file, on its machine.
    Cluster {
        #[command(subcommand)]
        what: restore::Fleet,
    },
    /// Asks the node on this machine whether it is alive.
    Healthcheck {
        /// The configuration file, for the address of `metrics`; 127.0.0.1:9901 without one.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Shows a waiting room at work: a small shop, visitors who fill it, and a page to join the line with them.
    Demo {
        /// The port of the shop's door; 0 takes any that is free.
        #[arg(long, default_value_t = 8080)]
        port: u16,
        /// The address of the shop's door; 0.0.0.0 lets other machines in.
        #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
        address: IpAddr,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    /// What was asked for did not work.
    Badly,
    /// The configuration or the command line is at fault.
    Misconfigured,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Well => 0,
            Ended::Badly => 1,
            Ended::Misconfigured => 2,
        })
    }
}

/// Does what the arguments say; exits with 0 if all went well, 1 if not, 2 if the arguments or the file are at fault.
pub fn main(signals: &Signals, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Ended::Misconfigured } else { Ended::Well }.into();
        }
    };
    match cli.command {
        Command::Run { config, upgrade, log_format } => {
            let start = if upgrade { run::Start::InPlaceOfAnother } else { run::Start::Fresh };
            run::run(signals, config, start, log_format)
        }
        Command::Check { config } => check::check(&config),
        Command::Certs { what } => certs::certs(&what),
        Command::Cluster { what } => restore::fleet(&what),
        Command::Healthcheck { config } => healthcheck::healthcheck(config.as_deref()),
        Command::Demo { port, address } => demo::demo(signals, address, port),
    }
    .into()
}

/// Says something on standard output; nobody listening is no fault.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Says what went wrong on standard error.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

//! `anteroom-load check`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::{EventLog, FleetTime, Health, Ordering, Rules, SECOND, judge, text};
use crate::admin::Admin;
use crate::history::read_all;

/// Judges what visitors saw against the contract. Ends with 1 if it was broken.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// A history that `rush` wrote; several of one run are judged together.
    #[arg(long, required = true, num_args = 1..)]
    pub history: Vec<PathBuf>,
    /// The event's log, as `GET /admin/events/{event}/log` answers it.
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Where to fetch the event's log instead, such as http://127.0.0.1:9900.
    #[arg(long, requires = "event")]
    pub admin: Option<String>,
    /// The file with the token of the admin API.
    #[arg(long)]
    pub admin_token_file: Option<PathBuf>,
    /// The event whose log to fetch.
    #[arg(long)]
    pub event: Option<String>,
    /// The event's `capacity`.
    #[arg(long)]
    pub capacity: u64,
    /// The event's `max_admit_per_sec`.
    #[arg(long)]
    pub rate: f64,
    /// The event's `ordering`.
    #[arg(long, value_enum, default_value = "bucketed_random")]
    pub ordering: Ordering,
    /// The event's `bucket_seconds`; left out: 60, `fifo`: 1.
    #[arg(long)]
    pub bucket_s: Option<f64>,
    /// The event's `heartbeat_ttl_s`.
    #[arg(long, default_value_t = 90.0)]
    pub heartbeat_s: f64,
    /// The event's `session_ttl_s`.
    #[arg(long, default_value_t = 600.0)]
    pub session_s: f64,
    /// The event's `session_max_s`.
    #[arg(long, default_value_t = 3_600.0)]
    pub session_max_s: f64,
    /// The event's `pass_claim_s`.
    #[arg(long, default_value_t = 120.0)]
    pub claim_s: f64,
    /// No admission for this long, with slots free and somebody waiting, counts as lost slots.
    #[arg(long, default_value_t = 15.0)]
    pub stall_s: f64,
    /// Something was broken on purpose: twice the rate is allowed instead of 1.25 times.
    #[arg(long)]
    pub faults: bool,
    /// Several edges served: they may be 1.5 s apart.
    #[arg(long)]
    pub fleet: bool,
    /// A node's clock was set wrong: fleet time is read off the passes.
    #[arg(long)]
    pub wrong_clock: bool,
    /// How to print the verdict.
    #[arg(long, value_enum, default_value = "text")]
    pub out: Out,
}

/// How to print a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Out {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl CheckArgs {
    /// The rules that these arguments spell.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let micros = |seconds: f64| (seconds.max(0.0) * SECOND as f64) as u64;
        let mut rules = Rules::new(self.capacity, self.rate, self.ordering);
        rules.health = if self.faults { Health::Faulty } else { Health::Healthy };
        rules.fleet_time = if self.wrong_clock { FleetTime::Steered } else { FleetTime::AsHere };
        rules.slack_us = if self.fleet { 3 * SECOND / 2 } else { 0 };
        rules.bucket_us = self.bucket_s.map_or(rules.bucket_us, micros);
        rules.heartbeat_us = micros(self.heartbeat_s);
        rules.session_us = micros(self.session_s);
        rules.session_max_us = micros(self.session_max_s);
        rules.claim_us = micros(self.claim_s);
        rules.stall_us = micros(self.stall_s);
        rules
    }
}

/// Judges, and prints the verdict.
///
/// # Errors
/// When a history or the log cannot be read.
pub async fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let records = read_all(&args.history)?;
    let log = match (&args.log, &args.admin, &args.event) {
        (Some(path), _, _) => EventLog::read(path)?,
        (None, Some(url), Some(event)) => {
            let admin = Admin::new(url, args.admin_token_file.as_deref())?;
            admin.event_log(event).await.context("the event's log could not be fetched")?
        }
        _ => EventLog::default(),
    };
    let verdict = judge(&records, &log, &args.rules());
    let mut out = std::io::stdout().lock();
    match args.out {
        Out::Text => out.write_all(text::render(&verdict, &records).as_bytes())?,
        Out::Json => {
            serde_json::to_writer_pretty(&mut out, &verdict)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

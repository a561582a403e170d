//! Judges a history: the contract's lines, and the figures of the run.

mod command;
mod draws;
mod ends;
mod event_log;
mod figures;
mod fleet_time;
mod gate;
mod identity;
mod order;
mod outages;
mod passes;
mod rules;
mod story;
mod sweep;
mod text;

use crate::history::Record;

pub use command::{CheckArgs, Out, run};
pub use event_log::{EventLog, LogRecord};
pub use figures::Figures;
pub use outages::Outages;
pub use rules::{FleetTime, Health, Lowered, Ordering, Rules, SECOND};

/// A line of the contract that was broken, with the records that prove it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// The line of the contract (design §2): 1 to 10.
    pub line: u8,
    /// What happened.
    pub what: String,
    /// The records that show it, by their place in the history.
    pub proof: Vec<usize>,
}

impl Violation {
    fn new(line: u8, what: impl Into<String>, proof: impl IntoIterator<Item = usize>) -> Self {
        Self { line, what: what.into(), proof: proof.into_iter().collect() }
    }
}

/// What a history comes to.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Verdict {
    /// What was broken; empty if the contract was kept.
    pub violations: Vec<Violation>,
    /// The figures of the run.
    pub figures: Figures,
}

impl Verdict {
    /// The verdict for people: figures, violations, and the records that prove them.
    #[must_use]
    pub fn render(&self, records: &[Record]) -> String {
        text::render(self, records)
    }
}

/// Judges the records of one run, which must be in the order of sending, beside the event's log.
#[must_use]
pub fn judge(records: &[Record], log: &EventLog, rules: &Rules) -> Verdict {
    let records = &fleet_time::by_our_clock(records, rules);
    let stories = story::stories(records);
    let outages = Outages::find(records, &rules.outages);
    let passes = passes::Passes::of(&stories, rules);
    let draws = draws::test(&stories, rules);
    let mut violations = Vec::new();
    violations.extend(gate::judge(records, &stories));
    violations.extend(passes.judge(log, rules));
    violations.extend(order::judge_calls(&stories, log, rules));
    violations.extend(order::judge_order(&stories, rules));
    violations.extend(draws.judge(rules));
    violations.extend(identity::judge(records, &stories, rules));
    violations.extend(ends::judge(&stories, &outages, rules));
    violations.extend(passes.judge_stalls(&stories, &outages, rules));
    violations.sort_by_key(|violation| violation.line);
    let figures = figures::of(records, &stories, &outages, &passes, &draws, log, rules);
    Verdict { violations, figures }
}

#[cfg(test)]
mod tests;

//! A verdict for people.

use std::fmt::Write as _;

use super::{Figures, Verdict, Violation};
use crate::check::figures::Spread;
use crate::history::Record;

/// Violations of one line that are shown; the others are counted.
const SHOWN: usize = 10;

/// Records that are shown of one proof.
const PROOF: usize = 6;

/// The verdict, the violations with the records that prove them, and the figures.
#[must_use]
pub(super) fn render(verdict: &Verdict, records: &[Record]) -> String {
    let mut text = String::new();
    let _ = render_into(&mut text, verdict, records);
    text
}

fn render_into(text: &mut String, verdict: &Verdict, records: &[Record]) -> std::fmt::Result {
    figures(text, &verdict.figures)?;
    if verdict.violations.is_empty() {
        return writeln!(text, "the contract was kept");
    }
    writeln!(text, "the contract was broken, {} times", verdict.violations.len())?;
    for line in 1..=u8::MAX {
        let of_line: Vec<&Violation> = verdict.violations.iter().filter(|v| v.line == line).collect();
        for violation in of_line.iter().take(SHOWN) {
            writeln!(text, "line {}: {}", violation.line, violation.what)?;
            for &at in violation.proof.iter().take(PROOF) {
                if let Some(record) = records.get(at) {
                    writeln!(text, "    {}", serde_json::to_string(record).unwrap_or_default())?;
                }
            }
            if violation.proof.len() > PROOF {
                writeln!(text, "    and {} more records", violation.proof.len() - PROOF)?;
            }
        }
        if of_line.len() > SHOWN {
            writeln!(text, "line {line}: {} more", of_line.len() - SHOWN)?;
        }
    }
    Ok(())
}

fn figures(text: &mut String, figures: &Figures) -> std::fmt::Result {
    let f = figures;
    writeln!(text, "visitors {}, requests {}, outages {}", f.visitors, f.records, f.outages)?;
    let saw: Vec<String> = f.saw.iter().map(|(word, count)| format!("{word} {count}")).collect();
    writeln!(text, "saw: {}", saw.join(", "))?;
    writeln!(
        text,
        "tickets {}, queued {}, admitted {} ({} without waiting), ended {}",
        f.tickets, f.queued, f.admitted, f.expressed, f.ended
    )?;
    writeln!(
        text,
        "live at most {} for sure, {} possibly, capacity {}",
        f.most_live, f.most_live_possible, f.capacity
    )?;
    if let Some(utilisation) = f.utilisation {
        writeln!(text, "utilisation {:.1} % while anyone waited", utilisation * 100.0)?;
    }
    writeln!(
        text,
        "mints in a second: at most {} for sure, {:.2} allowed",
        f.most_mints_in_a_second, f.allowed_mints_in_a_second
    )?;
    writeln!(text, "inversions {}, rises of a position {}", f.inversions, f.position_rises)?;
    match (f.draws.chi_squared, f.draws.p) {
        (Some(chi), Some(p)) => writeln!(text, "draws: {} tested, χ² {chi:.1}, p {p:.3}", f.draws.tested)?,
        _ => writeln!(text, "draws: {} are too few to test", f.draws.tested)?,
    }
    spread(text, "wait", "s", f.wait_s)?;
    spread(text, "error of the expected wait", "s", f.eta_error_s)?;
    if let Some(held) = f.eta_range_held {
        writeln!(text, "expected ranges that held: {:.0} %", held * 100.0)?;
    }
    spread(text, "answers", "ms", f.answer_ms)
}

fn spread(text: &mut String, what: &str, unit: &str, spread: Spread) -> std::fmt::Result {
    if spread.count == 0 {
        return Ok(());
    }
    let Spread { p50, p90, p99, count } = spread;
    writeln!(text, "{what}: p50 {p50:.1} {unit}, p90 {p90:.1} {unit}, p99 {p99:.1} {unit} of {count}")
}

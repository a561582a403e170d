use std::time::Duration;

use super::*;
use crate::model::edge::{Contact, Ending, Phase};
use crate::model::ids::LogIndex;

fn node() -> NodeReading {
    let pulse_age = Some(Duration::from_millis(250));
    NodeReading {
        contact: Contact::Fresh,
        pulse_age,
        round_trip: Duration::from_millis(4),
        index: LogIndex(9),
        leads: true,
        peers_refused: vec![("certificate", 2), ("old_run", 0)],
    }
}

fn event(name: &str, joins: u64) -> EventReading {
    EventReading {
        event: name.parse().unwrap(),
        capacity: 100,
        slots_free: 7,
        live_passes: 90,
        waiting: 3,
        admit_rate: 2.5,
        watermark_lag: Some(Duration::from_secs(12)),
        phase: Phase::Paused,
        joins,
        polls: 0,
        mints: 0,
        express: 0,
        left: 0,
    }
}

#[track_caller]
fn shows(text: &str, line: &str) {
    assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
}

#[test]
fn a_scrape_shows_what_was_read_and_what_was_counted() {
    let metrics = Metrics::new().unwrap();
    let tour = "tour".parse().unwrap();
    metrics.request(&tour, RequestOutcome::Redirected);
    metrics.request(&tour, RequestOutcome::Redirected);
    metrics.ended(&tour, Ending::TooOld);
    metrics.stray(StrayOutcome::NotFound);
    metrics.configured(FleetTime(1_500));
    let text = metrics.render(&node(), &[event("tour", 5)]).unwrap();
    for line in [
        "anteroom_requests_total{event=\"tour\",outcome=\"redirected\"} 2",
        "anteroom_requests_total{event=\"tour\",outcome=\"passed\"} 0",
        "anteroom_tickets_ended_total{event=\"tour\",reason=\"too_old\"} 1",
        "anteroom_stray_requests_total{outcome=\"not_found\"} 1",
        "anteroom_config_last_reload_successful 1",
        "anteroom_config_last_reload_timestamp_seconds 1.5",
        "anteroom_joins_total{event=\"tour\"} 5",
        "anteroom_waiting_tickets{event=\"tour\"} 3",
        "anteroom_free_slots{event=\"tour\"} 7",
        "anteroom_capacity_slots{event=\"tour\"} 100",
        "anteroom_watermark_lag_seconds{event=\"tour\"} 12",
        "anteroom_phase{event=\"tour\",phase=\"paused\"} 1",
        "anteroom_phase{event=\"tour\",phase=\"queueing\"} 0",
        "anteroom_leader_contact{state=\"fresh\"} 1",
        "anteroom_leader_contact{state=\"cut_off\"} 0",
        "anteroom_pulse_age_seconds 0.25",
        "anteroom_log_index 9",
        "anteroom_leads 1",
        "anteroom_peers_refused_total{reason=\"certificate\"} 2",
        "anteroom_peers_refused_total{reason=\"old_run\"} 0",
    ] {
        shows(&text, line);
    }
    metrics.configuration_refused();
    let text = metrics.render(&node(), &[]).unwrap();
    shows(&text, "anteroom_config_last_reload_successful 0");
    shows(&text, "anteroom_peers_refused_total{reason=\"certificate\"} 2");
}

#[test]
fn an_event_that_is_gone_leaves_no_series() {
    let metrics = Metrics::new().unwrap();
    metrics.origin_failed(&"tour".parse().unwrap());
    assert!(metrics.render(&node(), &[event("tour", 5)]).unwrap().contains("tour"));
    let text = metrics.render(&node(), &[]).unwrap();
    assert!(!text.contains("tour"), "{text}");
}

#[test]
fn totals_that_began_again_begin_again() {
    let metrics = Metrics::new().unwrap();
    for (joins, line) in [(5, "5"), (9, "9"), (2, "2")] {
        let text = metrics.render(&node(), &[event("tour", joins)]).unwrap();
        shows(&text, &format!("anteroom_joins_total{{event=\"tour\"}} {line}"));
    }
}

#[test]
fn every_name_and_every_value_of_a_label_is_documented() {
    let metrics = Metrics::new().unwrap();
    metrics.origin_failed(&"tour".parse().unwrap());
    let text = metrics.render(&node(), &[event("tour", 5)]).unwrap();
    let documented = include_str!("../../docs/operating.md");
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(documented.contains(&format!("`{name}")), "{name} in docs/operating.md");
    }
    let row_of = |name: &str| {
        let row = documented.lines().find(|line| line.starts_with(&format!("| `anteroom_{name}`")));
        row.unwrap_or_else(|| panic!("{name}"))
    };
    let holds = |name: &str, value: &str| {
        assert!(row_of(name).contains(&format!("`{value}`")), "{name}: {value} in docs/operating.md");
    };
    RequestOutcome::ALL.iter().for_each(|value| holds("requests_total", value.as_str()));
    StrayOutcome::ALL.iter().for_each(|value| holds("stray_requests_total", value.as_str()));
    Ending::ALL.iter().for_each(|value| holds("tickets_ended_total", value.as_str()));
    Phase::ALL.iter().for_each(|value| holds("phase", value.as_str()));
}

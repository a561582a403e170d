//! For each promise: a history that keeps it, and one that was doctored to break it.

mod good;

use good::{CAPACITY, START, VISITORS, at, run, ticket};

use super::{EventLog, FleetTime, Health, Lowered, Ordering, SECOND, judge};
use crate::history::{Kind, Role, Saw};

const ORDERINGS: [Ordering; 3] = [Ordering::BucketedRandom, Ordering::Fifo, Ordering::Random];

#[test]
fn a_run_by_the_rules_breaks_nothing_and_its_figures_are_right() {
    for ordering in ORDERINGS {
        let mut good = run(ordering);
        good.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
        let verdict = judge(&good.records, &good.log, &good.rules);
        assert!(verdict.violations.is_empty(), "{ordering:?}: {:#?}", &verdict.violations[..1]);
        let figures = verdict.figures;
        assert_eq!((figures.admitted, figures.queued, figures.expressed), (VISITORS, VISITORS, 0));
        assert_eq!((figures.most_live, figures.inversions, figures.outages), (CAPACITY, 0, 0));
        assert!(figures.utilisation.unwrap() > 0.8, "{:?}", figures.utilisation);
        assert_eq!(figures.draws.p.is_some(), ordering != Ordering::Fifo);
    }
}

#[test]
fn line_1_a_request_without_a_pass_must_not_reach_the_origin() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.add(500, Kind::Navigate, Saw::Origin, 3.0).role = Role::Bot;
    assert_eq!(bad.broken(), [1]);
    let mut bad = run(Ordering::BucketedRandom);
    bad.add(500, Kind::Use, Saw::Origin, 3.0).shown_pass = Some("1-1-9999".to_owned());
    assert_eq!(bad.broken(), [1]);
}

#[test]
fn line_2_a_ticket_must_not_open_the_origin() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.add(7, Kind::Navigate, Saw::Origin, 1.6).shown_ticket = Some(ticket(7));
    assert_eq!(bad.broken(), [2]);
}

#[test]
fn line_2_a_ticket_that_waits_must_not_be_let_in_by_express() {
    let mut bad = run(Ordering::Random);
    let last = bad.those(7, Kind::Poll, Saw::Waiting).len() as f64;
    assert!(last > 4.0, "visitor 7 waits");
    let let_in = bad.add(7, Kind::Navigate, Saw::Origin, 1.6);
    let_in.shown_ticket = Some(ticket(7));
    let_in.pass = Some("1-1-777".to_owned());
    assert!(bad.broken().contains(&2));
}

#[test]
fn line_3_more_live_passes_than_capacity_are_found() {
    let mut bad = run(Ordering::Fifo);
    for visitor in 601..=603 {
        let granted = bad.add(visitor, Kind::Poll, Saw::Admitted, 20.0 + visitor as f64 * 0.001);
        granted.pass = Some(ticket(visitor));
        granted.expires_at = Some(START + 40);
    }
    bad.rules.ordering = Ordering::Random;
    bad.rules.health = Health::Faulty;
    let broken = bad.broken();
    assert!(broken.contains(&3), "{broken:?}");
}

#[test]
fn line_3_a_mint_beyond_a_lowered_capacity_is_found_and_passes_of_before_are_not() {
    let lowered_to = |capacity: u64, minted: f64| {
        let mut run = run(Ordering::Random);
        run.records.clear();
        for (visitor, from) in [(601, -9.0), (602, -8.0), (603, -7.0), (604, minted)] {
            let granted = run.add(visitor, Kind::Poll, Saw::Admitted, from);
            granted.pass = Some(ticket(visitor));
            granted.expires_at = Some(START + 5);
        }
        run.rules.lowered.push(Lowered { from_us: at(-5.0), to_us: at(5.0), capacity });
        run.broken()
    };
    assert_eq!(lowered_to(3, -4.0), [3]);
    assert_eq!(lowered_to(3, -6.0), [] as [u8; 0], "it was minted before");
    assert_eq!(lowered_to(4, -4.0), [] as [u8; 0], "there was room for it");
    assert_eq!(lowered_to(1, -6.0), [] as [u8; 0], "those of before live on");
}

#[test]
fn line_3_passes_that_may_be_over_do_not_count_for_sure_but_are_shown() {
    let mut unsure = run(Ordering::Fifo);
    let granted = unsure.add(601, Kind::Page, Saw::Moved, 0.01);
    granted.pass = Some(ticket(601));
    granted.expires_at = Some(START + 1);
    unsure.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
    let figures = judge(&unsure.records, &unsure.log, &unsure.rules).figures;
    assert_eq!(figures.most_live, CAPACITY);
    assert!(figures.most_live_possible > CAPACITY);
}

#[test]
fn line_3_a_turn_that_ran_out_unused_and_the_next_one_are_two_passes_with_nothing_between() {
    let turns = |until: u64| {
        let mut run = run(Ordering::Random);
        run.rules.capacity = 50;
        for (visitor, from, until) in [(601, -40.0, until), (601, -5.0, START), (602, -25.0, START - 20)] {
            let granted = run.add(visitor, Kind::Poll, Saw::Admitted, from);
            granted.pass = Some(ticket(visitor));
            granted.expires_at = Some(until);
        }
        run.records.retain(|r| r.visitor > 600);
        run.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
        judge(&run.records, &run.log, &run.rules).figures.most_live
    };
    assert_eq!(turns(START - 30), 1);
    assert_eq!(turns(START - 18), 2);
}

#[test]
fn line_3_passes_are_over_by_fleet_time_where_a_clock_was_wrong_and_too_many_are_found_by_it() {
    let peak = |ahead_s: u64, fleet_time: FleetTime, life_s: u64| {
        let mut run = run(Ordering::Random);
        run.records.clear();
        run.rules.fleet_time = fleet_time;
        run.rules.claim_us = 5 * SECOND;
        for visitor in 601..=620 {
            let from = visitor as f64 - 600.0;
            let granted = run.add(visitor, Kind::Poll, Saw::Admitted, from);
            granted.pass = Some(ticket(visitor));
            granted.expires_at = Some(START + visitor - 600 + 5 + ahead_s);
            let renewed = run.add(visitor, Kind::Use, Saw::Origin, from + 0.5);
            renewed.pass = Some(ticket(visitor));
            renewed.expires_at = Some(START + visitor - 600 + life_s + ahead_s);
        }
        run.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
        judge(&run.records, &run.log, &run.rules).figures.most_live
    };
    let right = peak(0, FleetTime::AsHere, 4);
    assert_eq!(peak(0, FleetTime::Steered, 4), right);
    assert_eq!(peak(60, FleetTime::Steered, 4), right);
    assert!(peak(60, FleetTime::AsHere, 4) > right);
    assert!(peak(60, FleetTime::Steered, 9) > right);
}

#[test]
fn line_4_too_many_mints_in_a_second_are_found_unless_faults_allow_them() {
    let crowded = || {
        let mut bad = run(Ordering::Random);
        bad.rules.capacity = 50;
        for visitor in 601..=607u64 {
            let granted = bad.add(visitor, Kind::Page, Saw::Moved, -3.0 + (visitor - 600) as f64 * 0.1);
            granted.pass = Some(ticket(visitor));
            granted.expires_at = Some(START + 5);
        }
        bad
    };
    assert_eq!(crowded().broken(), [4]);
    let mut allowed = crowded();
    allowed.rules.health = Health::Faulty;
    assert_eq!(allowed.broken(), [] as [u8; 0]);
}

#[test]
fn line_4_mints_whose_answers_were_late_are_not_taken_for_a_burst() {
    let mut late = run(Ordering::Random);
    late.rules.capacity = 50;
    for visitor in 601..=607u64 {
        let granted = late.add(visitor, Kind::Page, Saw::Moved, -3.0);
        granted.pass = Some(ticket(visitor));
        granted.expires_at = Some(START + 5);
        granted.t_answered_us = at(-1.5);
    }
    assert_eq!(late.broken(), [] as [u8; 0]);
}

#[test]
fn line_5_a_call_that_is_taken_back_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.those(9, Kind::Poll, Saw::Waiting)[0].called = Some(true);
    assert_eq!(bad.broken(), [5]);
}

#[test]
fn line_5_a_ticket_called_at_birth_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    let born = bad.add(501, Kind::Join, Saw::Waiting, 3.0);
    born.ticket = Some(ticket(501));
    born.called = Some(true);
    assert_eq!(bad.broken(), [5]);
}

#[test]
fn line_5_a_watermark_that_goes_back_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.log = EventLog::parse(r#"[{"what":{"watermark":5}},{"what":{"watermark":4}}]"#).unwrap();
    assert_eq!(bad.broken(), [5]);
}

#[test]
fn line_6_a_later_bucket_that_is_admitted_first_is_found_and_a_later_draw_is_not() {
    let mut bad = run(Ordering::BucketedRandom);
    let early = bad.records.iter().filter(|r| r.called == Some(false) && r.t_sent_us > at(16.0));
    assert!(early.clone().any(|r| r.bucket == Some(START)), "the first bucket still waits");
    let granted = bad.add(VISITORS, Kind::Poll, Saw::Admitted, 15.0);
    granted.pass = Some(ticket(VISITORS));
    granted.expires_at = Some(START + 16);
    assert!(bad.broken().contains(&6));
}

#[test]
fn line_6_by_times_alone_arrivals_less_than_a_bucket_apart_prove_nothing() {
    let mut mute = run(Ordering::BucketedRandom);
    mute.records.iter_mut().for_each(|r| r.bucket = None);
    mute.rules.bucket_us = 60 * SECOND;
    assert_eq!(mute.broken(), [] as [u8; 0]);
}

#[test]
fn line_6_fifo_a_later_join_that_is_admitted_first_is_found() {
    let mut bad = run(Ordering::Fifo);
    let granted = bad.add(55, Kind::Poll, Saw::Admitted, 3.1);
    granted.pass = Some(ticket(55));
    granted.expires_at = Some(START + 4);
    let broken = bad.broken();
    assert!(broken.contains(&6), "{broken:?}");
}

#[test]
fn line_6_a_newcomer_who_is_let_in_past_the_line_is_found_in_every_ordering() {
    for ordering in ORDERINGS {
        let mut bad = run(ordering);
        let express = bad.add(700, Kind::Navigate, Saw::Origin, 5.2);
        express.pass = Some(ticket(700));
        express.expires_at = Some(START + 6);
        assert_eq!(bad.broken(), [6], "{ordering:?}");
    }
}

#[test]
fn line_6_draws_by_the_order_of_joining_are_found() {
    let mut bad = run(Ordering::Fifo);
    bad.rules.ordering = Ordering::BucketedRandom;
    assert_eq!(bad.broken(), [6]);
}

#[test]
fn line_6_in_a_fleet_what_another_edge_has_not_heard_yet_is_no_inversion() {
    let late = |slack_us| {
        let mut bad = run(Ordering::Fifo);
        bad.rules.slack_us = slack_us;
        bad.rules.capacity = 50;
        bad.rules.stall_us = 600 * SECOND;
        bad.rules.heartbeat_us = 600 * SECOND;
        let last = bad.those(2, Kind::Poll, Saw::Waiting).last().unwrap().t_sent_us;
        let granted = bad.add(40, Kind::Poll, Saw::Admitted, (last - at(0.0)) as f64 / 1e6 - 1.0);
        granted.pass = Some(ticket(40));
        granted.expires_at = Some(START);
        bad.records.retain(|r| r.visitor != 40 || r.called != Some(false));
        bad.records
            .retain(|r| r.visitor <= 2 || r.visitor == 40 || r.kind != Kind::Poll || r.saw != Saw::Waiting);
        bad.broken()
    };
    assert_eq!(late(0), [6]);
    assert_eq!(late(3 * SECOND / 2), [] as [u8; 0]);
}

#[test]
fn line_6_fifo_in_a_fleet_joins_a_tenth_of_a_second_apart_have_no_promised_order() {
    let joined_later = |by_us: u64, slack_us: u64| {
        let mut bad = run(Ordering::Fifo);
        bad.rules.slack_us = slack_us;
        for record in bad.of(20).into_iter().filter(|r| matches!(r.kind, Kind::Navigate | Kind::Page)) {
            record.t_sent_us += by_us;
            record.t_answered_us += by_us;
        }
        bad.broken()
    };
    let fleet = 3 * SECOND / 2;
    assert_eq!(joined_later(SECOND / 10, 0), [6]);
    assert_eq!(joined_later(SECOND / 10, fleet), [] as [u8; 0]);
    assert_eq!(joined_later(SECOND / 5, fleet), [6]);
}

#[test]
fn line_7_another_ticket_for_one_that_lives_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    let other = bad.add(9, Kind::Page, Saw::Page, 1.7);
    other.shown_ticket = Some(ticket(9));
    other.ticket = Some("1-1-999".to_owned());
    assert_eq!(bad.broken(), [7]);
}

#[test]
fn line_7_another_pass_for_one_ticket_is_found() {
    let mut bad = run(Ordering::Random);
    let at = bad.those(9, Kind::Poll, Saw::Waiting).last().unwrap().t_answered_us - at(0.0);
    let other = bad.add(9, Kind::Poll, Saw::Admitted, at as f64 / 1e6 + 0.001);
    other.shown_ticket = Some(ticket(9));
    other.pass = Some("1-1-999".to_owned());
    other.expires_at = Some(START);
    bad.rules.capacity += 1;
    assert!(bad.broken().contains(&7));
}

#[test]
fn line_7_a_ticket_that_buys_a_second_session_is_found() {
    let mut bad = run(Ordering::Fifo);
    let left = bad.those(3, Kind::Leave, Saw::Left)[0].t_answered_us - at(0.0);
    let again = bad.add(3, Kind::Poll, Saw::Admitted, left as f64 / 1e6 + 2.0);
    again.shown_ticket = Some(ticket(3));
    again.pass = Some(ticket(3));
    assert_eq!(bad.broken(), [7]);
}

#[test]
fn line_8_an_end_that_is_no_410_or_has_no_word_is_found() {
    for (http, state) in [(404, Some("expired")), (410, None)] {
        let mut bad = run(Ordering::BucketedRandom);
        let left = bad.those(3, Kind::Leave, Saw::Left)[0].t_answered_us - at(0.0);
        let ended = bad.add(3, Kind::Poll, Saw::Ended, left as f64 / 1e6 + 1.0);
        ended.shown_ticket = Some(ticket(3));
        ended.http = http;
        ended.state = state.map(str::to_owned);
        assert_eq!(bad.broken(), [8], "{http}");
    }
}

#[test]
fn line_8_a_ticket_that_outlives_its_heartbeat_is_found() {
    let mut bad = run(Ordering::Random);
    let last = bad.those(9, Kind::Poll, Saw::Waiting).last().unwrap().t_sent_us;
    assert!(last > at(24.0), "visitor 9 waits for long");
    bad.records.retain(|r| r.visitor != 9 || r.t_sent_us < at(10.0) || r.t_sent_us > at(20.0));
    assert_eq!(bad.broken(), [8]);
}

#[test]
fn line_8_a_pass_that_opens_after_its_end_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    let left = bad.those(3, Kind::Leave, Saw::Left)[0].t_answered_us - at(0.0);
    bad.add(3, Kind::Use, Saw::Origin, left as f64 / 1e6 + 2.0).shown_pass = Some(ticket(3));
    assert_eq!(bad.broken(), [8]);
    let mut idle = run(Ordering::BucketedRandom);
    let left = idle.those(3, Kind::Leave, Saw::Left)[0].t_answered_us - at(0.0);
    idle.records.retain(|r| r.visitor != 3 || r.kind != Kind::Leave);
    idle.add(3, Kind::Use, Saw::Origin, left as f64 / 1e6 + 15.0).shown_pass = Some(ticket(3));
    assert!(idle.broken().contains(&8));
}

#[test]
fn line_8_slots_that_do_not_come_back_are_found() {
    let mut bad = run(Ordering::Fifo);
    let gone = VISITORS - 20..=VISITORS;
    let last = at(500.0);
    bad.records.retain(|r| {
        !gone.contains(&r.visitor) || r.pass.is_none() && r.kind == Kind::Poll || r.kind == Kind::Page
    });
    for second in 0..60 {
        let poll = bad.add(VISITORS, Kind::Poll, Saw::Waiting, 60.0 + f64::from(second));
        poll.called = Some(false);
        poll.shown_ticket = Some(ticket(VISITORS));
        poll.ticket = Some(ticket(VISITORS));
    }
    bad.records.retain(|r| r.t_sent_us < last);
    assert_eq!(bad.broken(), [8]);
}

#[test]
fn line_10_a_ticket_that_ends_before_its_time_is_found_and_one_after_an_outage_counts_the_outage() {
    let ended_in = |slack_us: u64, seconds: f64, reason: &str, outage: Option<(f64, f64)>| {
        let mut bad = run(Ordering::Random);
        bad.rules.slack_us = slack_us;
        bad.records.retain(|r| r.visitor != 9 || r.t_sent_us < at(12.0));
        let ended = bad.add(9, Kind::Poll, Saw::Ended, seconds);
        ended.shown_ticket = Some(ticket(9));
        ended.state = Some("expired".to_owned());
        ended.reason = Some(reason.to_owned());
        bad.rules.outages.extend(outage.map(|(from, to)| (at(from), at(to))));
        bad.broken()
    };
    let ended_at = |seconds, reason, outage| ended_in(0, seconds, reason, outage);
    assert_eq!(ended_at(13.0, "missed_heartbeat", None), [10]);
    assert_eq!(ended_at(18.0, "missed_heartbeat", None), [] as [u8; 0]);
    assert_eq!(ended_at(18.0, "missed_heartbeat", Some((12.0, 17.0))), [10]);
    assert_eq!(ended_at(18.0, "used", None), [10]);
    assert_eq!(ended_at(18.0, "left", None), [10]);
    // In a fleet that could be reached nobody had to find the way back.
    assert_eq!(ended_in(SECOND, 18.0, "missed_heartbeat", Some((12.0, 13.0))), [] as [u8; 0]);
    assert_eq!(ended_in(SECOND, 18.0, "missed_heartbeat", Some((12.0, 17.0))), [10]);
}

#[test]
fn line_10_a_tab_is_judged_by_its_own_token_not_by_that_of_another() {
    let ended_in = |tab: u16| {
        let mut run = run(Ordering::Random);
        for record in run.of(9) {
            record.tab = u16::from(record.kind == Kind::Poll && record.t_sent_us > at(6.0));
        }
        run.records.retain(|r| r.visitor != 9 || r.t_sent_us < at(12.0));
        let ended = run.add(9, Kind::Poll, Saw::Ended, 12.5);
        ended.tab = tab;
        ended.shown_ticket = Some(ticket(9));
        ended.state = Some("expired".to_owned());
        ended.reason = Some("missed_heartbeat".to_owned());
        run.broken()
    };
    assert_eq!(ended_in(0), [] as [u8; 0]);
    assert_eq!(ended_in(1), [10]);
}

#[test]
fn line_10_a_genuine_ticket_that_is_called_invalid_is_found() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.add(9, Kind::Poll, Saw::Invalid, 1.7).shown_ticket = Some(ticket(9));
    assert_eq!(bad.broken(), [10]);
}

#[test]
fn line_10_a_pass_that_is_turned_away_before_its_end_is_found() {
    let mut bad = run(Ordering::Fifo);
    let used = bad.those(3, Kind::Use, Saw::Origin)[1].t_sent_us - at(0.0);
    bad.add(3, Kind::Use, Saw::Moved, used as f64 / 1e6 + 0.3).shown_pass = Some(ticket(3));
    assert_eq!(bad.broken(), [10]);
}

#[test]
fn line_10_an_unused_pass_may_be_turned_away_by_an_edge_that_can_ask_nobody_if_it_opens_later() {
    let turned_away = |health| {
        let mut history = run(Ordering::Fifo);
        history.rules.health = health;
        let granted = history.those(3, Kind::Poll, Saw::Admitted)[0].t_answered_us - at(0.0);
        history.add(3, Kind::Use, Saw::Moved, granted as f64 / 1e6 + 0.01).shown_pass = Some(ticket(3));
        history
    };
    assert_eq!(turned_away(Health::Faulty).broken(), [] as [u8; 0]);
    assert_eq!(turned_away(Health::Healthy).broken(), [10]);
    let mut never = turned_away(Health::Faulty);
    never.records.retain(|record| record.visitor != 3 || record.saw != Saw::Origin);
    assert_eq!(never.broken(), [10]);
}

#[test]
fn line_11_a_token_that_was_tampered_with_must_not_open() {
    let mut bad = run(Ordering::BucketedRandom);
    let forged = bad.add(9, Kind::Navigate, Saw::Origin, 1.7);
    forged.shown_pass = Some(ticket(3));
    forged.forged = true;
    assert_eq!(bad.broken(), [11]);
}

#[test]
fn an_empty_history_breaks_nothing_and_has_no_figures() {
    let mut empty = run(Ordering::BucketedRandom);
    empty.records.clear();
    let figures = judge(&empty.records, &empty.log, &empty.rules).figures;
    assert_eq!((figures.records, figures.utilisation), (0, None));
    assert_eq!(empty.broken(), [] as [u8; 0]);
}

#[test]
fn the_verdict_is_told_with_the_records_that_prove_it() {
    let mut bad = run(Ordering::BucketedRandom);
    bad.add(500, Kind::Navigate, Saw::Origin, 3.0).role = Role::Bot;
    bad.records.sort_by_key(|r| (r.t_sent_us, r.t_answered_us));
    let verdict = judge(&bad.records, &bad.log, &bad.rules);
    let text = super::text::render(&verdict, &bad.records);
    assert!(text.contains("line 1: a request without a pass reached the origin"), "{text}");
    assert!(text.contains(r#""visitor":500"#), "{text}");
    assert!(serde_json::to_string(&verdict).unwrap().contains("\"line\":1"));
}

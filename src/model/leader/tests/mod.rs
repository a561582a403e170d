mod roaming;
mod toy;

use serde_json::json;

use self::toy::{Toy, fields};
use crate::model::ledger::{ChangeKind, Command, Gate};
use crate::model::order::OrderKey;
use crate::model::time::BootTime;

fn busy(ordering: &str) -> serde_json::Value {
    json!({"capacity": 100_000, "max_admit_per_sec": 20, "ordering": ordering, "pass_claim_s": 10})
}

const ORDERINGS: [&str; 3] = ["bucketed_random", "fifo", "random"];

/// Drives arrivals of `per_sec` for some seconds over all edges.
fn rush(toy: &mut Toy, per_sec: f64, seconds: u64) {
    for _ in 0..seconds * 4 {
        let mut due = per_sec / 4.0;
        while toy.dice.roll() < due {
            due -= 1.0;
            let at = (toy.dice.roll() * toy.edges.len() as f64) as usize;
            toy.arrive(at);
        }
        toy.tick();
    }
}

fn settle(toy: &mut Toy, seconds: u64) {
    for _ in 0..seconds * 4 {
        toy.tick();
    }
}

#[test]
fn an_idle_leader_proposes_nothing_but_its_minute() {
    let mut toy = Toy::new(2, 1, busy("bucketed_random"));
    settle(&mut toy, 5);
    let before = toy.entries;
    settle(&mut toy, 50);
    assert_eq!(toy.entries, before);
    settle(&mut toy, 60);
    assert!(toy.entries > before && toy.entries <= before + 2);
}

#[test]
fn nobody_waits_while_slots_and_rate_suffice() {
    for edges in [1, 3] {
        let mut toy = Toy::new(edges, 2, busy("bucketed_random"));
        settle(&mut toy, 1);
        rush(&mut toy, 2.0, 60);
        let express = toy.edges.iter().flat_map(|edge| &edge.admitted).filter(|pass| !pass.by_line).count();
        assert!(toy.admitted() > 80);
        assert!(express * 10 >= toy.admitted() * 9, "{express} of {}", toy.admitted());
    }
}

#[test]
fn a_rush_forms_a_line_that_is_served_at_the_rate_and_then_reopens() {
    for ordering in ORDERINGS {
        for edges in [1, 3] {
            let mut toy = Toy::new(edges, 3, busy(ordering));
            settle(&mut toy, 1);
            rush(&mut toy, 100.0, 10);
            assert_eq!(toy.line().gate, Gate::Queue, "{ordering}");
            let before = toy.admitted();
            settle(&mut toy, 20);
            let rate = (toy.admitted() - before) as f64 / 20.0;
            assert!((17.0..=21.0).contains(&rate), "{ordering} at {edges}: {rate} a second");
            let mut seconds = 0;
            while toy.line().gate != Gate::Open {
                settle(&mut toy, 1);
                seconds += 1;
                assert!(
                    seconds < 60,
                    "{ordering} at {edges}: {:?} with {} left",
                    toy.line().gate,
                    toy.waiting()
                );
            }
            settle(&mut toy, 5);
            assert_eq!(toy.waiting(), 0, "{ordering} at {edges}");
            assert_eq!(toy.line().buckets, [], "{ordering} at {edges}");
            rush(&mut toy, 2.0, 10);
            let last = toy.edges.iter().flat_map(|edge| &edge.admitted).max_by_key(|pass| pass.at.0).unwrap();
            assert!(!last.by_line, "{ordering} at {edges}: express again");
        }
    }
}

#[test]
fn the_pace_of_a_line_is_told_from_the_first_moment_of_a_line() {
    let mut toy = Toy::new(2, 13, busy("bucketed_random"));
    settle(&mut toy, 1);
    for second in 0..90 {
        rush(&mut toy, 40.0, 1);
        let rate = toy.edges[0].said(&toy.event).map(|said| said.pace).unwrap();
        assert!((12.0..=20.0).contains(&rate), "{rate} a second after {second} s");
    }
}

#[test]
fn a_short_line_moves_within_two_seconds() {
    for ordering in ORDERINGS {
        let mut waits = Vec::new();
        for seed in 0..9 {
            let mut toy = Toy::new(1, seed, busy(ordering));
            settle(&mut toy, 1);
            (0..30).for_each(|_| toy.arrive(0));
            settle(&mut toy, 4);
            let by_line = toy.edges[0].admitted.iter().filter(|pass| pass.by_line);
            waits.extend(by_line.map(|pass| pass.at.since(pass.arrived)).min());
        }
        waits.sort_unstable();
        assert_eq!(waits.len(), 9, "{ordering}");
        assert!(waits[4].as_millis() <= 3_000, "{ordering}: {waits:?}");
    }
}

#[test]
fn fifo_admits_in_the_order_of_arrival() {
    let mut toy = Toy::new(1, 5, busy("fifo"));
    settle(&mut toy, 1);
    rush(&mut toy, 60.0, 20);
    settle(&mut toy, 40);
    let by_line: Vec<_> = toy.edges[0].admitted.iter().filter(|pass| pass.by_line).collect();
    assert!(by_line.len() > 500);
    // Called together, visitors are served by when they ask: within a poll interval and the stock of the called.
    for (at, pass) in by_line.iter().enumerate() {
        let later = by_line[at + 1..].iter();
        let overtaken = later.filter(|other| other.arrived.0 + 3_000 < pass.arrived.0).count();
        assert_eq!(overtaken, 0);
    }
}

#[test]
fn capacity_bound_lines_keep_the_slots_busy() {
    for ordering in ORDERINGS {
        let policy =
            json!({"capacity": 200, "max_admit_per_sec": 100, "ordering": ordering, "pass_claim_s": 10});
        let mut toy = Toy::new(2, 6, policy);
        settle(&mut toy, 1);
        rush(&mut toy, 60.0, 40);
        let before = toy.admitted();
        let mut busy = 0.0;
        for _ in 0..120 {
            toy.tick();
            busy += toy.event().pool.live().len() as f64 / 200.0 / 120.0;
        }
        assert!(busy > 0.85, "{ordering}: {busy} of the slots were busy");
        assert!(toy.admitted() - before > 400, "{ordering}: {}", toy.admitted() - before);
    }
}

#[test]
fn a_restart_calls_nobody_wrongly() {
    for ordering in ORDERINGS {
        for wait_full in [false, true] {
            let mut toy = Toy::new(1, 7, busy(ordering));
            settle(&mut toy, 1);
            rush(&mut toy, 100.0, 20);
            settle(&mut toy, 3);
            let tickets = toy.edges[0].tickets.clone();
            let waiting = tickets.iter().filter(|ticket| ticket.key >= toy.line().watermark).count();
            assert!(waiting > 1_000);
            toy.boot = BootTime(toy.boot.0 + 5_000);
            toy.restart(0);
            let before = (tickets.len() - waiting) as f64;
            let called = |toy: &Toy| {
                let watermark = toy.line().watermark;
                tickets.iter().filter(|ticket| ticket.key < watermark).count() as f64 - before
            };
            settle(&mut toy, 20);
            // Nobody has come back yet, so calling goes by the pace alone.
            assert!(called(&toy) < 20.0 * 20.0 * 1.5, "{ordering}: {} of {waiting}", called(&toy));
            if wait_full {
                toy.edges[0].tickets = tickets.clone();
                toy.edges[0].full = true;
                settle(&mut toy, 10);
                assert_ne!(toy.line().watermark, OrderKey(0));
            }
        }
    }
}

#[test]
fn whoever_waits_alone_over_a_restart_is_called_once_a_slot_is_free() {
    for ordering in ORDERINGS {
        for seed in 0..8 {
            let policy =
                json!({"capacity": 1, "max_admit_per_sec": 20, "ordering": ordering, "pass_claim_s": 10});
            let mut toy = Toy::new(1, seed, policy);
            settle(&mut toy, 1);
            for _ in 0..2 {
                toy.arrive(0);
                settle(&mut toy, 2);
            }
            assert_eq!((toy.admitted(), toy.waiting()), (1, 1), "{ordering}");
            let ticket = toy.edges[0].tickets.clone();
            let key = ticket[0].key;
            toy.restart(0);
            toy.edges[0].tickets = ticket;
            settle(&mut toy, 20);
            assert!(toy.line().watermark > key, "{ordering}, seed {seed}: {:?}", toy.edges[0].tickets);
        }
    }
}

/// Who comes after the floor has passed a ticket is behind it whatever the draw: with a floor far ahead, a burst would
/// be served in the order of its batches.
#[test]
fn in_a_burst_the_floor_leaves_nearly_everybody_to_the_draw() {
    for ordering in ["random", "bucketed_random"] {
        let policy = json!({"capacity": 200, "max_admit_per_sec": 20, "ordering": ordering});
        let mut toy = Toy::new(1, 13, policy);
        settle(&mut toy, 1);
        rush(&mut toy, 250.0, 6);
        let floor = toy.edges[0].said(&toy.event).unwrap().floor;
        let waiting = &toy.edges[0].tickets;
        let below = waiting.iter().filter(|ticket| ticket.key < floor).count();
        assert!(waiting.len() > 1_000);
        assert!(below * 5 < waiting.len(), "{ordering}: {below} of {} are below the floor", waiting.len());
    }
}

#[test]
fn an_admit_moves_the_watermark_beyond_the_pace() {
    let policy =
        json!({"capacity": 1, "max_admit_per_sec": 1, "ordering": "bucketed_random", "bucket_seconds": 5});
    let mut toy = Toy::new(1, 8, policy);
    settle(&mut toy, 1);
    rush(&mut toy, 40.0, 20);
    settle(&mut toy, 3);
    let called = |toy: &Toy| {
        let watermark = toy.line().watermark;
        toy.edges[0].tickets.iter().filter(|ticket| ticket.key < watermark && ticket.comes).count()
    };
    let before = called(&toy);
    toy.change(ChangeKind::Admit(100));
    settle(&mut toy, 3);
    let more = called(&toy) - before;
    assert!((75..=110).contains(&more), "{more} more are called");
    assert_eq!(toy.line().admit_pending, 0);
}

#[test]
fn a_paused_event_calls_nobody_and_goes_on_where_it_was() {
    let mut toy = Toy::new(2, 9, busy("bucketed_random"));
    settle(&mut toy, 1);
    rush(&mut toy, 60.0, 10);
    toy.change(ChangeKind::Patch(fields(json!({"paused": true}))));
    settle(&mut toy, 1);
    let (watermark, admitted) = (toy.line().watermark, toy.admitted());
    rush(&mut toy, 10.0, 10);
    assert_eq!((toy.line().watermark, toy.admitted()), (watermark, admitted));
    toy.change(ChangeKind::Patch(fields(json!({"paused": false}))));
    settle(&mut toy, 10);
    assert!(toy.admitted() > admitted + 100);
}

#[test]
fn a_capacity_lowered_in_the_entry_that_reserves_keeps_back_what_it_reserved() {
    let mut toy = Toy::new(1, 5, json!({"capacity": 10, "max_admit_per_sec": 100}));
    settle(&mut toy, 1);
    toy.arrive(0);
    toy.round_with(Some(ChangeKind::Patch(fields(json!({"capacity": 5})))));
    assert_eq!((toy.event().pool.occupied(), toy.edges[0].slots.in_hand()), (1, None));
    let tick = toy.round();
    let returned: u32 = tick.events.iter().flat_map(|event| &event.returned).map(|back| back.slots).sum();
    assert_eq!(returned, 1);
    assert!(toy.edges[0].slots.in_hand().is_some(), "the visitor is served by the new capacity");
    settle(&mut toy, 1);
    assert_eq!((toy.admitted(), toy.event().pool.occupied()), (1, 1));
}

#[test]
fn a_reset_begins_an_empty_line() {
    let mut toy = Toy::new(1, 10, busy("bucketed_random"));
    settle(&mut toy, 1);
    rush(&mut toy, 60.0, 10);
    toy.change(ChangeKind::Reset);
    toy.edges[0].tickets.clear();
    toy.edges[0].joined_by_bucket.clear();
    settle(&mut toy, 3);
    assert_eq!(toy.line().gate, Gate::Open);
    rush(&mut toy, 60.0, 10);
    settle(&mut toy, 10);
    assert!(toy.edges[0].admitted.iter().filter(|pass| pass.by_line).count() > 200);
}

/// What the rows of before are for: a leader that drops them calls everybody. (Newcomers of `random` are keyed among
/// those who wait, so that their counts alone hold the watermark back.)
#[test]
fn a_leader_without_the_rows_would_call_everybody() {
    for ordering in ["fifo", "bucketed_random"] {
        let mut toy = Toy::new(1, 7, busy(ordering));
        settle(&mut toy, 1);
        rush(&mut toy, 100.0, 20);
        let tickets = toy.edges[0].tickets.clone();
        toy.forget_rows();
        toy.restart(0);
        // A newcomer or two, as always; and the line is taken to be theirs alone.
        rush(&mut toy, 40.0, 1);
        settle(&mut toy, 20);
        let uncalled = tickets.iter().filter(|ticket| ticket.key >= toy.line().watermark).count();
        assert!(uncalled * 100 <= tickets.len(), "{ordering}: {uncalled} of {}", tickets.len());
    }
}

#[test]
fn a_line_opens_again_although_visitors_go_on_coming() {
    for ordering in ORDERINGS {
        for edges in [1, 3] {
            let policy = json!({"capacity": 100_000, "max_admit_per_sec": 100, "ordering": ordering});
            let mut toy = Toy::new(edges, 11, policy);
            settle(&mut toy, 1);
            rush(&mut toy, 300.0, 5);
            assert_eq!(toy.line().gate, Gate::Queue);
            rush(&mut toy, 20.0, 40);
            let before: usize = toy.edges.iter().map(|edge| edge.admitted.len()).sum();
            rush(&mut toy, 20.0, 20);
            let fresh = toy.edges.iter().flat_map(|edge| &edge.admitted);
            let late = fresh.filter(|pass| pass.by_line && pass.arrived.0 + 20_000 > toy.boot.0).count();
            assert!(late * 5 < toy.admitted() - before, "{ordering} at {edges}: {late} still by the line");
        }
    }
}

#[test]
fn a_lottery_is_drained_only_once_it_is_closed_and_drawn() {
    for ordering in ["bucketed_random", "fifo"] {
        let at = |seconds: u64| {
            jiff::Timestamp::from_millisecond(i64::try_from(toy::START + seconds * 1000).unwrap())
                .unwrap()
                .to_string()
        };
        let policy = json!({
            "capacity": 100_000, "max_admit_per_sec": 50, "ordering": ordering,
            "schedule": {"prequeue_at": at(10), "opens_at": at(30), "opening_bucket_seconds": 5}
        });
        let mut toy = Toy::new(2, 12, policy);
        settle(&mut toy, 12);
        assert_eq!(toy.line().gate, Gate::Queue);
        rush(&mut toy, 40.0, 15);
        let lottery = toy.line().lottery.clone().unwrap();
        assert_eq!(toy.line().buckets, [lottery.bucket]);
        assert!(toy.waiting() > 500);
        rush(&mut toy, 40.0, 7);
        assert_eq!((toy.admitted(), toy.line().watermark), (0, OrderKey(0)), "not yet");
        assert_eq!(toy.line().lottery.as_ref().and_then(|lottery| lottery.order), None);
        settle(&mut toy, 4);
        assert!(toy.line().lottery.as_ref().and_then(|lottery| lottery.order).is_some());
        let joined: u32 = toy.edges.iter().map(|edge| edge.joined_by_bucket[&lottery.bucket]).sum();
        assert!(joined > 700, "everybody is in one bucket: {joined}");
        toy.draw_keys();
        settle(&mut toy, 10);
        let admitted = toy.admitted();
        assert!((300..700).contains(&admitted), "{ordering}: {admitted}");
    }
}

#[test]
fn a_slot_of_a_slow_rate_is_handed_over_when_it_is_due_without_another_report() {
    let policy = json!({"capacity": 1_000, "max_admit_per_sec": 1, "ordering": "bucketed_random"});
    let mut toy = Toy::new(1, 3, policy);
    settle(&mut toy, 2);
    assert_eq!(toy.leader.next_slot(&toy.state, toy.now()), None, "nobody waits");
    rush(&mut toy, 20.0, 1);
    settle(&mut toy, 10);
    let due = (0..8).find_map(|_| {
        toy.tick();
        toy.leader.next_slot(&toy.state, toy.now())
    });
    let due = due.expect("somebody waits for credit");
    assert!((1..=1_000).contains(&due.as_millis()), "{due:?}");
    toy.boot = toy.boot.after(due);
    let (run, now, boot) = (toy.edges[0].run, toy.now(), toy.boot);
    let tick = toy.leader.plan(&toy.state, now, boot);
    assert_eq!(tick.events.iter().map(|event| event.reserve).collect::<Vec<_>>(), [1]);
    toy.apply(Command::Tick(tick));
    assert_eq!(toy.leader.await_grants(), [run]);
    let pulse = toy.leader.pulse(&toy.state, run, now, boot);
    assert_eq!(pulse.events[0].grant.map(|grant| grant.slots), Some(1));
    assert!(toy.leader.await_grants().is_empty());
}

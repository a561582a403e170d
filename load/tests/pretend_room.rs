//! The visitors and the checker on a pretended waiting room: an honest one passes, also when it goes away for a
//! moment, and each dishonest one is found out.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here says where")]

mod pretend;

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::check::{EventLog, Ordering, Rules, SECOND, Verdict, judge};
use anteroom_load::history::{Recorder, Role, Saw, read_all};
use anteroom_load::rush::{RushArgs, rush};
use clap::Parser;
use pretend::{AWAY, CAPACITY, Fault, HEARTBEAT_MS, Room, SESSION_MS};
use tokio::time::sleep;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RushArgs,
}

async fn rushed(name: &str, fault: Fault, outage: Option<Duration>) -> Verdict {
    let history = std::env::temp_dir().join(format!("anteroom-load-{}-{name}.jsonl", std::process::id()));
    let room = Room::new(fault);
    let (port, mut listening) = room.listen(0).await;
    let target = format!("http://127.0.0.1:{port}");
    let line = [
        "rush",
        "--target",
        &target,
        "--event",
        "tour",
        "--path",
        "/buy",
        "--visitors",
        "60",
        "--over-s",
        "3",
        "--for-s",
        "25",
        "--session-s",
        "1.5",
        "--session-ttl-s",
        "6",
        "--heartbeat-s",
        "4",
        "--patience-s",
        "6",
        "--seed",
        "11",
        "--leaving",
        "0.9",
        "--history",
        history.to_str().unwrap(),
    ];
    let args = Line::parse_from(line).args;
    let (recorder, writer) = Recorder::create(&history).unwrap();
    let world = args.world(recorder).unwrap();
    let crowd = args.crowd();
    let visitors = tokio::spawn({
        let world = Arc::clone(&world);
        async move { rush(world, &crowd).await }
    });
    if let Some(after) = outage {
        sleep(after).await;
        drop(listening);
        sleep(AWAY).await;
        (_, listening) = room.listen(port).await;
    }
    visitors.await.unwrap();
    drop((world, listening));
    writer.join().unwrap().unwrap();
    let records = read_all(std::slice::from_ref(&history)).unwrap();
    std::fs::remove_file(&history).unwrap();
    let roles = [
        Role::Ordinary,
        Role::Impatient,
        Role::Ghost,
        Role::Replayer,
        Role::Bot,
        Role::Hidden,
        Role::Plain,
        Role::App,
    ];
    for role in roles {
        assert!(records.iter().any(|r| r.role == role && r.saw != Saw::Nothing), "{role:?} saw nothing");
    }
    let mut rules = Rules::new(CAPACITY as u64, 1_000.0, Ordering::Fifo);
    rules.heartbeat_us = HEARTBEAT_MS * 1_000;
    rules.session_us = SESSION_MS * 1_000;
    rules.claim_us = SESSION_MS * 1_000;
    rules.stall_us = 12 * SECOND;
    judge(&records, &EventLog::default(), &rules)
}

fn broken(verdict: &Verdict) -> Vec<u8> {
    let mut lines: Vec<u8> = verdict.violations.iter().map(|violation| violation.line).collect();
    lines.dedup();
    lines
}

#[tokio::test]
async fn an_honest_room_breaks_nothing_also_when_it_goes_away_for_a_moment() {
    let (plain, interrupted) = tokio::join!(
        rushed("honest", Fault::None, None),
        rushed("interrupted", Fault::None, Some(Duration::from_secs(4))),
    );
    assert!(plain.violations.is_empty(), "{:#?}", plain.violations);
    assert!(interrupted.violations.is_empty(), "{:#?}", interrupted.violations);
    assert_eq!((plain.figures.outages, interrupted.figures.outages), (0, 1));
    assert!(plain.figures.admitted >= 30, "{:?}", plain.figures);
    assert!(
        (CAPACITY as u64 - 2..=CAPACITY as u64).contains(&plain.figures.most_live),
        "{:?}",
        plain.figures
    );
}

#[tokio::test]
async fn each_dishonest_room_is_found_out() {
    let (overfull, open, last_first, forgets) = tokio::join!(
        rushed("overfull", Fault::Overfull, None),
        rushed("open", Fault::TicketsOpen, None),
        rushed("last-first", Fault::LastFirst, None),
        rushed("forgets", Fault::Forgets, None),
    );
    assert!(broken(&overfull).contains(&3), "{:?}", broken(&overfull));
    assert!(broken(&open).contains(&2), "{:?}", broken(&open));
    assert!(broken(&last_first).contains(&6), "{:?}", broken(&last_first));
    assert!(broken(&forgets).contains(&10), "{:?}", broken(&forgets));
}

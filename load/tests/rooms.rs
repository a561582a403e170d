//! The real binary in small rooms, one claim each: limits at their ends, an operator who steps in, strangers, two
//! events at once. Judged by what visitors saw, or by what they are answered.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that fails here says where"
)]

mod guest;
mod room;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anteroom_load::check::{Figures, Lowered, Ordering, Rules, SECOND};
use anteroom_load::dice::Dice;
use anteroom_load::history::{Kind, Record, Role, Saw};
use anteroom_load::rush::{Crowd, Curve, rush};
use anteroom_load::visitor::{Ask, Browser, Habits, Outcome, Transport, live};
use guest::{Guest, Operator, habits};
use http::Method;
use room::Room;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Every visitor of a test is done by then.
const MOST: Duration = Duration::from_secs(60);

/// `heartbeat_ttl_s` of their events.
const HEARTBEAT_S: u64 = 5;

/// An event, with times that suit a test and these fields.
fn event(id: &str, path: &str, fields: &str) -> String {
    format!(
        "  - {{ id: {id}, match: [ {{ path: {path} }} ], origin: shop, session_ttl_s: 12, \
         session_max_s: 600, pass_claim_s: 5, heartbeat_ttl_s: {HEARTBEAT_S}, {fields} }}\n"
    )
}

fn sale(fields: &str) -> String {
    event("sale", "/buy", fields)
}

fn rules(capacity: u64, rate: u64) -> Rules {
    let mut rules = Rules::new(capacity, rate as f64, Ordering::BucketedRandom);
    rules.heartbeat_us = HEARTBEAT_S * SECOND;
    rules.session_us = 12 * SECOND;
    rules.session_max_us = 600 * SECOND;
    rules.claim_us = 5 * SECOND;
    rules
}

/// Ordinary visitors, who come evenly.
fn crowd(visitors: u64, over_s: f64, session_s: f64) -> Crowd {
    Crowd {
        visitors,
        curve: Curve::Constant,
        over: Duration::from_secs_f64(over_s),
        most: MOST,
        mix: "ordinary=1".parse().unwrap(),
        seed: 20_261_130,
        habits: Arc::new(habits("sale", "/buy", session_s)),
    }
}

/// How often this was seen.
fn seen(figures: &Figures, word: &str) -> u64 {
    figures.saw.get(word).copied().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_for_one_serves_one_after_the_other() {
    let room = Room::open("one", &sale("capacity: 1, max_admit_per_sec: 20")).await;
    rush(room.world(), &crowd(6, 1.0, 1.0)).await;
    let (verdict, _) = room.close(&rules(1, 20)).await;
    let figures = verdict.figures;
    assert_eq!((figures.admitted, figures.most_live), (6, 1), "{figures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_admission_a_second_is_kept_and_lets_everybody_in() {
    let room = Room::open("slow", &sale("capacity: 100, max_admit_per_sec: 1")).await;
    rush(room.world(), &crowd(9, 0.5, 2.0)).await;
    let (verdict, _) = room.close(&rules(100, 1)).await;
    assert_eq!(verdict.figures.admitted, 9, "{:?}", verdict.figures);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_a_second_let_a_crowd_in_together() {
    let room = Room::open("fast", &sale("capacity: 1000, max_admit_per_sec: 10000")).await;
    rush(room.world(), &crowd(320, 0.2, 2.0)).await;
    let (verdict, _) = room.close(&rules(1_000, 10_000)).await;
    assert_eq!(verdict.figures.admitted, 320, "{:?}", verdict.figures);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_the_waiting_page_while_there_is_room() {
    let room = Room::open("roomy", &sale("capacity: 30, max_admit_per_sec: 1000")).await;
    // One after the other, and all of them stay: the last ones come while few slots are left.
    let mut guests = Vec::new();
    for number in 1..=29 {
        let mut guest = Guest::new(&room, number, "sale", "/buy");
        assert_eq!(guest.arrive().await, Outcome::In);
        assert_eq!(guest.visit().await.saw, Saw::Origin);
        guests.push(guest);
    }
    drop(guests);
    let (verdict, records) = room.close(&rules(30, 1_000)).await;
    let figures = verdict.figures;
    assert_eq!((figures.expressed, figures.queued, seen(&figures, "page")), (29, 0, 0), "{figures:?}");
    let first = |saw: Saw| records.iter().filter(|r| r.kind == Kind::Navigate && r.saw == saw).count();
    assert!(first(Saw::Origin) > 0, "some are let in on the spot");
    assert!(first(Saw::Moved) > 0, "some by the cookie check");
}

/// The fewest shares of the slots in use, while anybody waits: sessions here last few turns of a poll.
const UTILISATION: f64 = 0.5;

async fn burst_behind_a_short_line(ordering: Ordering, name: &str) {
    let fields = format!("capacity: 10, max_admit_per_sec: 20, ordering: {name}, bucket_seconds: 1");
    let room = Room::open(name, &sale(&fields)).await;
    let mut short = JoinSet::new();
    let stay: Arc<Habits> = Arc::new(habits("sale", "/buy", 6.0));
    for number in 1_001..=1_014 {
        let (world, habits) = (room.world(), Arc::clone(&stay));
        let until = Instant::now() + MOST;
        short.spawn(live(world, number, Role::Ordinary, habits, Dice::new(3, number), until));
    }
    let operator = Operator::of(&room, "sale");
    let waits = |read: &Value| read["line"]["alive"].as_u64() >= Some(1);
    let bucket = |read: &Value| read["line"]["buckets"].as_array().and_then(|b| b.last()?.as_u64());
    let first = bucket(&operator.until("a short line", |read| waits(read) && bucket(read).is_some()).await);
    operator.until("a bucket behind it", |read| waits(read) && bucket(read) > first).await;
    let burst = Crowd { curve: Curve::Burst, most: Duration::from_secs(18), ..crowd(150, 2.0, 4.0) };
    rush(room.world(), &burst).await;
    while short.join_next().await.is_some() {}
    let mut rules = rules(10, 20);
    rules.ordering = ordering;
    rules.bucket_us = SECOND;
    let (verdict, records) = room.close(&rules).await;
    let served = |from: u64| first_passes(&records).values().filter(|first| first.visitor > from).count();
    assert_eq!(served(1_000), 14, "the short line is served");
    assert!(served(0) > 14, "and the burst after it");
    let figures = verdict.figures;
    assert_eq!(figures.inversions, 0, "{figures:?}");
    assert!(figures.utilisation.is_some_and(|share| share >= UTILISATION), "{figures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_does_not_overtake_the_short_line_before_it() {
    tokio::join!(
        burst_behind_a_short_line(Ordering::BucketedRandom, "bucketed_random"),
        burst_behind_a_short_line(Ordering::Fifo, "fifo"),
    );
}

/// The answer that first gave each pass.
fn first_passes(records: &[Record]) -> BTreeMap<&str, &Record> {
    let mut first = BTreeMap::new();
    for record in records {
        if let Some(pass) = record.pass.as_deref() {
            let known = first.entry(pass).or_insert(record);
            if record.t_answered_us < known.t_answered_us {
                *known = record;
            }
        }
    }
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_lets_nobody_in_and_ends_nobodys_place() {
    let room = Room::open("pause", &sale("capacity: 4, max_admit_per_sec: 20")).await;
    let operator = Operator::of(&room, "sale");
    let (world, clock) = (room.world(), room.world().clock);
    let visitors = tokio::spawn(async move { rush(world, &crowd(12, 1.0, 3.0)).await });
    operator.until("some wait", |read| read["line"]["alive"].as_u64() >= Some(3)).await;
    operator.say("/pause").await;
    let (from, began) = (clock.now_us(), Instant::now());
    let mut newcomer = Guest::new(&room, 1_001, "sale", "/buy");
    assert_eq!(newcomer.arrive().await, Outcome::InLine);
    operator.until("the last session ends", |read| read["slots"]["free"] == 4).await;
    // Longer than any heartbeat may be missed.
    while began.elapsed() < Duration::from_secs(2 * HEARTBEAT_S) {
        let told = newcomer.poll().await;
        assert_eq!((told.saw, told.phase.as_deref()), (Saw::Waiting, Some("paused")));
        tokio::time::sleep(Duration::from_millis(told.after_ms.unwrap())).await;
    }
    let to = clock.now_us();
    operator.say("/resume").await;
    assert_eq!(newcomer.wait().await, Outcome::In);
    newcomer.leave().await;
    drop(newcomer);
    visitors.await.unwrap();
    let (verdict, records) = room.close(&rules(4, 20)).await;
    let passes = first_passes(&records);
    let minted: Vec<_> = passes.values().filter(|r| from < r.t_sent_us && r.t_answered_us < to).collect();
    assert!(minted.is_empty(), "let in during the pause: {minted:#?}");
    assert!(passes.values().any(|record| record.t_answered_us < from), "some were let in before it");
    assert_eq!((verdict.figures.admitted, verdict.figures.ended), (13, 0), "{:?}", verdict.figures);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capacity_lowered_in_mid_sale_evicts_nobody_and_holds_from_the_moment_it_is_in_effect() {
    let room = Room::open("limit", &sale("capacity: 60, max_admit_per_sec: 100")).await;
    let operator = Operator::of(&room, "sale");
    let (world, clock) = (room.world(), room.world().clock);
    let visitors = tokio::spawn(async move { rush(world, &crowd(120, 4.0, 4.0)).await });
    let live = |read: &Value| read["slots"]["live_passes"].as_u64().unwrap();
    // Newcomers still come in at once: slots have been handed out ahead for them.
    operator.until("the room fills", |read| live(read) >= 20).await;
    let changed = operator.change(&json!({ "capacity": 5 })).await;
    let from_us = clock.now_us();
    assert_eq!(changed["outcome"], "updated", "{changed}");
    assert!(live(&operator.read().await) > 5, "nobody is evicted");
    operator.until("sessions end", |read| live(read) < 5).await;
    operator.until("the line moves again", |read| live(read) == 5).await;
    let to_us = clock.now_us();
    operator.change(&json!({ "capacity": 40 })).await;
    operator.until("the room fills again", |read| live(read) > 10).await;
    visitors.await.unwrap();
    let mut rules = rules(60, 100);
    rules.lowered.push(Lowered { from_us, to_us, capacity: 5 });
    let (verdict, _) = room.close(&rules).await;
    assert_eq!((verdict.figures.admitted, verdict.figures.ended), (120, 0), "{:?}", verdict.figures);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_of_one_event_does_not_open_another_on_the_same_host() {
    let fields = |capacity| format!("capacity: {capacity}, max_admit_per_sec: 20");
    let both = event("sale", "/buy", &fields(1)) + &event("tour", "/tour", &fields(10));
    let room = Room::open("two", &both).await;
    let mut holder = Guest::new(&room, 1, "sale", "/buy");
    assert_eq!(holder.arrive().await, Outcome::In);
    assert_eq!(holder.visit().await.saw, Saw::Origin);

    let mut guest = Guest::new(&room, 2, "tour", "/tour");
    assert_eq!(guest.arrive().await, Outcome::In);
    assert_eq!(guest.visit().await.saw, Saw::Origin);
    guest.turn_to("sale", "/buy");
    assert_eq!(guest.visit().await.saw, Saw::Moved, "the other event's pass came along and opens nothing");
    let token = guest.tab.jar.value("wr_pass_tour").unwrap().to_owned();
    for name in ["wr_pass", "wr_pass_sale"] {
        assert_eq!(guest.visit_as(name, &token).await.saw, Saw::Moved, "nor under the name {name}");
    }
    assert_eq!(guest.arrive().await, Outcome::InLine);
    assert_eq!(guest.poll().await.saw, Saw::Waiting);
    guest.turn_to("tour", "/tour");
    assert_eq!(guest.visit().await.saw, Saw::Origin, "waiting for one, it is still in the other");

    assert_eq!(holder.leave().await.saw, Saw::Left);
    guest.turn_to("sale", "/buy");
    assert_eq!(guest.wait().await, Outcome::In);
    for (event, path) in [("sale", "/buy"), ("tour", "/tour"), ("sale", "/buy")] {
        guest.turn_to(event, path);
        assert_eq!(guest.visit().await.saw, Saw::Origin, "{path}");
    }
    guest.turn_to("tour", "/tour");
    assert_eq!(guest.leave().await.saw, Saw::Left);
    guest.turn_to("sale", "/buy");
    assert_eq!(guest.visit().await.saw, Saw::Origin, "leaving one does not leave the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_made_without_a_match_gates_nothing_until_it_is_given_one() {
    let room = Room::open("late", &sale("capacity: 1, max_admit_per_sec: 20")).await;
    let late = Operator::of(&room, "late");
    let (status, made) = late.put(&json!({ "origin": "shop", "capacity": 1, "max_admit_per_sec": 20 })).await;
    assert_eq!(status, 201, "{made}");
    let warned = made["warnings"].as_array().unwrap().iter().any(|text| text.to_string().contains("match"));
    assert!(warned, "{made}");
    let mut guests: Vec<Guest> = (1..=3).map(|number| Guest::new(&room, number, "late", "/late")).collect();
    for guest in &mut guests {
        let visit = guest.visit().await;
        assert_eq!((visit.saw, visit.pass), (Saw::Origin, None), "no event gates this path yet");
        assert_eq!(guest.tab.jar.value("wr_"), None);
    }
    late.change(&json!({ "match": [ { "path": "/late" } ] })).await;
    assert_eq!(guests[0].arrive().await, Outcome::In);
    assert_eq!(guests[0].visit().await.saw, Saw::Origin);
    assert_eq!(guests[1].visit().await.saw, Saw::Moved);
    assert_eq!(guests[1].arrive().await, Outcome::InLine);
    let (status, changed) = late.put(&json!({ "match": [ { "path": "/later" } ] })).await;
    assert_eq!((status, &changed["outcome"]), (200, &json!("updated")));
    assert_eq!(guests[2].visit().await.saw, Saw::Origin, "the old path is open again");
    guests[2].turn_to("late", "/later");
    assert_eq!(
        guests[2].visit().await.saw,
        Saw::Moved,
        "and the new one gated, with nothing lost of the line"
    );
    guests[1].turn_to("late", "/later");
    assert_eq!(guests[1].poll().await.saw, Saw::Waiting);
    assert_eq!(late.read().await["slots"]["capacity"], 1, "fields left out keep their value");
}

/// Requests a second of strangers who keep no cookies, by this many of them.
const STRANGERS: u64 = 10;
const REQUESTS_EACH: u64 = 150;
const BETWEEN: Duration = Duration::from_micros(33_333);

#[tokio::test(flavor = "multi_thread")]
async fn strangers_without_cookies_make_no_line_for_those_with_cookies() {
    let room = Room::open("strangers", &sale("capacity: 400, max_admit_per_sec: 100")).await;
    let operator = Operator::of(&room, "sale");
    let mut flood = JoinSet::new();
    for number in 1_001..=1_000 + STRANGERS {
        let mut tab = Browser::new(room.world(), number, Role::Bot, Transport::None);
        flood.spawn(async move {
            let mut turns = interval(BETWEEN);
            turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for _ in 0..REQUESTS_EACH {
                turns.tick().await;
                tab.ask(Ask::new(Kind::Navigate, Method::GET, "/buy")).await;
            }
        });
    }
    let mut number = 0;
    loop {
        let is_over = flood.is_empty();
        number += 1;
        let mut guest = Guest::new(&room, number, "sale", "/buy");
        assert_eq!(guest.arrive().await, Outcome::In, "visitor {number}");
        assert_eq!(guest.visit().await.saw, Saw::Origin, "visitor {number}");
        assert_eq!(guest.leave().await.saw, Saw::Left, "visitor {number}");
        let read = operator.read().await;
        assert_eq!(read["line"]["gate"], "open", "after visitor {number}: {read}");
        if is_over {
            break;
        }
        let _ = tokio::time::timeout(Duration::from_millis(300), async {
            while flood.join_next().await.is_some() {}
        })
        .await;
    }
    let (verdict, _) = room.close(&rules(400, 100)).await;
    let figures = verdict.figures;
    assert_eq!((seen(&figures, "page"), figures.queued), (0, 0), "{figures:?}");
}

//! Everybody who waits is counted, and nobody twice.

use std::sync::Arc;

use serde_json::json;

use super::house::{House, Visitor};
use super::seconds;
use crate::desk::JoinAnswer;
use crate::model::edge::Phase;

/// A line that stands.
fn standing(policy: serde_json::Value) -> House {
    let mut house = House::new(json!({"capacity": 1, "max_admit_per_sec": 100, "paused": true}));
    house.patch(policy);
    house
}

async fn line_of(house: &mut House, count: usize) -> Vec<Visitor> {
    let mut visitors = Vec::new();
    for _ in 0..count {
        visitors.push(house.queues().await);
    }
    house.pass(seconds(2));
    visitors
}

#[tokio::test]
async fn a_restart_counts_nobody_twice() {
    for ordering in ["bucketed_random", "fifo", "random"] {
        let mut house = standing(json!({"heartbeat_ttl_s": 20, "queue_limit": 12, "ordering": ordering}));
        let mut visitors = line_of(&mut house, 8).await;
        for restart in 1..5 {
            house.restart();
            for visitor in &mut visitors {
                house.polls_in_line(visitor).await;
            }
            house.pass(seconds(2));
            assert_eq!(house.waiting(), 8, "{ordering}: after {restart} restarts");
            let line = &house.state.events[&house.event].line;
            assert_eq!(line.waiting(), 8, "{ordering}: by the log after {restart} restarts");
            let last = house.polls_in_line(&mut visitors[7]).await;
            assert!(last.estimate.position.1 <= 8, "{ordering}: {:?}", last.estimate.position);
        }
        // Those who join a new run are none of those before.
        line_of(&mut house, 3).await;
        house.restart();
        assert_eq!(house.waiting(), 11, "{ordering}");
        for visitor in &mut visitors {
            house.polls_in_line(visitor).await;
        }
        house.pass(seconds(2));
        assert_eq!(house.waiting(), 11, "{ordering}: the three may come yet");
    }
}

/// A hidden tab is let poll once a minute: its ticket lives, so it counts, and nobody is told its place.
#[tokio::test]
async fn who_polls_seldom_keeps_the_place() {
    let mut house = standing(json!({"heartbeat_ttl_s": 45}));
    let mut visitors = line_of(&mut house, 6).await;
    let mut keys = Vec::new();
    for _ in 0..44 {
        house.pass(seconds(1));
        house.polls_in_line(&mut visitors[0]).await;
        assert_eq!(house.waiting(), 6);
    }
    for visitor in &mut visitors {
        keys.push(house.polls_in_line(visitor).await.estimate.position);
    }
    keys.sort_unstable();
    assert_eq!(keys.last().map(|position| position.1), Some(6), "{keys:?}");
    assert!(keys.iter().filter(|position| position.1 <= 2).count() <= 2, "{keys:?}");
}

/// All at once, before the leader hears of any of them.
#[tokio::test]
async fn a_queue_limit_holds_between_two_pulses() {
    for limit in [1, 7] {
        let mut house = standing(json!({"heartbeat_ttl_s": 45, "queue_limit": limit}));
        // What joins in the second of a start may be a part of what waits.
        house.pass(seconds(2));
        let first = house.queues().await;
        house.pass(seconds(1));
        house.leaves(&first).await;
        house.pass(seconds(1));
        assert_eq!(house.waiting(), 0);
        let mut joins = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (desk, event) = (Arc::clone(&house.desk), house.event.clone());
            joins.spawn(async move { desk.join(&event, None).await });
        }
        let answers = house.wait(joins.join_all()).await;
        let waiting: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                JoinAnswer::Waiting(waiting) => Some(waiting),
                JoinAnswer::Refused(Phase::Full) => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(waiting.len(), limit);
        house.pass(seconds(1));
        assert_eq!(house.waiting() as usize, limit);
        let late = house.join(&mut Visitor::default()).await;
        assert!(matches!(late, JoinAnswer::Refused(Phase::Full)), "{late:?}");
        let leaver = Visitor { place: Some(waiting[0].ticket.clone()), pass: None };
        house.leaves(&leaver).await;
        house.queues().await;
    }
}

#[tokio::test]
async fn the_rate_of_admissions_is_what_was_admitted() {
    let mut house = House::new(json!({"capacity": 100, "max_admit_per_sec": 10}));
    let rate = |house: &House| house.desk.figures().events[0].admit_rate;
    house.pass(seconds(5));
    assert!(rate(&house) == 0.0, "{}", rate(&house));
    for _ in 0..6 {
        house.enters().await;
    }
    house.pass(seconds(1));
    assert!((rate(&house) - 0.1).abs() < 1e-6, "six in a minute: {}", rate(&house));
    house.pass(seconds(62));
    assert!(rate(&house) == 0.0, "{}", rate(&house));
}

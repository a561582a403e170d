//! Visitors who come to another node each time: served, counted and let go like others.

use std::sync::Arc;

use serde_json::json;

use super::house::{House, Visitor};
use super::seconds;
use crate::desk::{Activity, Attendance, IssuedPass, JoinAnswer, PassAnswer, StatusAnswer};
use crate::model::ids::TicketId;

const NODES: usize = 3;

fn fleet(policy: serde_json::Value) -> House {
    let mut house = House::fleet(3, json!({"capacity": 1, "max_admit_per_sec": 100, "session_ttl_s": 10}));
    house.patch(policy);
    house.pass(seconds(2));
    house
}

async fn joins_at(house: &mut House, node: usize) -> JoinAnswer {
    let (desk, event) = (house.at(node), house.event.clone());
    house.wait(desk.join(&event, None)).await
}

async fn queues_at(house: &mut House, node: usize) -> Visitor {
    match joins_at(house, node).await {
        JoinAnswer::Waiting(waiting) => Visitor { place: Some(waiting.ticket), pass: None },
        other => panic!("{other:?}"),
    }
}

async fn polls_at(house: &mut House, node: usize, visitor: &mut Visitor) -> StatusAnswer {
    let (desk, event) = (house.at(node), house.event.clone());
    let shown = visitor.place.clone().unwrap();
    let answer = house.wait(desk.status(&event, &shown, Attendance::Asking)).await;
    if let StatusAnswer::Waiting(waiting) = &answer {
        visitor.place = Some(waiting.ticket.clone());
    }
    answer
}

async fn enters_at(house: &mut House, node: usize) -> IssuedPass {
    match joins_at(house, node).await {
        JoinAnswer::Admitted(pass) => pass,
        other => panic!("{other:?}"),
    }
}

/// Shows a pass to a node; what it is given in its place.
async fn shows_at(house: &mut House, node: usize, pass: &IssuedPass) -> Option<IssuedPass> {
    let (desk, event, token) = (house.at(node), house.event.clone(), pass.token.clone());
    match house.wait(desk.check_pass(&event, &[&token], Activity::Navigation)).await {
        PassAnswer::Valid { renewed, .. } => Some(renewed.unwrap_or_else(|| pass.clone())),
        PassAnswer::None => None,
        other @ PassAnswer::Unavailable(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_comes_to_another_node_each_time_counts_once() {
    for ordering in ["bucketed_random", "fifo", "random"] {
        let mut house = fleet(json!({"heartbeat_ttl_s": 20, "paused": true, "ordering": ordering}));
        let mut visitors = Vec::new();
        for n in 0..8 {
            visitors.push(queues_at(&mut house, n % NODES).await);
        }
        // Of who has just arrived less is known.
        house.pass(seconds(3));
        // Five windows.
        for turn in 0..50 {
            for (n, visitor) in visitors.iter_mut().enumerate() {
                let answer = polls_at(&mut house, turn + n, visitor).await;
                let StatusAnswer::Waiting(waiting) = answer else { panic!("{answer:?}") };
                assert!(waiting.estimate.position.1 <= 8, "{ordering}: {:?}", waiting.estimate.position);
            }
            house.pass(seconds(1));
            assert_eq!(house.waiting(), 8, "{ordering}: in turn {turn}");
        }
        let line = &house.state.events[&house.event].line;
        assert_eq!(line.waiting(), 8, "{ordering}: by the log");
        for (n, visitor) in visitors.iter().enumerate() {
            let (desk, event) = (house.at(n), house.event.clone());
            house.wait(desk.leave(&event, &[visitor.place.as_deref().unwrap()], &[])).await;
            house.pass(seconds(1));
            assert_eq!(house.waiting() as usize, 7 - n, "{ordering}");
        }
    }
}

#[tokio::test]
async fn a_called_visitor_who_comes_to_another_node_each_time_counts_once() {
    let mut house = fleet(json!({"heartbeat_ttl_s": 45}));
    let held = enters_at(&mut house, 0).await;
    let mut visitors = Vec::new();
    for n in 0..6 {
        visitors.push(queues_at(&mut house, n % NODES).await);
    }
    let mut held = held;
    for turn in 0..60 {
        held = shows_at(&mut house, turn, &held).await.unwrap();
        for (n, visitor) in visitors.iter_mut().enumerate() {
            let desk = house.at(turn + n);
            let (event, shown) = (house.event.clone(), visitor.place.clone().unwrap());
            // Nobody holds on for an answer that another visitor waits for here.
            if let StatusAnswer::Waiting(waiting) = desk.status(&event, &shown, Attendance::Holding).await {
                visitor.place = Some(waiting.ticket.clone());
            }
        }
        house.pass(seconds(1));
        assert!(house.waiting() <= 6, "{} in turn {turn}", house.waiting());
    }
}

/// From the end of its session, not from when the unused pass would have ended.
#[tokio::test]
async fn a_slot_comes_back_wherever_its_pass_was_used_last() {
    let mut house = fleet(json!({"pass_claim_s": 120}));
    for first in 0..NODES {
        let pass = enters_at(&mut house, first).await;
        let pass = shows_at(&mut house, first + 1, &pass).await.unwrap();
        house.pass(seconds(5));
        let pass = shows_at(&mut house, first + 2, &pass).await.unwrap();
        house.pass(seconds(2));
        assert!(shows_at(&mut house, first + 1, &pass).await.is_some(), "renewed by now");
        assert_eq!(house.occupied(), 1);
        house.pass(seconds(12));
        assert_eq!(house.occupied(), 0, "minted at {first}");
        assert!(shows_at(&mut house, first, &pass).await.is_none());
    }
}

#[tokio::test]
async fn who_leaves_at_another_node_gives_the_slot_back_at_once() {
    let mut house = fleet(json!({"pass_claim_s": 120}));
    for first in 0..NODES {
        let minted = enters_at(&mut house, first).await;
        let used = shows_at(&mut house, first + 1, &minted).await.unwrap();
        let (desk, event) = (house.at(first + 2), house.event.clone());
        house.wait(desk.leave(&event, &[], &[&used.token])).await;
        house.pass(seconds(1));
        assert_eq!(house.occupied(), 0, "minted at {first}");
        for node in 0..NODES {
            assert!(shows_at(&mut house, node, &minted).await.is_none());
        }
    }
}

/// Of one ticket, whatever its cookie is shown to at once.
#[tokio::test]
async fn a_race_of_one_ticket_at_every_node_yields_one_pass_and_one_slot() {
    for seed in 0..40_u64 {
        let mut house = fleet(json!({"capacity": 5, "paused": true}));
        let visitor = queues_at(&mut house, usize::try_from(seed).unwrap() % NODES).await;
        house.pass(seconds(2));
        house.patch(json!({"paused": false}));
        // It is called meanwhile, and some nodes may have slots in hand.
        house.drift(std::time::Duration::from_millis(seed * 13));
        let token = visitor.place.unwrap();
        let mut passes: Vec<IssuedPass> = Vec::new();
        for round in 0..6 {
            let mut polls = tokio::task::JoinSet::new();
            for n in 0..4 * NODES {
                let (desk, event, token) = (house.at(n + round), house.event.clone(), token.clone());
                polls.spawn(async move { desk.status(&event, &token, Attendance::Asking).await });
            }
            for answer in house.wait(polls.join_all()).await {
                match answer {
                    StatusAnswer::Admitted(pass) => passes.push(pass),
                    StatusAnswer::Waiting(_) => {}
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            house.pass(std::time::Duration::from_millis(100 + seed * 7));
        }
        let ids: std::collections::BTreeSet<TicketId> = passes.iter().map(|pass| pass.id).collect();
        assert_eq!(ids.len(), 1, "seed {seed}: {ids:?}");
        house.pass(seconds(3));
        assert_eq!(house.occupied(), 1, "seed {seed}");
        for node in 0..NODES {
            assert!(shows_at(&mut house, node, &passes[0]).await.is_some(), "seed {seed}");
        }
        assert_eq!(house.occupied(), 1, "seed {seed}");
        house.pass(seconds(13));
        assert_eq!(house.occupied(), 0, "seed {seed}: one session, however many nodes minted it");
        let again = Arc::clone(&house.at(1));
        let answer = house.wait(again.status(&house.event.clone(), &token, Attendance::Asking)).await;
        assert!(
            matches!(answer, StatusAnswer::Ended(_)),
            "seed {seed}: one ticket buys one session: {answer:?}"
        );
    }
}

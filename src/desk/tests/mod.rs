//! A node's contract with its visitors (design §2), held against the real leader and ledger.

mod counted;
mod ends;
mod house;
mod neighbours;
mod places;
mod roaming;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::json;

use super::{Attendance, ExpressAnswer, ExpressKind, JoinAnswer, PassAnswer, StatusAnswer};
use crate::model::edge::{Ending, Phase};
use crate::model::ledger::ChangeKind;
use house::{House, Visitor};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A room for one, where credit is never short.
fn room_for_one() -> House {
    House::new(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "pass_claim_s": 10, "session_ttl_s": 60,
        "heartbeat_ttl_s": 30,
    }))
}

#[tokio::test]
async fn newcomers_go_straight_in_until_the_room_is_full() {
    let mut house = House::new(json!({ "capacity": 3, "max_admit_per_sec": 100 }));
    for _ in 0..3 {
        house.enters().await;
    }
    let mut late = house.queues().await;
    house.pass(seconds(5));
    let waiting = house.polls_in_line(&mut late).await;
    assert_eq!(waiting.phase, Phase::Queueing);
    assert_eq!((house.occupied(), house.waiting()), (3, 1));
}

#[tokio::test]
async fn a_lowered_capacity_recalls_what_is_in_hand() {
    let mut house = House::new(json!({ "capacity": 60, "max_admit_per_sec": 100 }));
    let in_hand = |house: &House| house.occupied() - house.desk.figures().events[0].live_passes;
    // Where newcomers come fast, slots are handed out ahead of them.
    for turn in 0.. {
        assert!(turn < 40, "nothing was handed out ahead");
        house.express(ExpressKind::AtThePage).await;
        house.round();
        if in_hand(&house) > 0 {
            break;
        }
    }
    house.patch(json!({ "capacity": 1 }));
    let desk = house.desk.event_desk(&house.event).unwrap();
    assert_eq!(desk.slots().edge.in_hand(), None);
    house.round();
    assert_eq!(in_hand(&house), 0, "they came back at once");
}

#[tokio::test]
async fn one_seat_makes_one_ticket_however_often_it_is_shown() {
    let mut house = room_for_one();
    house.enters().await;
    let desk = std::sync::Arc::clone(&house.desk);
    let event = house.event.clone();
    let seat = desk.seat_token(&event).unwrap();
    let both = async { tokio::join!(desk.join(&event, Some(&seat)), desk.join(&event, Some(&seat))) };
    let (first, second) = house.wait(both).await;
    let third = house.wait(desk.join(&event, Some(&seat))).await;
    let ids: Vec<_> = [first, second, third]
        .into_iter()
        .map(|answer| match answer {
            JoinAnswer::Waiting(waiting) => waiting.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    house.pass(seconds(2));
    assert_eq!(house.waiting(), 1);
}

#[tokio::test]
async fn a_ticket_joins_as_itself_and_asking_twice_gives_one_pass() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    let again = house.join(&mut visitor).await;
    assert!(matches!(again, JoinAnswer::Waiting(_)), "{again:?}");
    house.leaves(&inside).await;
    let ticket = visitor.place.clone();
    let pass = house.polls_until_admitted(&mut visitor).await;
    let same = house.poll(&mut visitor).await;
    assert!(matches!(&same, StatusAnswer::Admitted(other) if other.token == pass.token), "{same:?}");
    house.pass(seconds(1));
    let mut twin = Visitor { place: ticket, pass: None };
    let same = house.join(&mut twin).await;
    assert!(matches!(&same, JoinAnswer::Admitted(other) if other.token == pass.token), "{same:?}");
    assert_eq!(house.occupied(), 1);
}

#[tokio::test]
async fn a_first_use_makes_a_session_and_leaving_frees_its_slot() {
    let mut house = room_for_one();
    let visitor = house.enters().await;
    let pass = visitor.pass.clone().unwrap();
    let PassAnswer::Valid { expires, renewed, .. } = house.shows(&pass).await else {
        panic!("not let through")
    };
    assert!(expires > house.now().after(seconds(55)), "the session lives by its idle time");
    let newer = renewed.unwrap();
    assert!(newer.expires == expires && house.is_let_through(&newer).await);
    let mut next = house.queues().await;
    house.leaves(&visitor).await;
    assert!(!house.is_let_through(&pass).await);
    assert!(!house.is_let_through(&newer).await);
    house.polls_until_admitted(&mut next).await;
}

#[tokio::test]
async fn a_turn_not_taken_comes_once_more_and_no_third_time() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.leaves(&inside).await;
    let first = house.polls_until_admitted(&mut visitor).await;
    house.pass(seconds(12));
    let second = house.polls_until_admitted(&mut visitor).await;
    assert_eq!(first.id, second.id);
    assert!(!house.is_let_through(&first).await);
    house.pass(seconds(12));
    let third = house.poll(&mut visitor).await;
    assert!(matches!(third, StatusAnswer::Ended(Ending::MissedTurn)), "{third:?}");
    assert_eq!(house.occupied(), 0);
}

#[tokio::test]
async fn a_turn_taken_at_the_second_chance_ends_as_a_session_does() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.leaves(&inside).await;
    house.polls_until_admitted(&mut visitor).await;
    house.pass(seconds(12));
    let pass = house.polls_until_admitted(&mut visitor).await;
    assert!(house.is_let_through(&pass).await);
    house.pass(seconds(62));
    let answer = house.poll(&mut visitor).await;
    assert!(matches!(answer, StatusAnswer::Ended(Ending::Used)), "{answer:?}");
}

#[tokio::test]
async fn a_session_that_is_over_here_but_not_in_the_ledger_makes_no_second_pass() {
    let mut house = House::new(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "session_ttl_s": 20, "heartbeat_ttl_s": 90,
    }));
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.patch(json!({ "capacity": 50 }));
    let pass = house.polls_until_admitted(&mut visitor).await;
    let PassAnswer::Valid { expires, .. } = house.shows(&pass).await else { panic!("not let through") };
    house.leaves(&inside).await;
    while house.now() < expires.before(seconds(3)) {
        house.pass(seconds(1));
    }
    for _ in 0..20 {
        house.enters().await;
    }
    house.pass(expires.before(Duration::from_millis(40)).since(house.now()));
    let desk = std::sync::Arc::clone(&house.desk);
    let in_hand = desk.event_desk(&house.event).unwrap().slots().edge.available(desk.clock.boot());
    assert!(in_hand > 0, "there is something to mint from");
    house.drift(Duration::from_millis(39));
    assert!(desk.now() >= expires && house.now() < expires);
    let before = house.minted();
    let answer = house.poll(&mut visitor).await;
    assert!(matches!(answer, StatusAnswer::Waiting(_) | StatusAnswer::Ended(Ending::Used)), "{answer:?}");
    assert_eq!(house.minted(), before);
}

#[tokio::test]
async fn one_ticket_buys_one_session_also_at_the_moment_of_its_end() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.leaves(&inside).await;
    let pass = house.polls_until_admitted(&mut visitor).await;
    assert!(house.is_let_through(&pass).await);
    let mut ended = None;
    for _ in 0..1_200 {
        house.pass(Duration::from_millis(55));
        match house.poll(&mut visitor).await {
            StatusAnswer::Admitted(same) => assert!(same.id == pass.id && ended.is_none()),
            // The edge's clock is ahead of the ledger's by a moment.
            StatusAnswer::Waiting(_) => {}
            StatusAnswer::Ended(reason) => ended = Some(reason),
            other => panic!("{other:?}"),
        }
        if ended.is_some() {
            break;
        }
    }
    assert_eq!(ended, Some(Ending::Used));
    house.pass(seconds(3));
    assert_eq!(house.occupied(), 0, "no second pass was minted");
}

#[tokio::test]
async fn who_stays_away_loses_the_place_and_is_told() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    house.is_let_through(inside.pass.as_ref().unwrap()).await;
    let (mut stays, mut goes) = (house.queues().await, house.queues().await);
    for _ in 0..6 {
        house.pass(seconds(10));
        house.polls_in_line(&mut stays).await;
        house.is_let_through(inside.pass.as_ref().unwrap()).await;
    }
    let answer = house.poll(&mut goes).await;
    assert!(matches!(answer, StatusAnswer::Ended(Ending::MissedHeartbeat)), "{answer:?}");
}

#[tokio::test]
async fn without_a_leader_nobody_is_admitted_and_nobody_loses_a_place() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let pass = inside.pass.clone().unwrap();
    let PassAnswer::Valid { renewed: Some(pass), .. } = house.shows(&pass).await else {
        panic!("no session")
    };
    let mut visitor = house.queues().await;
    house.leads = false;
    house.pass(seconds(20));
    assert!(house.is_let_through(&pass).await, "a session goes on");
    let waiting = house.polls_in_line(&mut visitor).await;
    assert_eq!(waiting.phase, Phase::Frozen);
    house.pass(seconds(100));
    let waiting = house.polls_in_line(&mut visitor).await;
    assert_eq!(waiting.phase, Phase::Frozen);
    assert!(!house.is_let_through(&pass).await, "and ends by itself");
    let newcomer = house.queues().await;
    house.leads = true;
    house.pass(seconds(2));
    let mut newcomer = newcomer;
    let waiting = house.poll(&mut newcomer).await;
    assert!(matches!(waiting, StatusAnswer::Waiting(_) | StatusAnswer::Admitted(_)), "{waiting:?}");
}

#[tokio::test]
async fn a_pause_holds_the_door_but_not_the_places() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.patch(json!({ "paused": true }));
    house.leaves(&inside).await;
    for _ in 0..5 {
        let waiting = house.polls_in_line(&mut visitor).await;
        assert_eq!(waiting.phase, Phase::Paused);
        house.pass(seconds(1));
    }
    house.patch(json!({ "paused": false }));
    house.polls_until_admitted(&mut visitor).await;
}

#[tokio::test]
async fn a_reset_ends_tickets_and_seats_but_no_session() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let pass = inside.pass.clone().unwrap();
    assert!(house.is_let_through(&pass).await);
    let seat = house.desk.seat_token(&house.event).unwrap();
    let mut visitor = Visitor { place: Some(seat.clone()), pass: None };
    house.join(&mut visitor).await;
    house.change(ChangeKind::Reset);
    house.pass(seconds(1));
    let answer = house.poll(&mut visitor).await;
    assert!(matches!(answer, StatusAnswer::Ended(Ending::Reset)), "{answer:?}");
    assert!(house.is_let_through(&pass).await);
    let mut again = Visitor { place: Some(seat), pass: None };
    let answer = house.join(&mut again).await;
    let JoinAnswer::Waiting(waiting) = answer else { panic!("{answer:?}") };
    assert_eq!(waiting.turn, None, "the old line's key would be called at once");
}

#[tokio::test]
async fn requests_of_one_address_share_one_pass_also_when_they_wait_together() {
    let mut house = House::new(json!({ "capacity": 10, "max_admit_per_sec": 100 }));
    let desk = std::sync::Arc::clone(&house.desk);
    let event = house.event.clone();
    let kind = ExpressKind::PerAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let both = async { tokio::join!(desk.express(&event, kind), desk.express(&event, kind)) };
    let (ExpressAnswer::Admitted(first), ExpressAnswer::Admitted(second)) = house.wait(both).await else {
        panic!("not admitted")
    };
    let ExpressAnswer::Admitted(third) = house.express(kind).await else { panic!("not admitted") };
    assert!(first.id == second.id && second.id == third.id);
    house.pass(seconds(2));
    assert_eq!(house.occupied(), 1);
    assert!(house.is_let_through(&first).await);
}

#[tokio::test]
async fn a_crash_loses_no_place_no_session_and_no_slot() {
    let mut house = House::new(json!({
        "capacity": 2, "max_admit_per_sec": 100, "ordering": "fifo", "session_ttl_s": 600, "heartbeat_ttl_s": 30,
    }));
    let (used, unused) = (house.enters().await, house.enters().await);
    let used_pass = used.pass.clone().unwrap();
    assert!(house.is_let_through(&used_pass).await);
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(house.queues().await);
    }
    house.pass(seconds(1));
    house.restart();
    assert!(house.is_let_through(&used_pass).await);
    assert!(house.is_let_through(unused.pass.as_ref().unwrap()).await);
    for visitor in &mut line {
        assert!(house.polls_in_line(visitor).await.turn.is_none(), "nobody is called by a restart");
    }
    assert_eq!(house.occupied(), 2);
    house.leaves(&used).await;
    let mut admitted = Vec::new();
    for _ in 0..10 {
        for (number, visitor) in line.iter_mut().enumerate() {
            if let StatusAnswer::Admitted(_) = house.poll(visitor).await
                && !admitted.contains(&number)
            {
                admitted.push(number);
            }
        }
        house.pass(seconds(1));
    }
    assert_eq!(admitted, [0], "one slot came free, and the first in line has it");
}

#[tokio::test]
async fn a_held_turn_takes_no_slot_and_ends_in_time() {
    let mut house = House::new(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "claim_hold_s": 60, "pass_claim_s": 10,
        "heartbeat_ttl_s": 90,
    }));
    let inside = house.enters().await;
    let mut visitor = house.queues().await;
    house.leaves(&inside).await;
    let mut told = None;
    let mut ended = None;
    for _ in 0..20 {
        match house.poll_as(&mut visitor, Attendance::Holding).await {
            StatusAnswer::Waiting(waiting) => told = told.or(waiting.turn),
            StatusAnswer::Ended(reason) => {
                ended = Some(reason);
                break;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(house.occupied(), 0);
        house.pass(seconds(5));
    }
    assert!(told.is_some());
    assert_eq!(ended, Some(Ending::MissedTurn));
}

#[tokio::test]
async fn a_full_line_and_a_closed_event_take_nobody() {
    let mut house = House::new(json!({ "capacity": 1, "max_admit_per_sec": 100, "queue_limit": 1 }));
    house.enters().await;
    house.queues().await;
    house.pass(seconds(1));
    let answer = house.join(&mut Visitor::default()).await;
    assert!(matches!(answer, JoinAnswer::Refused(Phase::Full)), "{answer:?}");
    house.patch(json!({ "mode": "closed" }));
    let answer = house.join(&mut Visitor::default()).await;
    assert!(matches!(answer, JoinAnswer::Refused(Phase::Closed)), "{answer:?}");
}

#[tokio::test]
async fn tokens_of_nobody_open_nothing() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let pass = inside.pass.unwrap();
    let mut forged = pass.clone();
    forged.token = pass.token.replacen(|c: char| c.is_ascii_lowercase(), "A", 1);
    assert!(!house.is_let_through(&forged).await);
    let mut liar = Visitor { place: Some(pass.token), pass: None };
    let answer = house.poll(&mut liar).await;
    assert!(matches!(answer, StatusAnswer::Invalid), "a pass is no ticket: {answer:?}");
    let mut queued = house.queues().await;
    let ticket = queued.place.take().unwrap();
    forged.token = ticket;
    assert!(!house.is_let_through(&forged).await, "a ticket is no pass");
}

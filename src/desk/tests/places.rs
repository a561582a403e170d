//! What visitors are told of their place, and which places are over.

use std::time::Duration;

use serde_json::json;

use super::house::{House, Visitor};
use super::{room_for_one, seconds};
use crate::desk::{Attendance, Carried, JoinAnswer, StatusAnswer, Waiting};
use crate::model::edge::{Ending, Phase};
use crate::model::ids::TicketId;

/// One session that stays, so that nobody is called.
async fn full_house(policy: serde_json::Value) -> House {
    let mut house = House::new(policy);
    let inside = house.enters().await;
    assert!(house.is_let_through(inside.pass.as_ref().unwrap()).await);
    house
}

async fn joins(house: &mut House, visitor: &mut Visitor) -> Box<Waiting> {
    match house.join(visitor).await {
        JoinAnswer::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

/// Joins of so many newcomers one after the other, and what each was told.
async fn crowd(house: &mut House, size: usize) -> (Vec<Visitor>, Vec<(u32, u32)>) {
    let (mut visitors, mut told) = (Vec::new(), Vec::new());
    for _ in 0..size {
        let mut visitor = Visitor::default();
        told.push(joins(house, &mut visitor).await.estimate.position);
        visitors.push(visitor);
    }
    (visitors, told)
}

/// What each is told now.
async fn places(house: &mut House, visitors: &mut [Visitor]) -> Vec<(u32, u32)> {
    let mut places = Vec::new();
    for visitor in visitors {
        places.push(house.polls_in_line(visitor).await.estimate.position);
    }
    places
}

/// No more visitors are promised a place among the first so many than there are places.
fn assert_kept(places: &[(u32, u32)]) {
    for most in 1..=u32::try_from(places.len()).unwrap() {
        let promised = places.iter().filter(|(_, upper)| *upper <= most).count();
        assert!(promised <= most as usize, "{promised} are promised one of {most} places: {places:?}");
    }
}

#[tokio::test]
async fn who_joins_an_open_bucket_first_is_told_the_whole_of_it_and_promised_a_place_when_it_has_closed() {
    let mut house = full_house(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "bucketed_random", "bucket_seconds": 20,
    }))
    .await;
    let (mut visitors, told) = crowd(&mut house, 50).await;
    for (joined, position) in (1..).zip(&told) {
        assert!(position.0 == 1 && position.1 >= joined, "{joined}: {position:?}");
    }
    house.pass(seconds(2));
    let open = places(&mut house, &mut visitors).await;
    assert!(open.iter().all(|position| position.0 == 1 && position.1 >= 50), "{open:?}");
    let mut progress = 0.0;
    let mut last: Option<Vec<(u32, u32)>> = None;
    for _ in 0..12 {
        house.pass(seconds(2));
        let waiting = house.polls_in_line(&mut visitors[0]).await;
        assert!(waiting.estimate.progress >= progress);
        progress = waiting.estimate.progress;
    }
    for _ in 0..4 {
        house.pass(seconds(2));
        let closed = places(&mut house, &mut visitors).await;
        assert_kept(&closed);
        assert!(closed.iter().any(|position| position.1 < 25), "an order is told: {closed:?}");
        if let Some(last) = last {
            assert!(last.iter().zip(&closed).all(|(before, now)| now.1 <= before.1), "{last:?} {closed:?}");
        }
        last = Some(closed);
    }
}

#[tokio::test]
async fn arrivals_between_two_reports_are_not_all_told_the_same_place() {
    let mut house = full_house(json!({ "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo" })).await;
    house.queues().await;
    house.pass(seconds(3));
    let (mut visitors, told) = crowd(&mut house, 40).await;
    for (joined, position) in (2..).zip(&told) {
        assert!(position.1 >= joined, "{joined}: {position:?}");
    }
    house.pass(seconds(5));
    assert_kept(&places(&mut house, &mut visitors).await);
}

#[tokio::test]
async fn ten_in_a_prequeue_are_each_one_of_ten_until_the_lottery_is_drawn() {
    let mut house = House::new(json!({
        "capacity": 1, "max_admit_per_sec": 1,
        "schedule": { "prequeue_at": "2027-01-15T08:00:00Z", "opens_at": "2027-01-15T08:01:00Z" },
    }));
    let (mut visitors, told) = crowd(&mut house, 10).await;
    assert_eq!(told[9], (1, 10));
    house.pass(seconds(20));
    assert_eq!(house.polls_in_line(&mut visitors[0]).await.phase, Phase::Prequeue);
    assert!(places(&mut house, &mut visitors).await.iter().all(|position| *position == (1, 10)));
    house.patch(json!({ "paused": true }));
    house.pass(seconds(45));
    let drawn = places(&mut house, &mut visitors).await;
    assert_kept(&drawn);
    assert!(
        drawn.iter().any(|position| position.1 < 10) && drawn.iter().any(|position| position.0 > 1),
        "{drawn:?}"
    );
}

/// A visitor who joined with a seat, and the seat.
async fn seated(house: &mut House) -> (Visitor, Visitor, TicketId) {
    let seat = house.desk.seat_token(&house.event).unwrap();
    let mut visitor = Visitor { place: Some(seat.clone()), pass: None };
    let id = joins(house, &mut visitor).await.id;
    (visitor, Visitor { place: Some(seat), pass: None }, id)
}

#[tokio::test]
async fn a_seat_brings_no_ticket_back_that_missed_its_heartbeat() {
    for polls in [true, false] {
        let mut house = full_house(json!({
            "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "heartbeat_ttl_s": 15,
        }))
        .await;
        let (mut visitor, mut seat, first) = seated(&mut house).await;
        let mut stays = house.queues().await;
        for _ in 0..5 {
            house.pass(seconds(5));
            house.polls_in_line(&mut stays).await;
        }
        if polls {
            let answer = house.poll(&mut visitor).await;
            assert!(matches!(answer, StatusAnswer::Ended(Ending::MissedHeartbeat)), "{answer:?}");
        }
        let again = joins(&mut house, &mut seat).await;
        assert_ne!(again.id, first, "an ended ticket stays ended");
        house.pass(seconds(3));
        let behind = house.polls_in_line(&mut seat).await.estimate.position;
        assert!(behind.1 >= 2, "{behind:?}");
    }
}

#[tokio::test]
async fn a_seat_is_its_ticket_while_that_is_kept_alive() {
    let mut house = full_house(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "heartbeat_ttl_s": 15,
    }))
    .await;
    let (mut visitor, seat, first) = seated(&mut house).await;
    for _ in 0..8 {
        house.pass(seconds(5));
        house.polls_in_line(&mut visitor).await;
        assert_eq!(joins(&mut house, &mut seat.clone()).await.id, first);
    }
}

#[tokio::test]
async fn a_seat_gives_no_second_turn_and_holds_none() {
    let mut house = House::new(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "claim_hold_s": 60, "pass_claim_s": 10,
        "heartbeat_ttl_s": 90,
    }));
    let inside = house.enters().await;
    let (mut visitor, mut seat, first) = seated(&mut house).await;
    house.leaves(&inside).await;
    for _ in 0..40 {
        house.pass(seconds(5));
        match house.poll_as(&mut visitor, Attendance::Holding).await {
            StatusAnswer::Waiting(_) => {}
            StatusAnswer::Ended(Ending::MissedTurn) => break,
            other => panic!("{other:?}"),
        }
    }
    let answer = house.poll_as(&mut visitor, Attendance::Holding).await;
    assert!(matches!(answer, StatusAnswer::Ended(Ending::MissedTurn)), "{answer:?}");
    match house.join(&mut seat).await {
        JoinAnswer::Waiting(waiting) => assert_ne!(waiting.id, first),
        JoinAnswer::Admitted(pass) => assert_ne!(pass.id, first),
        other => panic!("{other:?}"),
    }
    let mut house = room_for_one();
    let inside = house.enters().await;
    let (_, mut seat, first) = seated(&mut house).await;
    house.leaves(&inside).await;
    house.pass(seconds(3));
    let answer = house.join(&mut seat).await;
    assert!(
        matches!(&answer, JoinAnswer::Admitted(pass) if pass.id == first),
        "it takes the turn: {answer:?}"
    );
}

#[tokio::test]
async fn who_has_left_joins_anew_also_before_the_log_knows_of_it() {
    let mut house = full_house(json!({ "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo" })).await;
    let (visitor, mut seat, first) = seated(&mut house).await;
    house.leads = false;
    house.leaves(&visitor).await;
    let again = joins(&mut house, &mut seat).await;
    assert_ne!(again.id, first);
    house.leads = true;
    house.pass(seconds(2));
    let answer = house.poll(&mut visitor.clone()).await;
    assert!(matches!(answer, StatusAnswer::Ended(Ending::Left)), "{answer:?}");
}

#[tokio::test]
async fn what_a_token_is_can_be_told_without_a_heartbeat() {
    let mut house = full_house(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "heartbeat_ttl_s": 15,
    }))
    .await;
    let (visitor, seat, id) = seated(&mut house).await;
    let (desk, event) = (std::sync::Arc::clone(&house.desk), house.event.clone());
    let carried = |visitor: &Visitor| desk.carried(&event, visitor.place.as_ref().unwrap());
    assert_eq!((carried(&seat), carried(&visitor)), (Carried::Seat, Carried::Ticket(id)));
    assert_eq!(desk.carried(&event, "x.y"), Carried::Nothing);
    for _ in 0..10 {
        house.pass(Duration::from_millis(2_500));
        carried(&visitor);
    }
    assert_eq!(carried(&visitor), Carried::Ended(id));
}

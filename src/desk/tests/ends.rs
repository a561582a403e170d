//! How places and sessions end before their time, and who hears of it.

use std::sync::Arc;

use serde_json::json;

use super::house::{House, Visitor};
use super::{room_for_one, seconds};
use crate::desk::{ExpressAnswer, ExpressKind, JoinAnswer, PassAnswer, StatusAnswer};
use crate::model::edge::{Contact, Ending};
use crate::model::ids::{LogIndex, TicketId};
use crate::model::ledger::{Claim, LivePass};
use crate::model::time::FleetTime;

#[tokio::test]
async fn who_leaves_has_no_place_any_more_whatever_is_shown_and_may_join_anew() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    assert!(house.is_let_through(inside.pass.as_ref().unwrap()).await);
    let seat = house.desk.seat_token(&house.event).unwrap();
    let mut visitor = Visitor { place: Some(seat.clone()), pass: None };
    house.join(&mut visitor).await;
    let older = visitor.clone();
    house.pass(seconds(10));
    let first = house.polls_in_line(&mut visitor).await.id;
    house.leaves(&visitor).await;
    for mut ticket in [visitor.clone(), older.clone()] {
        let answer = house.poll(&mut ticket).await;
        assert!(matches!(answer, StatusAnswer::Ended(Ending::Left)), "{answer:?}");
    }
    for place in [older.place, Some(seat)] {
        let mut again = Visitor { place, pass: None };
        let answer = house.join(&mut again).await;
        let JoinAnswer::Waiting(waiting) = answer else { panic!("{answer:?}") };
        assert!(waiting.id != first && house.polls_in_line(&mut again).await.id == waiting.id);
    }
    house.leaves(&inside).await;
    assert_eq!(house.occupied(), 0);
}

#[tokio::test]
async fn who_leaves_while_the_log_takes_nothing_is_gone_here_at_once() {
    let mut house = room_for_one();
    let before = house.enters().await;
    let mut visitor = house.queues().await;
    house.leaves(&before).await;
    let pass = house.polls_until_admitted(&mut visitor).await;
    assert!(house.is_let_through(&pass).await);
    let mut waits = house.queues().await;
    house.leads = false;
    for leaver in [&mut visitor, &mut waits] {
        house.leaves(leaver).await;
        let answer = house.poll(leaver).await;
        assert!(matches!(answer, StatusAnswer::Ended(Ending::Left)), "{answer:?}");
    }
    assert!(!house.is_let_through(&pass).await, "the same answer as once the log knows");
    house.leads = true;
    house.pass(seconds(2));
    assert_eq!(house.occupied(), 0);
}

#[tokio::test]
async fn a_ticket_leaves_once_and_no_flood_of_leaves_reaches_the_log() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    assert!(house.is_let_through(inside.pass.as_ref().unwrap()).await);
    let visitor = house.queues().await;
    house.pass(seconds(5));
    house.leaves(&visitor).await;
    house.pass(seconds(5));
    assert_eq!((house.revoked, house.desk.figures().events[0].left_total), (1, 1));
    let forged = visitor.place.as_ref().map(|token| token.replacen('A', "B", 1));
    for _ in 0..20 {
        house.leaves(&visitor).await;
        house.leaves(&Visitor { place: forged.clone(), pass: None }).await;
    }
    assert_eq!((house.revoked, house.desk.figures().events[0].left_total), (1, 1));
}

#[tokio::test]
async fn an_edge_forgets_ids_when_the_ledger_does() {
    let mut house = House::new(json!({
        "capacity": 1, "max_admit_per_sec": 100, "ordering": "fifo", "session_ttl_s": 60, "session_max_s": 60,
        "ticket_max_s": 60, "heartbeat_ttl_s": 30,
    }));
    let inside = house.enters().await;
    house.leaves(&inside).await;
    let desk = Arc::clone(&house.desk);
    let id = house.event.clone();
    let consumed = || desk.event_desk(&id).unwrap().view().live.consumed_len();
    assert_eq!(consumed(), 1);
    house.pass(seconds(300));
    let event = &house.state.events[&house.event];
    assert_eq!((event.pool.live().consumed_len(), consumed()), (0, 0));
}

#[tokio::test]
async fn a_pass_given_on_the_spot_has_twenty_seconds_from_the_end_of_its_response() {
    let mut house = House::new(json!({ "capacity": 10, "max_admit_per_sec": 100, "pass_claim_s": 120 }));
    let (mut passes, event) = (Vec::new(), house.event.clone());
    for _ in 0..3 {
        let answer = house.express(ExpressKind::OnTheSpot).await;
        let ExpressAnswer::Admitted(pass) = answer else { panic!("{answer:?}") };
        passes.push(pass);
    }
    house.pass(seconds(40));
    assert_eq!(house.occupied(), 3, "responses are under way");
    passes[..2].iter().for_each(|pass| house.desk.response_ended(&event, pass.id));
    house.pass(seconds(18));
    assert!(house.is_let_through(&passes[0]).await);
    house.pass(seconds(4));
    assert_eq!(house.occupied(), 2, "one is in use, one was not presented, one response goes on");
    assert!(house.is_let_through(&passes[0]).await && !house.is_let_through(&passes[1]).await);
    assert!(house.desk.is_settled());
    house.pass(seconds(70));
    assert_eq!(house.occupied(), 1, "it lives no longer than any unused pass");
}

/// What an open WebSocket waits for.
fn watch(house: &House, id: TicketId, expires: FleetTime) -> tokio::task::JoinHandle<()> {
    let (desk, event) = (Arc::clone(&house.desk), house.event.clone());
    tokio::spawn(async move { desk.pass_ended(&event, id, expires).await })
}

#[tokio::test]
async fn what_is_open_hears_of_the_end_of_its_pass_and_keeps_its_session_alive_until_then() {
    let mut house = room_for_one();
    let inside = house.enters().await;
    let pass = inside.pass.clone().unwrap();
    let PassAnswer::Valid { id, expires, .. } = house.shows(&pass).await else { panic!("not let through") };
    house.pass(seconds(30));
    let watch = watch(&house, id, expires);
    for _ in 0..10 {
        house.pass(seconds(1));
        tokio::task::yield_now().await;
    }
    let live = house.state.events[&house.event].pool.live().pass(id).copied();
    assert!(live.unwrap().expires > expires, "it counts as activity");
    assert!(!watch.is_finished());
    house.leaves(&inside).await;
    tokio::time::timeout(seconds(20), watch).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pass_honoured_by_signature_alone_keeps_open_what_it_opened_until_the_leader_says_otherwise() {
    let mut house = room_for_one();
    let event = house.desk.event_desk(&house.event).unwrap();
    let inside = house.enters().await.pass.unwrap();
    house.is_let_through(&inside).await;
    let known = *event.view().live.pass(inside.id).unwrap();
    let claim = Claim { started: house.now(), index: LogIndex(house.state.index.0 + 50) };
    let id = TicketId { sequence: 999, ..inside.id };
    let unheard_of = LivePass { claim: Some(claim), ..known };
    let pass = house.desk.issue_live(&event, id, &unheard_of).unwrap();
    house.leads = false;
    house.drift(seconds(30));
    assert_eq!(house.desk.contact(), Contact::CutOff);
    let PassAnswer::Valid { expires, .. } = house.shows(&pass).await else { panic!("not let through") };
    let watch = watch(&house, id, expires);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!watch.is_finished());
    house.leads = true;
    house.pass(seconds(1));
    tokio::time::timeout(seconds(20), watch).await.unwrap().unwrap();
}

//! What a node tells of itself, and what it makes of what others tell.

use std::num::NonZeroU16;

use serde_json::json;

use super::House;
use crate::desk::{Life, Neighbour};
use crate::model::exchange::EdgeStage;
use crate::model::ids::{Generation, LineEpoch, NodeId, NodeRun, Term};
use crate::model::order::OrderKey;
use crate::model::tidings::{Tidings, Totals};

fn neighbour(event: &str, line: u32, watermark: u64) -> Neighbour {
    let totals = Totals { line: LineEpoch(line), watermark: OrderKey(watermark), ..Totals::default() };
    let events = [(event.parse().unwrap(), totals)].into();
    let tidings = Tidings { stage: EdgeStage::Serving, version: "9.9.9".to_owned(), leads: None, events };
    let run = NodeRun { node: NodeId(NonZeroU16::new(7).unwrap()), generation: Generation(3) };
    Neighbour { run, at: ([10, 0, 0, 7], 7946).into(), life: Life::Alive, tidings: Some(tidings) }
}

#[tokio::test]
async fn a_node_tells_who_came_who_waits_and_who_was_let_in() {
    let mut house = House::new(json!({ "capacity": 2, "max_admit_per_sec": 100 }));
    house.enters().await;
    house.enters().await;
    house.queues().await;
    house.queues().await;
    house.queues().await;
    house.round();
    let told = house.desk.tidings();
    let totals = told.events[&house.event];
    assert_eq!((totals.joined, totals.waiting, totals.admitted, totals.live_passes), (5, 3, 2, 2));
    assert_eq!((told.stage, told.leads), (EdgeStage::Serving, None));
    house.desk.set_leads(Some(Term(4)));
    house.desk.set_stage(EdgeStage::Draining);
    let told = house.desk.tidings();
    assert_eq!((told.stage, told.leads), (EdgeStage::Draining, Some(Term(4))));
}

#[test]
fn the_greatest_watermark_that_was_heard_of_never_goes_back() {
    let house = House::new(json!({ "capacity": 2, "max_admit_per_sec": 100 }));
    let greatest = || house.desk.greatest_watermark(&house.event);
    assert_eq!(greatest(), None);
    let (line, own) = house.desk.figures().events.first().map(|event| (0, event.watermark.0)).unwrap();
    house.desk.meet(Vec::new());
    assert_eq!(greatest().unwrap().1, OrderKey(own), "a node that is alone goes by its own");
    house.desk.meet(vec![neighbour("tour", line, own + 500)]);
    house.desk.meet(vec![neighbour("tour", line, own + 400), neighbour("elsewhere", line, 1)]);
    assert_eq!(greatest(), Some((LineEpoch(line), OrderKey(own + 500))));
    house.desk.meet(vec![neighbour("tour", line + 1, 3)]);
    assert_eq!(greatest(), Some((LineEpoch(line + 1), OrderKey(3))), "a new line begins anew");
    let told = house.desk.describe_gossip();
    assert_eq!(told["watermarks"], json!({ "tour": 3 }), "of events that this node knows");
    assert_eq!(told["neighbours"][0]["version"], "9.9.9");
    assert_eq!(told["neighbours"][0]["events"]["tour"]["line"], 1);
}

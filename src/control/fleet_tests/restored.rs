//! A fleet that goes on from one controller, and those that it had lost.

use std::collections::BTreeSet;

use super::super::restore;
use super::*;
use crate::desk::{Activity, PassAnswer};

impl Fleet {
    /// Restores the fleet at node 1, which does not run: nodes 2 and 3 are lost.
    async fn restore(&self) {
        let data_dir = self.dir.path().join("1");
        let restored = move || restore(&data_dir, node(1), &BTreeSet::from([node(2), node(3)]));
        tokio::task::spawn_blocking(restored).await.unwrap().unwrap();
    }

    async fn add(&self, id: u16) {
        let add = FleetDeed::AddController { node: node(id), address: self.controllers[&node(id)].clone() };
        until("it is added", async || self.deed(1, add.clone()).await.is_ok()).await;
    }

    /// Somebody comes to an edge and is let in.
    async fn admit(&self, edge: u16) -> String {
        let desk = self.desk(edge);
        let mut ticket = None;
        let mut pass = None;
        let is_in = async || {
            match (desk.join(&event(), ticket.as_deref()).await, &ticket) {
                (JoinAnswer::Admitted(issued), _) => pass = Some(issued.token),
                (JoinAnswer::Waiting(place), None) => ticket = Some(place.ticket),
                (JoinAnswer::Waiting(_), Some(known)) => {
                    match desk.status(&event(), known, Attendance::Asking).await {
                        StatusAnswer::Waiting(again) => ticket = Some(again.ticket),
                        StatusAnswer::Admitted(issued) => pass = Some(issued.token),
                        StatusAnswer::Unavailable(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
                (JoinAnswer::Retry(_), _) => {}
                (other, _) => panic!("{other:?}"),
            }
            pass.is_some()
        };
        until("somebody is let in", is_in).await;
        pass.unwrap()
    }

    /// What a pass opens at an edge: the token for the next request, or nothing.
    async fn opened(&self, edge: u16, pass: &str) -> Option<String> {
        match self.desk(edge).check_pass(&event(), &[pass], Activity::Navigation).await {
            PassAnswer::Valid { renewed, .. } => {
                Some(renewed.map_or_else(|| pass.to_owned(), |issued| issued.token))
            }
            PassAnswer::None => None,
            PassAnswer::Unavailable(_) => panic!("the edge cannot tell"),
        }
    }

    async fn occupied(&self) -> u64 {
        let told = self.desk(1).control().unwrap().describe(event()).await.unwrap();
        told["slots"]["occupied"].as_u64().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_controller_that_comes_back_makes_no_majority_with_one_that_was_added_anew() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    fleet.stop(1).await;
    // The others go on, by a leader and in a term that node 1 never hears of.
    fleet.put(2, 20).await;
    fleet.stop(2).await;
    fleet.stop(3).await;
    fleet.restore().await;

    fleet.restart(3).await;
    fleet.restart(1).await;
    until("node 1 leads alone", async || fleet.leader(1).await == Some(1)).await;
    assert_eq!(fleet.voters(1).await, [1]);
    fleet.until_refused(1, Refusal::Lost, 1).await;
    fleet.restart_wiped(2).await;
    fleet.until_refused(2, Refusal::EmptyLog, 1).await;
    fleet.add(2).await;
    // It asks node 2 too, with whom it was a majority of the fleet that is gone.
    fleet.until_refused(2, Refusal::Lost, 1).await;
    assert_eq!(fleet.voters(1).await, [1, 2]);
    fleet.put(1, 30).await;
    assert_eq!(fleet.leader(3).await.filter(|leader| *leader != 1), None);

    fleet.stop(3).await;
    fleet.restart_wiped(3).await;
    fleet.add(3).await;
    fleet.put(3, 40).await;
    fleet.stop(1).await;
    fleet.put(2, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_only_lost_controllers_knew_of_is_over_at_an_edge_that_never_ended() {
    let mut fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 2).await;
    let known = fleet.admit(4).await;
    let known = fleet.opened(4, &known).await.unwrap();
    fleet.stop(1).await;
    fleet.all_fresh().await;
    let unknown = fleet.admit(4).await;
    let unknown = fleet.opened(4, &unknown).await.unwrap();
    until("its first use is known", async || fleet.opened(4, &unknown).await.is_some()).await;
    fleet.stop(2).await;
    fleet.stop(3).await;
    fleet.restore().await;
    fleet.restart(1).await;
    let hears_it = async || {
        let (leader, _) = fleet.desk(4).report().pulse_seen.unwrap();
        leader.term.election() > 1 << 32
    };
    until("the edge hears the restored fleet", hears_it).await;
    fleet.all_fresh().await;

    assert!(fleet.opened(4, &known).await.is_some());
    assert_eq!(fleet.opened(4, &unknown).await, None);
    // Its slot is free for somebody else, and there is no third one.
    let next = fleet.admit(4).await;
    assert!(fleet.opened(4, &next).await.is_some());
    assert_eq!(fleet.opened(4, &unknown).await, None);
    assert_eq!(fleet.occupied().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_are_held_back_for_a_silent_node_are_told_with_what_to_do_and_come_back_when_it_is_expelled()
 {
    let mut fleet = Fleet::new(1, 2).await;
    fleet.found().await;
    fleet.put(1, 2).await;
    let pass = fleet.admit(2).await;
    let pass = fleet.opened(2, &pass).await.unwrap();
    until("its first use is known", async || fleet.opened(3, &pass).await.is_some()).await;
    fleet.stop(3).await;
    fleet.desk(2).leave(&event(), &[], &[&pass]).await;
    until("somebody is told", async || {
        let told = fleet.deed(1, FleetDeed::Look).await.unwrap();
        let mut warnings = told["warnings"].as_array().unwrap().iter().map(|told| told.as_str().unwrap());
        warnings.any(|told| told.starts_with("slots held back: 1, since node 3 is not heard"))
    })
    .await;
    assert_eq!(fleet.occupied().await, 1);
    let is_expelled = async || fleet.deed(1, FleetDeed::Expel { node: node(3) }).await.is_ok();
    until("the node is expelled", is_expelled).await;
    until("its slots are back", async || fleet.occupied().await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_controllers_that_were_only_out_of_sight_are_refused_told_of_and_heard_by_no_edge_of_ours() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    fleet.stop(1).await;
    fleet.restore().await;
    // The others never ended, and lead each other.
    fleet.put(2, 20).await;
    fleet.restart(1).await;
    until("node 1 leads alone", async || fleet.leader(1).await == Some(1)).await;
    fleet.until_refused(1, Refusal::Lost, 2).await;
    assert_eq!(fleet.voters(1).await, [1]);
    let capacity = |id| fleet.desk(id).event(&event()).map(|event| event.policy.capacity.get());
    until("node 1 goes by its own log", async || capacity(1) == Some(10)).await;
    for id in [2, 3] {
        assert_eq!(capacity(id), Some(20));
    }
    // They end, as they should have, and are added anew.
    for id in [2, 3] {
        fleet.stop(id).await;
        fleet.restart_wiped(id).await;
        fleet.add(id).await;
    }
    fleet.all_fresh().await;
    fleet.put(3, 30).await;
    assert_eq!(fleet.voters(2).await, [1, 2, 3]);
}

//! A fleet that goes on from one controller, and those that it had lost.

use std::collections::BTreeSet;

use super::super::restore;
use super::*;

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
    fleet.until_refused(1, Refusal::NotController, 1).await;
    fleet.restart_wiped(2).await;
    fleet.until_refused(2, Refusal::EmptyLog, 1).await;
    fleet.add(2).await;
    // It asks node 2 too, with whom it was a majority of the fleet that is gone.
    fleet.until_refused(2, Refusal::NotController, 1).await;
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

//! A founding that is interrupted.

use openraft::BasicNode;

use super::super::beginning::Invitation;
use super::super::peers::tell_of_beginning;
use super::*;

impl Fleet {
    /// Has node 1 tell the others that their part begins, as a founding does first.
    async fn tell_of_founding(&self) {
        let me = NodeRun { node: node(1), generation: Generation(1) };
        let dialer = Dialer::new(self.identity(1), me);
        for id in [2, 3] {
            let at = Address { node: node(id), at: self.controllers[&node(id)].clone() };
            assert!(tell_of_beginning(&dialer, &at, Invitation::default()).await.unwrap());
        }
    }

    /// Has node 1 write the controllers into its log, as a founding does next.
    async fn begin_log(&self) {
        let members: BTreeMap<u64, BasicNode> =
            self.controllers.iter().map(|(node, at)| (node.0.get().into(), BasicNode::new(at))).collect();
        self.raft(1).initialize(members).await.unwrap();
    }

    async fn all_take_part(&self) {
        self.all_fresh().await;
        let all = async || {
            let told = self.deed(1, FleetDeed::Look).await;
            let takes_part = |one: &serde_json::Value| one["answers"] == true && one["log_index"].is_u64();
            told.is_ok_and(|told| {
                told["controllers"].as_array().unwrap().iter().filter(|one| takes_part(one)).count() == 3
            })
        };
        until("all three take part", all).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founding_that_stopped_once_the_others_were_told_is_finished_by_another() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.tell_of_founding().await;
    for id in 1..=3 {
        fleet.stop(id).await;
        fleet.restart(id).await;
    }
    fleet.found().await;
    fleet.all_take_part().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founding_that_stopped_before_the_first_election_is_finished_by_another() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.tell_of_founding().await;
    fleet.stop(2).await;
    fleet.stop(3).await;
    fleet.begin_log().await;
    fleet.stop(1).await;
    fleet.restart(1).await;
    // Nobody is there who could vote.
    let refused = async || {
        let refused = fleet.deed(1, FleetDeed::Found).await;
        matches!(refused, Err(ControlError::Conflict(told)) if told.contains("must run"))
    };
    until("it is told that the others do not run", refused).await;
    // They have forgotten that they were told, and had promised nothing yet.
    fleet.restart_wiped(2).await;
    fleet.restart_wiped(3).await;
    fleet.found().await;
    fleet.all_take_part().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_starts_again_in_the_middle_of_a_founding_takes_its_part() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.tell_of_founding().await;
    fleet.stop(3).await;
    fleet.begin_log().await;
    until("two of them elect a leader", async || fleet.leader(1).await.is_some()).await;
    fleet.restart(3).await;
    fleet.all_take_part().await;
}

//! Who the controllers are, and how that changes while nodes come and go.

use std::collections::BTreeSet;

use openraft::{BasicNode, ChangeMembers};
use serde_json::json;

use super::super::beginning::Invitation;
use super::super::peers::{Question, tell_of_beginning};
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_lost_its_disk_is_removed_and_added_anew() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    let leader = fleet.leader(1).await.unwrap();
    let lost = (1..=3).find(|id| *id != leader).unwrap();
    fleet.stop(lost).await;
    let address = fleet.controllers[&node(lost)].clone();
    let add = FleetDeed::AddController { node: node(lost), address };
    assert!(matches!(fleet.deed(leader, add.clone()).await, Err(ControlError::Conflict(_))));
    fleet.deed(leader, FleetDeed::RemoveController { node: node(lost) }).await.unwrap();
    fleet.restart_wiped(lost).await;
    until("it is added", async || fleet.deed(leader, add.clone()).await.is_ok()).await;
    fleet.all_fresh().await;
    let seen = fleet.deed(leader, FleetDeed::Look).await.unwrap();
    let votes = seen["controllers"].as_array().unwrap().iter().filter(|one| one["votes"] == true).count();
    assert_eq!(votes, 3, "{seen}");
    fleet.put(lost, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_is_not_removed_whose_going_would_leave_no_majority() {
    let mut fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    let leader = fleet.leader(4).await.unwrap();
    let mut others = (1..=3).filter(|id| *id != leader);
    let (dead, living) = (others.next().unwrap(), others.next().unwrap());
    fleet.stop(dead).await;
    for needed in [living, leader] {
        let removed = fleet.deed(4, FleetDeed::RemoveController { node: node(needed) }).await;
        assert!(matches!(removed, Err(ControlError::Conflict(_))), "{removed:?}");
    }
    fleet.put(4, 11).await;
    fleet.deed(4, FleetDeed::RemoveController { node: node(dead) }).await.unwrap();
    fleet.put(4, 12).await;
}

/// Three controllers, of which one loses its disk that alone knew, beside the leader, of the last change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_lost_its_disk_votes_for_nobody_who_knows_less_than_it_promised() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    let leader = fleet.leader(1).await.unwrap();
    let [lost, behind] = (1..=3).filter(|id| *id != leader).collect::<Vec<_>>().try_into().unwrap();
    fleet.stop(behind).await;
    fleet.put(leader, 20).await;
    fleet.stop(lost).await;
    fleet.stop(leader).await;

    fleet.restart_wiped(lost).await;
    fleet.restart(behind).await;
    // So many elections have come to nothing.
    fleet.until_refused(lost, Refusal::EmptyLog, 8).await;
    for id in [lost, behind] {
        assert!(!fleet.desk(id).control().unwrap().leads());
        assert_eq!(fleet.desk(id).contact(), Contact::Unheard);
    }

    fleet.restart(leader).await;
    fleet.all_fresh().await;
    let known = |id| fleet.desk(id).event(&event()).map(|event| event.policy.capacity.get());
    assert_eq!([lost, behind, leader].map(known), [Some(20); 3]);
    // It serves visitors as any edge does, and still waits for its part.
    let fleet_now = fleet.deed(leader, FleetDeed::Look).await.unwrap();
    let of_lost = fleet_now["controllers"].as_array().unwrap().iter().find(|row| row["node"] == lost);
    assert!(of_lost.is_some_and(|row| row["log_index"].is_null()), "{fleet_now}");
    fleet.deed(leader, FleetDeed::RemoveController { node: node(lost) }).await.unwrap();
    let add = FleetDeed::AddController { node: node(lost), address: fleet.controllers[&node(lost)].clone() };
    until("it is added", async || fleet.deed(leader, add.clone()).await.is_ok()).await;
    fleet.stop(behind).await;
    fleet.put(lost, 30).await;
}

impl Fleet {
    /// Has the leader begin a change of controllers that stops as soon as it is in its log.
    async fn begin_half(&self, leader: u16, change: ChangeMembers<u64, BasicNode>) {
        let raft = self.raft(leader);
        let configs = |raft: &Raft<LogTypes>| {
            raft.metrics().borrow().membership_config.membership().get_joint_config().len()
        };
        let changing = tokio::spawn({
            let raft = Arc::clone(&raft);
            async move { raft.change_membership(change, false).await.map(drop) }
        });
        until("the change has begun", async || configs(&raft) == 2).await;
        changing.abort();
        assert!(changing.await.unwrap_err().is_cancelled());
    }

    /// An address at which a node takes note that its part begins, and says nothing else.
    fn silent(&self, id: u16) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let (reception, Arrived { raft: mut controllers, .. }) = Reception::open();
        let me = NodeRun { node: node(id), generation: Generation(1) };
        let port = Port::new(listener, &self.identity(id), me, reception, Arc::default()).unwrap();
        tokio::spawn(port.serve());
        tokio::spawn(async move {
            while let Some(mut caller) = controllers.recv().await {
                if matches!(caller.hear().await, Ok(Question::Begin(_))) {
                    caller.say(&true).await.unwrap();
                }
            }
        });
        at
    }

    pub(super) async fn voters(&self, at: u16) -> Vec<u64> {
        let Ok(seen) = self.deed(at, FleetDeed::Look).await else { return Vec::new() };
        let all = seen["controllers"].as_array().unwrap().iter();
        all.filter(|one| one["votes"] == true).map(|one| one["node"].as_u64().unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_stopped_half_way_goes_on_by_itself_once_enough_controllers_answer() {
    for leader_dies in [false, true] {
        let mut fleet = Fleet::new(3, 1).await;
        fleet.found().await;
        fleet.put(4, 10).await;
        let leader = fleet.leader(4).await.unwrap();
        let [dead, removed] = (1..=3).filter(|id| *id != leader).collect::<Vec<_>>().try_into().unwrap();
        fleet.stop(dead).await;
        // Of the two that are to be left one is dead, so nothing is committed until it comes back.
        let remove = ChangeMembers::RemoveVoters(BTreeSet::from([u64::from(removed)]));
        fleet.begin_half(leader, remove).await;
        let reached = async || {
            let last = |id| fleet.raft(id).metrics().borrow().last_log_index;
            last(leader) == last(removed)
        };
        until("who is to go has heard so", reached).await;
        let change = json!({
            "from": [1, 2, 3], "to": [leader.min(dead), leader.max(dead)], "newcomers": [], "at_work": false,
            "waits_for": [dead],
        });
        let told = async || fleet.deed(leader, FleetDeed::Look).await.unwrap()["change"] == change;
        until("it is told what the change waits for", told).await;
        let meanwhile = fleet.deed(leader, FleetDeed::RemoveController { node: node(removed) }).await;
        assert!(meanwhile.is_err(), "{meanwhile:?}");
        if leader_dies {
            fleet.stop(leader).await;
            fleet.restart(leader).await;
        }
        fleet.restart(dead).await;
        let mut left = [u64::from(leader), u64::from(dead)];
        left.sort_unstable();
        let over = async || {
            let told = fleet.deed(4, FleetDeed::Look).await;
            told.is_ok_and(|told| told["change"].is_null()) && fleet.voters(4).await == left
        };
        until("the change is over", over).await;
        fleet.put(dead, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_was_never_added_to_its_end_is_forgotten_again() {
    let fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    let leader = fleet.leader(1).await.unwrap();
    let nowhere = BasicNode::new("127.0.0.1:1");
    // What is left of an addition whose leader has died.
    fleet.raft(leader).add_learner(4, nowhere, false).await.unwrap();
    let members = async || {
        let told = fleet.deed(1, FleetDeed::Look).await.unwrap();
        told["controllers"].as_array().unwrap().len()
    };
    until("the learner is gone", async || members().await == 3).await;
    fleet.put(leader, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_does_not_answer_is_not_added_and_nothing_is_changed() {
    let fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    let leader = fleet.leader(1).await.unwrap();
    let add = |address: String| FleetDeed::AddController { node: node(4), address };
    let refusal = async |address: String| match fleet.deed(leader, add(address)).await {
        Err(ControlError::Conflict(told)) => told,
        other => panic!("{other:?}"),
    };
    let told = refusal("127.0.0.1:1".to_owned()).await;
    assert!(told.contains("127.0.0.1:1") && told.contains("nothing was changed"), "{told}");
    assert_eq!(told.matches("refused").count(), 1, "{told}");
    // Node 4 is there, but no controller by its own configuration.
    let told = refusal(fleet.nodes[&4].at.clone()).await;
    assert!(told.contains("`cluster.controllers`") && told.contains("nothing was changed"), "{told}");
    // Somebody says that he is node 4 and then no more.
    let told = refusal(fleet.silent(4)).await;
    assert!(told.contains("nothing was changed"), "{told}");
    let members = fleet.deed(1, FleetDeed::Look).await.unwrap();
    assert_eq!(members["controllers"].as_array().unwrap().len(), 3, "{members}");
    assert!(members["change"].is_null(), "{members}");
    fleet.put(leader, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_other_node_is_expelled_once_it_is_gone_and_comes_back_as_a_new_run() {
    let mut fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    fleet.put(2, 10).await;
    let expel = FleetDeed::Expel { node: node(2) };
    let heard = fleet.deed(1, expel.clone()).await;
    assert!(matches!(heard, Err(ControlError::Conflict(_))), "{heard:?}");
    fleet.stop(2).await;
    until("it is forgotten", async || fleet.deed(1, expel.clone()).await.is_ok()).await;
    let told = fleet.deed(1, FleetDeed::Look).await.unwrap();
    assert_eq!(told["nodes"].as_array().unwrap().len(), 1, "{told}");
    fleet.put(1, 20).await;
    fleet.start(2, TcpListener::bind("127.0.0.1:0").unwrap());
    fleet.all_fresh().await;
    fleet.put(2, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_takes_nobody_for_gone_before_it_can_have_heard_everybody() {
    let mut fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    let old = fleet.leader(4).await.unwrap();
    let asked = if old == 1 { 2 } else { 1 };
    fleet.stop(4).await;
    fleet.stop(old).await;
    let mut refused = Vec::new();
    let is_expelled = async || match fleet.deed(asked, FleetDeed::Expel { node: node(4) }).await {
        Ok(_) => true,
        Err(error) => {
            refused.push(error.to_string());
            false
        }
    };
    until("the node is expelled", is_expelled).await;
    assert!(refused.iter().any(|told| told.contains("too recently")), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_can_be_removed_and_another_one_leads() {
    let fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    let leader = fleet.leader(4).await.unwrap();
    let left: Vec<u64> = (1..=3).filter(|id| *id != u64::from(leader)).collect();
    fleet.deed(4, FleetDeed::RemoveController { node: node(leader) }).await.unwrap();
    let is_over =
        async || fleet.leader(4).await.is_some_and(|now| now != leader) && fleet.voters(4).await == left;
    until("another one leads those that are left", is_over).await;
    fleet.put(4, 20).await;
    fleet.all_fresh().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_tells_that_the_leader_answers_for_as_long_as_it_asks() {
    let fleet = Fleet::new(2, 0).await;
    fleet.found().await;
    let leader = fleet.leader(1).await.unwrap();
    let follower = 3 - leader;
    // Longer than a controller may be silent; its connection is as old.
    let led_on = async || {
        let told = fleet.deed(leader, FleetDeed::Look).await.unwrap();
        told["leader"]["leads_for_ms"].as_u64().is_some_and(|led| led > 2_500)
    };
    until("it has led for a while", led_on).await;
    let told = fleet.nodes[&follower].control.council.as_ref().unwrap().describe();
    let row = told["controllers"].as_array().unwrap().iter().find(|row| row["node"] == leader).unwrap();
    assert_eq!(row["answers"], true, "{told}");
    assert!(row["silent_ms"].as_u64().unwrap() < 1_500, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_addition_that_was_given_up_is_asked_for_again_with_the_disk_as_it_is() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    let leader = fleet.leader(1).await.unwrap();
    let new = (1..=3).find(|id| *id != leader).unwrap();
    fleet.stop(new).await;
    let removed = fleet.deed(leader, FleetDeed::RemoveController { node: node(new) }).await.unwrap();
    let warned = removed["warnings"].as_array().unwrap();
    assert!(warned.len() == 1 && warned[0].as_str().unwrap().contains("add a third"), "{removed}");
    fleet.restart_wiped(new).await;
    let at = Address { node: node(new), at: fleet.controllers[&node(new)].clone() };
    let me = NodeRun { node: node(leader), generation: Generation(1) };
    let dialer = Dialer::new(fleet.identity(leader), me);
    assert!(tell_of_beginning(&dialer, &at, Invitation::default()).await.unwrap());
    // Nobody is at work on the addition, so it is taken back while the newcomer catches up.
    let begun = async || {
        let _ = fleet.raft(leader).add_learner(u64::from(new), BasicNode::new(&at.at), false).await;
        fleet.raft(new).metrics().borrow().last_log_index.is_some()
    };
    until("it has heard of the log", begun).await;
    let taken_back = async || fleet.deed(leader, FleetDeed::Look).await.unwrap()["change"].is_null();
    until("nothing is under way", taken_back).await;
    let add = FleetDeed::AddController { node: node(new), address: at.at };
    assert_ne!(fleet.voters(leader).await.len(), 3);
    fleet.deed(leader, add).await.unwrap();
    assert_eq!(fleet.voters(leader).await, [1, 2, 3]);
    fleet.put(new, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_a_controller_tells_soon_what_it_knows_and_contradicts_itself_in_nothing() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    fleet.put(1, 10).await;
    let leader = fleet.leader(1).await.unwrap();
    let [asked, gone] = (1..=3).filter(|id| *id != leader).collect::<Vec<_>>().try_into().unwrap();
    fleet.stop(gone).await;
    fleet.stop(leader).await;
    let mut told = json!(null);
    let nobody_leads = async || {
        told = fleet.deed(asked, FleetDeed::Look).await.unwrap();
        told["leader"].is_null()
    };
    until("the leader is not heard any more", nobody_leads).await;
    let rows = |of: &str| told[of].as_array().unwrap().clone();
    let of = |rows: Vec<serde_json::Value>| rows.into_iter().find(|row| row["node"] == asked).unwrap();
    assert_eq!(told["seen_by"], asked, "{told}");
    assert!(rows("controllers").iter().all(|row| row["leads"] == false), "{told}");
    assert_eq!(of(rows("controllers"))["answers"], true, "{told}");
    assert_eq!(of(rows("nodes"))["silent_ms"], 0, "{told}");
}

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::storage::LogTypes;
use super::streams::{ToEdge, ToLeader, Urgency};
use super::*;
use crate::clock::Clock;
use crate::desk::{Attendance, ControlError, Desk, FleetDeed, JoinAnswer, StatusAnswer};
use crate::model::edge::{Contact, Phase};
use crate::model::ids::{EventId, NodeId};
use crate::model::ids::{Generation, NodeRun};
use crate::model::ledger::{ChangeKind, Condition};
use crate::model::policy::Fields;
use crate::peer::{
    Address, Arrived, Conversation, Dialer, Identity, Issued, Numbering, Port, Purpose, Reception, Refusal,
    Refusals, issue_ca, issue_node, issue_numbering,
};

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn event() -> EventId {
    "tour".parse().unwrap()
}

fn fields(capacity: u32) -> Fields {
    let text = format!(r#"{{"capacity":{capacity},"max_admit_per_sec":5,"origin":"shop"}}"#);
    let serde_json::Value::Object(map) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
    map.into()
}

/// A fleet in one process, over real sockets.
struct Fleet {
    dir: TempDir,
    ca: Issued,
    controllers: BTreeMap<NodeId, String>,
    nodes: BTreeMap<u16, Running>,
}

struct Running {
    desk: Arc<Desk>,
    control: RunningControl,
    port: JoinHandle<()>,
    at: String,
    refusals: Arc<Refusals>,
}

impl Fleet {
    /// A fleet with so many controllers, numbered from 1, and edges after them; not founded yet.
    async fn new(controllers: u16, edges: u16) -> Self {
        let mut listeners = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        for id in 1..=controllers + edges {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if id <= controllers {
                addresses.insert(node(id), listener.local_addr().unwrap().to_string());
            }
            listeners.insert(id, listener);
        }
        let ca = issue_ca(Clock::start().wall()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut fleet = Self { dir, ca, controllers: addresses, nodes: BTreeMap::new() };
        for (id, listener) in listeners {
            fleet.start(id, listener);
        }
        fleet
    }

    fn identity(&self, id: u16) -> Identity {
        let issued = issue_node(&self.ca, node(id), Clock::start().wall(), 2).unwrap();
        let [ca, certificate, key] = self.files(&id.to_string(), &issued);
        Identity::load(&ca, &certificate, &key, node(id)).unwrap()
    }

    /// Writes what was issued, beside the CA's certificate.
    fn files(&self, name: &str, issued: &Issued) -> [PathBuf; 3] {
        let texts = [
            ("ca.crt".to_owned(), &self.ca.certificate),
            (format!("{name}.crt"), &issued.certificate),
            (format!("{name}.key"), &issued.key),
        ];
        texts.map(|(name, text)| {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        })
    }

    /// What numbers are certified with.
    fn numbering(&self, name: &str) -> Numbering {
        let issued = issue_numbering(&self.ca, Clock::start().wall(), 2).unwrap();
        let [ca, certificate, key] = self.files(name, &issued);
        Numbering::load(&ca, &certificate, &key).unwrap()
    }

    fn start(&mut self, id: u16, listener: TcpListener) {
        self.start_as(id, self.identity(id), listener);
    }

    /// Starts a node that shows this to others.
    fn start_as(&mut self, id: u16, identity: Identity, listener: TcpListener) {
        let clock = Clock::start();
        let open = OpenControl::open(&self.dir.path().join(id.to_string()), node(id), clock).unwrap();
        let me = open.run();
        let numbering =
            self.controllers.contains_key(&node(id)).then(|| self.numbering(&format!("numbering-{id}")));
        let at = listener.local_addr().unwrap().to_string();
        let desk = Desk::new(me, clock);
        let (reception, Arrived { control, raft, operator, number, .. }) = Reception::open();
        let membership = Membership {
            dialer: Dialer::new(identity.clone(), me),
            controllers: self.controllers.clone(),
            heartbeat: Duration::from_millis(100),
        };
        let refusals = Arc::new(Refusals::default());
        let incoming =
            Incoming { control, raft, operator, number, numbering, refusals: Arc::clone(&refusals) };
        let control = open.join(Arc::clone(&desk), membership, incoming).unwrap();
        let port = Port::new(listener, &identity, me, reception, Arc::clone(&refusals)).unwrap();
        let port = tokio::spawn(port.serve());
        self.nodes.insert(id, Running { desk, control, port, at, refusals });
    }

    /// Ends a node at once, as far as others can tell.
    async fn stop(&mut self, id: u16) {
        let Running { control, port, .. } = self.nodes.remove(&id).unwrap();
        port.abort();
        tokio::task::spawn_blocking(|| control.stop()).await.unwrap();
    }

    /// Starts a controller again at its address.
    async fn restart(&mut self, id: u16) {
        let at = self.controllers[&node(id)].clone();
        let listener = loop {
            match TcpListener::bind(&at) {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.start(id, listener);
    }

    /// Starts a controller again whose disk is lost.
    async fn restart_wiped(&mut self, id: u16) {
        std::fs::remove_dir_all(self.dir.path().join(id.to_string())).unwrap();
        self.restart(id).await;
    }

    /// Calls a node as another one that is not in this process.
    async fn call(&self, to: u16, caller: u16, purpose: Purpose) -> Conversation {
        let me = NodeRun { node: node(caller), generation: Generation(1) };
        let at = Address { node: node(to), at: self.nodes[&to].at.clone() };
        Dialer::new(self.identity(caller), me).dial(&at, purpose).await.unwrap()
    }

    fn raft(&self, id: u16) -> Arc<Raft<LogTypes>> {
        self.nodes[&id].control.council.as_ref().unwrap().raft().unwrap()
    }

    fn refused(&self, id: u16, why: Refusal) -> u64 {
        self.nodes[&id].refusals.count(why)
    }

    async fn until_refused(&self, id: u16, why: Refusal, times: u64) {
        let what = format!("node {id} refuses for {} {times} times", why.as_str());
        until(&what, async || self.refused(id, why) >= times).await;
    }

    fn desk(&self, id: u16) -> &Desk {
        &self.nodes[&id].desk
    }

    async fn deed(&self, at: u16, deed: FleetDeed) -> Result<serde_json::Value, ControlError> {
        self.desk(at).control().unwrap().fleet(deed).await
    }

    async fn found(&self) {
        until("the fleet is founded", async || self.deed(1, FleetDeed::Found).await.is_ok()).await;
        self.all_fresh().await;
    }

    async fn all_fresh(&self) {
        let fresh = async || self.nodes.values().all(|node| node.desk.contact() == Contact::Fresh);
        until("everybody hears the leader", fresh).await;
    }

    async fn put(&self, at: u16, capacity: u32) {
        let put = async || {
            let control = self.desk(at).control().unwrap();
            control.change(event(), ChangeKind::Put(fields(capacity)), Condition::Always).await.is_ok()
        };
        until("a change is taken", put).await;
        let known = async || {
            let capacity_at =
                |node: &Running| node.desk.event(&event()).map(|event| event.policy.capacity.get());
            self.nodes.values().all(|node| capacity_at(node) == Some(capacity))
        };
        until("every node knows the change", known).await;
    }

    /// Which controller leads, as `at` is told.
    async fn leader(&self, at: u16) -> Option<u16> {
        let fleet = self.deed(at, FleetDeed::Look).await.ok()?;
        let leads = fleet["controllers"].as_array()?.iter().find(|controller| controller["leads"] == true)?;
        leads["node"].as_u64()?.try_into().ok()
    }
}

mod founding;
mod members;
mod numbers;
mod restored;

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1_500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_founded_once_and_a_change_made_at_any_node_reaches_all() {
    let fleet = Fleet::new(3, 2).await;
    fleet.found().await;
    assert!(matches!(fleet.deed(2, FleetDeed::Found).await, Err(ControlError::Conflict(_))));
    assert!(matches!(fleet.deed(4, FleetDeed::Found).await, Err(ControlError::Conflict(_))));
    for (at, capacity) in [(5, 10), (1, 20), (2, 30), (3, 40), (4, 50)] {
        fleet.put(at, capacity).await;
    }
    let seen = fleet.deed(4, FleetDeed::Look).await.unwrap();
    assert_eq!(seen["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(seen["controllers"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_controller_leads_without_stand_ins() {
    let fleet = Fleet::new(1, 2).await;
    fleet.found().await;
    fleet.put(3, 10).await;
    assert_eq!(fleet.leader(2).await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_goes_another_leads_and_who_comes_back_follows() {
    let mut fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    for capacity in [11, 12] {
        let leader = fleet.leader(4).await.unwrap();
        fleet.stop(leader).await;
        fleet.put(4, capacity).await;
        fleet.all_fresh().await;
        assert_ne!(fleet.leader(4).await, Some(leader));
        fleet.restart(leader).await;
        fleet.all_fresh().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edges_hear_a_leader_that_was_restarted() {
    // Raft lets a node go on with the term that it led before.
    let mut fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    let heard = async |fleet: &Fleet| fleet.desk(2).report().pulse_seen.unwrap();
    let before = heard(&fleet).await;
    fleet.stop(1).await;
    fleet.restart(1).await;
    until("a newer pulse", async || heard(&fleet).await > before).await;
    fleet.all_fresh().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_taken_and_nobody_is_told_that_all_is_well() {
    let mut fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    let leader = fleet.leader(4).await.unwrap();
    for other in (1..=3).filter(|id| *id != leader) {
        fleet.stop(other).await;
    }
    let cut_off = async || fleet.desk(4).contact() == Contact::CutOff;
    until("the edge is cut off", cut_off).await;
    let control = fleet.desk(leader).control().unwrap();
    assert!(control.change(event(), ChangeKind::Put(fields(11)), Condition::Always).await.is_err());
    for other in (1..=3).filter(|id| *id != leader).collect::<Vec<_>>() {
        fleet.restart(other).await;
    }
    fleet.all_fresh().await;
    fleet.put(4, 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_with_the_number_of_a_node_is_refused() {
    let mut fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    let elder = fleet.nodes.remove(&2).unwrap();
    // Its directory is another, so nothing keeps the second from starting; it is the newer run.
    std::fs::rename(fleet.dir.path().join("2"), fleet.dir.path().join("elsewhere")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    fleet.start(2, TcpListener::bind("127.0.0.1:0").unwrap());
    fleet.all_fresh().await;
    until("the elder is let go", async || elder.desk.contact() == Contact::CutOff).await;
    fleet.until_refused(1, Refusal::OldRun, 1).await;
    let known = fleet.deed(1, FleetDeed::Look).await.unwrap();
    let of_two = known["nodes"].as_array().unwrap().iter().filter(|run| run["node"] == 2).count();
    assert_eq!(of_two, 1, "{known}");
    assert_eq!(fleet.desk(2).contact(), Contact::Fresh);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_node_says_ends_that_conversation_and_nothing_else() {
    let fleet = Fleet::new(3, 1).await;
    fleet.found().await;
    fleet.put(4, 10).await;
    let leader = fleet.leader(4).await.unwrap();
    let other = (1..=3).find(|id| *id != leader).unwrap();
    let too_long = u32::MAX.to_be_bytes().to_vec();
    let of_no_type = [&40_u32.to_be_bytes()[..], &[0xff; 40]].concat();
    let mut so_far = 0;
    // A node that was never seen, but where only controllers are heard.
    for (caller, purpose) in [(9, Purpose::Control), (other, Purpose::Raft), (9, Purpose::Operator)] {
        so_far += 1;
        for (said, why) in [(&too_long, Refusal::TooLong), (&of_no_type, Refusal::Garbage)] {
            let (mut saying, mut hearing) = fleet.call(leader, caller, purpose).await.split();
            saying.say_bytes(said).await.unwrap();
            fleet.until_refused(leader, why, so_far).await;
            let hung_up = async { while hearing.hear::<ToEdge>().await.is_ok() {} };
            tokio::time::timeout(Duration::from_secs(5), hung_up).await.expect("it goes on");
            assert_eq!(fleet.refused(leader, why), so_far);
        }
    }
    fleet.put(4, 20).await;
    fleet.all_fresh().await;
    assert_eq!(fleet.leader(4).await, Some(leader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_for_another_run_than_the_streams_is_not_taken() {
    let fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    let mut conversation = fleet.call(1, 9, Purpose::Control).await;
    let report = fleet.desk(2).report();
    conversation.say(&ToLeader { report, urgency: Urgency::Now }).await.unwrap();
    let answer: ToEdge = conversation.hear().await.unwrap();
    assert!(matches!(answer, ToEdge::Refused(Refusal::WrongNode)), "{answer:?}");
    assert_eq!(fleet.refused(1, Refusal::WrongNode), 1);
    let known = fleet.deed(1, FleetDeed::Look).await.unwrap();
    assert!(known["nodes"].as_array().unwrap().iter().all(|run| run["node"] != 9), "{known}");
    fleet.put(2, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_has_no_say_in_the_control_log() {
    let fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    let mut conversation = fleet.call(1, 2, Purpose::Raft).await;
    let answer = async { conversation.hear::<bool>().await };
    tokio::time::timeout(Duration::from_secs(5), answer).await.expect("it is heard").unwrap_err();
    assert_eq!(fleet.refused(1, Refusal::NotController), 1);
    fleet.put(2, 10).await;
}

/// Starts an edge alone that has heard of the fleet before, and waits until it shows what it kept.
async fn start_alone(fleet: &mut Fleet, edge: u16) {
    let directory = fleet.dir.path().join(edge.to_string());
    let is_kept = async || {
        let kept = keep::load(&directory, node(edge), None);
        kept.is_some_and(|kept| fleet.desk(edge).keepsake().is_some_and(|now| !now.is_news_to(&kept)))
    };
    until("the edge keeps what it hears", is_kept).await;
    let running: Vec<u16> = fleet.nodes.keys().copied().collect();
    for id in running {
        fleet.stop(id).await;
    }
    fleet.start(edge, TcpListener::bind("127.0.0.1:0").unwrap());
    let desk = fleet.desk(edge);
    assert_eq!((desk.contact(), desk.knows_events()), (Contact::Unheard, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_starts_alone_shows_the_line_as_it_was_and_lets_nobody_in() {
    let mut fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    fleet.put(2, 10).await;
    let known = |fleet: &Fleet| fleet.desk(2).event(&event()).map(|event| event.policy.capacity.get());
    start_alone(&mut fleet, 2).await;
    assert_eq!(known(&fleet), Some(10));
    let joined = fleet.desk(2).join(&event(), None).await;
    let JoinAnswer::Waiting(place) = joined else { panic!("{joined:?}") };
    assert_eq!(place.phase, Phase::Frozen);
    let asked = fleet.desk(2).status(&event(), &place.ticket, Attendance::Asking).await;
    assert!(matches!(asked, StatusAnswer::Waiting(again) if again.id == place.id));

    fleet.restart(1).await;
    fleet.all_fresh().await;
    fleet.put(2, 20).await;
    let mut ticket = place.ticket;
    let admitted = async || match fleet.desk(2).status(&event(), &ticket, Attendance::Asking).await {
        StatusAnswer::Admitted(pass) => pass.id == place.id,
        StatusAnswer::Waiting(again) => {
            ticket = again.ticket;
            false
        }
        StatusAnswer::Unavailable(_) => false,
        other => panic!("{other:?}"),
    };
    until("the one who waited is admitted", admitted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_kept_of_another_ledger_is_forgotten_with_the_first_pulse() {
    let mut fleet = Fleet::new(1, 1).await;
    fleet.found().await;
    fleet.put(2, 10).await;
    start_alone(&mut fleet, 2).await;
    assert_eq!(fleet.desk(2).events(), [event()]);
    fleet.restart_wiped(1).await;
    fleet.found().await;
    assert_eq!(fleet.desk(2).events(), []);
    fleet.put(2, 30).await;
}

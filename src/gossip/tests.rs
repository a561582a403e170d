//! Nodes in one process, over real sockets.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use chitchat::ChitchatMessage;
use chitchat::transport::Socket;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::book::Book;
use super::callers::Callers;
use super::line::{Exchange, Opening};
use super::*;
use crate::clock::Clock;
use crate::desk::{Desk, Life, Neighbour};
use crate::model::exchange::EdgeStage;
use crate::model::ids::{Generation, NodeId, NodeRun, Term};
use crate::peer::{
    Address, Arrived, Conversation, Dialer, Identity, Issued, Port, Purpose, Reception, Refusal, Refusals,
    issue_ca, issue_node,
};

const QUICK: Pace = Pace { interval: Duration::from_millis(40), memory: Duration::from_secs(2) };

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn run(id: u16, generation: u32) -> NodeRun {
    NodeRun { node: node(id), generation: Generation(generation) }
}

/// Who may be who, and where the first of them is.
struct Fleet {
    dir: TempDir,
    ca: Issued,
    /// Addresses are kept for as long as the fleet is there.
    places: BTreeMap<u16, (TcpListener, SocketAddr)>,
    nodes: BTreeMap<u16, Running>,
}

struct Running {
    desk: Arc<Desk>,
    refusals: Arc<Refusals>,
    tasks: [JoinHandle<()>; 2],
}

impl Fleet {
    /// Places for so many nodes; the first is the one controller.
    fn new(places: u16) -> Self {
        let place = |id| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap();
            (id, (listener, at))
        };
        let dir = tempfile::tempdir().unwrap();
        let ca = issue_ca(Clock::start().wall()).unwrap();
        Self { dir, ca, places: (1..=places).map(place).collect(), nodes: BTreeMap::new() }
    }

    /// A fleet in which every place is taken by a node of generation 1.
    fn running(places: u16) -> Self {
        let mut fleet = Self::new(places);
        (1..=places).for_each(|id| fleet.start(id, 1));
        fleet
    }

    fn at(&self, id: u16) -> SocketAddr {
        self.places[&id].1
    }

    fn identity(&self, id: u16) -> Identity {
        let issued = issue_node(&self.ca, node(id), Clock::start().wall(), 2).unwrap();
        let write = |name: String, text: &str| {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let ca = write(format!("{id}.ca"), &self.ca.certificate);
        let certificate = write(format!("{id}.crt"), &issued.certificate);
        let key = write(format!("{id}.key"), &issued.key);
        Identity::load(&ca, &certificate, &key, node(id)).unwrap()
    }

    /// A port that leads callers with gossip to the receiver.
    fn port(&self, me: NodeRun) -> (JoinHandle<()>, mpsc::Receiver<Conversation>) {
        let (reception, Arrived { gossip: callers, .. }) = Reception::open();
        let listener = self.places[&me.node.0.get()].0.try_clone().unwrap();
        let identity = self.identity(me.node.0.get());
        let port = Port::new(listener, &identity, me, reception, Arc::new(Refusals::default())).unwrap();
        (tokio::spawn(port.serve()), callers)
    }

    fn dialer(&self, me: NodeRun) -> Dialer {
        Dialer::new(self.identity(me.node.0.get()), me)
    }

    fn start(&mut self, id: u16, generation: u32) {
        let me = run(id, generation);
        let desk = Desk::new(me, Clock::start());
        let (port, callers) = self.port(me);
        let refusals = Arc::new(Refusals::default());
        let gossip = Gossip {
            desk: Arc::clone(&desk),
            dialer: self.dialer(me),
            at: self.at(id),
            controllers: [(node(1), self.at(1).to_string())].into(),
            callers,
            pace: QUICK,
            refusals: Arc::clone(&refusals),
        };
        let gossip = tokio::spawn(gossip.run());
        self.nodes.insert(id, Running { desk, refusals, tasks: [port, gossip] });
    }

    fn stop(&mut self, id: u16) {
        self.nodes.remove(&id).unwrap().tasks.iter().for_each(JoinHandle::abort);
    }

    fn desk(&self, id: u16) -> &Desk {
        &self.nodes[&id].desk
    }

    /// What `at` knows of node `id`.
    fn known(&self, at: u16, id: u16) -> Option<Neighbour> {
        self.desk(at).neighbours().into_iter().find(|neighbour| neighbour.run.node == node(id))
    }

    /// The term in which node `id` leads, as node `at` has heard.
    fn heard(&self, at: u16, id: u16) -> Option<Term> {
        let known = self.known(at, id).filter(|known| known.life == Life::Alive)?;
        known.tidings?.leads
    }

    /// Lets every node tell something of its own and waits until every other has heard it.
    async fn converge(&self, salt: u64) {
        let term = |id: u16| Term(salt + u64::from(id));
        self.nodes.iter().for_each(|(id, node)| node.desk.set_leads(Some(term(*id))));
        until("everybody has heard everybody", || {
            let ids = || self.nodes.keys().copied();
            ids().all(|at| ids().all(|id| at == id || self.heard(at, id) == Some(term(id))))
        })
        .await;
    }

    /// A conversation of an impostor under a certificate of its own.
    async fn call(&self, from: u16, to: u16) -> Conversation {
        let dialer = self.dialer(run(from, 1));
        let to = Address { node: node(to), at: self.at(to).to_string() };
        dialer.dial(&to, Purpose::Gossip).await.unwrap()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not in time: {what}");
}

/// Waits until the other side has hung up.
async fn hung_up(mut conversation: Conversation) {
    let over = tokio::time::timeout(Duration::from_secs(30), conversation.hear::<u8>()).await;
    assert!(over.unwrap().is_err());
}

#[tokio::test]
async fn five_nodes_that_know_one_of_them_hear_from_all() {
    let fleet = Fleet::running(5);
    fleet.converge(100).await;
    assert_eq!(fleet.known(2, 5).unwrap().at, fleet.at(5));
    assert_eq!(fleet.desk(3).neighbours().len(), 4);
    fleet.desk(4).set_stage(EdgeStage::Draining);
    until("a change is heard", || {
        let stage = |at| fleet.known(at, 4).and_then(|known| known.tidings).map(|tidings| tidings.stage);
        [1, 2, 3, 5].map(stage) == [Some(EdgeStage::Draining); 4]
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_gone_is_known_as_silent_and_then_not_at_all() {
    let mut fleet = Fleet::running(4);
    fleet.converge(100).await;
    fleet.stop(3);
    let lives = |fleet: &Fleet| [1, 2, 4].map(|at| fleet.known(at, 3).map(|known| known.life));
    until("its silence is noticed", || lives(&fleet).contains(&Some(Life::Silent))).await;
    until("it is forgotten", || lives(&fleet) == [None; 3]).await;
    fleet.converge(200).await;
}

#[tokio::test]
async fn a_new_run_of_a_node_takes_the_place_of_the_old_one() {
    let mut fleet = Fleet::running(3);
    fleet.converge(100).await;
    fleet.stop(2);
    fleet.start(2, 7);
    fleet.converge(200).await;
    for at in [1, 3] {
        assert_eq!(fleet.known(at, 2).unwrap().run, run(2, 7));
    }
}

#[tokio::test]
async fn nonsense_is_not_listened_to_is_counted_and_does_no_harm() {
    let mut fleet = Fleet::new(3);
    (1..=2).for_each(|id| fleet.start(id, 1));
    fleet.converge(100).await;
    let opening = Opening { at: fleet.at(3) };
    let nowhere = Opening { at: ([0, 0, 0, 0], 9).into() };
    let mut caller = fleet.call(3, 1).await;
    caller.say(&nowhere).await.unwrap();
    hung_up(caller).await;
    let mut caller = fleet.call(3, 1).await;
    caller.say(&"x".repeat(1_000)).await.unwrap();
    hung_up(caller).await;
    for frame in [b"no gossip at all".to_vec(), Vec::new(), trailing(), vec![0x53; 65_507], vec![0; 1 << 20]]
    {
        let mut caller = fleet.call(3, 1).await;
        caller.say(&opening).await.unwrap();
        // Whoever hangs up may do so in the middle of a frame.
        let _ = caller.say(&frame).await;
        hung_up(caller).await;
    }
    let refusals = &fleet.nodes[&1].refusals;
    let counted = || Refusal::ALL.map(|why| refusals.count(why)).iter().sum::<u64>() == 7;
    until("every one of them is counted", counted).await;
    assert_eq!([Refusal::Garbage, Refusal::TooLong].map(|why| refusals.count(why)), [5, 2]);
    fleet.converge(200).await;
}

/// A message and more.
fn trailing() -> Vec<u8> {
    let mut bytes = chitchat::Serializable::serialize_to_vec(&ChitchatMessage::BadCluster);
    bytes.push(0);
    bytes
}

/// A first run of a node in chitchat's form, in which gossip began that often before.
fn id_bytes(id: u16, at: SocketAddr, begun: u64) -> Vec<u8> {
    chitchat::Serializable::serialize_to_vec(&chitchat::ChitchatId::new(
        id.to_string(),
        (1 << 24) | begun,
        at,
    ))
}

fn head(kind: u8) -> Vec<u8> {
    [45_139_u16.to_le_bytes().as_slice(), &[0, kind]].concat()
}

fn text(text: &str) -> Vec<u8> {
    [(text.len() as u16).to_le_bytes().as_slice(), text.as_bytes()].concat()
}

/// Asks for everything.
fn question() -> Vec<u8> {
    [head(0), vec![0, 0], text("anteroom")].concat()
}

/// Two messages by which whoever takes them trips over an assertion of chitchat's: a node that nobody knows, and a
/// change of it that ends before it begins.
fn tripwire(at: SocketAddr) -> [Vec<u8>; 2] {
    let number = |number: u64| number.to_le_bytes();
    let stranger = id_bytes(9, at, 0);
    let digest = [&1_u16.to_le_bytes()[..], &stranger, &number(1), &number(0), &number(0)].concat();
    let syn = [head(0), digest, text("anteroom")].concat();
    let node = [&[0][..], &stranger, &number(0), &number(0)].concat();
    let change = [&[1][..], &text("n"), &text("x"), &number(100), &[0]].concat();
    let end = [&[2][..], &number(50)].concat();
    let operations = [node, change, end].concat();
    let length = (operations.len() as u16).to_le_bytes();
    let ack = [head(2), [&[2][..], &length, &operations, &[0]].concat()].concat();
    [syn, ack]
}

#[tokio::test]
async fn gossip_that_has_ended_by_a_fault_begins_again() {
    let mut fleet = Fleet::new(3);
    (1..=2).for_each(|id| fleet.start(id, 1));
    fleet.converge(100).await;
    let (_port, mut door) = fleet.port(run(3, 1));
    let mut caller = fleet.call(3, 1).await;
    caller.say(&Opening { at: fleet.at(3) }).await.unwrap();
    for message in tripwire(fleet.at(3)) {
        caller.say(&message).await.unwrap();
    }
    let anew = id_bytes(1, fleet.at(1), 1);
    let told = async {
        loop {
            let mut heard = door.recv().await.unwrap();
            let Opening { at } = heard.hear().await.unwrap();
            assert_eq!(at, fleet.at(1));
            while let Ok(frame) = heard.hear::<Vec<u8>>().await {
                if frame.windows(anew.len()).any(|part| part == anew) {
                    return;
                }
            }
        }
    };
    let asking = async {
        loop {
            caller.say(&question()).await.unwrap();
            tokio::time::sleep(QUICK.interval).await;
        }
    };
    let told = async {
        tokio::select! { () = told => {}, () = asking => {} }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
    fleet.converge(200).await;
}

#[tokio::test]
async fn a_node_that_does_not_read_holds_nobody_up() {
    let fleet = Fleet::new(3);
    let (_port, mut unread) = fleet.port(run(2, 1));
    let (_other_port, door) = fleet.port(run(3, 1));
    let (inbox, mut taken) = mpsc::channel(4);
    let receiving = tokio::spawn(Callers::new(Book::new(node(3)), inbox, Arc::default()).receive(door));
    let book = Book::new(node(1));
    book.set_controllers([(fleet.at(2), node(2)), (fleet.at(3), node(3))].into());
    let (_inbox, heard) = mpsc::channel(1);
    let mut line = Exchange::new(fleet.dialer(run(1, 1)), fleet.at(1), book, heard).line();
    let long = || ChitchatMessage::Syn { cluster_id: "x".repeat(60_000), digest: Default::default() };
    line.send(fleet.at(2), long()).await.unwrap();
    let _deaf = unread.recv().await.unwrap();
    for _ in 0..2_000 {
        line.send(fleet.at(2), long()).await.unwrap();
        tokio::task::yield_now().await;
    }
    line.send(fleet.at(3), ChitchatMessage::BadCluster).await.unwrap();
    let (from, message) = tokio::time::timeout(Duration::from_secs(30), taken.recv()).await.unwrap().unwrap();
    assert_eq!((from, message), (fleet.at(1), ChitchatMessage::BadCluster));
    let unknown = TcpListener::bind("127.0.0.1:0").unwrap();
    line.send(unknown.local_addr().unwrap(), ChitchatMessage::BadCluster).await.unwrap();
    tokio::task::yield_now().await;
    unknown.set_nonblocking(true).unwrap();
    assert!(unknown.accept().is_err(), "nobody is called whose name is not known");
    receiving.abort();
}

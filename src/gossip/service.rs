//! Gossip at work: started again when it ends, told what this node counts, asked what others do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chitchat::{Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, NodeState, spawn_chitchat};
use rand::seq::IteratorRandom;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::book::Book;
use super::callers::Callers;
use super::line::Exchange;
use super::pace::Pace;
use crate::desk::{Desk, Life, Neighbour};
use crate::model::ids::{Generation, NodeId, NodeRun};
use crate::model::tidings::{Change, Telling, Tidings};
use crate::peer::{Conversation, Dialer, Refusals};

/// Messages that wait to be taken.
const MOST_WAITING: usize = 64;

/// What may be told of events between two beats, in bytes: a kilobyte a second at the usual pace.
pub(super) const ROOM: usize = 512;

/// Up to so many nodes there is a round at every beat.
const SMALL: usize = 50;

/// Whom a node talks to in a round.
const ROUND: usize = 3;

/// Every run that is remembered makes every message longer: from some 1,200 of them nothing gets through any more.
const MOST_RUNS: usize = 600;

/// How often the addresses of controllers are looked up.
const LOOKUP: Duration = Duration::from_secs(60);

/// The longest wait before gossip that has ended begins again: every beginning counts as a run.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// In which part of chitchat's generation the beginnings within a run are counted, in bits.
const BEGINNINGS: u32 = 24;

/// Takes part in the gossip of a fleet.
#[derive(Debug)]
pub struct Gossip {
    /// What this node knows of itself, and is told of others.
    pub desk: Arc<Desk>,
    /// Calls other nodes.
    pub dialer: Dialer,
    /// Where others call this node.
    pub at: SocketAddr,
    /// The controllers of the configuration, with host and port: whom to talk to at first.
    pub controllers: BTreeMap<NodeId, String>,
    /// Nodes that call with gossip.
    pub callers: mpsc::Receiver<Conversation>,
    /// How often, and how long is remembered.
    pub pace: Pace,
    /// Counts who is not listened to.
    pub refusals: Arc<Refusals>,
}

impl Gossip {
    /// Gossips for ever.
    pub async fn run(self) {
        let Self { desk, dialer, at, controllers, callers, pace, refusals } = self;
        let book = Book::new(dialer.me().node);
        let (inbox, heard) = mpsc::channel(MOST_WAITING);
        let exchange = Exchange::new(dialer, at, book.clone(), heard);
        let receiving = Callers::new(book.clone(), inbox.clone(), refusals).receive(callers);
        let looking_up = look_up(&book, &controllers);
        let talker = Talker { desk, at, controllers: &controllers, book: &book, exchange, pace };
        tokio::join!(receiving, looking_up, talker.run());
        // Until here, so that gossip does not end if nobody can call any more.
        drop(inbox);
    }
}

/// Keeps the book true to the names in the configuration.
async fn look_up(book: &Book, controllers: &BTreeMap<NodeId, String>) {
    let mut known: BTreeMap<NodeId, Vec<SocketAddr>> = BTreeMap::new();
    loop {
        for (node, at) in controllers {
            match tokio::net::lookup_host(at).await {
                Ok(found) => drop(known.insert(*node, found.collect())),
                Err(error) => tracing::debug!(%node, at, %error, "the address of a controller is not found"),
            }
            let all = known.iter().flat_map(|(node, all)| all.iter().map(|at| (*at, *node)));
            book.set_controllers(all.collect());
        }
        sleep(LOOKUP).await;
    }
}

struct Talker<'a> {
    desk: Arc<Desk>,
    at: SocketAddr,
    controllers: &'a BTreeMap<NodeId, String>,
    book: &'a Book,
    exchange: Exchange,
    pace: Pace,
}

impl Talker<'_> {
    /// Chitchat may end by a fault of its own: it begins again, as another run to its peers, who take no step back from
    /// the same one.
    async fn run(self) {
        let mut pause = self.pace.interval;
        for beginning in 0.. {
            let began = Instant::now();
            match spawn_chitchat(self.settings(beginning), Vec::new(), &self.exchange).await {
                Ok(handle) => {
                    let over = handle.termination_watcher();
                    tokio::select! {
                        ended = over => if let Err(error) = ended {
                            tracing::warn!(%error, "gossip has ended and begins again; admission goes on without it");
                        },
                        () = self.tend(&handle) => {}
                    }
                }
                Err(error) => tracing::warn!(%error, "gossip does not begin; admission goes on without it"),
            }
            if began.elapsed() > LONGEST_PAUSE {
                pause = self.pace.interval;
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn settings(&self, beginning: u64) -> ChitchatConfig {
        let NodeRun { node, generation } = self.desk.run();
        let generation = (u64::from(generation.0) << BEGINNINGS) | (beginning % (1 << BEGINNINGS));
        ChitchatConfig {
            chitchat_id: ChitchatId::new(node.to_string(), generation, self.at),
            // Whoever has a certificate of the fleet's authority is of the fleet.
            cluster_id: "anteroom".to_owned(),
            gossip_interval: self.pace.interval,
            listen_addr: self.at,
            seed_nodes: self.controllers.values().cloned().collect(),
            failure_detector_config: self.pace.failure_detector(),
            marked_for_deletion_grace_period: self.pace.memory,
            catchup_callback: None,
            extra_liveness_predicate: None,
        }
    }

    /// Tells and asks at every beat, for ever.
    async fn tend(&self, handle: &ChitchatHandle) {
        let mut beats = interval(self.pace.beat());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut telling = Telling::default();
        let mut alarmed = false;
        for beat in 0_u64.. {
            beats.tick().await;
            let changes = telling.next(&self.desk.tidings().entries(), ROOM);
            let seen = handle.with_chitchat(|chitchat| {
                changes.iter().for_each(|change| tell(chitchat.self_node_state(), change));
                Seen::by(chitchat)
            });
            let seen = seen.await;
            let most = seen.runs > MOST_RUNS;
            if most && !alarmed {
                tracing::warn!(
                    runs = seen.runs,
                    "gossip remembers too many runs of nodes and will come to a stop: does a node start again and again?"
                );
            }
            alarmed = most;
            let alive = seen.neighbours.iter().filter(|neighbour| neighbour.life == Life::Alive);
            let alive: Vec<_> = alive.map(|neighbour| neighbour.at).collect();
            if beat % 2 == 1 {
                round_between(handle, alive);
            }
            self.book.set_members(seen.members);
            self.desk.meet(seen.neighbours);
        }
    }
}

/// A round between two of chitchat's own, in a fleet that is small.
pub(super) fn round_between(handle: &ChitchatHandle, alive: Vec<SocketAddr>) {
    if alive.len() < SMALL {
        for at in alive.into_iter().sample(&mut rand::rng(), ROUND) {
            // Refused once chitchat has ended, which is noticed elsewhere.
            let _ = handle.gossip(at);
        }
    }
}

fn tell(own: &mut NodeState, change: &Change) {
    match change {
        Change::Put(name, text) => own.set(name, text),
        Change::Drop(name) => own.delete(name),
    }
}

/// What chitchat knows at one moment.
struct Seen {
    runs: usize,
    members: BTreeMap<SocketAddr, NodeId>,
    neighbours: Vec<Neighbour>,
}

impl Seen {
    fn by(chitchat: &Chitchat) -> Self {
        let own = chitchat.self_chitchat_id();
        let alive: std::collections::HashSet<_> = chitchat.live_nodes().collect();
        let mut newest: BTreeMap<NodeId, (u64, Neighbour)> = BTreeMap::new();
        let mut members = BTreeMap::new();
        for (id, state) in chitchat.node_states().iter().filter(|(id, _)| *id != own) {
            let Some(run) = run_of(id) else { continue };
            let life = if alive.contains(id) { Life::Alive } else { Life::Silent };
            let at = id.gossip_advertise_addr;
            if life == Life::Alive {
                members.insert(at, run.node);
            } else {
                members.entry(at).or_insert(run.node);
            }
            let is_newest = newest.get(&run.node).is_none_or(|(known, _)| *known < id.generation_id);
            if is_newest && own.node_id != id.node_id {
                let neighbour = Neighbour { run, at, life, tidings: Tidings::read(state.key_values()) };
                newest.insert(run.node, (id.generation_id, neighbour));
            }
        }
        let neighbours = newest.into_values().map(|(_, neighbour)| neighbour).collect();
        Self { runs: chitchat.node_states().len(), members, neighbours }
    }
}

fn run_of(id: &ChitchatId) -> Option<NodeRun> {
    let node = NodeId(id.node_id.parse().ok()?);
    let generation = Generation(u32::try_from(id.generation_id >> BEGINNINGS).ok()?);
    Some(NodeRun { node, generation })
}

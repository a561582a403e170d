//! What a fleet of 300 gossips, in paused time: nodes of chitchat with this node's tidings over a network in memory.
//!
//! The table is for docs/fleet.md, which has the command.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chitchat::transport::{Socket, Transport};
use chitchat::{
    Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, ChitchatMessage, Deserializable, Serializable,
    spawn_chitchat,
};
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, sleep_until};

use super::Pace;
use super::service::{ROOM, round_between};
use crate::model::exchange::EdgeStage;
use crate::model::ids::LineEpoch;
use crate::model::order::OrderKey;
use crate::model::tidings::{Change, Telling, Tidings, Totals};

/// Who looks at how old everything is.
const OBSERVERS: usize = 5;

/// How long everybody has to get to know each other, and how long is measured, in seconds.
const WARMING: u64 = 20;
const MEASURED: u64 = 20;

type Sent = (SocketAddr, Vec<u8>);
type Door = mpsc::UnboundedSender<(Instant, Sent)>;

/// A network that loses nothing and takes its time.
#[derive(Clone, Default)]
struct Network {
    doors: Arc<Mutex<HashMap<SocketAddr, Door>>>,
    bytes: Arc<AtomicU64>,
    longest: Arc<AtomicUsize>,
}

struct Plug {
    at: SocketAddr,
    network: Network,
    door: mpsc::UnboundedReceiver<(Instant, Sent)>,
    /// What has come and is still under way.
    next: Option<(Instant, Sent)>,
}

#[async_trait]
impl Transport for Network {
    async fn open(&self, at: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let (sender, door) = mpsc::unbounded_channel();
        self.doors.lock().unwrap().insert(at, sender);
        Ok(Box::new(Plug { at, network: self.clone(), door, next: None }))
    }
}

#[async_trait]
impl Socket for Plug {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        let bytes = message.serialize_to_vec();
        self.network.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.network.longest.fetch_max(bytes.len(), Ordering::Relaxed);
        let delay = Duration::from_millis(rand::rng().random_range(1..=20));
        if let Some(door) = self.network.doors.lock().unwrap().get(&to) {
            let _ = door.send((Instant::now() + delay, (self.at, bytes)));
        }
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        if self.next.is_none() {
            self.next = self.door.recv().await;
        }
        if let Some((due, _)) = &self.next {
            sleep_until(*due).await;
        }
        let (_, (from, bytes)) = self.next.take().unwrap();
        Ok((from, ChitchatMessage::deserialize(&mut bytes.as_slice())?))
    }
}

/// A node whose events change at every beat; where joins are counted stands the time, in milliseconds.
async fn node(
    id: u16,
    size: Size,
    began: Instant,
    network: &Network,
) -> (Arc<ChitchatHandle>, JoinHandle<()>) {
    let Size { nodes, events } = size;
    let pace = Pace::default();
    let at = |id: u16| -> SocketAddr { ([10, 0, (id >> 8) as u8, id as u8], 7946).into() };
    let config = ChitchatConfig {
        chitchat_id: ChitchatId::new(id.to_string(), 1 << 24, at(id)),
        cluster_id: "anteroom".to_owned(),
        gossip_interval: pace.interval,
        listen_addr: at(id),
        seed_nodes: (1..=3.min(nodes)).map(|id| at(id).to_string()).collect(),
        failure_detector_config: pace.failure_detector(),
        marked_for_deletion_grace_period: pace.memory,
        catchup_callback: None,
        extra_liveness_predicate: None,
    };
    let handle = Arc::new(spawn_chitchat(config, Vec::new(), network).await.unwrap());
    let told = Arc::clone(&handle);
    let telling = tokio::spawn(async move {
        let (mut beats, mut telling) = (interval(pace.beat()), Telling::default());
        for beat in 0_u64.. {
            beats.tick().await;
            let ms = began.elapsed().as_millis() as u64;
            let all = tidings(events, ms).entries();
            let changes = telling.next(&all, ROOM);
            let tell = |chitchat: &mut Chitchat| {
                for change in &changes {
                    let Change::Put(name, text) = change else { continue };
                    chitchat.self_node_state().set(name, text);
                }
            };
            told.with_chitchat(tell).await;
            if beat % 2 == 1 {
                let others = |chitchat: &mut Chitchat| {
                    let own = chitchat.self_chitchat_id();
                    let others = chitchat.live_nodes().filter(|id| *id != own);
                    others.map(|id| id.gossip_advertise_addr).collect()
                };
                round_between(&told, told.with_chitchat(others).await);
            }
        }
    });
    (handle, telling)
}

fn tidings(events: u16, ms: u64) -> Tidings {
    let mut any = rand::rng();
    let totals = |line| Totals {
        line: LineEpoch(line),
        joined: ms,
        waiting: any.random_range(10_000..1_000_000),
        admitted: any.random_range(10_000..1_000_000),
        live_passes: any.random_range(10_000..1_000_000),
        watermark: OrderKey(any.random()),
    };
    let events = (0..events).map(|event| format!("event-number-{event}").parse().unwrap());
    let events = events.zip((0..).map(totals));
    Tidings { stage: EdgeStage::Serving, version: "0.1.0".to_owned(), leads: None, events: events.collect() }
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; makes a table of docs/fleet.md"]
async fn what_a_large_fleet_gossips() {
    println!(
        "| nodes | events | age p50 / p99 / max | stalest p50 / p99 | out of each node | longest message |"
    );
    println!("|--:|--:|---|---|--:|--:|");
    for (nodes, events) in [(50, 4), (300, 1), (300, 4), (300, 16)] {
        measure(Size { nodes, events }).await;
    }
}

#[derive(Clone, Copy)]
struct Size {
    nodes: u16,
    events: u16,
}

async fn measure(size: Size) {
    let Size { nodes, events } = size;
    let network = Network::default();
    let began = Instant::now();
    let mut handles = Vec::new();
    for id in 1..=nodes {
        handles.push(node(id, size, began, &network).await);
        sleep(Duration::from_millis(1_000 / u64::from(nodes))).await;
    }
    sleep(Duration::from_secs(WARMING)).await;
    let before = network.bytes.load(Ordering::Relaxed);
    let (mut ages, mut stalest) = (Vec::new(), Vec::new());
    let measuring = Instant::now();
    while measuring.elapsed() < Duration::from_secs(MEASURED) {
        sleep(Duration::from_millis(100)).await;
        for (handle, _) in handles.iter().rev().take(OBSERVERS) {
            let now = began.elapsed().as_millis() as u64;
            let look = |chitchat: &mut Chitchat| -> Vec<u64> {
                let own = chitchat.self_chitchat_id();
                let others = chitchat.node_states().iter().filter(|(id, _)| *id != own);
                let told = others.map(|(_, state)| Tidings::read(state.key_values()));
                let oldest = told.map(|told| told?.events.values().map(|totals| totals.joined).min());
                oldest.map(|ms| now - ms.unwrap_or_default()).collect()
            };
            let all = handle.with_chitchat(look).await;
            assert_eq!(all.len(), usize::from(nodes) - 1);
            stalest.push(*all.iter().max().unwrap());
            ages.extend(all);
        }
    }
    let bytes = network.bytes.load(Ordering::Relaxed) - before;
    let seconds = measuring.elapsed().as_secs_f64();
    let part = |ages: &mut Vec<u64>, share: f64| {
        ages.sort_unstable();
        ages[((ages.len() - 1) as f64 * share) as usize] as f64 / 1e3
    };
    println!(
        "| {nodes} | {events} | {:.2} / {:.2} / {:.2} s | {:.2} / {:.2} s | {:.0} KB/s | {:.1} KB |",
        part(&mut ages, 0.5),
        part(&mut ages, 0.99),
        part(&mut ages, 1.0),
        part(&mut stalest, 0.5),
        part(&mut stalest, 0.99),
        bytes as f64 / f64::from(nodes) / seconds / 1e3,
        network.longest.load(Ordering::Relaxed) as f64 / 1e3,
    );
    for (handle, telling) in handles {
        handle.abort();
        telling.abort();
    }
}

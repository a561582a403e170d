//! Five edges, three controllers among them, each in a network namespace of its own: a rush spread over all of them,
//! with something broken in the middle, judged by what visitors saw. `ANTEROOM_LONG=1` makes the rushes larger and
//! breaks everything that a network and a data centre may.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod everywhere;
mod kills;
mod net;
mod nodes;
mod revoked;
#[allow(dead_code, reason = "rooms have more than a fleet needs")]
#[path = "../room/mod.rs"]
mod room;
#[allow(dead_code, reason = "rushes have more than a fleet needs")]
#[path = "../rushed/mod.rs"]
mod rushed;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;
use std::time::Duration;

use anteroom_load::check::{FleetTime, Health, Ordering, Verdict};
use anteroom_load::clock::Clock;
use anteroom_load::history::Recorder;
use anteroom_load::origin::Origin;
use anteroom_load::rush::rush;
use anteroom_load::visitor::{Addresses, Idle, World};
use anteroom_load::wire::{Edges, Roaming, Site};
use net::Net;
use nodes::Nodes;
use revoked::Insider;
use room::Directory;
use rushed::{SHORT, Size, crowd, events, rules};
use tokio::time::sleep;

/// What is broken in the middle of a rush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// The leader is killed, and started again later.
    LeaderKilled,
    /// An edge is killed, and started again later.
    EdgeKilled,
    /// All controllers are killed at once, and started again.
    ControllersKilled,
    /// The leader stands still for ten seconds.
    LeaderFrozen,
    /// The leader reaches edges, but no other controller.
    LeaderCutOff,
    /// The fleet is split in two for ten seconds.
    Split,
    /// No node reaches any other for five seconds.
    AllCut,
    /// One packet in twenty between nodes is lost.
    Lossy,
    /// The clock of a controller, which leads later on, is a minute ahead.
    ClockAhead,
    /// The clock of a controller, which leads later on, is a minute behind.
    ClockBehind,
    /// A controller loses its disk; it is removed and added anew.
    DiskLost,
    /// A session is revoked while its edge is cut off.
    RevokedUnheard,
    /// Several of these, one after the other.
    Several,
    /// Every node is ended in order and started again, one after the other.
    Restarts,
    /// Another process takes over from every node, one after the other.
    HandOvers,
    /// Other limits are read, and signing keys rotated.
    Pushes,
}

impl Fault {
    /// Whether no edge hears a leader for a while. Of any other fault only those see something whose own edge it hits,
    /// and their history shows it.
    fn reaches_all(self) -> bool {
        matches!(self, Self::ControllersKilled | Self::AllCut)
    }

    /// Whether edges are away in their turn and forgive silence, though no history shows it.
    fn goes_unnoticed(self) -> bool {
        matches!(self, Self::Restarts | Self::HandOvers)
    }

    /// Whether fleet time follows a clock that is wrong.
    fn fleet_time(self) -> FleetTime {
        match self {
            Self::ClockAhead | Self::ClockBehind => FleetTime::Steered,
            _ => FleetTime::AsHere,
        }
    }
}

const CONTROLLERS: u8 = 3;
const EDGES: u8 = 5;

/// Larger than what every run of the tests takes.
const LARGE: Size = Size {
    visitors: 3_000,
    capacity: 120,
    rate: 20,
    session: 15.0,
    arrivals: 30.0,
    lasts: 200.0,
    bucket: 15,
    heartbeat: 30,
    claim: 15,
    session_ttl: 30,
};

fn is_long() -> bool {
    std::env::var_os("ANTEROOM_LONG").is_some()
}

/// Rushes a fleet; `None`: there are no network namespaces here, which is said aloud.
async fn rushed_fleet(
    fault: Fault,
    ordering: Ordering,
    roaming: Roaming,
    shares: [usize; 5],
) -> Option<Verdict> {
    let Some(net) = Net::new(EDGES) else {
        println!("SKIPPED: no network namespaces here, so NO FLEET WAS TESTED ({fault:?})");
        return None;
    };
    let size = if is_long() { LARGE } else { SHORT };
    let name = format!("fleet-{fault:?}-{roaming:?}").to_lowercase();
    let directory = Directory(std::env::temp_dir().join(format!("anteroom-{}-{name}", std::process::id())));
    let origin = Origin::start((net.host(), 0).into()).await.unwrap();
    let events = events(&size, ordering, 60);
    let of = (CONTROLLERS, EDGES);
    let mut nodes = Nodes::start(net, &room::built().await, &directory.0, of, origin.address, &events).await;

    let insider = match fault {
        Fault::RevokedUnheard => Some(Insider::enter(&nodes, EDGES).await),
        _ => None,
    };
    let site = |node: u8| Site::new(&nodes.target(node), Some("shop.test"), None).unwrap();
    let edges = (1..=EDGES).zip(shares).map(|(node, share)| (site(node), share)).collect();
    let (recorder, writer) = Recorder::create(&directory.0.join("history.jsonl")).unwrap();
    let world = Arc::new(World {
        edges: Edges::new(edges, roaming).unwrap(),
        clock: Clock::start(),
        recorder,
        idle: Idle::Keep,
        addresses: Addresses::Many,
    });
    let (clock, crowd) = (world.clock, crowd(&size));
    let visitors = tokio::spawn(async move { rush(world, &crowd).await });
    sleep(Duration::from_secs_f64(size.arrivals + 3.0)).await;
    let from = clock.now_us();
    match &insider {
        Some(insider) => insider.is_revoked(&nodes).await,
        None => happen(fault, &mut nodes).await,
    }
    let forgiving = fault.goes_unnoticed().then(|| (from, clock.now_us()));
    let outage = (fault.reaches_all()).then(|| (from, clock.now_us()));
    visitors.await.unwrap();
    writer.join().unwrap().unwrap();

    let leader = nodes.leader(&nodes.all()).await;
    let log = nodes.operator(leader).event_log_json("sale").await.unwrap();
    assert_eq!(origin.counts.leaked.load(Atomic::Relaxed), 0, "tokens reached the origin");
    let mut rules = rules(&size, ordering, outage);
    rules.slack_us = 1_500_000;
    rules.forgiving.extend(forgiving);
    rules.fleet_time = fault.fleet_time();
    rules.health = if fault == Fault::Nothing { Health::Healthy } else { Health::Faulty };
    let (verdict, records) = room::judged(&directory.0, &name, log, &rules);
    if matches!(fault, Fault::HandOvers | Fault::Pushes) {
        let lost = records.iter().find(|record| record.error.is_some() || record.http >= 500);
        assert_eq!(lost, None, "a visitor had no answer");
    }
    assert!(verdict.figures.most_live + 1 >= size.capacity, "the room filled: {:?}", verdict.figures);
    Some(verdict)
}

/// Breaks something, and mends it.
async fn happen(fault: Fault, nodes: &mut Nodes) {
    let seconds = |s| sleep(Duration::from_secs(s));
    let all = nodes.all();
    match fault {
        Fault::Nothing | Fault::RevokedUnheard => return,
        Fault::Restarts => upkeep::restart_in_turn(nodes).await,
        Fault::HandOvers => upkeep::follow_in_turn(nodes).await,
        Fault::Pushes => upkeep::push(nodes).await,
        Fault::LeaderKilled => {
            let leader = nodes.leader(&all).await;
            nodes.kill(leader).await;
            seconds(5).await;
            nodes.spawn(leader);
        }
        Fault::EdgeKilled => {
            nodes.kill(EDGES).await;
            seconds(5).await;
            nodes.spawn(EDGES);
        }
        Fault::ControllersKilled => {
            for controller in nodes.controllers() {
                nodes.kill(controller).await;
            }
            seconds(5).await;
            nodes.controllers().into_iter().for_each(|controller| nodes.spawn(controller));
        }
        Fault::LeaderFrozen => {
            let leader = nodes.leader(&all).await;
            nodes.signal(leader, "STOP").await;
            seconds(10).await;
            nodes.signal(leader, "CONT").await;
        }
        Fault::LeaderCutOff => {
            let leader = nodes.leader(&all).await;
            nodes
                .controllers()
                .into_iter()
                .filter(|other| *other != leader)
                .for_each(|other| nodes.net.cut(leader, other));
            seconds(10).await;
            nodes.net.mend();
        }
        Fault::Split => {
            let leader = nodes.leader(&all).await;
            nodes.net.split(&[leader, EDGES]);
            seconds(10).await;
            nodes.net.mend();
        }
        Fault::AllCut => {
            nodes.net.cut_all();
            seconds(5).await;
            nodes.net.mend();
        }
        Fault::Lossy => {
            nodes.net.lose(5);
            seconds(15).await;
            nodes.net.mend();
        }
        Fault::ClockAhead => with_clock(nodes, 60).await,
        Fault::ClockBehind => with_clock(nodes, -60).await,
        Fault::DiskLost => {
            let leader = nodes.leader(&all).await;
            let lost = nodes.controllers().into_iter().find(|other| *other != leader).unwrap();
            nodes.wipe(lost).await;
            let operator = nodes.operator(leader);
            let path = format!("/admin/cluster/controllers/{lost}");
            operator.ask(http::Method::DELETE, &path, None).await.unwrap();
            nodes.spawn(lost);
            let address =
                serde_json::json!({ "address": format!("{}:{}", nodes.net.address(lost), net::PEERS) });
            while operator.ask(http::Method::PUT, &path, Some(&address)).await.is_err() {
                sleep(Duration::from_millis(200)).await;
            }
        }
        Fault::Several => {
            let leader = nodes.leader(&all).await;
            nodes.kill(leader).await;
            nodes.net.lose(5);
            seconds(3).await;
            nodes.net.split(&[4, 5]);
            seconds(3).await;
            nodes.spawn(leader);
            nodes.net.mend();
            seconds(3).await;
            let leader = nodes.leader(&all).await;
            nodes.signal(leader, "STOP").await;
            nodes.kill(4).await;
            seconds(4).await;
            nodes.signal(leader, "CONT").await;
            nodes.spawn(4);
        }
    }
    nodes.leader(&all).await;
    nodes.ready().await;
}

/// One controller starts again with a wrong clock, then every other one, so that it comes to lead.
async fn with_clock(nodes: &mut Nodes, seconds: i64) {
    nodes.set_clock(1, seconds);
    nodes.kill(1).await;
    nodes.spawn(1);
    nodes.ready().await;
    for other in [2, 3] {
        nodes.kill(other).await;
        sleep(Duration::from_secs(3)).await;
        nodes.spawn(other);
        nodes.ready().await;
    }
}

const EVEN: [usize; 5] = [1, 1, 1, 1, 1];

async fn survives(fault: Fault) {
    rushed_fleet(fault, Ordering::BucketedRandom, Roaming::Stays, EVEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_costs_a_moment_and_no_place() {
    survives(Fault::LeaderKilled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_is_split_in_two_admits_nobody_too_many() {
    survives(Fault::Split).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_freezes_and_wakes_does_no_harm() {
    survives(Fault::LeaderFrozen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_restart_one_after_the_other_lose_no_place() {
    survives(Fault::Restarts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_take_over_one_after_the_other_lose_no_place_and_no_connection() {
    survives(Fault::HandOvers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_limits_and_other_keys_lose_no_place_and_no_connection() {
    survives(Fault::Pushes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_who_go_to_another_edge_each_time_are_served_like_any_other() {
    rushed_fleet(Fault::Nothing, Ordering::BucketedRandom, Roaming::Roams, EVEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_go_where_visitors_are() {
    let shares = [16, 1, 1, 1, 1];
    let verdict = rushed_fleet(Fault::Nothing, Ordering::BucketedRandom, Roaming::Stays, shares).await;
    let Some(verdict) = verdict else { return };
    let wanted = if is_long() { 0.95 } else { 0.85 };
    let utilisation = verdict.figures.utilisation;
    assert!(utilisation.is_some_and(|share| share >= wanted), "utilisation {utilisation:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_fault_keeps_the_contract_too() {
    let named = std::env::var("ANTEROOM_FAULTS").ok();
    if !is_long() && named.is_none() {
        println!(
            "the rest of the faults are made by ANTEROOM_LONG, or in short rushes by ANTEROOM_FAULTS=all"
        );
        return;
    }
    let named = named.filter(|names| names != "all");
    let is_wanted = |fault: &Fault| named.as_ref().is_none_or(|names| names.contains(&format!("{fault:?}")));
    for fault in [
        Fault::EdgeKilled,
        Fault::ControllersKilled,
        Fault::LeaderCutOff,
        Fault::AllCut,
        Fault::Lossy,
        Fault::ClockAhead,
        Fault::ClockBehind,
        Fault::DiskLost,
        Fault::RevokedUnheard,
        Fault::Several,
    ]
    .iter()
    .filter(|fault| is_wanted(fault))
    {
        survives(*fault).await;
    }
    if !is_wanted(&Fault::Several) {
        return;
    }
    rushed_fleet(Fault::Several, Ordering::Fifo, Roaming::Stays, EVEN).await;
    rushed_fleet(Fault::Several, Ordering::Random, Roaming::Roams, EVEN).await;
}

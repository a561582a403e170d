//! What operators do to a fleet in use: restarts, hand-overs, other limits, other keys. None of it is a failure.

use std::time::Duration;

use http::Method;
use tokio::time::sleep;

use crate::nodes::Nodes;
use crate::rushed::SHORT;
use crate::{LARGE, is_long};

const TRIES: u32 = 60;

/// Ends every node in order and starts it again, one after the other, the leader last.
pub(crate) async fn restart_in_turn(nodes: &mut Nodes) {
    let mut left = nodes.all();
    while !left.is_empty() {
        let node = take_next(nodes, &mut left).await;
        nodes.end(node).await;
        nodes.spawn(node);
        nodes.ready().await;
    }
}

/// Has another process take over from every node, one after the other, the leader last.
pub(crate) async fn follow_in_turn(nodes: &mut Nodes) {
    let mut left = nodes.all();
    while !left.is_empty() {
        let node = take_next(nodes, &mut left).await;
        nodes.upgrade(node).await;
        nodes.ready().await;
    }
}

async fn take_next(nodes: &Nodes, left: &mut Vec<u8>) -> u8 {
    let leader = nodes.leader(&nodes.all()).await;
    let at = left.iter().position(|node| *node != leader).unwrap_or(0);
    left.swap_remove(at)
}

/// Writes other limits into every file, has every node read its own, and rotates the signing key; then back.
pub(crate) async fn push(nodes: &mut Nodes) {
    let usual = if is_long() { LARGE } else { SHORT }.capacity;
    let lower = usual * 3 / 4;
    for (from, to) in [(usual, lower), (lower, usual)] {
        for node in nodes.all() {
            nodes.edit(node, &format!("capacity: {from}\n"), &format!("capacity: {to}\n"));
        }
        let operator = nodes.operator(1);
        // On a slow machine nobody leads now and then.
        let look = async || operator.ask(Method::GET, "/admin/events/sale", None).await.unwrap_or_default();
        let reloaded = async || {
            for node in nodes.all() {
                nodes.signal(node, "HUP").await;
            }
            sleep(Duration::from_secs(1)).await;
            look().await["policy"]["capacity"] == to
        };
        until("the limits are read anew", reloaded).await;
        let rotated = async || operator.ask(Method::POST, "/admin/keys/rotate", None).await.is_ok();
        until("the key is rotated", rotated).await;
        sleep(Duration::from_secs(5)).await;
    }
}

/// Asks once a second until it holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..TRIES {
        if holds().await {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("{what}: not in {TRIES} tries");
}

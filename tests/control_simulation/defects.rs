//! What is broken on purpose, so that it shows that the oracle can see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use anteroom::desk::Desk;
use anteroom::model::exchange::{Pulse, Report};
use anteroom::model::ids::{Generation, LedgerEpoch, NodeId, NodeRun};
use anteroom::model::time::TICK;
use anteroom::peer::{Address, Conversation, Dialer, Purpose};

use super::net::address_of;
use super::node::{Death, node_id};
use super::script::{FROM_MS, Fault, MENDED_MS, Script};
use super::world::World;

/// A defect that the oracle has to catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    None,
    /// Votes and entries are not on the disk when the log says so.
    DiskForgets,
    /// A controller that lost its disk votes all the same.
    WipedVotes,
    /// An edge that starts anew takes the number of its earlier run.
    RunsRepeat,
    /// A leader that no quorum answers goes on pulsing.
    DeposedPulses,
}

impl Defect {
    pub(crate) const ALL: [Self; 4] =
        [Self::DiskForgets, Self::WipedVotes, Self::RunsRepeat, Self::DeposedPulses];

    /// What the oracle says of it.
    pub(crate) fn shows(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            // Those who were let in, and where the line had come to, are in what is forgotten.
            Self::DiskForgets | Self::WipedVotes => {
                &["the watermark went back", "was published", "which lives"]
            }
            Self::RunsRepeat => &["two visitors have the ticket"],
            Self::DeposedPulses => &["hears a leader"],
        }
    }

    /// The script of a seed, in which what is broken matters.
    pub(crate) fn script(self, seed: u64) -> Script {
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut script = Script::draw(&mut dice);
        self.provoke(&mut script, &mut dice);
        script
    }

    fn provoke(self, script: &mut Script, dice: &mut SmallRng) {
        let at = dice.random_range(FROM_MS + 1_000..MENDED_MS - 8_000);
        let death = Death::Process;
        match self {
            Self::None => {}
            Self::DiskForgets => {
                let nodes = (1..=script.controllers).collect();
                script.faults = vec![(at, Fault::Kill { nodes, death, down: 500 })];
            }
            Self::WipedVotes => {
                // One controller hears nothing for a while; then only it and the one that forgets are there to elect.
                script.controllers = 3;
                let behind = dice.random_range(1..=3);
                let mut others = (1..=3).filter(|node| *node != behind);
                let (forgets, knows) = (others.next().unwrap(), others.next().unwrap());
                let (forgets, knows) =
                    if dice.random_bool(0.5) { (forgets, knows) } else { (knows, forgets) };
                let all = (1..=script.nodes()).filter(|node| *node != behind).collect();
                script.faults = vec![
                    (at, Fault::Split { nodes: all, lasts: 4_000 }),
                    (at + 3_900, Fault::Kill { nodes: vec![knows], death, down: 4_000 }),
                    (at + 3_900, Fault::LoseDisk { node: forgets, death, down: 100 }),
                ];
            }
            Self::RunsRepeat => {
                let nodes = (script.controllers + 1..=script.nodes()).collect();
                script.faults = vec![(at, Fault::Kill { nodes, death, down: 500 })];
            }
            Self::DeposedPulses => {
                // The first controller founds the fleet, and leads.
                script.controllers = 3;
                script.faults = vec![
                    (at, Fault::PulsesGoOn),
                    (at + 1_000, Fault::Kill { nodes: vec![2, 3], death, down: 6_000 }),
                ];
            }
        }
    }
}

/// What one controller says to another; only the last of it is said here.
#[derive(Serialize, Deserialize)]
enum Question {
    Append,
    Vote,
    Snapshot,
    Founded,
    Begin(Invitation),
}

/// What it says to one whose part begins.
#[derive(Default, Serialize, Deserialize)]
struct Invitation {
    barred: BTreeSet<NodeId>,
    ledger: Option<LedgerEpoch>,
}

/// Tells a controller in another one's name that its part begins.
pub(crate) fn tell_of_beginning(world: &World, node: u16) {
    let other = if node == 1 { 2 } else { 1 };
    let run = NodeRun { node: node_id(other), generation: Generation(1) };
    let dialer = Dialer::new(world.way(other), run);
    let address = Address { node: node_id(node), at: address_of(node) };
    drop(world.nodes[&node].ask(async move {
        let mut conversation = dialer.dial(&address, Purpose::Raft).await.unwrap();
        conversation.say(&Question::Begin(Invitation::default())).await.unwrap();
        conversation.hear::<bool>().await.unwrap()
    }));
}

/// What an edge says to the leader.
#[derive(Serialize)]
struct ToLeader {
    report: Report,
    urgency: Urgency,
}

/// How soon it wants an answer.
#[derive(Serialize)]
enum Urgency {
    #[expect(dead_code, reason = "the number of the next one depends on it")]
    Tick,
    Now,
}

/// What the leader says to an edge; only the first of it is heard here.
#[derive(Deserialize)]
enum ToEdge {
    Pulse(Box<Pulse>),
}

/// Every edge goes on to hear the leader of this moment, whatever becomes of it.
pub(crate) fn go_on_pulsing(world: &World) {
    let leads = |id: &&u16| {
        let desk = world.nodes[*id].desk();
        desk.is_some_and(|desk| desk.control().is_ok_and(|control| control.leads()))
    };
    let Some(&leader) = world.nodes.keys().find(leads) else { return };
    for (&id, node) in world.nodes.iter().filter(|(_, node)| !node.is_controller()) {
        let Some(desk) = node.desk().cloned() else { continue };
        let dialer = Dialer::new(world.way(id), desk.run());
        let address = Address { node: node_id(leader), at: address_of(leader) };
        drop(node.ask(hear_for_ever(desk, dialer, address)));
    }
}

/// More pulses than the leader itself sends between two of these.
const NUMBERS_ON: u64 = 1_000;

/// Takes a pulse from the leader, and then the same one again with every tick, as the answer to a new report.
async fn hear_for_ever(desk: Arc<Desk>, dialer: Dialer, leader: Address) {
    let pulse = async {
        loop {
            let Ok(conversation) = dialer.dial(&leader, Purpose::Control).await else { continue };
            if let Some(pulse) = one_pulse(&desk, conversation).await {
                return pulse;
            }
        }
    };
    let Ok(mut pulse) = timeout(Duration::from_secs(1), pulse).await else { return };
    pulse.events.iter_mut().for_each(|event| event.grant = None);
    loop {
        sleep(TICK).await;
        let report = desk.report();
        pulse.number += NUMBERS_ON;
        pulse.now = pulse.now.after(TICK);
        (pulse.report, pulse.echo) = (report.number, report.sent);
        desk.take((*pulse).clone());
    }
}

async fn one_pulse(desk: &Desk, mut conversation: Conversation) -> Option<Box<Pulse>> {
    conversation.say(&ToLeader { report: desk.report(), urgency: Urgency::Now }).await.ok()?;
    let ToEdge::Pulse(pulse) = conversation.hear().await.ok()?;
    Some(pulse)
}

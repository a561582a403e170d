//! What is broken on purpose, so that it shows that the oracle can see.

use rand::RngExt;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use anteroom::model::ids::{Generation, NodeRun};
use anteroom::peer::{Address, Dialer, Purpose};

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
}

impl Defect {
    pub(crate) const ALL: [Self; 3] = [Self::DiskForgets, Self::WipedVotes, Self::RunsRepeat];

    /// Sees to it that what is broken matters.
    pub(crate) fn provoke(self, script: &mut Script, dice: &mut SmallRng) {
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
    Begin,
}

/// Tells a controller in another one's name that its part begins.
pub(crate) fn tell_of_beginning(world: &World, node: u16) {
    let other = if node == 1 { 2 } else { 1 };
    let run = NodeRun { node: node_id(other), generation: Generation(1) };
    let dialer = Dialer::new(world.way(other), run);
    let address = Address { node: node_id(node), at: address_of(node) };
    drop(world.nodes[&node].ask(async move {
        let mut conversation = dialer.dial(&address, Purpose::Raft).await.unwrap();
        conversation.say(&Question::Begin).await.unwrap();
        conversation.hear::<bool>().await.unwrap()
    }));
}

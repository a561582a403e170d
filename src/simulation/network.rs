//! A network that loses, doubles and delays.

use std::collections::BTreeMap;

use super::faults::{Dice, Faults};
use crate::model::exchange::{Pulse, Report};
use crate::model::ids::Tenure;

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// From an edge to a leader.
    Report(Tenure, Box<Report>),
    /// From a leader to an edge.
    Pulse(Box<Pulse>),
}

/// Messages by the simulated millisecond of their arrival.
#[derive(Debug)]
pub(super) struct Network {
    faults: Faults,
    on_the_way: BTreeMap<(u64, u64), Message>,
    sent: u64,
}

impl Network {
    pub(super) fn new(faults: Faults) -> Self {
        Self { faults, on_the_way: BTreeMap::new(), sent: 0 }
    }

    /// Sends a message: one in fifty is lost, one in thirty doubled, one in fifty up to 3 s late.
    pub(super) fn send(&mut self, now: u64, message: Message, dice: &mut Dice) {
        let faulty = self.faults == Faults::All;
        if faulty && dice.happens(0.02) {
            return;
        }
        let copies = if faulty && dice.happens(0.03) { 2 } else { 1 };
        for _ in 0..copies {
            let late = faulty && dice.happens(0.02);
            let delay = if late { dice.between(300, 3_000) } else { dice.between(1, 40) };
            self.sent += 1;
            self.on_the_way.insert((now + delay, self.sent), message.clone());
        }
    }

    /// The messages that have arrived by `now`.
    pub(super) fn arrived(&mut self, now: u64) -> Vec<Message> {
        let later = self.on_the_way.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.on_the_way, later).into_values().collect()
    }
}

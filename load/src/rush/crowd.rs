//! The visitors of a rush.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Curve, Mix};
use crate::dice::Dice;
use crate::visitor::{Habits, World, live};

/// Who comes, when, and what they are like.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// How many.
    pub visitors: u64,
    /// How they arrive.
    pub curve: Curve,
    /// Over how long they arrive.
    pub over: Duration,
    /// How long the rush lasts at the longest.
    pub most: Duration,
    /// In which shares.
    pub mix: Mix,
    /// Makes the same visitors again.
    pub seed: u64,
    /// What they are like.
    pub habits: Arc<Habits>,
}

/// Sends them all, and returns when the last has gone.
pub async fn rush(world: Arc<World>, crowd: &Crowd) {
    let start = Instant::now();
    let until = start + crowd.most;
    let mut visitors = JoinSet::new();
    for visitor in 0..crowd.visitors {
        let mut dice = Dice::new(crowd.seed, visitor);
        let role = crowd.mix.pick(&mut dice);
        let share = visitor as f64 / crowd.visitors.max(1) as f64;
        let arrival = start + crowd.curve.arrival(share, crowd.over);
        let (world, habits) = (Arc::clone(&world), Arc::clone(&crowd.habits));
        visitors.spawn(async move {
            sleep_until(arrival).await;
            live(world, visitor + 1, role, habits, dice, until).await;
        });
    }
    while visitors.join_next().await.is_some() {}
}

//! A node: the real desk and the real control code, on a runtime whose time is the simulation's.

use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anteroom::clock::{Clock, Hands};
use anteroom::control::{Incoming, Membership, Part};
use anteroom::desk::{Desk, Keepsake};
use anteroom::model::ids::{Generation, NodeId};
use anteroom::model::time::{BootTime, FleetTime};
use anteroom::peer::{Arrived, Dialer, Reception, Refusals, Usher};
use rand::rngs::SmallRng;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::disk::{Disk, Honesty};
use super::net::{Net, address_of};

/// The true time when a simulation begins, in unix milliseconds.
pub(crate) const START_MS: u64 = 1_800_000_000_000;

/// The simulation's pace, in milliseconds: nothing that one node does reaches another within a step.
pub(crate) const STEP_MS: u64 = 10;

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// The process is killed; its machine closes what it had open.
    Process,
    /// The machine loses power: whoever is connected hears nothing any more.
    Power,
}

/// A run of a node.
struct Life {
    runtime: Runtime,
    desk: Arc<Desk>,
    hands: &'static Hands,
}

/// A node's place in the fleet; what runs there changes.
pub(crate) struct Node {
    pub(crate) id: u16,
    controllers: BTreeMap<NodeId, String>,
    net: Net,
    disk: Disk,
    /// The file with what it heard last.
    heard: Arc<Mutex<Option<Keepsake>>>,
    life: Option<Life>,
    /// How far its wall clock is wrong, in milliseconds.
    wall_error: i64,
    /// Since when it gets no time.
    frozen_since: Option<u64>,
    runs_forgotten: bool,
    /// The run of its last life, where its disk is lost.
    lost_run: Option<Generation>,
    last_run: Generation,
    pub(crate) lives: u32,
}

pub(crate) fn node_id(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

impl Node {
    pub(crate) fn new(id: u16, controllers: u16, net: &Net, honesty: Honesty) -> Self {
        let controllers = (1..=controllers).map(|id| (node_id(id), address_of(id))).collect();
        Self {
            id,
            controllers,
            net: net.clone(),
            disk: Disk::new(honesty),
            heard: Arc::default(),
            life: None,
            wall_error: 0,
            frozen_since: None,
            runs_forgotten: false,
            lost_run: None,
            last_run: Generation(0),
            lives: 0,
        }
    }

    pub(crate) fn is_controller(&self) -> bool {
        self.controllers.contains_key(&node_id(self.id))
    }

    /// The desk, while the node runs.
    pub(crate) fn desk(&self) -> Option<&Arc<Desk>> {
        self.life.as_ref().map(|life| &life.desk)
    }

    /// Whether it runs and gets time.
    pub(crate) fn is_awake(&self) -> bool {
        self.life.is_some() && self.frozen_since.is_none()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.life.is_some()
    }

    fn wall(&self, now: u64) -> FleetTime {
        FleetTime((START_MS + now).checked_add_signed(self.wall_error).unwrap())
    }

    /// Starts the node from its disk.
    pub(crate) fn start(&mut self, now: u64) {
        assert!(self.life.is_none());
        self.lives += 1;
        if let Some(lost) = self.lost_run.take() {
            self.set_clock_past(lost, now);
        }
        let hands: &'static Hands = Box::leak(Box::new(Hands::at(BootTime(0), self.wall(now))));
        if self.runs_forgotten {
            hands.set_wall(self.wall(0));
        }
        let clock = Clock::moved_by(hands);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let part = Part::open(self.disk.open(), node_id(self.id), clock).unwrap();
        let me = part.run();
        self.last_run = me.generation;
        let desk = Desk::new(me, clock);
        if let Some(kept) = self.heard.lock().unwrap().clone() {
            desk.recall(kept);
        }
        let (reception, Arrived { control, raft, operator, number, .. }) = Reception::open();
        let refusals = Arc::new(Refusals::default());
        let membership = Membership {
            dialer: Dialer::new(self.net.way(self.id), me),
            controllers: self.controllers.clone(),
            heartbeat: Duration::from_millis(100),
        };
        let refused = Arc::clone(&refusals);
        let incoming = Incoming { control, raft, operator, number, numbering: None, refusals: refused };
        let usher = Usher::new(me, reception, refusals);
        let disk = self.disk.clone();
        let heard = Arc::clone(&self.heard);
        let keep = move |kept| *heard.lock().unwrap() = Some(kept);
        runtime.spawn(part.play(Arc::clone(&desk), membership, incoming, move || disk.open(), keep));
        let handle = runtime.handle().clone();
        self.net.listen(self.id, move |stream, from| {
            let usher = usher.clone();
            handle.spawn(async move { usher.admit(stream, |node| node == node_id(from)).await });
        });
        self.life = Some(Life { runtime, desk, hands });
    }

    /// Without a disk the clock alone tells one run from the one before: its operator sees to it.
    fn set_clock_past(&mut self, run: Generation, now: u64) {
        let least = (u64::from(run.0) + 1) * 1_000;
        let shown = self.wall(now).0;
        self.wall_error += i64::try_from(least.saturating_sub(shown)).unwrap();
    }

    /// Ends the node at once, with everything that was not on its disk.
    pub(crate) fn end(&mut self, death: Death, dice: &mut SmallRng) {
        let Some(Life { runtime, .. }) = self.life.take() else { return };
        self.frozen_since = None;
        match death {
            Death::Process => self.net.close(self.id),
            Death::Power => self.net.darken(self.id),
        }
        self.disk.end_life(dice);
        drop(runtime);
    }

    /// A new disk, and nothing kept, for the next start.
    pub(crate) fn wipe(&mut self) {
        assert!(self.life.is_none());
        self.disk.wipe();
        self.lost_run = Some(self.last_run);
        *self.heard.lock().unwrap() = None;
    }

    /// What its runs were is forgotten, and the clock says the time of the first of them: the next gets that number.
    pub(crate) fn forget_runs(&mut self) {
        self.disk.wipe();
        self.runs_forgotten = true;
    }

    /// The node gets no time from now on; its machine keeps connections open and takes what comes.
    pub(crate) fn freeze(&mut self, now: u64) {
        if self.life.is_some() {
            self.frozen_since.get_or_insert(now);
        }
    }

    /// It goes on, and finds that its clocks went on without it.
    pub(crate) fn thaw(&mut self, now: u64) {
        let (Some(since), Some(life)) = (self.frozen_since.take(), &self.life) else { return };
        let missed = Duration::from_millis(now - since);
        life.hands.advance(missed);
        life.runtime.block_on(async { tokio::time::advance(missed).await });
    }

    /// Somebody sets the wall clock, so that it is wrong by so many milliseconds.
    pub(crate) fn set_wall_error(&mut self, now: u64, error: i64) {
        self.wall_error = error;
        if let Some(life) = &self.life {
            life.hands.set_wall(self.wall(now));
        }
    }

    /// Gives the node its share of time.
    pub(crate) fn step(&self, now: u64) {
        let Some(life) = self.life.as_ref().filter(|_| self.frozen_since.is_none()) else { return };
        let _span = tracing::error_span!("at", now, node = self.id).entered();
        let step = Duration::from_millis(STEP_MS);
        life.hands.advance(step);
        life.runtime.block_on(async { tokio::time::sleep(step).await });
    }

    /// Has the node do something; the answer never comes if the node ends before.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        if let Some(life) = &self.life {
            life.runtime.spawn(async move {
                let _ = sender.send(work.await);
            });
        }
        receiver
    }

    /// What the desk says of itself, by its own clocks.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Desk) -> T) -> Option<T> {
        self.life.as_ref().map(|life| {
            let _inside = life.runtime.enter();
            look(&life.desk)
        })
    }
}

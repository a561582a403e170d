//! An edge's side: finds the leader, reports to it, and takes its pulses.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::stop::Stop;
use super::streams::{ToEdge, ToLeader, Urgency};
use crate::desk::Desk;
use crate::model::exchange::EdgeStage;
use crate::model::ids::NodeId;
use crate::model::time::{ISOLATION, TICK};
use crate::peer::{Address, Conversation, Dialer, PeerError, Purpose, Refusal, Saying};

/// Urgent reports are this far apart at least.
const URGENT_GAP: Duration = Duration::from_millis(5);

/// After all controllers have been tried in vain, how long until the next round.
const ROUND_GAP: Duration = Duration::from_millis(100);

/// A node that is refused asks again after this long: only its operator can help.
const REFUSED_GAP: Duration = Duration::from_secs(2);

/// Pulses that may wait for the desk.
const MOST_PULSES: usize = 16;

/// Finds the leader among the controllers.
#[derive(Debug)]
pub(super) struct Search {
    controllers: BTreeMap<NodeId, String>,
    hint: Option<NodeId>,
    tried: Vec<NodeId>,
}

impl Search {
    pub(super) fn new(controllers: BTreeMap<NodeId, String>) -> Self {
        Self { controllers, hint: None, tried: Vec::new() }
    }

    /// Whom to ask next: whoever is said to lead, else each in turn; `None`: all were asked, a round is over.
    fn next(&mut self, me: NodeId) -> Option<Address> {
        let hinted = self.hint.take().filter(|hint| *hint != me && !self.tried.contains(hint));
        let untried =
            || self.controllers.keys().copied().find(|node| *node != me && !self.tried.contains(node));
        let Some(node) = hinted.or_else(untried) else {
            self.tried.clear();
            return None;
        };
        self.tried.push(node);
        self.controllers.get(&node).map(|at| Address { node, at: at.clone() })
    }

    /// Somebody says who leads.
    pub(super) fn suggest(&mut self, leader: Option<NodeId>) {
        self.hint = leader.or(self.hint);
    }

    /// The addresses by which controllers are known now.
    pub(super) fn learn(&mut self, controllers: BTreeMap<NodeId, String>) {
        if !controllers.is_empty() {
            self.controllers = controllers;
        }
    }
}

/// What an edge follows with.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    pub(super) desk: &'a Desk,
    pub(super) dialer: &'a Dialer,
    pub(super) stop: &'a Stop,
}

/// Why a stream has ended.
enum Over {
    Stopped,
    NotLeader(Option<NodeId>),
    Refused(Refusal),
    Lost(String),
}

/// Follows whoever leads, until the node stops: then it returns. The caller drops it when this node leads itself.
pub(super) async fn follow(edge: Edge<'_>, search: &mut Search) {
    let me = edge.dialer.me().node;
    let mut said = None;
    loop {
        let Some(address) = search.next(me) else {
            tokio::select! {
                () = tokio::time::sleep(ROUND_GAP) => continue,
                () = edge.stop.asked() => return,
            }
        };
        let node = address.node;
        let conversation = tokio::select! {
            answered = edge.dialer.dial(&address, Purpose::Control) => answered,
            () = edge.stop.asked() => return,
        };
        let over = match conversation {
            Ok(conversation) => Exchange::begin(edge, conversation).run().await,
            Err(error) => Over::Lost(error.to_string()),
        };
        match over {
            Over::Stopped => return,
            Over::NotLeader(leader) => search.suggest(leader),
            Over::Refused(why) => {
                if said.replace(why) != Some(why) {
                    tracing::error!("the leader (node {node}) refuses this node: {why}");
                }
                tokio::select! {
                    () = tokio::time::sleep(REFUSED_GAP) => {}
                    () = edge.stop.asked() => return,
                }
            }
            Over::Lost(reason) => tracing::debug!(%node, reason, "no control stream"),
        }
    }
}

/// One control stream.
struct Exchange<'a> {
    edge: Edge<'a>,
    saying: Saying,
    heard: mpsc::Receiver<Result<ToEdge, PeerError>>,
    hearing: JoinHandle<()>,
    /// The number of the first report that said that nothing is left.
    last_word: Option<u64>,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

impl<'a> Exchange<'a> {
    fn begin(edge: Edge<'a>, conversation: Conversation) -> Self {
        let (saying, mut hearing) = conversation.split();
        let (sender, heard) = mpsc::channel(MOST_PULSES);
        let hearing = tokio::spawn(async move {
            loop {
                let heard = hearing.hear().await;
                let ends = heard.is_err();
                if sender.send(heard).await.is_err() || ends {
                    return;
                }
            }
        });
        Self { edge, saying, heard, hearing, last_word: None }
    }

    async fn run(mut self) -> Over {
        let Edge { desk, stop, .. } = self.edge;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut answered) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if answered.elapsed() > ISOLATION {
                        return Over::Lost("the leader is silent".to_owned());
                    }
                    if let Err(error) = self.report(Urgency::Tick).await {
                        return Over::Lost(error.to_string());
                    }
                    last = Instant::now();
                }
                () = desk.report_wanted().notified() => {
                    tokio::time::sleep_until(last + URGENT_GAP).await;
                    if let Err(error) = self.report(Urgency::Now).await {
                        return Over::Lost(error.to_string());
                    }
                    last = Instant::now();
                }
                heard = self.heard.recv() => match heard {
                    Some(Ok(ToEdge::Pulse(pulse))) => {
                        answered = Instant::now();
                        let report = pulse.report;
                        desk.take(*pulse);
                        self.move_on(report);
                    }
                    Some(Ok(ToEdge::NotLeader(leader))) => return Over::NotLeader(leader),
                    Some(Ok(ToEdge::Refused(why))) => return Over::Refused(why),
                    Some(Err(error)) => return Over::Lost(error.to_string()),
                    None => return Over::Lost("the stream has ended".to_owned()),
                },
                () = stop.asked() => return Over::Stopped,
            }
        }
    }

    async fn report(&mut self, urgency: Urgency) -> Result<(), PeerError> {
        let report = self.edge.desk.report();
        if report.stage == EdgeStage::Gone {
            self.last_word.get_or_insert(report.number);
        }
        self.saying.say(&ToLeader { report, urgency }).await
    }

    /// Goes on with a drain: everything is settled, then the last report has been answered.
    fn move_on(&self, answered: u64) {
        let Edge { desk, stop, .. } = self.edge;
        match desk.stage() {
            EdgeStage::Draining if desk.is_settled() => {
                desk.set_stage(EdgeStage::Gone);
                desk.report_wanted().notify_one();
            }
            EdgeStage::Gone if self.last_word.is_some_and(|number| answered >= number) => stop.note_drained(),
            EdgeStage::Gone | EdgeStage::Draining | EdgeStage::Serving => {}
        }
    }
}

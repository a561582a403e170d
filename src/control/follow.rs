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

/// What is told when controllers answer and none of them leads.
const LEADERLESS: &str = "controllers answer, and say that none of them leads; is the fleet founded (`anteroom cluster init`), and \
                          do more than half of its controllers run?";

/// Elections take less.
const QUIET: Duration = Duration::from_secs(3);

/// Pulses that may wait for the desk.
const MOST_PULSES: usize = 16;

/// Finds the leader among the controllers.
#[derive(Debug)]
pub(super) struct Search {
    controllers: BTreeMap<NodeId, String>,
    hint: Option<NodeId>,
    tried: Vec<NodeId>,
    silence: Silence,
}

/// A time without a leader: each cause of it is told once, after a while.
#[derive(Debug)]
struct Silence {
    since: Instant,
    told: BTreeMap<Option<NodeId>, String>,
}

impl Default for Silence {
    fn default() -> Self {
        Self { since: Instant::now(), told: BTreeMap::new() }
    }
}

impl Silence {
    /// Somebody who was asked is no help, or nobody is.
    fn explain(&mut self, asked: Option<NodeId>, cause: String) {
        if self.since.elapsed() < QUIET || self.told.get(&asked) == Some(&cause) {
            return;
        }
        tracing::warn!("this node hears no leader: {cause}");
        self.told.insert(asked, cause);
    }

    /// A leader was heard.
    fn end(&mut self) {
        if !std::mem::take(self).told.is_empty() {
            tracing::info!("this node has heard a leader again");
        }
    }
}

impl Search {
    pub(super) fn new(controllers: BTreeMap<NodeId, String>) -> Self {
        Self { controllers, hint: None, tried: Vec::new(), silence: Silence::default() }
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

    /// This node has led until now.
    pub(super) fn note_led(&mut self) {
        self.silence.end();
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
            Ok(conversation) => Exchange::begin(edge, conversation).run(&mut search.silence).await,
            Err(error) => Over::Lost(error.to_string()),
        };
        match over {
            Over::Stopped => return,
            Over::NotLeader(leader) => {
                search.suggest(leader);
                if leader.is_none() {
                    search.silence.explain(None, LEADERLESS.to_owned());
                }
            }
            Over::Refused(why) => {
                if said.replace(why) != Some(why) {
                    tracing::error!("the leader (node {node}) refuses this node: {why}");
                }
                tokio::select! {
                    () = tokio::time::sleep(REFUSED_GAP) => {}
                    () = edge.stop.asked() => return,
                }
            }
            Over::Lost(reason) => search.silence.explain(Some(node), reason),
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

    async fn run(mut self, silence: &mut Silence) -> Over {
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
                        silence.end();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cause_of_silence_is_told_once_and_not_while_an_election_may_be_under_way() {
        let mut silence = Silence::default();
        silence.explain(None, LEADERLESS.to_owned());
        assert!(silence.told.is_empty());
        tokio::time::advance(QUIET).await;
        silence.explain(None, LEADERLESS.to_owned());
        silence.explain(None, LEADERLESS.to_owned());
        assert_eq!(silence.told.len(), 1);
        silence.end();
        silence.explain(None, LEADERLESS.to_owned());
        assert!(silence.told.is_empty(), "another silence begins");
    }
}

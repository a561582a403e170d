//! The control streams at the leader: reports in, pulses out, one stream to an edge.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::storage::SharedState;
use crate::model::exchange::{Pulse, Report};
use crate::model::ids::{NodeId, NodeRun};
use crate::peer::{Conversation, Hearing, Refusal, Refusals, Saying};

/// Reports that may wait for the leader; an edge that sends more waits with them.
const MOST_REPORTS: usize = 256;

/// Pulses that may wait for one edge: who takes none gets no grants either.
const MOST_PULSES: usize = 2;

/// What an edge says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToLeader {
    pub(super) report: Report,
    pub(super) urgency: Urgency,
}

/// Whether a visitor waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Urgency {
    /// The next tick is soon enough.
    Tick,
    /// Somebody waits.
    Now,
}

/// What the leader says, or who is not it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToEdge {
    Pulse(Box<Pulse>),
    /// Another controller leads, perhaps this one.
    NotLeader(Option<NodeId>),
    /// The run is not let in.
    Refused(Refusal),
}

/// What is heard of a run: a report, or why no more of it is listened to.
type Heard = (NodeRun, Result<ToLeader, Refusal>);

/// Every stream to this leader; they end with it.
#[derive(Debug)]
pub(super) struct Streams {
    sender: mpsc::Sender<Heard>,
    reports: mpsc::Receiver<Heard>,
    refusals: Arc<Refusals>,
    /// Tells who holds which number.
    state: SharedState,
    open: BTreeMap<NodeRun, Stream>,
}

#[derive(Debug)]
struct Stream {
    pulses: mpsc::Sender<ToEdge>,
    hearing: JoinHandle<()>,
    /// Whether a report has not been answered.
    awaits_pulse: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The other half ends once it has said what there was to say.
        self.hearing.abort();
    }
}

impl Streams {
    pub(super) fn new(refusals: Arc<Refusals>, state: SharedState) -> Self {
        let (sender, reports) = mpsc::channel(MOST_REPORTS);
        Self { sender, reports, refusals, state, open: BTreeMap::new() }
    }

    /// Takes a caller in, unless it goes by a number that it does not hold; an older stream of the same run is over.
    pub(super) fn open(&mut self, conversation: Conversation) {
        let run = conversation.peer();
        let holds = |instance| self.state.read(|state| state.numbers.is_holder(run.node, instance));
        if run.node.is_given() && !conversation.instance().is_some_and(holds) {
            return self.turn_away(conversation, Refusal::NotHolder);
        }
        let (saying, hearing) = conversation.split();
        let (pulses, to_say) = mpsc::channel(MOST_PULSES);
        tokio::spawn(say_all(saying, to_say));
        let hearing = tokio::spawn(hear_all(hearing, run, self.sender.clone()));
        self.open.insert(run, Stream { pulses, hearing, awaits_pulse: false });
    }

    /// Waits for a report; whoever reports for another node is cut off.
    pub(super) async fn next(&mut self) -> ToLeader {
        loop {
            let Some((run, heard)) = self.reports.recv().await else { return std::future::pending().await };
            if let Some(heard) = self.take(run, heard) {
                return heard;
            }
        }
    }

    /// The reports that have come.
    pub(super) fn waiting(&mut self) -> Vec<ToLeader> {
        let mut all = Vec::new();
        while let Ok((run, heard)) = self.reports.try_recv() {
            all.extend(self.take(run, heard));
        }
        all
    }

    fn take(&mut self, run: NodeRun, heard: Result<ToLeader, Refusal>) -> Option<ToLeader> {
        let own = |heard: ToLeader| if heard.report.run == run { Ok(heard) } else { Err(Refusal::WrongNode) };
        let heard = match heard.and_then(own) {
            Ok(heard) => heard,
            Err(why) => {
                self.refuse(run, why);
                return None;
            }
        };
        self.open.get_mut(&run)?.awaits_pulse = true;
        Some(heard)
    }

    /// Whom a pulse can be sent to now: those who have reported or are `granted` slots, and take what they are sent.
    pub(super) fn await_pulses(&mut self, granted: &[NodeRun]) -> Vec<NodeRun> {
        self.open.retain(|_, stream| !stream.pulses.is_closed());
        let ready = |(run, stream): &(&NodeRun, &Stream)| {
            (stream.awaits_pulse || granted.contains(run)) && stream.pulses.capacity() > 0
        };
        self.open.iter().filter(ready).map(|(run, _)| *run).collect()
    }

    /// Sends a pulse to one of those.
    pub(super) fn send(&mut self, run: NodeRun, pulse: Pulse) {
        let Some(stream) = self.open.get_mut(&run) else { return };
        stream.awaits_pulse = false;
        if stream.pulses.try_send(ToEdge::Pulse(Box::new(pulse))).is_err() {
            self.open.remove(&run);
        }
    }

    /// Ends the stream of a run, says why, and counts it.
    pub(super) fn refuse(&mut self, run: NodeRun, why: Refusal) {
        if let Some(stream) = self.open.remove(&run) {
            self.refusals.note(why, &format_args!("node {}", run.node));
            let _ = stream.pulses.try_send(ToEdge::Refused(why));
        }
    }

    /// Says to a caller why it is not taken in, and counts it.
    fn turn_away(&self, caller: Conversation, why: Refusal) {
        self.refusals.note(why, &format_args!("node {}", caller.peer().node));
        let (mut saying, _) = caller.split();
        tokio::spawn(async move { drop(saying.say(&ToEdge::Refused(why)).await) });
    }

    /// Which runs hold a stream that they have not ended.
    pub(super) fn runs(&self) -> Vec<NodeRun> {
        let goes_on = |(_, stream): &(&NodeRun, &Stream)| !stream.hearing.is_finished();
        self.open.iter().filter(goes_on).map(|(run, _)| *run).collect()
    }
}

async fn say_all(mut saying: Saying, mut to_say: mpsc::Receiver<ToEdge>) {
    while let Some(said) = to_say.recv().await {
        if saying.say(&said).await.is_err() {
            return;
        }
    }
}

async fn hear_all(mut hearing: Hearing, run: NodeRun, reports: mpsc::Sender<Heard>) {
    loop {
        match hearing.hear().await {
            Ok(heard) => {
                if reports.send((run, Ok(heard))).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if let Some(refusal) = error.refusal() {
                    let _ = reports.send((run, Err(refusal))).await;
                }
                tracing::debug!(node = %run.node, %error, "a control stream has ended");
                return;
            }
        }
    }
}

/// Tells a caller who leads, and hangs up.
pub(super) async fn redirect(mut conversation: Conversation, leader: Option<NodeId>) {
    let _ = conversation.say(&ToEdge::NotLeader(leader)).await;
}

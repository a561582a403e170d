//! Who the controllers are, and how that changes: by raft's joint consensus, never by editing files on a live fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use openraft::{BasicNode, ChangeMembers, Raft};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::acknowledged::Acknowledged;
use super::beginning::{Beginning, Invitation};
use super::change::{Change, Work};
use super::fleet::{Leadership, Membership};
use super::heard::Heard;
use super::peers::{NotAsked, is_founded, tell_of_beginning};
use super::raft::node_of;
use super::storage::LogTypes;
use crate::desk::ControlError;
use crate::model::ids::{NodeId, NodeRun};
use crate::model::ledger::State;
use crate::model::numbered::FIRST_GIVEN;
use crate::model::time::as_millis;
use crate::peer::{Address, DialError};

/// How long a step of a change of controllers may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a new controller may take to catch up.
const CATCH_UP: Duration = Duration::from_secs(15);

/// A new controller that says nothing for so long is given up; who has led for so long has heard everybody who is there.
const SILENCE: Duration = Duration::from_secs(5);

/// How often the leader looks for a change that nobody is at work on.
const LOOK: Duration = Duration::from_millis(500);

/// The controllers, as one of them sees them.
#[derive(Clone)]
pub(super) struct Council {
    raft: Arc<ArcSwapOption<Raft<LogTypes>>>,
    membership: Membership,
    leadership: Leadership,
    heard: Heard,
    beginning: Beginning,
    /// Held while a change is made: there is one at a time.
    at_work: Arc<Mutex<()>>,
    /// Held as well while whoever asked for it waits.
    asked_for: Arc<Mutex<()>>,
}

impl std::fmt::Debug for Council {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Council").field("membership", &self.membership).finish_non_exhaustive()
    }
}

impl Council {
    pub(super) fn new(
        raft: Arc<ArcSwapOption<Raft<LogTypes>>>,
        membership: Membership,
        leadership: Leadership,
        heard: Heard,
        beginning: Beginning,
    ) -> Self {
        Self {
            raft,
            membership,
            leadership,
            heard,
            beginning,
            at_work: Arc::default(),
            asked_for: Arc::default(),
        }
    }

    pub(super) fn raft(&self) -> Result<Arc<Raft<LogTypes>>, ControlError> {
        let closed =
            || ControlError::Unavailable("the control log of this controller is not open".to_owned());
        self.raft.load_full().ok_or_else(closed)
    }

    /// Founds the fleet with the controllers of the configuration. Refused if one of them cannot be asked, or has a
    /// log: then a fleet exists already, or its remains do.
    pub(super) async fn found(&self) -> Result<(), ControlError> {
        let raft = self.raft()?;
        let Membership { dialer, controllers, .. } = &self.membership;
        let unavailable = |error: &dyn std::fmt::Display| ControlError::Unavailable(error.to_string());
        let begun = raft.is_initialized().await.map_err(|error| unavailable(&error))?;
        if begun && raft.metrics().borrow().last_log_index != Some(0) {
            return Err(already(dialer.me().node));
        }
        let others: Vec<Address> = controllers
            .iter()
            .filter(|(node, _)| **node != dialer.me().node)
            .map(|(node, at)| Address { node: *node, at: at.clone() })
            .collect();
        let absent = |error: NotAsked| {
            ControlError::Conflict(format!(
                "every controller must run when the fleet is founded: {error}; nothing was changed, start it and try again"
            ))
        };
        // One that has begun to found and was never elected goes on with it: that the others had no log it saw before it
        // began, and what they have since is a vote for it.
        for address in others.iter().filter(|_| !begun) {
            if is_founded(dialer, address).await.map_err(absent)? {
                return Err(already(address.node));
            }
        }
        for address in &others {
            if !tell_of_beginning(dialer, address, Invitation::default()).await.map_err(absent)? && !begun {
                return Err(already(address.node));
            }
        }
        if begun {
            return Ok(());
        }
        let members: BTreeMap<u64, BasicNode> =
            controllers.iter().map(|(node, at)| (id_of(*node), BasicNode::new(at))).collect();
        raft.initialize(members).await.map_err(|error| unavailable(&error))
    }

    /// Begins to change who the controllers are; refused while another change is under way.
    async fn begin(&self, raft: &Raft<LogTypes>) -> Result<[MutexGuard<'_, ()>; 2], ControlError> {
        let under_way = |what: &dyn std::fmt::Display| {
            ControlError::Conflict(format!(
                "another change of controllers is under way{what}: it comes to its end by itself, and `anteroom cluster status` \
                 tells what it waits for; nothing was changed"
            ))
        };
        let asked_for = self.asked_for.try_lock().map_err(|_| under_way(&""))?;
        // A change that was just ended shows as ended a moment before who ended it lets go.
        let at_work = tokio::time::timeout(LOOK, self.at_work.lock()).await.map_err(|_| under_way(&""))?;
        match Change::of(raft) {
            Some(change) => Err(under_way(&format_args!(" ({change})"))),
            None => Ok([at_work, asked_for]),
        }
    }

    /// Makes a node a controller once it has caught up; if it does not, nothing is changed.
    pub(super) async fn add(&self, node: NodeId, address: String) -> Result<(), ControlError> {
        if node.is_given() {
            return Err(ControlError::Conflict(format!(
                "node {node} is numbered by the leader, and a controller has to have its number from its configuration, below \
                 {FIRST_GIVEN}"
            )));
        }
        let raft = self.raft()?;
        let id = id_of(node);
        let _at_work = self.begin(&raft).await?;
        if voters(&raft).contains_key(&id) {
            return Err(ControlError::Conflict(format!(
                "node {node} is a controller already; one whose disk was lost has to be removed first"
            )));
        }
        let at = Address { node, at: address.clone() };
        match tell_of_beginning(&self.membership.dialer, &at, self.beginning.invitation(&raft)).await {
            Ok(true) => {}
            Ok(false) => {
                return Err(ControlError::Conflict(format!(
                    "node {node} has a control log in which it voted, or of another fleet: give it an empty `node.data_dir`; nothing \
                     was changed"
                )));
            }
            Err(error) => return Err(ControlError::Conflict(not_added(&at, &error))),
        }
        in_time(raft.add_learner(id, BasicNode::new(address), false)).await?;
        if !self.has_caught_up(&raft, node).await {
            in_time(raft.change_membership(ChangeMembers::RemoveNodes(BTreeSet::from([id])), false)).await?;
            return Err(ControlError::Conflict(format!(
                "node {node} does not catch up with the control log: let it and the controllers reach each other at their \
                 `cluster.listen` and try again; nothing was changed"
            )));
        }
        in_time(raft.change_membership(ChangeMembers::AddVoterIds(BTreeSet::from([id])), false)).await
    }

    /// Waits until a newcomer has all that was in the log at this moment; false: it does not get there.
    async fn has_caught_up(&self, raft: &Raft<LogTypes>, node: NodeId) -> bool {
        let (began, mut seen) = (Instant::now(), raft.metrics());
        let goal = seen.borrow().last_log_index;
        loop {
            let has =
                seen.borrow_and_update().replication.as_ref().and_then(|all| all.get(&id_of(node)).copied());
            if has.flatten().map(|log| log.index) >= goal {
                return true;
            }
            let silence = self.heard.silence(node).unwrap_or(Duration::MAX).min(began.elapsed());
            if silence > SILENCE || began.elapsed() > CATCH_UP {
                return false;
            }
            let _ = tokio::time::timeout(LOOK, seen.changed()).await;
        }
    }

    /// Brings every change to its end that nobody is at work on, for as long as this controller leads.
    pub(super) async fn tend(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(raft) = self.raft.load_full() else { continue };
            if let Some(change) = Change::of(&raft)
                && let Ok(_at_work) = self.at_work.try_lock()
            {
                let _ = tokio::time::timeout(PATIENCE, change.end(&raft)).await;
            }
        }
    }

    /// Makes a controller a controller no more.
    pub(super) async fn remove(&self, node: NodeId) -> Result<(), ControlError> {
        let raft = self.raft()?;
        let id = id_of(node);
        let _at_work = self.begin(&raft).await?;
        let mut left = voters(&raft);
        if left.remove(&id).is_none() {
            return Err(ControlError::Conflict(format!("node {node} is no controller")));
        }
        if left.is_empty() {
            return Err(ControlError::Conflict(
                "a fleet needs a controller: add another one first".to_owned(),
            ));
        }
        let (of, living) = (left.len(), self.living(left).await);
        if 2 * living <= of {
            return Err(ControlError::Conflict(format!(
                "without node {node} only {living} of {of} controllers would live, which is no majority: start the others \
                 again, or remove one that is gone"
            )));
        }
        in_time(raft.change_membership(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false)).await
    }

    /// How many of these controllers live and have a log: this one, and those that say so.
    async fn living(&self, controllers: BTreeMap<u64, String>) -> usize {
        let Membership { dialer, .. } = &self.membership;
        let mut living = 0;
        for (node, at) in controllers.into_iter().filter_map(|(id, at)| Some((node_of(id)?, at))) {
            let is_here = node == dialer.me().node;
            let answers = async || matches!(is_founded(dialer, &Address { node, at }).await, Ok(true));
            living += usize::from(is_here || answers().await);
        }
        living
    }

    /// The runs of a node that is to be forgotten.
    pub(super) fn gone(
        &self,
        state: &State,
        node: NodeId,
        acknowledged: &Acknowledged,
    ) -> Result<Vec<NodeRun>, ControlError> {
        let runs: Vec<NodeRun> = state.runs.keys().filter(|run| run.node == node).copied().collect();
        if runs.is_empty() {
            return Err(ControlError::Conflict(format!("no node {node} is registered")));
        }
        if runs.iter().any(|run| acknowledged.of(run).is_some()) {
            return Err(ControlError::Conflict(format!("node {node} is being heard: end it first")));
        }
        if self.leadership.leads_for().is_none_or(|leads_for| leads_for < SILENCE) {
            return Err(ControlError::Conflict(format!(
                "whoever leads does so too recently to know that node {node} is gone: ask again in {} seconds",
                SILENCE.as_secs()
            )));
        }
        Ok(runs)
    }

    /// Who the controllers are, who leads them, and the change that is under way, as JSON: as this one sees it.
    pub(super) fn describe(&self) -> Value {
        let me = self.membership.dialer.me().node;
        let Some(raft) = self.raft.load_full() else {
            return json!({ "seen_by": me, "controllers": [], "leader": null, "change": null, "warnings": [] });
        };
        let answers = |node| node == me || self.heard.answers(node);
        let leader = self.leader(&raft, answers);
        let work = if self.asked_for.try_lock().is_err() { Work::Done } else { Work::Left };
        let change = Change::of(&raft);
        let warnings = match change {
            None => warnings(voters(&raft).len()),
            Some(_) => Vec::new(),
        };
        json!({
            "seen_by": me,
            "controllers": self.controllers(&raft, leader.map(|(node, _)| node), answers),
            "leader": leader.map(|(node, leads_for)| json!({
                "node": node,
                "term": raft.metrics().borrow().vote.leader_id.term,
                "leads_for_ms": leads_for.map(as_millis),
            })),
            "change": change.map(|change| change.describe(work, answers)),
            "warnings": warnings,
        })
    }

    /// Who leads, and for how long where that is this controller. Of another one raft remembers that it led.
    fn leader(
        &self,
        raft: &Raft<LogTypes>,
        answers: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Option<Duration>)> {
        let me = self.membership.dialer.me().node;
        let other = || {
            let other = raft.metrics().borrow().current_leader.and_then(node_of)?;
            (other != me && answers(other)).then_some((other, None))
        };
        self.leadership.leads_for().map(|leads_for| (me, Some(leads_for))).or_else(other)
    }

    fn controllers(
        &self,
        raft: &Raft<LogTypes>,
        leader: Option<NodeId>,
        answers: impl Fn(NodeId) -> bool,
    ) -> Vec<Value> {
        let metrics = raft.metrics();
        let seen = metrics.borrow();
        let membership = seen.membership_config.membership();
        let replicated = |id: &u64| {
            let known = seen.replication.as_ref().and_then(|all| all.get(id).copied().flatten());
            if *id == seen.id { seen.last_log_index } else { known.map(|log| log.index) }
        };
        let describe = |(id, node): (&u64, &BasicNode)| {
            let silence = node_of(*id).filter(|_| *id != seen.id).and_then(|node| self.heard.silence(node));
            json!({
                "node": node_of(*id),
                "address": node.addr,
                "answers": node_of(*id).is_some_and(&answers),
                "silent_ms": silence.map(as_millis),
                "votes": membership.voter_ids().any(|voter| voter == *id),
                "leads": leader.is_some() && node_of(*id) == leader,
                "log_index": replicated(id),
            })
        };
        membership.nodes().map(describe).collect()
    }

    /// What to say once a controller has been removed, beyond what is always told.
    pub(super) fn lonely(&self) -> Option<&'static str> {
        let raft = self.raft.load_full()?;
        (voters(&raft).len() == 1).then_some(
            "the only controller has no stand-in: while it is away nobody new is let in; add two for a fleet that bears the loss \
             of one",
        )
    }
}

/// What speaks against so many controllers: an even number bears no more than one less does.
fn warnings(controllers: usize) -> Vec<String> {
    match controllers {
        2 => vec![
            "two controllers bear no loss: while either is away nobody new is let in; add a third".to_owned(),
        ],
        even if even > 0 && even % 2 == 0 => vec![format!(
            "{even} controllers bear the loss of {}, as {} do: add one, or remove one",
            even / 2 - 1,
            even - 1
        )],
        _ => Vec::new(),
    }
}

/// The controllers, with their addresses.
fn voters(raft: &Raft<LogTypes>) -> BTreeMap<u64, String> {
    let metrics = raft.metrics();
    let seen = metrics.borrow();
    let membership = seen.membership_config.membership();
    let address = |id| Some((id, membership.get_node(&id)?.addr.clone()));
    membership.voter_ids().filter_map(address).collect()
}

async fn in_time<T, E: std::fmt::Display>(
    change: impl Future<Output = Result<T, E>>,
) -> Result<(), ControlError> {
    match tokio::time::timeout(PATIENCE, change).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(ControlError::Unavailable(error.to_string())),
        Err(_) => Err(ControlError::Unknown),
    }
}

/// Why a node that was asked to be a controller is none, and what to do.
fn not_added(at: &Address, error: &NotAsked) -> String {
    let Address { node, at: address } = at;
    if error.is_no_controller() {
        return format!(
            "node {node} is an edge by its own configuration: write it into its `cluster.controllers` and start it again with \
             an empty `node.data_dir`; nothing was changed"
        );
    }
    let reason = match error {
        NotAsked::Unreached(DialError::Unreachable { source, .. }) => source.to_string(),
        error => error.to_string(),
    };
    format!(
        "node {node} does not answer at {address} ({reason}): start it there, or give the address at which the leader reaches its \
         `cluster.listen`; nothing was changed"
    )
}

fn already(node: NodeId) -> ControlError {
    ControlError::Conflict(format!(
        "node {node} has a control log already: the fleet is founded, or its remains are there; a founding that was \
         interrupted is finished by `anteroom cluster init` at the node where it began"
    ))
}

fn id_of(node: NodeId) -> u64 {
    u64::from(node.0.get())
}

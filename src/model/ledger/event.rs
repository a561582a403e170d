//! One event in the ledger: its policy, its pool, its line, its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::command::{Change, ChangeKind, EventTick, Revoke, RevokeReason};
use super::lag::Abreast;
use super::line::Line;
use super::live::LiveChange;
use super::log::{Decision, EventLog};
use super::outcome::{ChangeApplied, ChangeError, ChangeOutcome};
use super::pool::{Entry, Pool, Reserved};
use super::remains::Remains;
use crate::model::ids::{EventId, LineId, LogIndex, PoolId};
use crate::model::policy::{Fields, Policy, RouteMatch, Submissions};
use crate::model::route::is_same_route;
use crate::model::time::FleetTime;

/// An event as the log knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The log index of the last change of its policy: the ETag.
    pub version: u64,
    /// The log index of the last change that an operator or a file made.
    pub changed: LogIndex,
    /// The fields that make the policy.
    pub fields: Fields,
    /// The policy.
    pub policy: Arc<Policy>,
    /// What files submitted.
    pub submissions: Submissions,
    /// The event's pool: [`PoolId`] 0, the only one so far.
    pub pool: Pool,
    /// The event's line: [`LineId`] 0, the only one so far.
    pub line: Line,
    /// What was decided.
    pub log: EventLog,
}

/// What a tick did to an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventOutcome {
    /// The event.
    pub event: EventId,
    /// The pool that slots were reserved in.
    pub pool: PoolId,
    /// The line that they are for.
    pub line: LineId,
    /// The slots that may be handed out now.
    pub reserved: Option<Reserved>,
}

impl Event {
    /// A new event with this policy, over what remains of an earlier one of its id.
    #[must_use]
    pub(super) fn new(
        index: LogIndex,
        now: FleetTime,
        fields: Fields,
        policy: Policy,
        entropy: [u8; 32],
        remains: Option<Remains>,
    ) -> Self {
        let mut event = Self {
            version: index.0,
            changed: index,
            fields,
            policy: Arc::new(policy),
            submissions: Submissions::default(),
            pool: Pool::default(),
            line: Line::new(derive(entropy, "draw")),
            log: EventLog::default(),
        };
        if let Some(remains) = remains {
            (event.pool, event.line.epoch) = remains.into_next();
        }
        event.follow_policy(index, now, entropy);
        event
    }

    pub(super) fn tick(
        &mut self,
        index: LogIndex,
        now: FleetTime,
        tick: &EventTick,
        edges: Abreast,
        changes: &mut Vec<LiveChange>,
    ) -> Option<Reserved> {
        let policy = Arc::clone(&self.policy);
        let entry = Entry { index, now, policy: &policy };
        let decisions = self.line.tick(now, policy.ordering, tick);
        decisions.into_iter().for_each(|what| self.log.push(index, now, what));
        let reserved = self.pool.tick(entry, tick, edges, changes);
        let ended = changes.iter().filter(|change| !matches!(change, LiveChange::Live(..))).count();
        if ended > 0 {
            self.log.push(index, now, Decision::Ended(u32::try_from(ended).unwrap_or(u32::MAX)));
        }
        if let Some(Reserved { block, slots, .. }) = reserved {
            self.log.push(index, now, Decision::Reserved { block, slots });
        }
        reserved
    }

    pub(super) fn change(
        &mut self,
        index: LogIndex,
        now: FleetTime,
        change: &Change,
        others: &BTreeMap<EventId, Self>,
        changes: &mut Vec<LiveChange>,
    ) -> Result<ChangeApplied, ChangeError> {
        let entropy = change.entropy;
        match &change.kind {
            ChangeKind::Put(fields) | ChangeKind::Patch(fields) => {
                let mut wanted = self.fields.clone();
                wanted.0.extend(fields.0.clone());
                self.set_fields(index, now, wanted, entropy, others)
            }
            ChangeKind::Submit(submission) => {
                let (mut wanted, mut submissions) = (self.fields.clone(), self.submissions.clone());
                let merged = submissions.merge(&mut wanted, submission);
                let applied = self.set_fields(index, now, wanted, entropy, others)?;
                self.submissions = submissions;
                Ok(ChangeApplied { merged: Some(merged), ..applied })
            }
            ChangeKind::Reset => {
                let decision = self.line.reset(derive(entropy, "draw"));
                self.log.push(index, now, decision);
                self.version = index.0;
                self.follow_policy(index, now, entropy);
                Ok(self.applied(ChangeOutcome::Updated))
            }
            ChangeKind::Admit(count) => {
                self.line.admit_pending = self.line.admit_pending.saturating_add(*count);
                self.log.push(index, now, Decision::Admit(*count));
                Ok(self.applied(ChangeOutcome::Updated))
            }
            ChangeKind::EndPass(id) => {
                let policy = Arc::clone(&self.policy);
                let revoke = Revoke { id: *id, why: RevokeReason::Ended };
                if !self.pool.live().would_end(&revoke) {
                    return Ok(self.applied(ChangeOutcome::Unchanged));
                }
                self.pool.revoke(Entry { index, now, policy: &policy }, revoke, changes);
                Ok(self.applied(ChangeOutcome::Updated))
            }
            ChangeKind::Delete => {
                let policy = Arc::clone(&self.policy);
                self.pool.end_all(Entry { index, now, policy: &policy }, changes);
                Ok(ChangeApplied { version: 0, outcome: ChangeOutcome::Deleted, merged: None })
            }
        }
    }

    fn set_fields(
        &mut self,
        index: LogIndex,
        now: FleetTime,
        wanted: Fields,
        entropy: [u8; 32],
        others: &BTreeMap<EventId, Self>,
    ) -> Result<ChangeApplied, ChangeError> {
        if wanted == self.fields {
            return Ok(self.applied(ChangeOutcome::Unchanged));
        }
        let policy = Policy::from_fields(&wanted).map_err(ChangeError::Faults)?;
        if policy.ordering != self.policy.ordering && self.line.is_in_use() {
            let reason = "`ordering` cannot change while anyone waits; reset the event's line first";
            return Err(ChangeError::Conflict(reason.to_owned()));
        }
        let kept = &self.policy.routes;
        let added: Vec<_> = policy.routes.iter().filter(|route| !kept.contains(route)).cloned().collect();
        check_routes(&added, others)?;
        self.fields = wanted;
        self.policy = Arc::new(policy);
        self.version = index.0;
        self.follow_policy(index, now, entropy);
        Ok(self.applied(ChangeOutcome::Updated))
    }

    /// Records what of the policy bears on admission, and prepares the lottery that a schedule asks for.
    fn follow_policy(&mut self, index: LogIndex, now: FleetTime, entropy: [u8; 32]) {
        let policy = Decision::Policy {
            capacity: self.policy.capacity.get(),
            max_admit_per_sec: self.policy.max_admit_per_sec.get(),
            ordering: self.policy.ordering,
            mode: self.policy.mode,
            paused: self.policy.paused,
        };
        self.log.push(index, now, policy);
        let lottery = self.line.prepare_lottery(now, &self.policy.schedule, derive(entropy, "lottery"));
        if let Some(commitment) = lottery {
            self.log.push(index, now, commitment);
        }
    }

    fn applied(&self, outcome: ChangeOutcome) -> ChangeApplied {
        ChangeApplied { version: self.version, outcome, merged: None }
    }
}

/// Refuses routes that another event has: whoever is first in the log keeps them.
pub(super) fn check_routes(
    routes: &[RouteMatch],
    others: &BTreeMap<EventId, Event>,
) -> Result<(), ChangeError> {
    let taken = |route: &RouteMatch| {
        let same = |other: &RouteMatch| is_same_route(route, other);
        let owner = others.iter().find(|(_, other)| other.policy.routes.iter().any(same));
        owner.map(|(id, _)| {
            let reason = format!("`match`: {route} belongs to event {id}; take it from there first");
            ChangeError::Conflict(reason)
        })
    };
    routes.iter().find_map(taken).map_or(Ok(()), Err)
}

/// Makes one secret of several from the entropy of an entry.
fn derive(entropy: [u8; 32], purpose: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(entropy);
    hash.update(purpose.as_bytes());
    hash.finalize().into()
}

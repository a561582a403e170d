//! What visitors do: arrive, wait, come in, leave, and replay.

use std::sync::Arc;

use super::edge::Edge;
use super::visitors::{Hold, Kind, Polling, Stage, Visitor, renew, unclaimed};
use super::world::{HEARTBEAT_TTL_S, STEP_MS, World};
use crate::model::edge::{Ending, Honour, Judgement};
use crate::model::ids::{LogIndex, TicketId};
use crate::model::ledger::RevokeReason;
use crate::model::time::BootTime;
use crate::model::token::{Pass, Ticket};

/// The longest that a request waits for a slot.
const HOLD_MS: u64 = 1_000;

impl World {
    /// Everybody whose time has come does the next thing.
    pub(super) fn visit(&mut self) {
        let mut visitors = std::mem::take(&mut self.visitors);
        let now = self.now;
        for visitor in visitors.iter_mut().filter(|visitor| visitor.next <= now) {
            self.step(visitor);
        }
        self.visitors = visitors;
    }

    /// Some edge that can be reached, with its own clock.
    fn any_edge(&mut self) -> Option<(&mut Edge, BootTime)> {
        let at = self.pick_edge()?;
        self.edge_at(at)
    }

    fn pick_edge(&mut self) -> Option<usize> {
        let up: Vec<_> = (0..self.nodes.len())
            .filter(|at| self.nodes.get(*at).is_some_and(|node| node.edge.is_some()))
            .collect();
        up.get(self.dice.pick(up.len())).copied()
    }

    fn edge_at(&mut self, at: usize) -> Option<(&mut Edge, BootTime)> {
        let now = self.now;
        let node = self.nodes.get_mut(at)?;
        let boot = BootTime(now + node.boot_offset);
        Some((node.edge.as_mut()?, boot))
    }

    fn step(&mut self, visitor: &mut Visitor) {
        visitor.next = self.now + self.dice.between(700, 1_300);
        match std::mem::replace(&mut visitor.stage, Stage::Gone) {
            Stage::Coming(at) => visitor.stage = self.arrive(visitor).unwrap_or(Stage::Coming(at)),
            Stage::Waiting(ticket) => {
                let gives_up =
                    self.now > visitor.gives_up && matches!(visitor.kind, Kind::Impatient | Kind::Ghost);
                if !gives_up {
                    visitor.stage = self.wait(visitor, *ticket);
                } else if visitor.kind == Kind::Impatient {
                    self.leave(*ticket);
                }
            }
            Stage::Inside { pass, until } => visitor.stage = self.be_inside(visitor, pass, until),
            Stage::Gone => self.replay(visitor),
        }
    }

    /// Whoever leaves the line has no place in it any more, at any edge that has heard.
    fn leave(&mut self, ticket: Ticket) {
        let Some((edge, _)) = self.any_edge() else { return };
        edge.revoke(ticket.id, RevokeReason::Left);
    }

    fn arrive(&mut self, visitor: &mut Visitor) -> Option<Stage> {
        let session = u64::from(self.scenario.session_s) * 1_000;
        let now = self.now;
        let (edge, boot) = self.any_edge()?;
        edge.view.as_ref()?;
        let id = edge.new_id();
        visitor.answered = now;
        if edge.is_open(boot)
            && let Some(minted) = edge.mint(id, boot)
        {
            self.oracle.minted(now);
            return Some(self.enter(unclaimed(&minted), now + session));
        }
        edge.join(id, boot).map(|ticket| Stage::Waiting(Box::new(ticket)))
    }

    fn enter(&mut self, pass: Pass, until: u64) -> Stage {
        self.passes.push(pass);
        self.oracle.figures.admitted += 1;
        Stage::Inside { pass, until }
    }

    fn wait(&mut self, visitor: &mut Visitor, mut ticket: Ticket) -> Stage {
        let now = self.now;
        let session = self.dice.between(500, 1_500) * u64::from(self.scenario.session_s);
        let asks = if visitor.kind == Kind::Replayer { 2 } else { 1 };
        let mut stage = Stage::Waiting(Box::new(ticket));
        for _ in 0..asks {
            // A request that waits for a slot is at the edge that it was sent to.
            let Some(at) = visitor.holds.map(|hold| hold.edge).or_else(|| self.pick_edge()) else { continue };
            let Some((edge, boot)) = self.edge_at(at) else {
                visitor.holds = None;
                continue;
            };
            let Some(judgement) = edge.poll(&mut ticket, boot) else { continue };
            let minted_before = edge.has_minted(ticket.id);
            visitor.called = judgement == Judgement::Called;
            match judgement {
                Judgement::Called => {
                    if let Some(minted) = edge.mint(ticket.id, boot) {
                        if !minted_before {
                            self.oracle.minted(now);
                        }
                        visitor.kept = Some(Box::new(ticket));
                        stage = self.enter(unclaimed(&minted), now + session);
                        continue;
                    }
                    // A status request waits up to a second for a slot, then the visitor pauses as long.
                    let waits = (now / 1_000 + ticket.id.sequence).is_multiple_of(2);
                    visitor.next = match self.scenario.polling {
                        Polling::AsTold => now + self.hold(visitor, ticket.id, at),
                        Polling::Eager if waits => now + STEP_MS,
                        Polling::Eager => now + 1_000 - now % 1_000,
                    };
                }
                Judgement::Admitted(live) => {
                    let pass = Pass {
                        id: ticket.id,
                        at: live.at,
                        weight: live.weight,
                        index: live.claim.map_or(LogIndex(0), |claim| claim.index),
                        started: 0,
                        expires: live.expires,
                    };
                    stage = self.enter(pass, now + session);
                    continue;
                }
                Judgement::Ended(ending) => {
                    let silent = now - visitor.answered;
                    if ending == Ending::MissedHeartbeat && silent < HEARTBEAT_TTL_S * 1_000 {
                        self.oracle.report(now, format!("a place was lost after {silent} ms of silence"));
                    }
                    return if matches!(stage, Stage::Inside { .. }) { stage } else { Stage::Gone };
                }
                Judgement::Waiting(..) | Judgement::Unkeyed => {
                    if self.scenario.polling == Polling::AsTold {
                        let jitter = self.dice.between(0, 1_000) as f64 / 1_000.0;
                        let after = self.edge_at(at).map(|(edge, _)| edge.poll_after(judgement, jitter));
                        visitor.next = now + after.unwrap_or(1_000);
                    }
                }
            }
            visitor.answered = now;
            if !matches!(stage, Stage::Inside { .. }) {
                stage = Stage::Waiting(Box::new(ticket));
            }
        }
        stage
    }

    /// How long until a called visitor without a slot does something: it holds on, at most a second, then polls again.
    fn hold(&mut self, visitor: &mut Visitor, id: TicketId, at: usize) -> u64 {
        let now = self.now;
        let jitter = self.dice.between(0, 1_000) as f64 / 1_000.0;
        let Some((edge, _)) = self.edge_at(at) else { return 1_000 };
        let fresh = Hold { since: now, asked_with: edge.next_report(), edge: at };
        let hold = *visitor.holds.get_or_insert(fresh);
        if now - hold.since < HOLD_MS && !edge.is_refused(hold.asked_with) {
            return STEP_MS;
        }
        visitor.holds = None;
        edge.let_go(id);
        edge.poll_after(Judgement::Called, jitter)
    }

    fn be_inside(&mut self, visitor: &mut Visitor, mut pass: Pass, until: u64) -> Stage {
        let now = self.now;
        let Some((edge, boot)) = self.any_edge() else { return Stage::Inside { pass, until } };
        if now >= until {
            if visitor.kind != Kind::Ghost {
                edge.revoke(pass.id, RevokeReason::Ended);
            }
            visitor.next = now + 500;
            return Stage::Gone;
        }
        let honour = edge.honours(&pass, boot);
        match honour {
            Honour::Open { .. } => {
                renew(&mut pass, &edge.live);
                edge.claim(&pass, boot);
            }
            Honour::Claim { .. } => {
                edge.claim(&pass, boot);
                visitor.next = now + 250;
            }
            Honour::Await(_) => visitor.next = now + 250,
            Honour::Refused => return Stage::Gone,
        }
        self.remember(pass);
        Stage::Inside { pass, until }
    }

    /// Keeps the newest token of every pass beside the first one: both may be shown.
    fn remember(&mut self, pass: Pass) {
        let known = |known: &&mut Pass| known.id == pass.id && known.index > LogIndex(0);
        if pass.index == LogIndex(0) {
            return;
        }
        match self.passes.iter_mut().find(known) {
            Some(known) => *known = pass,
            None => self.passes.push(pass),
        }
    }

    /// A replayer asks again with the ticket of a session that is over.
    fn replay(&mut self, visitor: &mut Visitor) {
        let Some(kept) = visitor.kept.clone() else {
            visitor.next = u64::MAX;
            return;
        };
        if visitor.kind != Kind::Replayer {
            visitor.next = u64::MAX;
            return;
        }
        visitor.next = self.now + self.dice.between(2_000, 6_000);
        visitor.answered = 0;
        let mut ticket = *kept;
        let policy = Arc::clone(&self.policy);
        let Some((edge, boot)) = self.any_edge() else { return };
        ticket.last_seen = crate::model::presence::Window::at(edge.link.upper(boot), policy.heartbeat_ttl);
        let stage = self.wait(visitor, ticket);
        if let Stage::Inside { .. } = stage {
            visitor.stage = stage;
        }
    }
}

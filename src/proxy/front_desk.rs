//! What the gate asks of the desk: the visitor's side of it, so that the gate can be tried against any answer.

use std::future::Future;
use std::sync::Arc;

use arc_swap::Guard;

use crate::desk::{
    Activity, Attendance, Carried, Desk, ExpressAnswer, ExpressKind, JoinAnswer, PassAnswer, StatusAnswer,
};
use crate::model::ids::{EventId, TicketId};
use crate::model::policy::Policy;
use crate::model::route::RouteTable;
use crate::model::time::FleetTime;

/// The visitor's side of the desk. Every call ends within a few seconds but [`FrontDesk::pass_ended`].
pub trait FrontDesk: Send + Sync + 'static {
    /// The routes of all events; `None`: this node has not heard yet which events there are.
    fn routes(&self) -> Option<Guard<Arc<RouteTable>>>;

    /// The policy of an event; `None`: there is no such event.
    fn policy(&self, event: &EventId) -> Option<Arc<Policy>>;

    /// Fleet time, the latest that it can be.
    fn now(&self) -> FleetTime;

    /// A signed id of a ticket to be; `None`: this node has no signing key yet.
    fn seat_token(&self, event: &EventId) -> Option<String>;

    /// What a token is in the line of this event.
    fn carried(&self, event: &EventId, token: &str) -> Carried;

    /// Puts a visitor in line, or lets it in; `shown` is a seat or a ticket.
    fn join(&self, event: &EventId, shown: Option<&str>) -> impl Future<Output = JoinAnswer> + Send;

    /// Refreshes a ticket and says where it stands.
    fn status(
        &self,
        event: &EventId,
        ticket: &str,
        attendance: Attendance,
    ) -> impl Future<Output = StatusAnswer> + Send;

    /// Ends places and their sessions for good.
    fn leave(&self, event: &EventId, tickets: &[&str], passes: &[&str]) -> impl Future<Output = ()> + Send;

    /// Whether one of these passes opens.
    fn check_pass(
        &self,
        event: &EventId,
        tokens: &[&str],
        activity: Activity,
    ) -> impl Future<Output = PassAnswer> + Send;

    /// Lets a newcomer in at once, if nobody waits and a slot is free.
    fn express(&self, event: &EventId, kind: ExpressKind) -> impl Future<Output = ExpressAnswer> + Send;

    /// A response has ended that gave a pass on the spot.
    fn response_ended(&self, event: &EventId, id: TicketId);

    /// Returns when the pass is over, which by its token is at `expires`; meanwhile its session counts as active.
    fn pass_ended(
        &self,
        event: &EventId,
        id: TicketId,
        expires: FleetTime,
    ) -> impl Future<Output = ()> + Send;
}

impl FrontDesk for Desk {
    fn routes(&self) -> Option<Guard<Arc<RouteTable>>> {
        self.knows_events().then(|| Self::routes(self))
    }

    fn policy(&self, event: &EventId) -> Option<Arc<Policy>> {
        Self::policy(self, event)
    }

    fn now(&self) -> FleetTime {
        Self::now(self)
    }

    fn seat_token(&self, event: &EventId) -> Option<String> {
        Self::seat_token(self, event)
    }

    fn carried(&self, event: &EventId, token: &str) -> Carried {
        Self::carried(self, event, token)
    }

    async fn join(&self, event: &EventId, shown: Option<&str>) -> JoinAnswer {
        Self::join(self, event, shown).await
    }

    async fn status(&self, event: &EventId, ticket: &str, attendance: Attendance) -> StatusAnswer {
        Self::status(self, event, ticket, attendance).await
    }

    async fn leave(&self, event: &EventId, tickets: &[&str], passes: &[&str]) {
        Self::leave(self, event, tickets, passes).await;
    }

    async fn check_pass(&self, event: &EventId, tokens: &[&str], activity: Activity) -> PassAnswer {
        Self::check_pass(self, event, tokens, activity).await
    }

    async fn express(&self, event: &EventId, kind: ExpressKind) -> ExpressAnswer {
        Self::express(self, event, kind).await
    }

    fn response_ended(&self, event: &EventId, id: TicketId) {
        Self::response_ended(self, event, id);
    }

    async fn pass_ended(&self, event: &EventId, id: TicketId, expires: FleetTime) {
        Self::pass_ended(self, event, id, expires).await;
    }
}

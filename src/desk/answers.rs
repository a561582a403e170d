//! What the desk answers to visitors; adapters put it into HTTP.

use std::time::Duration;

use crate::model::edge::{Ending, Phase};
use crate::model::estimate::Estimate;
use crate::model::ids::TicketId;
use crate::model::time::FleetTime;

/// A pass, ready to be handed out.
#[derive(Clone, Debug)]
pub struct IssuedPass {
    /// The token.
    pub token: String,
    /// The id, which is the ticket's.
    pub id: TicketId,
    /// When it ends.
    pub expires: FleetTime,
}

/// What a token is in the line of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Nothing of ours.
    Nothing,
    /// A ticket that has ended.
    Ended(TicketId),
    /// The id of a ticket to be.
    Seat,
    /// A ticket that is good.
    Ticket(TicketId),
}

/// What a visitor who waits is told.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The ticket, newly signed.
    pub ticket: String,
    /// Its id.
    pub id: TicketId,
    /// Where in the line, and for how long.
    pub estimate: Estimate,
    /// Why the line is as it is.
    pub phase: Phase,
    /// When to ask again.
    pub poll_after: Duration,
    /// Set once the ticket is called: by when a held turn must be taken.
    pub turn: Option<Turn>,
    /// The operator's message.
    pub message: Option<String>,
    /// When the event opens, if it is scheduled and has not.
    pub opens_at: Option<FleetTime>,
    /// How long the visitor may be away without losing the place.
    pub heartbeat_ttl: Duration,
    /// Whether the ticket lives longer by this answer.
    pub beat: Beat,
}

/// What an answer does for a ticket's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// It is the first in its heartbeat window: without it the place would be lost.
    First,
    /// The ticket that was shown lives as long.
    Again,
}

/// A ticket that has been called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// By when a held turn must be taken.
    pub claim_by: FleetTime,
}

/// What asking for one's place comes to.
#[derive(Clone, Debug)]
pub enum StatusAnswer {
    /// Still in line.
    Waiting(Box<Waiting>),
    /// Let in.
    Admitted(IssuedPass),
    /// The ticket has ended.
    Ended(Ending),
    /// The token is none of ours.
    Invalid,
    /// The node cannot tell yet: come back.
    Unavailable(Duration),
}

/// What joining comes to.
#[derive(Clone, Debug)]
pub enum JoinAnswer {
    /// In line.
    Waiting(Box<Waiting>),
    /// Let in at once.
    Admitted(IssuedPass),
    /// Come back.
    Retry(Duration),
    /// Joins are refused: [`Phase::Closed`] or [`Phase::Full`].
    Refused(Phase),
}

/// What a pass is worth at this moment.
#[derive(Clone, Debug)]
pub enum PassAnswer {
    /// It opens; `renewed` is the newer token of the same pass, if there is one.
    Valid {
        /// The pass.
        id: TicketId,
        /// When it ends, by the newest acknowledgement.
        expires: FleetTime,
        /// A token to set in its place, when a response allows it.
        renewed: Option<IssuedPass>,
        /// Whether less than a third of the shown token's own time is left.
        urgency: RenewalUrgency,
    },
    /// No token shown opens.
    None,
    /// The node cannot tell yet: come back.
    Unavailable(Duration),
}

/// How soon a renewed pass has to reach the visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalUrgency {
    /// With the next response that nobody shares.
    Relaxed,
    /// With this response, whatever it is.
    Now,
}

/// How a newcomer may be let in at once.
#[derive(Clone, Debug)]
pub enum ExpressAnswer {
    /// Let in: proxy the request and set the cookie.
    Admitted(IssuedPass),
    /// Send navigations to the page, which lets in whoever shows a cookie.
    CookieCheck,
    /// There is a line: send the visitor to the page.
    Line,
    /// The node cannot tell yet: come back.
    Unavailable(Duration),
}

/// How a newcomer asks for express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressKind {
    /// A navigation whose response can carry the cookie.
    OnTheSpot,
    /// A visitor at the page, who has shown the page's cookie.
    AtThePage,
    /// A request without cookies that is no navigation: one pass per address.
    PerAddress(std::net::IpAddr),
}

/// Whether a visitor takes the turn when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// Lets in as soon as called.
    Asking,
    /// A hidden page: keeps the turn for later.
    Holding,
}

/// Whether a request counts as activity of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A navigation, by Fetch metadata.
    Navigation,
    /// Anything else.
    Background,
}

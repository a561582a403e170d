//! What the gate decides: the types.

use std::sync::Arc;

use http::{HeaderMap, header};

use super::super::answer::Answer;
use super::super::origins::Origin;
use crate::desk::RenewalUrgency;
use crate::metrics::{RequestOutcome, StrayOutcome};
use crate::model::ids::{EventId, TicketId};
use crate::model::time::FleetTime;

/// What becomes of a request, and what it counts as.
pub(in crate::proxy) struct Ruling {
    pub(in crate::proxy) verdict: Verdict,
    pub(in crate::proxy) counted: Counted,
}

/// Under which heading a request is counted.
#[derive(Clone, Debug)]
pub(in crate::proxy) enum Counted {
    /// With those of an event.
    Event(EventId, RequestOutcome),
    /// With those of no event.
    Stray(StrayOutcome),
}

/// What becomes of a request.
pub(in crate::proxy) enum Verdict {
    /// It goes on to the origin.
    Pass(Entry),
    /// The gate answers.
    Answer(Answer),
}

/// A request that goes on.
pub(in crate::proxy) struct Entry {
    pub(in crate::proxy) origin: Arc<Origin>,
    pub(in crate::proxy) set_pass: Option<SetPass>,
    /// The pass that opened, where one did.
    pub(in crate::proxy) session: Option<OpenSession>,
}

/// A pass in use.
pub(in crate::proxy) struct OpenSession {
    pub(super) opened: Opened,
    pub(super) event: EventId,
    pub(super) id: TicketId,
    pub(super) expires: FleetTime,
}

/// How a session came to be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The request showed its pass.
    ByPass,
    /// The response gives the pass.
    OnTheSpot,
}

/// A `Set-Cookie` line for the origin's response.
pub(in crate::proxy) struct SetPass {
    pub(in crate::proxy) line: String,
    pub(super) urgency: RenewalUrgency,
}

impl SetPass {
    /// Whether the response may carry it: sharing caches must not lose what they could have kept, unless it is urgent.
    pub(in crate::proxy) fn fits(&self, navigation: bool, headers: &HeaderMap) -> bool {
        let kept_private = || {
            let values =
                headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|directive| {
                let directive = directive.trim().to_ascii_lowercase();
                directive == "no-store" || directive == "private"
            })
        };
        self.urgency == RenewalUrgency::Now || navigation || kept_private()
    }
}

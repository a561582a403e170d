//! The values that labels take: closed sets, so that nobody outside can make a new time series.

use crate::model::words::words;

words! {
    /// What became of a request of an event.
    RequestOutcome {
        /// Proxied: a pass opened.
        Passed = "passed",
        /// Proxied: a pass was made on the spot.
        Expressed = "expressed",
        /// Proxied: a bypass rule, the mode or a built-in exception let it by.
        Bypassed = "bypassed",
        /// Sent to the waiting page (302).
        Redirected = "redirected",
        /// Refused (429) with where to join: not a navigation.
        Refused = "refused",
        /// Refused (429): a limit was reached.
        Limited = "limited",
        /// Not decided (503): the node cannot tell yet.
        Unavailable = "unavailable",
        /// Answered by the waiting room itself.
        Room = "room",
    }
}

words! {
    /// What became of requests that belong to no event.
    StrayOutcome {
        /// Proxied to `default_origin`.
        Proxied = "proxied",
        /// There is nobody to serve it (404).
        NotFound = "not_found",
        /// Its path or host cannot be read in one way only (400).
        Malformed = "malformed",
        /// Not decided (503): the node has not heard the leader yet.
        Unavailable = "unavailable",
        /// Answered by the waiting room itself.
        Room = "room",
    }
}

//! The values that labels take: closed sets, so that nobody outside can make a new time series.

/// Makes an enum whose variants are the values of one label.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of the variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The value as the label shows it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

label! {
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

label! {
    /// Why a ticket has ended, in the words of the 410 answer.
    TicketEnd {
        /// A heartbeat was missed.
        MissedHeartbeat = "missed_heartbeat",
        /// The turn was missed.
        MissedTurn = "missed_turn",
        /// The ticket is older than `ticket_max_s`.
        TooOld = "too_old",
        /// The line was reset.
        Reset = "reset",
        /// The session that it turned into has ended.
        Used = "used",
        /// The visitor left.
        Left = "left",
    }
}

label! {
    /// Why the line of an event is as it is, in the words of the status answer.
    LinePhase {
        /// The line moves.
        Queueing = "queueing",
        /// The event has not opened.
        Prequeue = "prequeue",
        /// The operator has paused it.
        Paused = "paused",
        /// The fleet has no leader.
        Frozen = "frozen",
        /// Nothing is left to sell.
        SoldOut = "sold_out",
        /// Joins are refused.
        Closed = "closed",
        /// The line is as long as it may be.
        Full = "full",
    }
}

label! {
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

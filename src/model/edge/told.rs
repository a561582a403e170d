//! What a visitor is told in one word: why the line is as it is, why a ticket is over.

use crate::model::words::words;

words! {
    /// Why a ticket or pass has ended: 410.
    Ending {
        /// A heartbeat was missed.
        MissedHeartbeat = "missed_heartbeat",
        /// The turn was missed, twice unused or held too long.
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

words! {
    /// Why the line of an event is as it is; the words of design §5.
    Phase {
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

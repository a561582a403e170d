//! What this node takes from the world before it says 429. Approximate on purpose: never used for admission.

use std::net::IpAddr;
use std::time::Duration;

use pingora_limits::rate::Rate;

use crate::config::Limits;
use crate::model::ids::TicketId;

/// Polls of one ticket in a minute.
const POLLS_PER_MINUTE: isize = 60;

/// Wide enough that 100,000 addresses in a minute hardly ever share a counter: 4 MiB each.
const HASHES: usize = 4;
const SLOTS: usize = 1 << 16;

/// Tickets ask more often than strangers: at 20,000 polls a second a counter holds two or three polls of others, the
/// lesser of two hardly any, so that only who polls too often is told so. 8 MiB for each of two minutes.
const TICKET_HASHES: usize = 2;
const TICKET_SLOTS: usize = 1 << 19;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The counters; they outlive a reload.
pub(super) struct Counters {
    joins: Rate,
    joins_by_address: Rate,
    strangers_by_address: Rate,
    polls_by_ticket: Rate,
}

/// Whether something may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// It may.
    Granted,
    /// Not now: come back after this long.
    Exceeded(Duration),
}

impl Counters {
    pub(super) fn new() -> Self {
        let by_key = || Rate::new_with_estimator_config(MINUTE, HASHES, SLOTS);
        Self {
            joins: Rate::new_with_estimator_config(SECOND, 1, 1),
            joins_by_address: by_key(),
            strangers_by_address: by_key(),
            polls_by_ticket: Rate::new_with_estimator_config(MINUTE, TICKET_HASHES, TICKET_SLOTS),
        }
    }

    /// Counts a join.
    pub(super) fn join(&self, limits: &Limits, address: IpAddr) -> Allowance {
        if self.joins_by_address.observe(&network(address), 1) > most(limits.joins_per_min.get()) {
            return Allowance::Exceeded(MINUTE / 4);
        }
        if self.joins.observe(&(), 1) > most(limits.joins_per_sec.get()) {
            return Allowance::Exceeded(SECOND * 2);
        }
        Allowance::Granted
    }

    /// Counts a request without a valid token.
    pub(super) fn stranger(&self, limits: &Limits, address: IpAddr) -> Allowance {
        if self.strangers_by_address.observe(&network(address), 1) > most(limits.strangers_per_min.get()) {
            Allowance::Exceeded(MINUTE / 4)
        } else {
            Allowance::Granted
        }
    }

    /// Counts a poll of a ticket that was found valid.
    pub(super) fn poll(&self, ticket: TicketId) -> Allowance {
        if self.polls_by_ticket.observe(&ticket, 1) > POLLS_PER_MINUTE {
            Allowance::Exceeded(MINUTE / 12)
        } else {
            Allowance::Granted
        }
    }
}

fn most(limit: u32) -> isize {
    isize::try_from(limit).unwrap_or(isize::MAX)
}

/// What counts as one address: an IPv6 customer has a /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn limits(joins_per_sec: u32, per_min: u32) -> Limits {
        let some = |n| NonZeroU32::new(n).unwrap();
        Limits {
            joins_per_sec: some(joins_per_sec),
            joins_per_min: some(per_min),
            strangers_per_min: some(per_min),
        }
    }

    #[test]
    fn joins_are_limited_by_address_and_a_whole_v6_network_is_one() {
        let counters = Counters::new();
        let limits = limits(1_000, 2);
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(counters.join(&limits, at("2001:db8::1")), Allowance::Granted);
        assert_eq!(counters.join(&limits, at("2001:db8::2")), Allowance::Granted);
        assert_ne!(counters.join(&limits, at("2001:db8::3")), Allowance::Granted);
        assert_eq!(counters.join(&limits, at("198.51.100.1")), Allowance::Granted);
    }

    #[test]
    fn a_ticket_may_poll_sixty_times_a_minute() {
        let counters = Counters::new();
        let ticket = TicketId { node: 1, generation: 1, sequence: 1 };
        for _ in 0..60 {
            assert_eq!(counters.poll(ticket), Allowance::Granted);
        }
        assert_ne!(counters.poll(ticket), Allowance::Granted);
        assert_eq!(counters.poll(TicketId { sequence: 2, ..ticket }), Allowance::Granted);
    }
}

//! Heartbeat windows: who is still there, without a row per visitor.
//!
//! Source: design §3 *Heartbeats*. A ticket ends when two whole windows have passed since the one it was last seen in,
//! which is 1 to 1.5 × `heartbeat_ttl_s` of silence, not counting the time that is forgiven.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::NodeId;
use super::ledger::Span;
use super::time::{FleetTime, as_millis};

/// A heartbeat window, half of `heartbeat_ttl_s` long, named by its start in half seconds since 2020.
///
/// A start, unlike a running number, keeps its meaning when the operator changes `heartbeat_ttl_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window(u32);

/// 2020-01-01T00:00:00Z in unix milliseconds.
const WINDOWS_BEGIN_MS: u64 = 1_577_836_800_000;

const HALF_SECOND_MS: u64 = 500;

impl Window {
    /// The window that `now` lies in.
    #[must_use]
    pub fn at(now: FleetTime, heartbeat_ttl: Duration) -> Self {
        let length = length_in_halves(heartbeat_ttl);
        let halves = now.0.saturating_sub(WINDOWS_BEGIN_MS) / HALF_SECOND_MS;
        Self(u32::try_from(halves / length * length).unwrap_or(u32::MAX))
    }

    /// The window before this one.
    #[must_use]
    pub fn previous(self, heartbeat_ttl: Duration) -> Self {
        let length = u32::try_from(length_in_halves(heartbeat_ttl)).unwrap_or(u32::MAX);
        Self(self.0.saturating_sub(length))
    }

    /// The window after this one.
    #[must_use]
    pub fn next(self, heartbeat_ttl: Duration) -> Self {
        let length = u32::try_from(length_in_halves(heartbeat_ttl)).unwrap_or(u32::MAX);
        Self(self.0.saturating_add(length))
    }

    /// When the window begins.
    #[must_use]
    pub fn start(self) -> FleetTime {
        FleetTime(WINDOWS_BEGIN_MS + u64::from(self.0) * HALF_SECOND_MS)
    }

    /// When the next window begins.
    #[must_use]
    pub fn end(self, heartbeat_ttl: Duration) -> FleetTime {
        FleetTime(self.start().0 + length_in_halves(heartbeat_ttl) * HALF_SECOND_MS)
    }

    /// The number that a token carries.
    #[must_use]
    pub const fn to_number(self) -> u32 {
        self.0
    }

    /// The window of a token's number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// `heartbeat_ttl_s` is whole seconds, so half of it is as many half seconds.
fn length_in_halves(heartbeat_ttl: Duration) -> u64 {
    heartbeat_ttl.as_secs().max(1)
}

/// Whether a ticket last seen in `last_seen`, by `node`, has missed its heartbeat.
#[must_use]
pub fn ends(
    last_seen: Window,
    now: FleetTime,
    heartbeat_ttl: Duration,
    spans: &[Span],
    node: Option<NodeId>,
) -> bool {
    now >= ends_at(last_seen, now, heartbeat_ttl, spans, node)
}

/// When a ticket ends if no heartbeat comes and nothing more is forgiven than what was, up to `now`.
#[must_use]
pub fn ends_at(
    last_seen: Window,
    now: FleetTime,
    heartbeat_ttl: Duration,
    spans: &[Span],
    node: Option<NodeId>,
) -> FleetTime {
    let window = Duration::from_millis(length_in_halves(heartbeat_ttl) * HALF_SECOND_MS);
    let seen = last_seen.start();
    let silence_allowed = window * 3;
    let unforgiven = seen.after(silence_allowed);
    if now < unforgiven {
        return unforgiven;
    }
    unforgiven.after(forgiven(spans, Missing::AtNode(node), seen, now))
}

/// Whether a ticket issued at `issued` is older than `ticket_max_s`; time in which the whole fleet was away does not
/// count.
#[must_use]
pub fn is_too_old(issued: FleetTime, now: FleetTime, ticket_max: Duration, spans: &[Span]) -> bool {
    let limit = issued.after(ticket_max);
    now >= limit && now >= limit.after(forgiven(spans, Missing::Everywhere, issued, now))
}

/// Tickets that could be valid until then at the latest are over at `now`: they age only while the fleet is there.
#[must_use]
pub fn tickets_horizon(spans: &[Span], now: FleetTime) -> FleetTime {
    now.before(forgiven(spans, Missing::Everywhere, FleetTime(0), now))
}

/// Whose absence is forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Spans in which the whole fleet was away.
    Everywhere,
    /// Those, and spans of this node.
    AtNode(Option<NodeId>),
}

/// How much of `from..to` is forgiven; spans that overlap count once.
#[must_use]
pub fn forgiven(spans: &[Span], missing: Missing, from: FleetTime, to: FleetTime) -> Duration {
    let applies = |span: &&Span| match (missing, span.node) {
        (_, None) => true,
        (Missing::AtNode(Some(node)), Some(of)) => node == of,
        _ => false,
    };
    let mut cut: Vec<(FleetTime, FleetTime)> = spans
        .iter()
        .filter(applies)
        .map(|span| (span.from.max(from), span.to.min(to)))
        .filter(|(from, to)| from < to)
        .collect();
    cut.sort_unstable();
    let mut counted_to = from;
    let mut total = 0;
    for (from, to) in cut {
        total += as_millis(to.since(from.max(counted_to)));
        counted_to = counted_to.max(to);
    }
    Duration::from_millis(total)
}

/// Adds a span to those kept, as one with those of the same node that it overlaps or touches.
pub fn merge_span(spans: &mut Vec<Span>, mut new: Span) {
    if new.from >= new.to {
        return;
    }
    let touching = |span: &mut Span| span.node == new.node && span.from <= new.to && new.from <= span.to;
    let (mut from, mut to) = (new.from, new.to);
    // What is kept is apart already, so what the new one swallows reaches nothing more.
    for span in spans.extract_if(.., touching) {
        from = from.min(span.from);
        to = to.max(span.to);
    }
    new.from = from;
    new.to = to;
    let at = spans.partition_point(|span| (span.from, span.node) < (new.from, new.node));
    spans.insert(at, new);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 1_700_000_000_000;

    fn node(number: u16) -> NodeId {
        NodeId(NonZeroU16::new(number).unwrap())
    }

    fn any_span() -> impl Strategy<Value = Span> {
        (prop::option::of(1_u16..4), 0_u64..600_000, 0_u64..200_000).prop_map(|(of, from, length)| Span {
            node: of.map(node),
            from: FleetTime(BASE + from),
            to: FleetTime(BASE + from + length),
        })
    }

    /// Milliseconds of `from..to` in no span that applies to `of`, counted one by one.
    fn unforgiven(spans: &[Span], of: NodeId, from: u64, to: u64) -> u64 {
        let covers = |at: u64| {
            spans
                .iter()
                .any(|span| span.node.is_none_or(|node| node == of) && span.from.0 <= at && at < span.to.0)
        };
        (from..to).step_by(50).filter(|&at| !covers(at)).count() as u64 * 50
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_ticket_ends_after_one_to_one_and_a_half_times_the_setting_of_unforgiven_silence(
            ttl in 10_u64..121, seen in 0_u64..400_000, spans in prop::collection::vec(any_span(), 0..6)
        ) {
            let heartbeat = Duration::from_secs(ttl);
            let seen = FleetTime(BASE + seen);
            let window = Window::at(seen, heartbeat);
            let over = |now: u64| ends(window, FleetTime(now), heartbeat, &spans, Some(node(1)));
            let mut now = seen.0;
            while !over(now) {
                now += 500;
            }
            let silence = unforgiven(&spans, node(1), seen.0, now);
            // 50 ms of the count by steps and 500 ms of the search, per edge of a span.
            prop_assert!(silence + 50 * 14 >= ttl * 1000, "{silence} ms for {ttl} s");
            prop_assert!(silence <= ttl * 1500 + 500 + 50 * 14, "{silence} ms for {ttl} s");
        }

        #[test]
        fn an_ended_ticket_stays_ended_while_no_span_is_added(
            ttl in 10_u64..121, seen in 0_u64..400_000, spans in prop::collection::vec(any_span(), 0..6),
            steps in prop::collection::vec(1_u64..30_000, 1..60)
        ) {
            let heartbeat = Duration::from_secs(ttl);
            let window = Window::at(FleetTime(BASE + seen), heartbeat);
            // Spans that begin after the end was noticed are new ones, so all lie before what is looked at here.
            let mut now = BASE + 900_000;
            let mut ended = false;
            for step in steps {
                let over = ends(window, FleetTime(now), heartbeat, &spans, None);
                prop_assert!(over || !ended);
                ended = over;
                now += step;
            }
        }

        #[test]
        fn merging_spans_changes_nothing_that_is_forgiven(
            spans in prop::collection::vec(any_span(), 0..12), from in 0_u64..400_000, length in 0_u64..400_000
        ) {
            let mut merged = Vec::new();
            spans.iter().for_each(|&span| merge_span(&mut merged, span));
            let (from, to) = (FleetTime(BASE + from), FleetTime(BASE + from + length));
            for missing in [Missing::Everywhere, Missing::AtNode(None), Missing::AtNode(Some(node(2)))] {
                prop_assert_eq!(forgiven(&spans, missing, from, to), forgiven(&merged, missing, from, to));
            }
            for (at, span) in merged.iter().enumerate() {
                let apart = |other: &Span| {
                    other.node != span.node || other.from > span.to || other.to < span.from
                };
                prop_assert!(merged[at + 1..].iter().all(apart));
            }
        }
    }

    #[test]
    fn windows_tile_time() {
        let ttl = Duration::from_secs(45);
        let window = Window::at(FleetTime(BASE), ttl);
        assert!(window.start() <= FleetTime(BASE) && FleetTime(BASE) < window.end(ttl));
        assert_eq!(Window::at(window.end(ttl), ttl).previous(ttl), window);
        assert_eq!(window.end(ttl).since(window.start()), ttl / 2);
        assert_eq!(Window::from_number(window.to_number()), window);
    }

    #[test]
    fn a_longer_heartbeat_ends_no_ticket_and_makes_none_immortal() {
        let (short, long) = (Duration::from_secs(45), Duration::from_secs(90));
        let seen = Window::at(FleetTime(BASE), short);
        assert!(!ends(seen, FleetTime(BASE + 60_000), long, &[], None));
        assert!(ends(seen, FleetTime(BASE + 140_000), long, &[], None));
    }

    #[test]
    fn a_token_from_the_future_counts_as_now() {
        let ttl = Duration::from_secs(90);
        let seen = Window::at(FleetTime(BASE + 600_000), ttl);
        assert!(!ends(seen, FleetTime(BASE), ttl, &[], None));
    }

    #[test]
    fn the_age_of_a_ticket_forgives_only_what_the_whole_fleet_missed() {
        let issued = FleetTime(BASE);
        let span = |of| Span { node: of, from: FleetTime(BASE + 1000), to: FleetTime(BASE + 11_000) };
        let max = Duration::from_secs(100);
        let old =
            |seconds: u64, spans: &[Span]| is_too_old(issued, FleetTime(BASE + seconds * 1000), max, spans);
        assert!(!old(99, &[]) && old(100, &[]));
        assert!(!old(109, &[span(None)]) && old(110, &[span(None)]));
        assert!(old(100, &[span(Some(node(1)))]));
    }
}

//! The edges of a fleet, and which of them a visitor's requests go to.

use std::sync::Arc;

use super::Site;

/// Where requests of one rush go: one site, or several that are the same to visitors.
#[derive(Clone, Debug)]
pub struct Edges {
    /// As often as their share is large.
    seats: Vec<Arc<Site>>,
    roaming: Roaming,
}

/// Whether a visitor stays at an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Roaming {
    /// Until a request gets no answer: then the next edge.
    #[default]
    Stays,
    /// Every request goes to another one.
    Roams,
}

impl Edges {
    /// Edges with their shares of the visitors; `None`: there is nowhere to go.
    #[must_use]
    pub fn new(sites: Vec<(Site, usize)>, roaming: Roaming) -> Option<Self> {
        let seats: Vec<_> =
            sites.into_iter().flat_map(|(site, share)| std::iter::repeat_n(Arc::new(site), share)).collect();
        (!seats.is_empty()).then_some(Self { seats, roaming })
    }

    /// One site.
    #[must_use]
    pub fn one(site: Site) -> Self {
        Self { seats: vec![Arc::new(site)], roaming: Roaming::Stays }
    }

    /// Whether every request goes to another edge.
    #[must_use]
    pub fn roam(&self) -> bool {
        self.roaming == Roaming::Roams
    }

    /// Where a visitor goes who has turned to another edge so many times.
    #[must_use]
    pub fn seat(&self, visitor: u64, turn: usize) -> Option<&Arc<Site>> {
        let first = usize::try_from(visitor).unwrap_or_default();
        // A step that shares no factor with most numbers of seats, so that a turn leads to another edge.
        self.seats.get(first.wrapping_add(turn.wrapping_mul(7)) % self.seats.len())
    }

    /// The name that requests ask for.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.seats.first().map_or("", |site| site.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_are_spread_by_share_and_a_turn_leads_elsewhere() {
        let site =
            |port: u16| Site::new(&format!("http://127.0.0.1:{port}"), Some("shop.test"), None).unwrap();
        let edges = Edges::new(vec![(site(1), 8), (site(2), 1), (site(3), 1)], Roaming::Stays).unwrap();
        let at = |visitor, turn| edges.seat(visitor, turn).unwrap().address().1;
        let first = (0..1000).filter(|visitor| at(*visitor, 0) == 1).count();
        assert_eq!(first, 800);
        assert!((0..10).all(|visitor| (0..10).any(|turn| at(visitor, turn) == 3)));
        assert_eq!(edges.authority(), "shop.test");
        assert!(Edges::new(Vec::new(), Roaming::Roams).is_none());
    }
}

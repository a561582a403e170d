//! The story of each ticket, put together from the records that speak of it.

use std::collections::{BTreeMap, HashMap};

use crate::history::{Kind, Record, Saw};

/// A record with its place in the history.
pub(super) type At<'a> = (usize, &'a Record);

/// All that a history tells of one ticket and of the pass that it turned into.
#[derive(Clone, Debug)]
pub(super) struct Story<'a> {
    /// The ticket.
    pub(super) id: &'a str,
    /// The earliest that its visitor may have been put in line or let in.
    pub(super) arrived_sent: u64,
    /// Every record that speaks of it, in the order of sending.
    pub(super) records: Vec<At<'a>>,
}

impl<'a> Story<'a> {
    /// The first answer that put it in line, which is also the latest that it can have joined.
    #[must_use]
    pub(super) fn joined(&self) -> Option<At<'a>> {
        self.first_answered(|r| r.pass.is_none() && matches!(r.saw, Saw::Waiting | Saw::Page))
    }

    /// The first answer that gave its pass.
    #[must_use]
    pub(super) fn admitted(&self) -> Option<At<'a>> {
        self.first_answered(|r| r.pass.is_some())
    }

    fn first_answered(&self, is: impl Fn(&Record) -> bool) -> Option<At<'a>> {
        let found = self.records.iter().filter(|(_, r)| r.ticket_or_pass_is(self.id) && is(r));
        found.copied().min_by_key(|(_, r)| r.t_answered_us)
    }

    /// The answers that said that it waits and is not called.
    pub(super) fn uncalled(&self) -> impl Iterator<Item = At<'a>> + '_ {
        self.records.iter().copied().filter(|(_, r)| r.saw == Saw::Waiting && r.called == Some(false))
    }

    /// Requests with its pass that the origin answered.
    pub(super) fn uses(&self) -> impl Iterator<Item = At<'a>> + '_ {
        self.records
            .iter()
            .copied()
            .filter(|(_, r)| r.saw == Saw::Origin && !r.forged && r.shown_pass.as_deref() == Some(self.id))
    }

    /// Requests with its pass that were turned away.
    pub(super) fn refusals(&self) -> impl Iterator<Item = At<'a>> + '_ {
        self.records.iter().copied().filter(|(_, r)| {
            r.kind == Kind::Use
                && !r.forged
                && r.shown_pass.as_deref() == Some(self.id)
                && matches!(r.saw, Saw::Moved | Saw::Refused | Saw::Invalid | Saw::Ended)
        })
    }

    /// The first time that its visitor asked to leave, answered or not; of one that was let in: since then.
    #[must_use]
    pub(super) fn left(&self) -> Option<At<'a>> {
        let since = self.admitted().map_or(0, |(_, granted)| granted.t_sent_us);
        self.records.iter().copied().find(|(_, r)| r.kind == Kind::Leave && r.t_sent_us >= since)
    }

    /// The bucket, where a token told it.
    #[must_use]
    pub(super) fn bucket(&self) -> Option<u64> {
        self.records.iter().find_map(|(_, r)| r.bucket)
    }

    /// The first answer whose token told a bucket.
    #[must_use]
    pub(super) fn keyed(&self) -> Option<At<'a>> {
        self.records.iter().copied().filter(|(_, r)| r.bucket.is_some()).min_by_key(|(_, r)| r.t_answered_us)
    }

    /// When its pass ends at the earliest, by what the visitor (or one tab of it) had been told by `by_us`.
    ///
    /// The first use replaces the time to make first use of it by `session_us`, which may be less.
    #[must_use]
    pub(super) fn told_expiry(&self, tab: Option<u16>, by_us: u64, session_us: u64) -> Option<u64> {
        let first_use = self.uses().map(|(_, r)| r.t_sent_us).min().filter(|sent| *sent <= by_us);
        let gave = |r: &Record| {
            r.pass.as_deref() == Some(self.id)
                && r.t_answered_us <= by_us
                && tab.is_none_or(|tab| r.tab == tab)
        };
        let told = self.records.iter().filter(|(_, r)| gave(r)).filter_map(|(_, r)| {
            let told = r.expires_us()?;
            Some(match first_use {
                Some(used) if r.t_sent_us <= used => told.min(used.saturating_add(session_us)),
                _ => told,
            })
        });
        told.max()
    }

    /// The answers that gave a pass which had run out unused, by what they said, before the next one was given: that
    /// turn was missed, and one more was given. With when it ended.
    pub(super) fn missed_turns(&self) -> Vec<(At<'a>, u64)> {
        let first_use = self.uses().map(|(_, r)| r.t_sent_us).min().unwrap_or(u64::MAX);
        let mut grants: Vec<At<'a>> =
            self.records.iter().copied().filter(|(_, r)| r.pass.as_deref() == Some(self.id)).collect();
        grants.sort_by_key(|(_, r)| r.t_answered_us);
        let mut missed = Vec::new();
        let Some(mut first) = grants.first().copied() else { return missed };
        for grant in grants {
            let (Some(before), Some(now)) = (first.1.expires_us(), grant.1.expires_us()) else { continue };
            if now > before && before < grant.1.t_answered_us && first_use >= grant.1.t_answered_us {
                missed.push((first, before));
                first = grant;
            }
        }
        missed
    }

    /// The first answer after `at_us` that gave a pass which ends later than that.
    pub(super) fn granted_after(&self, at_us: u64) -> Option<At<'a>> {
        let later = |r: &Record| {
            r.pass.as_deref() == Some(self.id)
                && r.t_answered_us > at_us
                && r.expires_us().is_some_and(|e| e > at_us)
        };
        self.records.iter().copied().filter(|(_, r)| later(r)).min_by_key(|(_, r)| r.t_answered_us)
    }

    /// The earliest that its pass can have been minted: no request before that could have got it.
    #[must_use]
    pub(super) fn minted_from(&self) -> Option<u64> {
        let (_, granted) = self.admitted()?;
        let asked = |r: &Record| r.kind != Kind::Leave && r.t_sent_us < granted.t_sent_us;
        let known_without = self
            .records
            .iter()
            .filter(|(_, r)| asked(r) && r.is_answered() && r.saw != Saw::Unavailable)
            .map(|(_, r)| r.t_sent_us)
            .max()
            .unwrap_or(self.arrived_sent);
        let unanswered = self
            .records
            .iter()
            .filter(|(_, r)| asked(r) && r.t_sent_us >= known_without)
            .filter(|(_, r)| !r.is_answered() || r.saw == Saw::Unavailable)
            .map(|(_, r)| r.t_sent_us)
            .min();
        let concurrent = self
            .records
            .iter()
            .filter(|(_, r)| r.t_sent_us < granted.t_sent_us && r.t_answered_us > granted.t_sent_us)
            .map(|(_, r)| r.t_sent_us)
            .min();
        let first = if known_without == self.arrived_sent { Some(self.arrived_sent) } else { None };
        [unanswered, concurrent, first].into_iter().flatten().min().or(Some(granted.t_sent_us))
    }
}

impl Record {
    fn ticket_or_pass_is(&self, id: &str) -> bool {
        self.ticket.as_deref() == Some(id) || self.pass.as_deref() == Some(id)
    }

    /// Whether the request could have put a newcomer in line, or have let one in.
    fn could_join(&self) -> bool {
        matches!(self.kind, Kind::Navigate | Kind::Page | Kind::Join)
    }
}

/// The stories of a history whose records are in the order of sending.
#[must_use]
pub(super) fn stories(records: &[Record]) -> BTreeMap<&str, Story<'_>> {
    let mut stories: BTreeMap<&str, Story<'_>> = BTreeMap::new();
    let mut lost: HashMap<u64, u64> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if !record.is_answered() && record.could_join() {
            lost.entry(record.visitor).or_insert(record.t_sent_us);
        }
        let mut ids: Vec<&str> = [&record.ticket, &record.pass, &record.shown_ticket, &record.shown_pass]
            .into_iter()
            .filter_map(|id| id.as_deref())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let story = stories.entry(id).or_insert_with(|| Story {
                id,
                arrived_sent: lost.remove(&record.visitor).unwrap_or(u64::MAX).min(record.t_sent_us),
                records: Vec::new(),
            });
            story.records.push((at, record));
        }
    }
    stories
}

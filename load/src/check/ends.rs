//! Lines 8 and 10: what ends does so in time and says so, and nothing ends before.

use std::collections::BTreeMap;

use super::Violation;
use super::outages::Outages;
use super::passes::{CLOCK_MARGIN, RELEASE_GUARD};
use super::rules::{Health, Rules, SECOND};
use super::story::{At, Story};
use crate::history::{Kind, Record, Saw};

/// How far a heartbeat may be off, for clocks and answers under way.
const MARGIN: u64 = SECOND;

/// One answer, what came before it in the story of the same id, and what both are judged by.
#[derive(Clone, Copy)]
struct Scene<'a> {
    story: &'a Story<'a>,
    earlier: &'a [At<'a>],
    at: usize,
    record: &'a Record,
    outages: &'a Outages,
    rules: &'a Rules,
    /// When the history began.
    began: u64,
}

/// Judges the end of every ticket and session.
#[must_use]
pub(super) fn judge(stories: &BTreeMap<&str, Story<'_>>, outages: &Outages, rules: &Rules) -> Vec<Violation> {
    let began =
        stories.values().filter_map(|s| s.records.first()).map(|(_, r)| r.t_sent_us).min().unwrap_or(0);
    let mut violations = Vec::new();
    for story in stories.values() {
        for (place, &(at, record)) in story.records.iter().enumerate() {
            let earlier = story.records.get(..place).unwrap_or_default();
            let scene = Scene { story, earlier, at, record, outages, rules, began };
            violations.extend(scene.judge());
        }
    }
    violations
}

impl<'a> Scene<'a> {
    fn judge(self) -> Option<Violation> {
        match self.record.saw {
            Saw::Ended => self.ended(),
            Saw::Invalid => self.disowned(),
            Saw::Waiting | Saw::Admitted if self.record.kind == Kind::Poll => self.outlived(),
            Saw::Origin if self.record.pass.is_none() => self.overstayed(),
            Saw::Moved | Saw::Refused if self.record.kind == Kind::Use => self.cut_short(),
            _ => None,
        }
    }

    /// A ticket that was given to this visitor and is taken for nobody's.
    fn disowned(self) -> Option<Violation> {
        let Self { story, earlier, at, record, .. } = self;
        let given = earlier.iter().any(|(_, r)| r.ticket.as_deref() == Some(story.id));
        let genuine = given && !record.forged && record.shown_ticket.as_deref() == Some(story.id);
        genuine.then(|| {
            let what = format!("ticket {} was genuine and came back as invalid", story.id);
            Violation::new(10, what, earlier.last().map(|(at, _)| *at).into_iter().chain([at]))
        })
    }

    /// The answer from which the tab's token is, by which the ticket is judged: its last one, or the oldest that it may
    /// have been opened with.
    fn refreshed(self) -> Option<At<'a>> {
        let Self { story, earlier, record, .. } = self;
        let refreshing =
            |r: &Record| r.ticket.as_deref() == Some(story.id) && matches!(r.saw, Saw::Waiting | Saw::Page);
        let done =
            earlier.iter().copied().filter(|(_, r)| refreshing(r) && r.t_answered_us <= record.t_sent_us);
        let own = done.clone().filter(|(_, r)| r.tab == record.tab).max_by_key(|(_, r)| r.t_answered_us);
        own.or_else(|| done.min_by_key(|(_, r)| r.t_sent_us))
    }

    /// An ended ticket: 410, with a word for it, and not before its time.
    fn ended(self) -> Option<Violation> {
        let Self { story, at, record, outages, rules, .. } = self;
        let told = record.state.is_some() || record.kind == Kind::Page;
        if record.http != 410 || !told {
            let what =
                format!("ticket {} ended with HTTP {} and state {:?}", story.id, record.http, record.state);
            return Some(Violation::new(8, what, [at]));
        }
        let was = |is: &dyn Fn(&Record) -> bool| {
            story.records.iter().any(|(_, r)| r.t_sent_us < record.t_answered_us && is(r))
        };
        let left = was(&|r| r.kind == Kind::Leave);
        let admitted = was(&|r| r.pass.is_some());
        let called = was(&|r| r.called == Some(true));
        let unanswered = was(&|r| !r.is_answered());
        let (last, seen) = self.refreshed()?;
        let away = record.t_answered_us.saturating_sub(seen.t_sent_us);
        // In a fleet an edge that others find silent need not be this visitor's: only what reached all excuses all, and
        // only those whose own edge was down have a heartbeat's time to come back to it.
        let of_all = Outages::find(&[], &rules.outages);
        let (excusing, after) = if rules.slack_us > 0 { (&of_all, 0) } else { (outages, rules.heartbeat_us) };
        let counted = away.saturating_sub(excusing.within(seen.t_sent_us, record.t_answered_us, after));
        let missed = counted.saturating_add(MARGIN) >= rules.heartbeat_us;
        let fits = match record.reason.as_deref() {
            Some("missed_heartbeat") => missed,
            Some("used") => admitted || left || unanswered,
            Some("left") => left,
            Some("missed_turn") => admitted || called || unanswered,
            Some("too_old" | "reset") => true,
            _ => missed || admitted || left || called,
        };
        (!fits).then(|| {
            let what = format!(
                "ticket {} ended as {} {:.2} s after its last heartbeat, outages not counted",
                story.id,
                record.reason.as_deref().unwrap_or("ended"),
                counted as f64 / SECOND as f64
            );
            Violation::new(10, what, [last, at])
        })
    }

    /// A ticket that missed its window has to be gone.
    fn outlived(self) -> Option<Violation> {
        let Self { story, earlier, at, record, outages, rules, began } = self;
        let longest = rules.heartbeat_us.saturating_mul(3) / 2 + MARGIN;
        let lately = |(_, r): &At<'_>| record.t_sent_us.saturating_sub(r.t_answered_us) <= longest;
        let shown = record.shown_ticket.as_deref() == Some(story.id) && !record.forged;
        if !shown || earlier.last().is_none_or(lately) {
            return None;
        }
        if earlier.iter().any(|(_, r)| r.pass.is_some() || r.t_answered_us > record.t_sent_us) {
            return None;
        }
        let (last, seen) = earlier.iter().copied().max_by_key(|(_, r)| r.t_answered_us)?;
        let away = record.t_sent_us.saturating_sub(seen.t_answered_us);
        let since = seen.t_answered_us.saturating_sub(2 * rules.heartbeat_us);
        let forgiven = |(from, to): &(u64, u64)| since < *to && record.t_answered_us > *from;
        let excused = outages.touch(since, record.t_answered_us)
            || rules.forgiving.iter().any(forgiven)
            || record.phase.as_deref() == Some("frozen")
            || seen.phase.as_deref() == Some("frozen")
            || seen.t_answered_us < began.saturating_add(2 * rules.heartbeat_us);
        (away > longest && !excused).then(|| {
            let what = format!(
                "ticket {} was away for {:.1} s and still had its place",
                story.id,
                away as f64 / SECOND as f64
            );
            Violation::new(8, what, [last, at])
        })
    }

    /// A pass that opened the origin although its session was over.
    fn overstayed(self) -> Option<Violation> {
        let Self { story, earlier, at, record, rules, .. } = self;
        if record.shown_pass.as_deref() != Some(story.id) || record.forged {
            return None;
        }
        let grace = CLOCK_MARGIN.saturating_add(rules.slack_us);
        let left = story.left().filter(|(_, r)| r.saw == Saw::Left);
        if let Some((left_at, left)) = left
            && record.t_sent_us > left.t_answered_us.saturating_add(grace)
        {
            let what = format!("pass {} opened the origin after its visitor had left", story.id);
            return Some(Violation::new(8, what, [left_at, at]));
        }
        let (granted, grant) = story.admitted()?;
        let uses =
            earlier.iter().filter(|(_, r)| r.kind == Kind::Use && r.shown_pass.as_deref() == Some(story.id));
        let last_use = uses.max_by_key(|(_, r)| r.t_answered_us).copied();
        let told = story.told_expiry(None, record.t_sent_us, rules.session_us).unwrap_or(0);
        let idle = match last_use {
            Some((_, used)) => used.t_answered_us.saturating_add(rules.session_us),
            None => grant.t_answered_us.saturating_add(rules.claim_us),
        };
        let ceiling = grant.t_answered_us.saturating_add(rules.claim_us).saturating_add(rules.session_max_us);
        let latest = idle.max(told).min(ceiling).saturating_add(grace + RELEASE_GUARD);
        (record.t_sent_us > latest).then(|| {
            let what = format!("pass {} opened the origin after its session had run out", story.id);
            Violation::new(8, what, last_use.map(|(at, _)| at).into_iter().chain([granted, at]))
        })
    }

    /// A pass that was turned away before the time that its visitor had been told.
    fn cut_short(self) -> Option<Violation> {
        let Self { story, at, record, rules, .. } = self;
        if record.shown_pass.as_deref() != Some(story.id) || record.forged {
            return None;
        }
        if story.left().is_some_and(|(_, left)| left.t_sent_us <= record.t_answered_us)
            || self.is_unheard_of()
        {
            return None;
        }
        let told = story.told_expiry(Some(record.tab), record.t_sent_us, rules.session_us)?;
        (record.t_answered_us.saturating_add(CLOCK_MARGIN) < told).then(|| {
            let what = format!(
                "pass {} was turned away {:.1} s before its end",
                story.id,
                (told - record.t_answered_us) as f64 / SECOND as f64
            );
            Violation::new(10, what, story.admitted().map(|(at, _)| at).into_iter().chain([at]))
        })
    }

    /// Whether the pass was not in use yet, came to an edge that could ask nobody about it while something was broken,
    /// and was given or opened once more later: an edge without a leader honours no unused pass that it does not know
    /// (design §3, *First use and renewal*).
    fn is_unheard_of(self) -> bool {
        let Self { story, earlier, record, rules, .. } = self;
        let opened = |(_, r): &At<'_>| r.saw == Saw::Origin;
        let again =
            |at: &At<'_>| at.1.t_sent_us >= record.t_answered_us && (opened(at) || at.1.pass.is_some());
        rules.health == Health::Faulty && !earlier.iter().any(opened) && story.records.iter().any(again)
    }
}

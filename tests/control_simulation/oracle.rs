//! The oracle: holds the contract over what desks have answered, with true time and true connections in view.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anteroom::model::ids::{NodeRun, TicketId};
use anteroom::model::order::OrderKey;

/// Without a quorum, grants that were on their way may be spent for so long, in milliseconds: the life of a grant, a
/// commit that was answered in the last moment, and the slowest way that the script makes.
const GRANTS_LAST_MS: u64 = 3_000;

/// Answers are seen at most a step after they were given, and fleet time may run a tenth too fast.
const RATE_WINDOW_MS: u64 = 890;

/// What a leader knows for certain was published so long ago, in milliseconds.
const PUBLISHED_MS: u64 = 2_500;

/// Enough to tell what is wrong.
const MOST_VIOLATIONS: usize = 5;

/// A breach of the contract.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) at_ms: u64,
    pub(crate) what: String,
}

/// Since when and until when a pass was seen to open.
#[derive(Clone, Copy, Debug)]
struct Session {
    first: u64,
    last: u64,
    /// Which nodes opened it first and last.
    by: (u16, u16),
}

/// Whether an answer can be the second to the same question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    First,
    /// An earlier question of this visitor's was never answered: what it did is not known.
    Perhaps,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    capacity: usize,
    mints_allowed: usize,
    sessions: HashMap<TicketId, Session>,
    mints: VecDeque<u64>,
    no_quorum_since: Option<u64>,
    /// What each run's desk showed last.
    watermarks: BTreeMap<NodeRun, OrderKey>,
    /// The highest that was published, by time.
    published: VecDeque<(u64, OrderKey)>,
    certain: OrderKey,
    pub(crate) violations: Vec<Violation>,
    pub(crate) admitted: u32,
    pub(crate) last_admission: u64,
    pub(crate) most_live: usize,
}

impl Oracle {
    pub(crate) fn new(capacity: u32, max_admit_per_sec: u32) -> Self {
        Self {
            capacity: capacity as usize,
            mints_allowed: 2 * max_admit_per_sec as usize + 1,
            sessions: HashMap::new(),
            mints: VecDeque::new(),
            no_quorum_since: Some(0),
            watermarks: BTreeMap::new(),
            published: VecDeque::new(),
            certain: OrderKey::default(),
            violations: Vec::new(),
            admitted: 0,
            last_admission: 0,
            most_live: 0,
        }
    }

    pub(crate) fn report(&mut self, at_ms: u64, what: String) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(Violation { at_ms, what });
        }
    }

    /// Whether a majority of the controllers can talk to each other at this moment.
    pub(crate) fn note_quorum(&mut self, now: u64, there_is: bool) {
        if there_is {
            self.no_quorum_since = None;
        } else {
            self.no_quorum_since.get_or_insert(now);
        }
    }

    /// A visitor was let in.
    pub(crate) fn let_in(&mut self, now: u64, id: TicketId, answer: Answer, of: u16) {
        if self.sessions.contains_key(&id) {
            self.opened(now, id, of);
            return;
        }
        self.sessions.insert(id, Session { first: now, last: now, by: (of, of) });
        self.admitted += 1;
        self.last_admission = now;
        if answer == Answer::Perhaps {
            return;
        }
        self.mints.push_back(now);
        while self.mints.front().is_some_and(|first| now - first >= RATE_WINDOW_MS) {
            self.mints.pop_front();
        }
        if self.mints.len() > self.mints_allowed {
            let count = self.mints.len();
            self.report(now, format!("{count} were let in within a second, {} may be", self.mints_allowed));
        }
        if let Some(since) = self.no_quorum_since.filter(|since| now - since > GRANTS_LAST_MS) {
            self.report(now, format!("{id} was let in {} ms after the quorum was lost", now - since));
        }
    }

    /// A pass opened at a node.
    pub(crate) fn opened(&mut self, now: u64, id: TicketId, of: u16) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.last = now;
            session.by.1 = of;
        }
    }

    /// What a desk shows.
    pub(crate) fn saw(&mut self, now: u64, run: NodeRun, watermark: OrderKey) {
        let before = self.watermarks.insert(run, watermark).unwrap_or_default();
        if watermark < before {
            self.report(now, format!("the watermark went back at {run:?}: {before:?}, then {watermark:?}"));
        }
        if self.published.back().is_none_or(|(_, highest)| *highest < watermark) {
            self.published.push_back((now, watermark));
        }
        while let Some((_, known)) = self.published.front().filter(|(at, _)| at + PUBLISHED_MS <= now) {
            self.certain = *known;
            self.published.pop_front();
        }
    }

    /// A desk takes itself for one that a leader with a quorum answers.
    pub(crate) fn hears(&mut self, now: u64, run: NodeRun) {
        if let Some(since) = self.no_quorum_since.filter(|since| now - since > GRANTS_LAST_MS) {
            self.report(now, format!("{run:?} hears a leader {} ms after the quorum was lost", now - since));
        }
    }

    /// What the desk of a controller shows that leads a quorum, and has heard itself for a while.
    pub(crate) fn leads(&mut self, now: u64, run: NodeRun, watermark: OrderKey) {
        if watermark < self.certain {
            let certain = self.certain;
            self.report(now, format!("{run:?} leads with {watermark:?}, {certain:?} was published"));
        }
    }

    /// The run is over: were there ever more live passes than slots?
    pub(crate) fn count_live(&mut self) {
        let mut turns: Vec<(u64, i32)> =
            self.sessions.values().flat_map(|one| [(one.first, 1), (one.last, -1)]).collect();
        turns.sort_unstable();
        let mut live = 0;
        let mut breach = None;
        for (at, change) in turns {
            live += change;
            let count = usize::try_from(live).unwrap_or_default();
            self.most_live = self.most_live.max(count);
            if count > self.capacity && breach.is_none() {
                breach = Some((at, count));
            }
        }
        if let Some((at, count)) = breach {
            let of_then = |(_, one): &(&TicketId, &Session)| one.first <= at && at < one.last;
            let mut lives: Vec<(&TicketId, &Session)> = self.sessions.iter().filter(of_then).collect();
            lives.sort_unstable_by_key(|(_, one)| one.first);
            let told = format!("{count} passes opened at one moment, capacity {}: {lives:?}", self.capacity);
            self.report(at, told);
        }
    }
}

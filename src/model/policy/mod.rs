//! The policy of an event: what an operator may set, in the units that the names say.

mod domain;
mod effective;
mod fields;
mod merge;
mod own_cookies;
mod parse;
mod read;
#[cfg(test)]
mod tests;
mod warnings;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use fields::{Fault, Fields};
pub use merge::{Merged, Submission, Submissions};
pub use own_cookies::{LANGUAGE_COOKIE, LINE_COOKIE, OwnCookie, PASS_COOKIE, TICKET_COOKIE};
pub use read::Reader;

use super::language::Language;
use super::schedule::Schedule;

/// How the line is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// Buckets follow arrival, a draw decides inside a bucket.
    #[default]
    BucketedRandom,
    /// Arrival decides.
    Fifo,
    /// Everybody who waits is equally likely to be next.
    Random,
}

/// What the gate does with the requests of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only passes reach the origin.
    #[default]
    Enforce,
    /// Hands out passes and lets everyone through.
    Observe,
    /// Lets everyone through and hands out nothing.
    Bypass,
    /// Joins are refused; passes go on until they end.
    Closed,
}

/// Which requests count as activity of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenewOn {
    /// Every request with the pass.
    #[default]
    Request,
    /// Navigations only, by Fetch metadata, so that a background poll keeps no idle tab inside.
    Navigation,
}

/// The `SameSite` attribute of the event's cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// Sent with top-level navigations from elsewhere.
    #[default]
    Lax,
    /// Never sent from elsewhere.
    Strict,
    /// Sent from everywhere; needs TLS.
    None,
}

/// How the event's cookies are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookiePolicy {
    /// The `Domain` attribute; left out: the host that was asked. Never a public suffix.
    pub domain: Option<String>,
    /// The `SameSite` attribute.
    pub same_site: SameSite,
    /// Whether the cookies are partitioned by top-level site (CHIPS).
    pub partitioned: bool,
}

/// Which requests belong to an event: a host and a path prefix on segment borders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RouteMatch {
    /// An exact host or `*.suffix`, lower case; `None`: any host.
    pub host: Option<String>,
    /// A normalised path prefix, `/` for everything.
    pub path: String,
}

impl std::fmt::Display for RouteMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{} of {host}", self.path),
            None => write!(f, "{} of any host", self.path),
        }
    }
}

/// A request that passes without a pass; every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BypassRule {
    /// A path prefix on segment borders.
    pub path: Option<String>,
    /// Methods, upper case; empty: any.
    pub methods: Vec<String>,
    /// A header that must be present, with this value if one is given.
    pub header: Option<NameValue>,
    /// A cookie that must be present, with this value if one is given.
    pub cookie: Option<NameValue>,
    /// Source networks; empty: any.
    pub networks: Vec<ipnet::IpNet>,
    /// Whether such a request takes a slot if one is free (and passes anyway).
    pub count: Count,
}

/// A name and, where it matters, the value that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameValue {
    /// The name of the header (lower case) or cookie.
    pub name: String,
    /// The exact value; `None`: any.
    pub value: Option<String>,
}

/// Whether what passes is counted against capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Count {
    /// Not counted.
    #[default]
    Uncounted,
    /// Counted where a slot is free.
    Counted,
}

/// What a visitor must solve before joining. Kinds other than `none` arrive with the defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeKind {
    /// Nothing.
    #[default]
    None,
}

/// Everything an operator decides about one event. Every value here is in range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// `match`: the requests that belong to the event; empty: none yet.
    pub routes: Vec<RouteMatch>,
    /// `origin`: the name of the origin that serves them.
    pub origin: Option<String>,
    /// `capacity`: live passes at once, 1..=1,000,000.
    pub capacity: NonZeroU32,
    /// `max_admit_per_sec`: 1..=1,000,000.
    pub max_admit_per_sec: NonZeroU32,
    /// `ordering`.
    pub ordering: Ordering,
    /// `bucket_seconds`: the longest that a bucket stays open, 1..=3600 (60; 1 for `fifo`).
    pub bucket: Duration,
    /// `session_ttl_s`: idle time of an admitted visitor (600).
    pub session_ttl: Duration,
    /// `session_max_s`: hard ceiling of a session (3600).
    pub session_max: Duration,
    /// `pass_claim_s`: time to make first use of a pass (120).
    pub pass_claim: Duration,
    /// `claim_hold_s`: how long a hidden page may hold its turn (600).
    pub claim_hold: Duration,
    /// `heartbeat_ttl_s`: a ticket that is silent for this long is dropped, 4..=3600 (90).
    pub heartbeat_ttl: Duration,
    /// `ticket_max_s`: the age at which a ticket ends (86,400).
    pub ticket_max: Duration,
    /// `queue_limit`: most tickets that may wait; `None`: no limit.
    pub queue_limit: Option<NonZeroU32>,
    /// `mode`.
    pub mode: Mode,
    /// `schedule`.
    pub schedule: Schedule,
    /// `inventory`: what is left to sell; `None`: not told.
    pub inventory: Option<u64>,
    /// `paused`: nobody is admitted; joins, heartbeats and renewals go on.
    pub paused: bool,
    /// `renew_on`.
    pub renew_on: RenewOn,
    /// `challenge.kind`.
    pub challenge: ChallengeKind,
    /// `bypass`.
    pub bypass: Vec<BypassRule>,
    /// `cookie`.
    pub cookie: CookiePolicy,
    /// `message`: a sentence of the operator's, shown to everybody who waits.
    pub message: Option<String>,
    /// `language`: what pages are written in for visitors who ask for no language that there is (`en`).
    pub language: Language,
}

impl Policy {
    /// The length of a heartbeat window: half of `heartbeat_ttl_s` (design §3 *Heartbeats*).
    #[must_use]
    pub fn heartbeat_window(&self) -> Duration {
        self.heartbeat_ttl / 2
    }
}

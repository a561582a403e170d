//! From fields to a policy: every rule of every field, all faults at once.

use std::num::NonZeroU32;
use std::time::Duration;

use super::domain::{cookie_domain, outside};
use super::fields::{Fault, Fields};
use super::read::Reader;
use super::{
    BypassRule, ChallengeKind, CookiePolicy, Count, NameValue, Ordering, Policy, RenewOn, RouteMatch,
    SameSite,
};
use crate::model::language::Language;
use crate::model::route::normalise_host;
use crate::model::schedule::Schedule;

impl Policy {
    /// The policy that fields make; what is left out has its default.
    ///
    /// # Errors
    /// All faults of all fields at once, each with its path.
    pub fn from_fields(fields: &Fields) -> Result<Self, Vec<Fault>> {
        let (policy, faults) = Self::read(fields);
        if faults.is_empty() { Ok(policy) } else { Err(faults) }
    }

    /// The same with what could be read where there are faults: of use only to look for more of them.
    #[must_use]
    pub fn read(fields: &Fields) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut reader = Reader::new("", fields.to_map(), &mut faults);
        let policy = read_policy(&mut reader);
        reader.finish();
        check_durations(&policy, &mut faults);
        check_domain(&policy, &mut faults);
        (policy, faults)
    }
}

fn read_policy(reader: &mut Reader<'_>) -> Policy {
    let routes = reader.objects("match", read_route);
    let origin = reader.text("origin");
    let capacity = required(reader, "capacity");
    let max_admit_per_sec = required(reader, "max_admit_per_sec");
    let ordering = reader.word("ordering", "bucketed_random, fifo, random").unwrap_or_default();
    let default_bucket = if ordering == Ordering::Fifo { 1 } else { 60 };
    Policy {
        routes,
        origin,
        capacity,
        max_admit_per_sec,
        ordering,
        bucket: seconds(reader, "bucket_seconds", 1..=3600, default_bucket),
        session_ttl: seconds(reader, "session_ttl_s", 1..=86_400, 600),
        session_max: seconds(reader, "session_max_s", 1..=604_800, 3600),
        pass_claim: seconds(reader, "pass_claim_s", 1..=3600, 120),
        claim_hold: seconds(reader, "claim_hold_s", 0..=86_400, 600),
        heartbeat_ttl: seconds(reader, "heartbeat_ttl_s", 4..=3600, 90),
        ticket_max: seconds(reader, "ticket_max_s", 60..=2_592_000, 86_400),
        queue_limit: reader
            .number("queue_limit", 0..=1_000_000_000)
            .and_then(|limit| u32::try_from(limit).ok())
            .and_then(NonZeroU32::new),
        mode: reader.word("mode", "enforce, observe, bypass, closed").unwrap_or_default(),
        schedule: reader.object("schedule", read_schedule).unwrap_or_default(),
        inventory: reader.number("inventory", 0..=u64::MAX),
        paused: reader.flag("paused").unwrap_or_default(),
        renew_on: reader.word::<RenewOn>("renew_on", "request, navigation").unwrap_or_default(),
        challenge: reader.object("challenge", read_challenge).unwrap_or_default(),
        bypass: reader.objects("bypass", read_bypass),
        cookie: reader.object("cookie", read_cookie).unwrap_or_default(),
        message: read_message(reader),
        language: read_language(reader),
    }
}

fn required(reader: &mut Reader<'_>, key: &'static str) -> NonZeroU32 {
    let before = reader.fault_count();
    let number = reader.number(key, 1..=1_000_000).and_then(|number| u32::try_from(number).ok());
    if number.is_none() && reader.fault_count() == before {
        reader.fault(key, "is missing; write a whole number from 1 to 1000000");
    }
    number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

fn seconds(
    reader: &mut Reader<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<u64>,
    default: u64,
) -> Duration {
    Duration::from_secs(reader.number(key, range).unwrap_or(default))
}

fn read_language(reader: &mut Reader<'_>) -> Language {
    let tags: Vec<_> = Language::ALL.iter().map(|language| language.as_str()).collect();
    reader.word("language", &tags.join(", ")).unwrap_or_default()
}

fn read_message(reader: &mut Reader<'_>) -> Option<String> {
    let message = reader.text("message")?;
    if message.chars().count() > 500 {
        reader.fault("message", "is longer than 500 characters");
    }
    if message.chars().any(upsets_a_page) {
        reader.fault("message", "contains characters that nobody sees; leave out control characters and U+202A to U+202E, U+2066 to U+2069");
    }
    Some(message).filter(|message| !message.is_empty())
}

/// Whether a character controls how the text around it is shown, instead of being shown; lines may end.
fn upsets_a_page(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn read_route(reader: &mut Reader<'_>) -> RouteMatch {
    let host = reader.text("host").map(|host| host.to_ascii_lowercase());
    if let Some(host) = &host {
        let name = host.strip_prefix("*.").unwrap_or(host);
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
        // What is compared with it has neither port nor trailing dot.
        let comparable = normalise_host(name).is_ok_and(|plain| plain == name);
        if !comparable || name.starts_with('.') || !name.chars().all(allowed) {
            reader.fault(
                "host",
                format!("\"{host}\" is no host name; write tickets.example.com or *.example.com"),
            );
        }
    }
    let path = reader.text("path").unwrap_or_else(|| "/".to_owned());
    check_path(reader, &path);
    RouteMatch { host, path }
}

fn check_path(reader: &mut Reader<'_>, path: &str) {
    let segments = path.split('/').skip(1);
    let odd = |segment: &str| matches!(segment, "." | "..");
    let inner_empty = path.contains("//");
    let plain = path.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\' | '%'));
    if !path.starts_with('/') || inner_empty || !plain || segments.into_iter().any(odd) {
        reader
            .fault("path", format!("\"{path}\" is no plain path; write it as the origin reads it, as /buy"));
    }
}

fn read_schedule(reader: &mut Reader<'_>) -> Schedule {
    let schedule = Schedule {
        prequeue_at: reader.time("prequeue_at"),
        opens_at: reader.time("opens_at"),
        closes_at: reader.time("closes_at"),
        opening_bucket_seconds: reader
            .number("opening_bucket_seconds", 0..=3600)
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or_default(),
    };
    if schedule.prequeue_at.is_some() && schedule.opens_at.is_none() {
        reader.fault("opens_at", "is missing; a prequeue waits for an opening");
    }
    let times = [
        ("opens_at", schedule.prequeue_at, schedule.opens_at, "prequeue_at"),
        ("closes_at", schedule.opens_at.or(schedule.prequeue_at), schedule.closes_at, "opens_at"),
    ];
    for (key, earlier, later, name) in times {
        if let (Some(earlier), Some(later)) = (earlier, later)
            && later <= earlier
        {
            reader.fault(key, format!("is not later than `{name}`"));
        }
    }
    schedule
}

fn read_challenge(reader: &mut Reader<'_>) -> ChallengeKind {
    let hint = "none (this version asks for no challenge before joining)";
    reader.word("kind", hint).unwrap_or_default()
}

fn read_bypass(reader: &mut Reader<'_>) -> BypassRule {
    let path = reader.text("path");
    if let Some(path) = &path {
        check_path(reader, path);
    }
    let methods: Vec<_> = reader.texts("methods").iter().map(|method| method.to_ascii_uppercase()).collect();
    let header = reader.object("header", read_name_value).map(|mut header| {
        header.name.make_ascii_lowercase();
        header
    });
    let cookie = reader.object("cookie", read_name_value);
    let mut networks = Vec::new();
    for (at, text) in reader.texts("networks").iter().enumerate() {
        match text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(Into::into)) {
            Ok(network) => networks.push(network),
            Err(_) => reader.fault(
                &format!("networks[{at}]"),
                format!("\"{text}\" is no network; write it as 203.0.113.0/24 or 2001:db8::/32"),
            ),
        }
    }
    let count = if reader.flag("count").unwrap_or_default() { Count::Counted } else { Count::Uncounted };
    BypassRule { path, methods, header, cookie, networks, count }
}

fn read_name_value(reader: &mut Reader<'_>) -> NameValue {
    let name = reader.text("name").unwrap_or_default();
    if name.is_empty() {
        reader.fault("name", "is missing");
    }
    NameValue { name, value: reader.text("value") }
}

fn read_cookie(reader: &mut Reader<'_>) -> CookiePolicy {
    let domain = reader
        .text("domain")
        .map(|text| cookie_domain(&text))
        .and_then(|domain| domain.map_err(|problem| reader.fault("domain", problem)).ok());
    CookiePolicy {
        domain,
        same_site: reader.word::<SameSite>("same_site", "lax, strict, none").unwrap_or_default(),
        partitioned: reader.flag("partitioned").unwrap_or_default(),
    }
}

fn check_domain(policy: &Policy, faults: &mut Vec<Fault>) {
    let Some(domain) = &policy.cookie.domain else { return };
    if let Some(host) = outside(domain, &policy.routes) {
        let problem = format!(
            "\"{domain}\" is not the host {host} of `match` or above it: browsers would drop the cookies"
        );
        faults.push(Fault { path: "cookie.domain".to_owned(), problem });
    }
}

fn check_durations(policy: &Policy, faults: &mut Vec<Fault>) {
    let mut rule = |broken: bool, path: &str, problem: &str| {
        if broken {
            faults.push(Fault { path: path.to_owned(), problem: problem.to_owned() });
        }
    };
    rule(
        policy.session_max < policy.session_ttl,
        "session_max_s",
        "is below `session_ttl_s`: the ceiling of a session cannot be shorter than its idle time",
    );
    rule(
        policy.ticket_max < policy.heartbeat_ttl * 2,
        "ticket_max_s",
        "is below twice `heartbeat_ttl_s`: tickets would end before a heartbeat could be missed",
    );
}

//! One rush on the real binary, with something happening in the middle, and its verdict.

use std::sync::Arc;
use std::time::Duration;

use anteroom_load::check::{Health, Ordering, Rules, SECOND, Verdict};
use anteroom_load::clock::Clock;
use anteroom_load::rush::{Crowd, Curve, Mix, rush};
use anteroom_load::subject::Subject;
use anteroom_load::visitor::Habits;
use http::Method;
use tokio::time::sleep;

use crate::room::Room;

/// What happens in the middle of a rush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// Nothing.
    Nothing,
    /// `kill -9`, and a start right after it.
    Kill,
    /// The configuration is edited and read again, by signal and by the operator's API.
    Reload,
    /// The signing key is rotated, twice.
    Rotation,
    /// `kill -9`, and a start only after every heartbeat would have been missed.
    Downtime,
}

/// How large a rush is. Times in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) visitors: u64,
    pub(crate) capacity: u64,
    pub(crate) rate: u64,
    pub(crate) session: f64,
    pub(crate) arrivals: f64,
    pub(crate) lasts: f64,
    pub(crate) bucket: u64,
    pub(crate) heartbeat: u64,
    pub(crate) claim: u64,
    pub(crate) session_ttl: u64,
}

/// Small enough for every run of the tests.
pub(crate) const SHORT: Size = Size {
    visitors: 500,
    capacity: 20,
    rate: 20,
    session: 12.0,
    arrivals: 12.0,
    lasts: 55.0,
    bucket: 5,
    heartbeat: 8,
    claim: 5,
    session_ttl: 12,
};

/// As large as a real sale.
pub(crate) const LONG: Size = Size {
    visitors: 5_000,
    capacity: 200,
    rate: 20,
    session: 15.0,
    arrivals: 60.0,
    lasts: 420.0,
    bucket: 30,
    heartbeat: 90,
    claim: 20,
    session_ttl: 60,
};

fn name_of(ordering: Ordering) -> String {
    serde_json::to_value(ordering).unwrap().as_str().unwrap().to_owned()
}

pub(crate) fn events(size: &Size, ordering: Ordering, claim_hold: u64) -> String {
    let Size { capacity, rate, bucket, heartbeat, claim, session_ttl, .. } = size;
    let name = name_of(ordering);
    let bucket = if ordering == Ordering::Fifo { 1 } else { *bucket };
    format!(
        "  - id: sale\n    match: [ {{ path: /buy }} ]\n    origin: shop\n    capacity: {capacity}\n    \
         max_admit_per_sec: {rate}\n    ordering: {name}\n    bucket_seconds: {bucket}\n    \
         session_ttl_s: {session_ttl}\n    session_max_s: 600\n    pass_claim_s: {claim}\n    \
         heartbeat_ttl_s: {heartbeat}\n    claim_hold_s: {claim_hold}\n"
    )
}

/// Rushes, lets it happen, and judges.
pub(crate) async fn rushed(size: Size, ordering: Ordering, happening: Happening) -> Verdict {
    let name = format!("{}-{happening:?}", name_of(ordering)).to_lowercase();
    let mut room = Room::open(&name, &events(&size, ordering, 60)).await;
    let (world, clock) = (room.world(), room.world().clock);
    let crowd = crowd(&size);
    let visitors = tokio::spawn(async move { rush(world, &crowd).await });
    sleep(Duration::from_secs_f64(size.arrivals + 5.0)).await;
    let outage = happen(&mut room.subject, &size, ordering, happening, clock).await;
    visitors.await.unwrap();
    room.close(&rules(&size, ordering, outage)).await.0
}

pub(crate) fn crowd(size: &Size) -> Crowd {
    Crowd {
        visitors: size.visitors,
        curve: Curve::Burst,
        over: Duration::from_secs_f64(size.arrivals),
        most: Duration::from_secs_f64(size.lasts),
        mix: Mix::default(),
        seed: 20_261_130,
        habits: Arc::new(Habits {
            path: "/buy".to_owned(),
            base: "/waitingroom".to_owned(),
            event: "sale".to_owned(),
            session_s: size.session,
            requests: 6,
            leaving: 0.8,
            patience_s: size.lasts / 2.0,
            heartbeat_s: size.heartbeat as f64,
            session_ttl_s: size.session_ttl as f64,
            returning: 0.3,
        }),
    }
}

pub(crate) fn rules(size: &Size, ordering: Ordering, outage: Option<(u64, u64)>) -> Rules {
    let mut rules = Rules::new(size.capacity, size.rate as f64, ordering);
    if ordering != Ordering::Fifo {
        rules.bucket_us = size.bucket * SECOND;
    }
    rules.heartbeat_us = size.heartbeat * SECOND;
    rules.session_us = size.session_ttl * SECOND;
    rules.session_max_us = 600 * SECOND;
    rules.claim_us = size.claim * SECOND;
    rules.health = if outage.is_some() { Health::Faulty } else { Health::Healthy };
    rules.outages.extend(outage);
    rules
}

/// Lets it happen, and tells from when to when nobody was served.
async fn happen(
    subject: &mut Subject,
    size: &Size,
    ordering: Ordering,
    happening: Happening,
    clock: Clock,
) -> Option<(u64, u64)> {
    let away = match happening {
        Happening::Nothing => return None,
        Happening::Kill => Duration::from_millis(200),
        Happening::Downtime => Duration::from_secs(2 * size.heartbeat),
        Happening::Reload => {
            subject.plan.events = events(size, ordering, 90);
            subject.plan.write().unwrap();
            subject.signal("HUP").await.unwrap();
            sleep(Duration::from_secs(3)).await;
            subject.plan.events = events(size, ordering, 120);
            subject.plan.write().unwrap();
            let operator = subject.plan.operator().unwrap();
            operator.ask(Method::POST, "/admin/reload", None).await.unwrap();
            return None;
        }
        Happening::Rotation => {
            for _ in 0..2 {
                let operator = subject.plan.operator().unwrap();
                operator.ask(Method::POST, "/admin/keys/rotate", None).await.unwrap();
                sleep(Duration::from_secs(5)).await;
            }
            return None;
        }
    };
    let from = clock.now_us();
    subject.kill().await.unwrap();
    sleep(away).await;
    subject.restart().await.unwrap();
    Some((from, clock.now_us()))
}

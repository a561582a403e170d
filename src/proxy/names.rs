//! Header names that `http` does not know; parsed once, since every request is asked for them.

use http::HeaderName;

/// The ticket, for those without cookies.
pub(super) static ANTEROOM_TICKET: HeaderName = HeaderName::from_static("anteroom-ticket");
/// The pass, for those without cookies.
pub(super) static ANTEROOM_PASS: HeaderName = HeaderName::from_static("anteroom-pass");

pub(super) static SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
pub(super) static SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
pub(super) static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Each may say that a page is fetched ahead of time.
pub(super) static PURPOSES: [HeaderName; 3] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-moz"),
];

/// Each may ask some frameworks to take the request for one of another method.
pub(super) static OTHER_METHODS: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-http-method"),
];

/// Each may ask some frameworks to take the request for one of another path.
pub(super) static OTHER_PATHS: [HeaderName; 3] = [
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-original-uri"),
    HeaderName::from_static("x-rewrite-url"),
];

/// What some frameworks believe of the proxy before them, about the host, the path or the visitor.
pub(super) static PROXIES_ONLY: [HeaderName; 11] = [
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-path"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-forwarded-scheme"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-ssl"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("x-http-host-override"),
    HeaderName::from_static("x-original-host"),
    HeaderName::from_static("x-real-ip"),
];

/// Caches that many visitors share obey these before `Cache-Control`.
pub(super) static SHARED_CACHES: [HeaderName; 2] =
    [HeaderName::from_static("cdn-cache-control"), HeaderName::from_static("surrogate-control")];

pub(super) static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) static X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

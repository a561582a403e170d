use proptest::prelude::*;

use super::*;
use crate::model::ids::EventId;
use crate::model::policy::{Fields, Policy, RouteMatch};

fn event(name: &str) -> EventId {
    name.parse().unwrap()
}

fn policy(routes: &[(Option<&str>, &str)]) -> Policy {
    let mut fields = Fields::default();
    fields.set("capacity", &1.into());
    fields.set("max_admit_per_sec", &1.into());
    let mut policy = Policy::from_fields(&fields).unwrap();
    policy.routes = routes
        .iter()
        .map(|(host, path)| RouteMatch { host: host.map(str::to_owned), path: (*path).to_owned() })
        .collect();
    policy
}

/// `buy` guards /buy and /café on any host, `vip` guards /buy/vip, `tour` all of two hosts, `wide` a suffix.
fn table() -> RouteTable {
    let policies = [
        (event("buy"), policy(&[(None, "/buy"), (None, "/café/")])),
        (event("vip"), policy(&[(None, "/buy/vip")])),
        (event("tour"), policy(&[(Some("tour.example.com"), "/"), (Some("tour.example.org"), "/")])),
        (event("wide"), policy(&[(Some("*.example.com"), "/"), (Some("*.deep.example.com"), "/d")])),
    ];
    RouteTable::build(policies.iter().map(|(event, policy)| (event.clone(), policy)))
}

fn verdict(host: &str, path: &str) -> String {
    let found = normalise_host(host).and_then(|host| {
        let path = normalise(path.as_bytes())?;
        table().find(Some(&host), &path).map(|found| found.map(ToString::to_string))
    });
    match found {
        Ok(Some(event)) => event,
        Ok(None) => "-".into(),
        Err(refused) => format!("{refused:?}"),
    }
}

#[test]
fn a_path_is_matched_as_some_origin_would_read_it_or_refused() {
    let cases = [
        // As written.
        ("/buy", "buy"),
        ("/buy/", "buy"),
        ("/buy?x=/../..", "buy"),
        ("/buy/1/2", "buy"),
        ("/buyer", "-"),
        ("/bu", "-"),
        ("/", "-"),
        ("/other/buy", "-"),
        ("/buy.html", "-"),
        ("/style.css", "-"),
        ("/buy/style.css", "buy"),
        ("/buy/vip", "vip"),
        ("/buy/vip/", "vip"),
        ("/buy/vipers", "buy"),
        // Case.
        ("/BUY", "buy"),
        ("/bUy/x", "buy"),
        ("/Buy/Vip", "vip"),
        // Empty segments.
        ("//buy", "buy"),
        ("///buy", "buy"),
        ("/buy//", "buy"),
        ("//other//buy", "buy"),
        ("/buy//vip", "Ambiguous"),
        ("//x/buy", "buy"),
        ("//buy/x", "buy"),
        ("/\\x/buy", "buy"),
        ("///x/buy/y", "buy"),
        ("//x/other", "-"),
        ("//buy/vip/x", "vip"),
        // Dot segments, bare and encoded: some origins resolve them, some do not.
        ("/./buy", "DotSegment"),
        ("/x/../buy", "DotSegment"),
        ("/buy/../x", "DotSegment"),
        ("/buy/%2e%2e/x", "DotSegment"),
        ("/x/%2E%2e/buy", "DotSegment"),
        ("/x/.%2e/buy", "DotSegment"),
        ("/%2e/buy", "DotSegment"),
        ("/buy/..", "DotSegment"),
        ("/buy/.", "DotSegment"),
        ("/..", "DotSegment"),
        ("/x/..\\buy", "DotSegment"),
        ("/x\\y%2f..%2fbuy", "DotSegment"),
        ("/x%5cy%2f..%2fbuy", "DotSegment"),
        ("/x%2fy\\..\\buy", "DotSegment"),
        ("/x%5cy/..\\buy", "DotSegment"),
        ("/buy/..;/x", "DotSegment"),
        ("/buy/..%3b/x", "DotSegment"),
        ("/x/..;a=b/buy", "DotSegment"),
        ("/buy/...", "buy"),
        ("/x/..buy", "-"),
        ("/.well-known/x", "-"),
        // Encoded letters.
        ("/%62uy", "buy"),
        ("/b%75%79", "buy"),
        ("/%42UY", "buy"),
        ("/%62%75%79/%76ip", "vip"),
        ("/caf%C3%A9", "buy"),
        ("/caf%c3%a9/x", "buy"),
        ("/café", "buy"),
        // Encoded slashes and backslashes.
        ("/%2fbuy", "buy"),
        ("/%2Fbuy", "buy"),
        ("/buy%2fvip", "vip"),
        ("/buy/%2fvip", "Ambiguous"),
        ("/buy/a%2fb", "buy"),
        ("/\\buy", "buy"),
        ("/%5cbuy", "buy"),
        ("/buy\\x", "buy"),
        ("/buy%5cx", "buy"),
        ("/buy%2fa\\b", "buy"),
        ("/buy%5cvip%2fx", "Ambiguous"),
        // Parameters.
        ("/buy;x=1", "buy"),
        ("/;a/buy", "buy"),
        ("/buy;x/vip", "vip"),
        ("/x;/buy", "-"),
        ("/buy%3bx", "-"),
        // Encoded twice, cut short, overlong, or no path.
        ("/x/%252e%252e/buy", "BadEscape"),
        ("/x%252f..%252fbuy", "BadEscape"),
        ("/x%255cbuy", "BadEscape"),
        ("/x%25%32%65", "BadEscape"),
        ("/x%2525", "BadEscape"),
        ("/100%25", "-"),
        ("/buy/100%2520", "buy"),
        ("/%", "BadEscape"),
        ("/%2", "BadEscape"),
        ("/%zz", "BadEscape"),
        ("/%c0%afbuy", "BadEscape"),
        ("/buy%00", "NotAPath"),
        ("/buy%0a", "NotAPath"),
        ("/buy\t", "NotAPath"),
        ("/buy#x", "NotAPath"),
        ("buy", "NotAPath"),
        ("", "NotAPath"),
        ("*", "NotAPath"),
        ("http://host/buy", "NotAPath"),
    ];
    assert!(cases.len() >= 60);
    for (path, expected) in cases {
        assert_eq!(verdict("shop.test", path), expected, "{path}");
    }
}

#[test]
fn a_host_is_matched_without_case_port_and_trailing_dot_or_refused() {
    let cases = [
        ("tour.example.com", "tour"),
        ("TOUR.Example.COM", "tour"),
        ("tour.example.com.", "tour"),
        ("tour.example.com:8443", "tour"),
        ("tour.example.com.:80", "tour"),
        ("tour.example.com:", "tour"),
        ("tour.example.org", "tour"),
        ("a.example.com", "wide"),
        ("a.tour.example.com", "wide"),
        ("example.com", "-"),
        ("notexample.com", "-"),
        ("tour.example.com.evil.test", "-"),
        ("[::1]", "-"),
        ("[::1]:80", "-"),
        ("127.0.0.1:3000", "-"),
        ("tour.example.com..", "NotAHost"),
        ("tour.example.com:80a", "NotAHost"),
        ("tour.example.com:80:80", "NotAHost"),
        ("u@tour.example.com", "NotAHost"),
        ("tour.example.com/x", "NotAHost"),
        ("tour example.com", "NotAHost"),
        ("[::1", "NotAHost"),
        ("[x]", "NotAHost"),
        ("", "NotAHost"),
        (":80", "NotAHost"),
        (".", "NotAHost"),
    ];
    for (host, expected) in cases {
        assert_eq!(verdict(host, "/"), expected, "{host}");
    }
}

#[test]
fn the_more_specific_host_goes_before_the_longer_path() {
    assert_eq!(verdict("tour.example.com", "/buy/vip"), "tour");
    assert_eq!(verdict("x.deep.example.com", "/d/1"), "wide");
    assert_eq!(verdict("x.deep.example.com", "/buy"), "wide");
    assert_eq!(verdict("elsewhere.test", "/buy"), "buy");
}

#[test]
fn a_request_without_host_matches_the_routes_of_any_host() {
    let path = normalise(b"/buy").unwrap();
    assert_eq!(table().find(None, &path), Ok(Some(&event("buy"))));
    assert_eq!(table().find(None, &normalise(b"/").unwrap()), Ok(None));
}

#[test]
fn a_host_is_shared_when_routes_of_two_events_can_match_it() {
    assert!(table().shares_host(Some("tour.example.com")));
    assert!(table().shares_host(None));
    let several = policy(&[(None, "/buy"), (Some("tour.example.com"), "/")]);
    let one = RouteTable::build([(event("buy"), &several)]);
    assert!(!one.shares_host(Some("tour.example.com")), "two routes of one event");
    assert!(!RouteTable::build([]).shares_host(None));
}

#[test]
fn a_bypass_prefix_must_hold_in_every_reading() {
    let below = |path: &str| normalise(path.as_bytes()).unwrap().is_below("/buy/healthz");
    assert!(below("/buy/healthz"));
    assert!(below("/buy/healthz/x"));
    assert!(!below("/buy/healthzz"));
    assert!(!below("/buy/Healthz"), "an exception is taken to the letter");
    assert!(!below("/x\\buy/healthz"));
    assert!(!below("//buy/healthz"));
    assert!(!below("/buy//healthz"));
}

proptest! {
    #[test]
    fn any_path_and_host_is_read_or_refused(path: Vec<u8>, tail: Vec<u8>, host: String) {
        let _ = normalise(&path);
        let mut rooted = b"/".to_vec();
        rooted.extend(tail);
        if let Ok(path) = normalise(&rooted) {
            for reading in path.readings() {
                prop_assert!(reading.starts_with(b"/"));
                let dotted = reading.split(|b| *b == b'/').any(|s| s == b"." || s == b"..");
                prop_assert!(!dotted, "{:?}", reading);
            }
        }
        if let Ok(host) = normalise_host(&host) {
            prop_assert!(normalise_host(&host).is_ok_and(|again| again == host));
        }
    }

    #[test]
    fn a_plain_path_is_read_as_it_stands(path in "(/[A-Za-z0-9_~!$&'()*+,=:@-]{1,8}){1,5}/?") {
        let read = normalise(path.as_bytes()).unwrap();
        prop_assert_eq!(read.unambiguous(), Some(path.as_str()));
    }

    #[test]
    fn no_spelling_of_a_guarded_path_escapes_its_event(
        letters in prop::collection::vec(0u8..4, 3), before in prop::sample::select(vec![
            "", "/", "//", "//x", "/\\x", "/;p", "/;p/",
        ]), border in prop::sample::select(vec!["/", "%2f", "%2F", "\\", "%5c", "//"]),
    ) {
        let mut path = before.to_owned();
        if !path.starts_with('/') && !border.starts_with('/') { path.push('/'); }
        path.push_str(border);
        for (letter, how) in "buy".chars().zip(letters) {
            match how {
                0 => path.push(letter),
                1 => path.push(letter.to_ascii_uppercase()),
                2 => path.push_str(&format!("%{:02x}", letter as u32)),
                _ => path.push_str(&format!("%{:02X}", letter.to_ascii_uppercase() as u32)),
            }
        }
        let found = verdict("shop.test", &path);
        prop_assert!(found == "buy", "{path}: {found}");
    }
}

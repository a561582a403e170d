//! What passes without a pass, and what must not: bypass rules, modes, unguarded paths, spellings.

use serde_json::json;

use super::{House, Script, cookieless, pass, with_fields};
use crate::desk::ExpressAnswer;

#[test]
fn preflights_and_certificate_checks_always_pass() {
    let house = House::new(with_fields(json!({ "match": [{ "path": "/" }] })));
    let preflight =
        "OPTIONS /buy HTTP/1.1\nHost: shop.test\nOrigin: https://a.test\nAccess-Control-Request-Method: PUT";
    assert_eq!(house.ask(preflight).status, 200);
    assert_eq!(house.fetch("GET", "/.well-known/acme-challenge/abc", "").status, 200);
    assert_eq!(house.fetch("OPTIONS", "/buy", "").status, 429);
    assert_eq!(house.fetch("POST", "/.well-known/acme-challenge/abc", "").status, 429);
    for path in ["/.well-known/acme-challenge/../x", "/buy/../.well-known/acme-challenge/x"] {
        assert_eq!(house.fetch("GET", path, "").status, 400, "{path}");
    }
    for more in ["Content-Length: 2\n\nhi", "X-HTTP-Method-Override: POST"] {
        assert_eq!(house.ask(&format!("{preflight}\n{more}")).status, 429, "{more}");
    }
}

#[test]
fn a_bypass_rule_holds_only_as_a_whole() {
    let house = House::new(with_fields(json!({ "bypass": [
        { "path": "/buy/healthz" },
        { "path": "/buy/hook", "methods": ["POST"], "networks": ["127.0.0.0/8"] },
        { "path": "/buy/far", "networks": ["203.0.113.0/24"] },
        { "header": { "name": "x-probe", "value": "yes" } },
        { "cookie": { "name": "staff" } },
    ] })));
    let cases = [
        ("GET", "/buy/healthz", "", 200),
        ("GET", "/buy/healthz/x", "", 200),
        ("GET", "/buy/healthzz", "", 429),
        ("GET", "/buy/healthz/../secret", "", 400),
        ("GET", "/buy/secret/..%2fhealthz", "", 400),
        ("POST", "/buy/hook", "Content-Length: 0", 200),
        ("GET", "/buy/hook", "", 429),
        ("GET", "/buy/far", "X-Forwarded-For: 203.0.113.1", 429),
        ("GET", "/buy", "X-Probe: yes", 200),
        ("GET", "/buy", "X-Probe: no", 429),
        ("GET", "/buy", "Cookie: staff=1", 200),
    ];
    for (method, path, more, status) in cases {
        assert_eq!(house.fetch(method, path, more).status, status, "{method} {path} {more}");
    }
}

#[test]
fn networks_are_judged_by_the_client_that_a_trusted_proxy_names() {
    let fields = json!({ "bypass": [{ "networks": ["203.0.113.0/24"] }] });
    let house = House::with(with_fields(fields), |settings| {
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    assert_eq!(house.fetch("GET", "/buy", "X-Forwarded-For: 203.0.113.1").status, 200);
    assert!(
        house.seen().remove(0).to_ascii_lowercase().contains("x-forwarded-for: 203.0.113.1, 127.0.0.1\n")
    );
    assert_eq!(house.fetch("GET", "/buy", "X-Forwarded-For: 203.0.113.1, 198.51.100.1").status, 429);
}

#[test]
fn a_counted_bypass_passes_with_a_slot_and_without() {
    let fields = json!({ "bypass": [{ "path": "/buy/hook", "count": true }] });
    let none = House::new(with_fields(fields.clone()));
    assert_eq!(none.fetch("GET", "/buy/hook", "").status, 200);
    assert_eq!(none.asked(), ["express PerAddress(127.0.0.1)"]);
    let free = House::new(Script { express: ExpressAnswer::Admitted(pass("fresh")), ..with_fields(fields) });
    assert!(!cookieless(&free.go("/buy/hook", "a=1")));
}

#[test]
fn each_mode_treats_strangers_in_its_own_way() {
    let bypass = House::new(with_fields(json!({ "mode": "bypass" })));
    assert_eq!(bypass.go("/buy", "").status, 200);
    assert_eq!(bypass.asked(), Vec::<String>::new());
    let observe = House::new(with_fields(json!({ "mode": "observe" })));
    assert_eq!(observe.go("/buy", "wr_line_tour=1").status, 200);
    assert_eq!(observe.asked(), ["express OnTheSpot"]);
    let closed = House::new(Script {
        express: ExpressAnswer::Admitted(pass("fresh")),
        ..with_fields(json!({ "mode": "closed" }))
    });
    assert_eq!(closed.go("/buy", "").status, 302);
    assert_eq!(closed.fetch("GET", "/buy", "").status, 403);
    assert_eq!(closed.fetch("GET", "/buy", "Cookie: wr_pass=pass").status, 200);
}

#[test]
fn what_no_event_guards_goes_to_the_default_origin_or_nowhere() {
    let house = House::new(Script::default());
    assert_eq!(house.go("/", "wr_pass=x; a=1").status, 200);
    assert!(!house.seen().remove(0).contains("wr_pass"));
    let bare = House::with(Script::default(), |settings| settings.default_origin = None);
    assert_eq!(bare.go("/", "").status, 404);
    assert_eq!(bare.fetch("GET", "/", "").json()["state"], "not_found");
}

#[test]
fn no_spelling_of_path_or_host_walks_around_the_gate() {
    let house = House::new(with_fields(json!({ "match": [{ "host": "shop.test", "path": "/buy" }] })));
    let spellings = ["//buy", "//x/buy", "/%62uy", "/BUY", "/buy;x", "/%2fbuy", "/\\buy", "/buy//x"];
    for path in spellings {
        assert_eq!(house.fetch("GET", path, "").status, 429, "{path}");
    }
    for host in ["SHOP.test", "shop.test.", "shop.test:8080"] {
        let reply = house.ask(&format!("GET /buy HTTP/1.1\nHost: {host}\nAccept: */*"));
        assert_eq!(reply.status, 429, "{host}");
    }
    let absolute = house.ask("GET http://shop.test/buy HTTP/1.1\nHost: shop.test\nAccept: */*");
    assert_eq!(absolute.status, 429);
    for request in [
        "GET /%2e%2e/buy HTTP/1.1\nHost: shop.test",
        "GET /x/../buy HTTP/1.1\nHost: shop.test",
        "GET buy HTTP/1.1\nHost: shop.test",
        "GET %2fbuy HTTP/1.1\nHost: shop.test",
        "GET \\buy HTTP/1.1\nHost: shop.test",
        "GET /buy%00 HTTP/1.1\nHost: shop.test",
        "GET /buy HTTP/1.1",
        "GET /buy HTTP/1.1\nHost: a b",
        "GET /x HTTP/1.1\nHost: shop.test\nConnection: x-forwarded-for",
    ] {
        assert_eq!(house.ask(request).status, 400, "{request}");
    }
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_request_is_judged_by_the_host_that_the_origin_will_see() {
    let house = House::new(with_fields(json!({ "match": [{ "host": "shop.test", "path": "/buy" }] })));
    for guarded in [
        "GET http://shop.test/buy HTTP/1.0",
        "GET HTTP://SHOP.test.:8080/buy/x?y=1 HTTP/1.0",
        "GET https://shop.test/buy HTTP/1.0",
        "GET http://shop.test/buy HTTP/1.1\nHost: shop.test",
        "GET /buy HTTP/1.0\nHost: shop.test",
        "GET /buy HTTP/1.0\nHost: shop.test\nX-Forwarded-Host: other.test",
        "GET http://shop.test/buy HTTP/1.0\nX-Forwarded-Host: other.test",
    ] {
        assert_eq!(house.ask(guarded).status, 429, "{guarded}");
    }
    for refused in [
        "GET http://shop.test/buy HTTP/1.1",
        "GET http://shop.test/buy HTTP/1.0\nHost: other.test",
        "GET http://other.test/buy HTTP/1.1\nHost: shop.test",
        "GET http://shop.test/buy HTTP/1.0\nHost:",
        "GET http://user@shop.test/buy HTTP/1.0",
        "GET http://user@shop.test/buy HTTP/1.0\nHost: shop.test",
        "GET http:///buy HTTP/1.0",
        "GET http:/buy HTTP/1.0",
        "GET http:buy HTTP/1.0",
        "GET http:\\\\shop.test/buy HTTP/1.0",
        "GET http://shop.test\\@other.test/buy HTTP/1.0",
        "GET ftp://shop.test/buy HTTP/1.0",
        "GET shop.test/buy HTTP/1.0",
        "GET //shop.test/../buy HTTP/1.0",
    ] {
        assert_eq!(house.ask(refused).status, 400, "{refused}");
    }
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn the_origin_is_sent_the_path_and_the_host_that_were_judged() {
    let house = House::new(with_fields(json!({ "match": [{ "host": "shop.test", "path": "/buy" }] })));
    let seen = |request: &str| {
        let reply = house.ask(request);
        assert_eq!(reply.status, 200, "{request}");
        house.seen().remove(0).to_ascii_lowercase()
    };
    for (request, line) in [
        ("GET http://other.test:81/buy?x=http://y HTTP/1.0", "get /buy?x=http://y http/1.1\n"),
        ("GET http://other.test:81 HTTP/1.1\nHost: other.test:81", "get / http/1.1\n"),
        ("GET http://other.test:81?x HTTP/1.0", "get /?x http/1.1\n"),
    ] {
        let seen = seen(request);
        assert!(seen.starts_with(line), "{seen}");
        assert!(seen.contains("\nhost: other.test:81\n"), "{seen}");
        assert!(seen.contains("\nx-forwarded-host: other.test:81\n"), "{seen}");
    }
    let nameless = seen("GET /buy HTTP/1.0\nX-Forwarded-Host: shop.test");
    assert!(!nameless.contains("shop.test"), "{nameless}");
}

#[test]
fn what_only_a_proxy_may_say_does_not_reach_the_origin_from_anybody_else() {
    const LINES: &str = "X-Forwarded-Port: 1\nX-Forwarded-Server: mark\nX-Forwarded-Prefix: /mark\n\
        X-Forwarded-Path: /mark\nX-Forwarded-Ssl: mark\nX-Forwarded-Scheme: mark\nX-Original-Host: mark\n\
        X-Host: mark\nX-HTTP-Host-Override: mark\nX-Real-IP: mark\nX-Original-URL: /mark\nX-Rewrite-URL: /mark\n\
        X-Original-URI: /mark";
    let house = House::new(Script::default());
    assert_eq!(house.fetch("GET", "/", LINES).status, 200);
    let seen = house.seen().remove(0);
    assert!(!seen.contains("mark") && !seen.to_ascii_lowercase().contains("x-forwarded-port"), "{seen}");

    let trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let behind = House::with(Script::default(), |settings| settings.trusted_proxies = trusted);
    assert_eq!(behind.fetch("GET", "/", LINES).status, 200);
    let seen = behind.seen().remove(0).to_ascii_lowercase();
    for line in ["x-forwarded-port: 1\n", "x-forwarded-server: mark\n", "x-real-ip: mark\n"] {
        assert!(seen.contains(line), "{line} in {seen}");
    }
    assert!(!seen.contains("x-original-ur") && !seen.contains("x-rewrite-url"), "{seen}");
}

//! The table of design §6.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::json;

use super::house::ask_on;
use super::{House, Script, cookieless, pass, with_fields};
use crate::desk::{ExpressAnswer, RenewalUrgency};
use crate::metrics::NodeReading;
use crate::model::edge::Contact;
use crate::model::ids::LogIndex;

#[test]
fn without_a_pass_a_navigation_goes_to_the_page_and_the_origin_sees_nothing() {
    let house = House::new(Script::default());
    let reply = house.go("/buy/x?a=1&b=%20", "a=1");
    assert_eq!(reply.status, 302);
    assert_eq!(reply.header("location"), Some("/waitingroom/tour?to=/buy/x%3Fa%3D1%26b%3D%2520"));
    assert_eq!(reply.header("cache-control"), Some("private, no-store"));
    assert_eq!(reply.header("content-length"), Some("0"));
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_head_request_is_answered_without_body_and_the_connection_goes_on() {
    let house = House::new(Script::default());
    let mut stream = house.connect();
    let head = "HEAD /buy HTTP/1.1\nHost: shop.test\nAccept: text/html";
    assert_eq!(ask_on(&mut stream, head).status, 302);
    let fetch = "HEAD /buy HTTP/1.1\nHost: shop.test\nAccept: application/json";
    assert_eq!(ask_on(&mut stream, fetch).status, 429);
    assert_eq!(ask_on(&mut stream, head).status, 302);
}

#[test]
fn a_call_without_a_pass_is_told_where_to_join_and_the_connection_goes_on() {
    let house = House::new(Script::default());
    let mut stream = house.connect();
    for _ in 0..2 {
        let reply = ask_on(&mut stream, "GET /buy/api HTTP/1.1\nHost: shop.test\nAccept: */*");
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        assert_eq!(reply.header("cache-control"), Some("private, no-store"));
        assert_eq!(reply.header("retry-after"), Some("5"));
        let body = reply.json();
        assert_eq!(body["join"], "/waitingroom/tour/join");
        assert_eq!(body["present"], "Anteroom-Pass");
        assert_eq!(body["status"], 429);
        assert_eq!(body["state"], "waiting");
    }
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_script_is_no_navigation_whatever_it_accepts_nor_is_a_page_fetched_ahead() {
    let house = House::new(Script::default());
    for more in ["Sec-Fetch-Mode: cors", "Sec-Purpose: prefetch;prerender", "Purpose: prefetch"] {
        let reply = house.ask(&format!("GET /buy HTTP/1.1\nHost: shop.test\nAccept: text/html\n{more}"));
        assert_eq!(reply.status, 429, "{more}");
    }
}

#[test]
fn a_form_is_not_lost_in_silence() {
    let house = House::new(Script::default());
    let mut stream = house.connect();
    let form = "POST /buy HTTP/1.1\nHost: shop.test\nAccept: text/html,*/*;q=0.8\nSec-Fetch-Mode: navigate\n\
                Content-Length: 7\n\ncount=2";
    let reply = ask_on(&mut stream, form);
    assert_eq!(reply.status, 429);
    assert!(reply.body.contains("Your request was not sent"), "{}", reply.body);
    let again = ask_on(&mut stream, "GET /buy HTTP/1.1\nHost: shop.test\nAccept: text/html");
    assert_eq!(again.status, 302, "the body was read, so the connection goes on");
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_long_unread_body_never_reaches_the_origin() {
    let house = House::new(Script::default());
    let mut stream = house.connect();
    let head = "POST /buy HTTP/1.1\nHost: shop.test\nAccept: application/json\nContent-Length: 100000000";
    let reply = ask_on(&mut stream, head);
    assert_eq!(reply.status, 429);
    let waits = "POST /buy HTTP/1.1\nHost: shop.test\nAccept: */*\nExpect: 100-continue\nContent-Length: 5";
    assert_eq!(house.ask(waits).status, 429);
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_valid_pass_opens_and_the_origin_sees_no_token() {
    let house = House::new(Script::default());
    let reply = house.ask(
        "POST /buy/x?y=1 HTTP/1.1\nHost: Shop.Test:80\nCookie: a=1; wr_pass=pass; wr_line_tour=1\n\
         Cookie: wr_ticket=t; wr_pass_tour=old\nAnteroom-Ticket: t\nX-Forwarded-For: 1.2.3.4\n\
         Forwarded: for=1.2.3.4\nContent-Length: 3\n\nabc",
    );
    assert_eq!((reply.status, reply.body.as_str()), (200, "origin"));
    assert_eq!(reply.header("alt-svc"), None);
    assert!(cookieless(&reply));
    let seen = house.seen().remove(0).to_ascii_lowercase();
    assert!(seen.starts_with("post /buy/x?y=1 http/1.1\n"), "{seen}");
    assert!(seen.ends_with("\nabc"), "{seen}");
    assert!(!seen.contains("wr_") && !seen.contains("anteroom") && !seen.contains("1.2.3.4"), "{seen}");
    for line in [
        "cookie: a=1\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: http\n",
        "x-forwarded-host: shop.test:80\n",
    ] {
        assert!(seen.contains(line), "{line} in {seen}");
    }
    assert_eq!(house.asked(), [r#"check ["pass", "old"] Background"#]);
}

#[test]
fn a_pass_by_header_opens_too() {
    let house = House::new(Script::default());
    assert_eq!(house.fetch("GET", "/buy", "Anteroom-Pass: pass").status, 200);
    assert_eq!(house.fetch("GET", "/buy", "Anteroom-Pass: none").status, 429);
}

#[test]
fn a_renewed_pass_is_set_where_no_shared_cache_loses_by_it() {
    let relaxed = House::new(Script { urgency: RenewalUrgency::Relaxed, ..Script::default() });
    let shared = relaxed.fetch("GET", "/buy?cache=public", "Cookie: wr_pass=renewable");
    assert!(cookieless(&shared));
    assert_eq!(shared.header("cache-control"), Some("public, max-age=60"));
    let navigated = relaxed.go("/buy?cache=public", "wr_pass=renewable");
    assert!(navigated.cookie("wr_pass").is_some());
    let urgent = House::new(Script::default());
    let reply = urgent.fetch("GET", "/buy?cache=public", "Cookie: wr_pass=renewable");
    assert_eq!(reply.cookie("wr_pass"), Some("wr_pass=renewed; Path=/; Max-Age=120; HttpOnly; SameSite=Lax"));
    for private in [navigated, reply] {
        assert_eq!(private.header("cache-control"), Some("private, no-store"));
        for shared in ["cdn-cache-control", "surrogate-control", "expires"] {
            assert_eq!(private.header(shared), None, "{shared}");
        }
    }
}

#[test]
fn an_express_pass_rides_on_the_response() {
    let house = House::new(Script { express: ExpressAnswer::Admitted(pass("fresh")), ..Script::default() });
    let reply = house.go("/buy", "");
    assert_eq!(reply.status, 200);
    assert!(reply.cookie("wr_pass").unwrap().starts_with("wr_pass=fresh; Path=/; Max-Age=120; HttpOnly"));
    assert_eq!(reply.header("cache-control"), Some("private, no-store"));
    assert_eq!(house.asked(), ["express OnTheSpot"]);
    house.until("the end of the response is told", |desk| desk.answered.lock().unwrap().len() == 1);
}

#[test]
fn calls_without_cookies_share_a_pass_per_address_and_get_none_of_their_own() {
    let house = House::new(Script { express: ExpressAnswer::Admitted(pass("shared")), ..Script::default() });
    let reply = house.fetch("GET", "/buy", "");
    assert_eq!(reply.status, 200);
    assert!(cookieless(&reply));
    assert_eq!(house.asked(), ["express PerAddress(127.0.0.1)"]);
    assert!(!cookieless(&house.fetch("GET", "/buy", "Cookie: a=1")));
}

#[test]
fn who_stands_in_line_is_never_expressed() {
    let house = House::new(Script { express: ExpressAnswer::Admitted(pass("fresh")), ..Script::default() });
    assert_eq!(house.go("/buy", "wr_line_tour=1").status, 302);
    assert_eq!(house.fetch("GET", "/buy", "Anteroom-Ticket: t").status, 429);
    assert_eq!(house.asked(), Vec::<String>::new());
    assert_eq!(house.go("/buy", "wr_line_other=1").status, 200);
}

#[test]
fn a_cookie_check_sends_navigations_to_the_page_and_calls_to_the_join() {
    let house = House::new(Script { express: ExpressAnswer::CookieCheck, ..Script::default() });
    assert_eq!(house.go("/buy", "").status, 302);
    assert_eq!(house.fetch("GET", "/buy", "").status, 429);
}

#[test]
fn a_node_that_cannot_tell_says_so() {
    let house = House::new(Script { pass_unavailable: true, ..Script::default() });
    let reply = house.fetch("GET", "/buy", "Cookie: wr_pass=pass");
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("2")));
    assert_eq!(reply.json()["state"], "frozen");
    let express = ExpressAnswer::Unavailable(Duration::from_secs(3));
    let house = House::new(Script { express, ..Script::default() });
    assert_eq!(house.go("/buy", "").status, 503);
}

#[test]
fn a_node_that_has_not_heard_which_events_there_are_lets_nobody_by() {
    let house = House::new(Script { deaf: true, ..Script::default() });
    assert_eq!(house.go("/buy", "wr_pass=pass").status, 503);
    assert_eq!(house.go("/", "").status, 503, "not even to the default origin: an event may guard it");
    assert_eq!(house.go("/waitingroom/tour", "").status, 503);
    assert_eq!(house.seen(), Vec::<String>::new());
}

const SOCKET: &str = "GET /buy/ws HTTP/1.1\nHost: shop.test\nConnection: Upgrade\nUpgrade: websocket\n\
                      Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";

#[test]
fn an_upgrade_without_a_pass_is_refused_before_the_origin_hears_of_it() {
    let house = House::new(Script::default());
    let reply = house.ask(SOCKET);
    assert_eq!(reply.status, 429);
    assert_eq!(house.seen(), Vec::<String>::new());
}

#[test]
fn a_websocket_ends_with_its_pass() {
    let house = House::new(Script::default());
    let mut stream = house.connect();
    let reply = ask_on(&mut stream, &format!("{SOCKET}\nCookie: wr_pass=pass"));
    assert_eq!(reply.status, 101, "{reply:?}");
    assert_eq!(house.gate.in_flight(), 1);
    stream.write_all(b"x").unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
    assert_eq!(house.asked(), [r#"check ["pass"] Navigation"#]);
    house.desk.over.notify_one();
    assert!(!matches!(stream.read(&mut byte), Ok(1)), "the connection is closed");
}

#[test]
fn a_page_of_the_same_site_may_read_why_it_was_put_off() {
    let house = House::new(with_fields(json!({ "cookie": { "domain": "example.com" } })));
    let allowed = |host: &str, origin: &str| {
        let reply = house.ask(&format!("GET /buy HTTP/1.1\nHost: {host}\nAccept: */*\nOrigin: {origin}"));
        let told = reply.header("access-control-allow-origin").map(str::to_owned);
        assert!(told.is_none() || told.as_deref() == Some(origin));
        told.is_some()
    };
    for (host, origin) in [
        ("shop.test", "http://shop.test"),
        ("shop.test", "https://shop.test"),
        ("shop.test:81", "http://shop.test:81"),
        ("api.example.com", "https://www.example.com"),
        ("api.example.com:8443", "https://www.example.com:8443"),
        ("api.example.com", "https://example.com"),
    ] {
        assert!(allowed(host, origin), "{host} {origin}");
    }
    for (host, stranger) in [
        ("api.example.com", "https://evil.test"),
        ("api.example.com", "https://evilexample.com"),
        ("api.example.com", "null"),
        ("api.example.com", "https://example.com.evil.test"),
        ("api.example.com", "https://www.example.com:8443"),
        ("api.example.com", "ftp://www.example.com"),
        ("shop.test", "http://shop.test:81"),
        ("shop.test:81", "http://shop.test"),
        ("shop.test:81", "http://shop.test:82"),
    ] {
        assert!(!allowed(host, stranger), "{host} {stranger}");
    }
}

#[test]
fn a_page_in_plain_text_reads_nothing_that_came_by_tls() {
    let house = House::with(Script::default(), |settings| {
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let ask = "GET /buy HTTP/1.1\nHost: shop.test\nAccept: */*\nX-Forwarded-Proto: https\nOrigin: ";
    let allowed =
        |origin: &str| house.ask(&format!("{ask}{origin}")).header("access-control-allow-origin").is_some();
    assert!(allowed("https://shop.test") && !allowed("http://shop.test"));
}

#[test]
fn a_pass_reaches_the_visitor_although_the_origin_fails() {
    let nowhere = |settings: &mut crate::proxy::ProxySettings| {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        for origin in settings.origins.values_mut() {
            origin.servers = vec![closed.parse().unwrap()];
        }
    };
    // A listener that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = |settings: &mut crate::proxy::ProxySettings| {
        for origin in settings.origins.values_mut() {
            origin.servers = vec![silent.local_addr().unwrap().to_string().parse().unwrap()];
            origin.read_timeout = Duration::from_millis(100);
        }
    };
    let unknown = |settings: &mut crate::proxy::ProxySettings| settings.origins.clear();
    type Change<'a> = &'a dyn Fn(&mut crate::proxy::ProxySettings);
    let changes: [(u16, Change<'_>); 3] = [(502, &nowhere), (504, &slow), (502, &unknown)];
    for (status, change) in changes {
        let script = Script { express: ExpressAnswer::Admitted(pass("fresh")), ..Script::default() };
        let house = House::with(script, change);
        for reply in [house.go("/buy", ""), house.fetch("POST", "/buy", "Cookie: a=1\nContent-Length: 0")] {
            assert_eq!(reply.status, status);
            assert!(reply.cookie("wr_pass").unwrap().starts_with("wr_pass=fresh; Path=/; "), "{reply:?}");
            assert_eq!(reply.header("cache-control"), Some("private, no-store"));
        }
        let renewed = house.fetch("GET", "/buy", "Cookie: wr_pass=renewable");
        assert_eq!(renewed.cookie("wr_pass").is_some(), renewed.status == status);
        assert!(
            cookieless(&house.fetch("GET", "/buy", "")),
            "a pass that an address shares is nobody's to keep"
        );
    }
}

#[test]
fn whoever_is_known_in_line_is_limited_with_no_neighbour() {
    let house = House::with(Script::default(), |settings| {
        settings.limits.strangers_per_min = 2.try_into().unwrap();
    });
    let strangers: Vec<u16> = (0..4).map(|_| house.go("/buy", "").status).collect();
    assert_eq!(strangers, [302, 302, 429, 429]);
    for _ in 0..3 {
        assert_eq!(house.go("/buy/x", "wr_line_tour=1").status, 302);
        let told = house.fetch("GET", "/buy/x", "Anteroom-Ticket: ticket");
        assert_eq!(told.json()["join"], "/waitingroom/tour/join");
    }
    for token in ["forged", "ended", "seat"] {
        let limited = house.fetch("GET", "/buy/x", &format!("Anteroom-Ticket: {token}"));
        assert_eq!(limited.json()["state"], "retry", "{token}");
    }
}

#[test]
fn a_person_is_told_to_wait_by_a_page_and_a_script_by_json() {
    let limited = House::with(Script::default(), |settings| {
        settings.limits.strangers_per_min = 1.try_into().unwrap();
    });
    limited.go("/buy", "");
    let unavailable = House::new(Script {
        express: ExpressAnswer::Unavailable(Duration::from_secs(3)),
        ..Script::default()
    });
    for (house, status) in [(limited, 429), (unavailable, 503)] {
        let page = house.go("/buy", "");
        assert_eq!((page.status, page.header("content-type")), (status, Some("text/html; charset=utf-8")));
        assert!(page.body.contains("One moment") && page.header("retry-after").is_some(), "{page:?}");
        let call = house.fetch("GET", "/buy", "");
        assert_eq!((call.status, call.header("content-type")), (status, Some("application/problem+json")));
    }
}

#[test]
fn an_origin_that_does_not_answer_is_named_as_such() {
    let house = House::with(Script::default(), |settings| {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        for origin in settings.origins.values_mut() {
            origin.servers = vec![closed.parse().unwrap()];
        }
    });
    let reply = house.fetch("GET", "/buy", "Cookie: wr_pass=pass");
    assert_eq!(reply.status, 502);
    assert_eq!(reply.json()["state"], "origin_unavailable");
    assert!(house.go("/buy", "wr_pass=pass").body.contains("does not answer"));
}

#[test]
fn strangers_are_limited_by_address_and_pass_holders_are_not() {
    let house = House::with(Script::default(), |settings| {
        settings.limits.strangers_per_min = 3.try_into().unwrap();
    });
    let statuses: Vec<u16> = (0..5).map(|_| house.go("/buy", "").status).collect();
    assert_eq!(statuses, [302, 302, 302, 429, 429]);
    assert_eq!(house.go("/buy", "wr_pass=pass").status, 200);
}

#[test]
fn a_reload_takes_effect_for_the_next_request() {
    let house = House::with(Script::default(), |settings| settings.default_origin = None);
    assert_eq!(house.fetch("GET", "/", "").status, 404);
    let mut settings = super::house::settings_of_nowhere();
    settings.public_path = "/queue".into();
    house.gate.reload(settings).unwrap();
    assert_eq!(house.go("/buy", "").header("location"), Some("/queue/tour?to=/buy"));
}

#[test]
fn what_becomes_of_requests_is_counted_by_event() {
    let house = House::new(Script { express: ExpressAnswer::Line, ..Script::default() });
    assert_eq!(house.go("/buy", "").status, 302);
    assert_eq!(house.go("/buy", "wr_pass=pass").status, 200);
    assert_eq!(house.fetch("POST", "/buy", "").status, 429);
    assert_eq!(house.go("/waitingroom/nobody", "").status, 404);
    let node = NodeReading {
        contact: Contact::Fresh,
        pulse_age: None,
        round_trip: Duration::ZERO,
        index: LogIndex(1),
        leads: false,
        peers_refused: Vec::new(),
    };
    let text = house.gate.metrics.render(&node, &[]).unwrap();
    for line in [
        "requests_total{event=\"tour\",outcome=\"redirected\"} 1",
        "requests_total{event=\"tour\",outcome=\"passed\"} 1",
        "requests_total{event=\"tour\",outcome=\"refused\"} 1",
        "stray_requests_total{outcome=\"room\"} 1",
    ] {
        assert!(text.lines().any(|shown| shown == format!("anteroom_{line}")), "{line} in\n{text}");
    }
}

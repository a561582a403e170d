//! The table of design §5.

use std::time::Duration;

use serde_json::json;

use super::house::ask_on;
use super::{House, Reply, Script, pass, waiting};
use crate::desk::{JoinAnswer, StatusAnswer, Turn};
use crate::model::edge::{Ending, Phase};
use crate::model::time::FleetTime;

fn assert_private(reply: &Reply) {
    assert_eq!(reply.header("cache-control"), Some("private, no-store"));
    assert_eq!(reply.header("x-robots-tag"), Some("noindex"));
    assert!(reply.header("vary").is_some());
}

#[test]
fn the_page_puts_whoever_keeps_cookies_in_line_without_javascript() {
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let first = house.go("/waitingroom/tour?to=/buy/x%3Fa", "");
    assert_eq!(first.status, 302);
    assert_eq!(first.header("location"), Some("/waitingroom/tour?to=/buy/x%3Fa&j=1"));
    assert!(first.cookie("wr_ticket").unwrap().starts_with("wr_ticket=seat; Path=/waitingroom/tour; "));
    assert_private(&first);
    assert_eq!(house.asked(), Vec::<String>::new(), "whoever keeps no cookies leaves no ghost");
    let second = house.go("/waitingroom/tour?to=/buy/x%3Fa&j=1", "wr_ticket=seat");
    assert_eq!(second.status, 200);
    assert_private(&second);
    assert!(second.cookie("wr_ticket").unwrap().starts_with("wr_ticket=ticket2; "));
    assert!(second.cookie("wr_line_tour").unwrap().starts_with("wr_line_tour=1; Path=/; "));
    assert!(second.header("content-security-policy").unwrap().contains("default-src 'none'"));
    for part in ["10–20", "Doors at &lt;eight&gt;", "1-2-3", "http-equiv=\"refresh\" content=\"5\""] {
        assert!(second.body.contains(part), "{part} in {}", second.body);
    }
    assert_eq!(house.asked(), ["status seat Asking", "join Some(\"seat\")"]);
}

#[test]
fn without_cookies_the_page_says_so_and_links_to_itself() {
    let house = House::new(Script::default());
    let reply = house.go("/waitingroom/tour?to=/buy/x&j=1", "");
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("Cookies are needed"));
    assert!(
        reply.body.replace("&#x2f;", "/").contains("href=\"/waitingroom/tour?to=/buy/x\""),
        "{}",
        reply.body
    );
    assert!(reply.cookie("wr_ticket").is_some());
    let foreign = house.go("/waitingroom/tour?to=/buy/x", "wr_ticket=foreign");
    assert_eq!(foreign.status, 302, "what is no place of ours counts as none");
    assert_eq!(house.asked(), ["status foreign Asking"]);
}

#[test]
fn a_page_goes_on_at_once_with_a_pass_or_when_the_turn_has_come() {
    let house = House::new(Script { join: JoinAnswer::Admitted(pass("fresh")), ..Script::default() });
    let shown = house.go("/waitingroom/tour?to=/buy/x", "wr_pass=pass");
    assert_eq!((shown.status, shown.header("location")), (303, Some("/buy/x")));
    let joined = house.go("/waitingroom/tour?to=/buy/x&j=1", "wr_ticket=seat");
    assert_eq!((joined.status, joined.header("location")), (303, Some("/buy/x")));
    assert!(joined.cookie("wr_pass").unwrap().starts_with("wr_pass=fresh; Path=/; Max-Age=120"));
    assert!(joined.cookie("wr_line_tour").unwrap().contains("Max-Age=0"));
    let house = House::new(Script { status: StatusAnswer::Admitted(pass("fresh")), ..Script::default() });
    assert_eq!(house.go("/waitingroom/tour", "wr_ticket=ticket").header("location"), Some("/buy"));
}

#[test]
fn the_wish_must_be_a_path_of_the_event_on_this_host() {
    let house = House::new(Script::default());
    let goes_to = |to: &str| {
        let reply = house.go(&format!("/waitingroom/tour?to={to}"), "wr_pass=pass");
        reply.header("location").unwrap().to_owned()
    };
    for kept in ["/buy", "/buy/a%20b?x=1&y", "/buy//x", "/BUY"] {
        assert_eq!(goes_to(&super::super::asked::encode(kept)), kept);
    }
    for refused in [
        "//evil.test/buy",
        "/\\evil.test",
        "https://evil.test/buy",
        "evil",
        "",
        "/other",
        "/buyer",
        "/buy/..",
        "/x/../buy",
        "/buy\r\nx",
        "/buy\t",
        "/b\u{e9}",
        "javascript:1",
        "/buy\u{0}",
        "/%2e%2e/buy",
        "/\t/evil.test",
    ] {
        assert_eq!(goes_to(&super::super::asked::encode(refused)), "/buy", "{refused:?}");
    }
    let long = format!("/buy/{}", "x".repeat(8_000));
    assert_eq!(goes_to(&long), long);
    assert_eq!(goes_to(&format!("/buy/{}", "x".repeat(9_000))), "/buy");
    assert_eq!(goes_to(&super::super::asked::encode("/buy/\u{e9}?\u{20ac}=1")), "/buy/%C3%A9?%E2%82%AC=1");
}

#[test]
fn a_long_address_survives_the_way_through_the_room() {
    let house = House::new(Script::default());
    let wish = format!("/buy/x?{}", "a=%5B1%5D&".repeat(800));
    assert!(wish.len() > 7_500);
    let sent = house.go(&wish, "");
    assert_eq!(sent.status, 302);
    let page = house.go(sent.header("location").unwrap(), "wr_pass=pass");
    assert_eq!(page.header("location"), Some(wish.as_str()));
}

#[test]
fn an_ended_ticket_is_told_why_and_joins_again_by_one_click() {
    let status = StatusAnswer::Ended(Ending::MissedHeartbeat);
    let house = House::new(Script { status, join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let reply = house.go("/waitingroom/tour?to=/buy/x", "wr_ticket=ticket");
    assert_eq!(reply.status, 410);
    assert!(reply.body.contains("You lost your place"));
    let form = reply.body.replace("&#x2f;", "/");
    assert!(form.contains("action=\"/waitingroom/tour/join?to=/buy/x\""), "{form}");
    assert_eq!(house.asked(), ["status ticket Asking"], "nobody is put in line unasked");
    let joined = house.ask(
        "POST /waitingroom/tour/join?to=/buy/x HTTP/1.1\nHost: shop.test\nAccept: text/html\n\
         Content-Type: application/x-www-form-urlencoded\nContent-Length: 0\nCookie: wr_ticket=ticket",
    );
    assert_eq!((joined.status, joined.header("location")), (303, Some("/waitingroom/tour?to=/buy/x")));
    assert!(joined.cookie("wr_ticket").is_some());
}

#[test]
fn whoever_was_in_and_comes_back_begins_anew() {
    let status = StatusAnswer::Ended(Ending::Used);
    let house = House::new(Script { status, join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    assert_eq!(house.go("/waitingroom/tour", "wr_ticket=ticket").status, 200);
    assert_eq!(house.asked(), ["status ticket Asking", "join Some(\"ticket\")"]);
}

#[test]
fn a_line_that_takes_nobody_says_so_in_pages_and_json() {
    for (phase, status, words) in
        [(Phase::Full, 429, "The line is full"), (Phase::Closed, 403, "The line is closed")]
    {
        let house = House::new(Script { join: JoinAnswer::Refused(phase), ..Script::default() });
        let page = house.go("/waitingroom/tour", "wr_ticket=seat");
        assert_eq!(page.status, status);
        assert!(page.body.contains(words));
        let call = house.fetch("POST", "/waitingroom/tour/join", "Content-Length: 2\n\n{}");
        assert_eq!(call.status, status);
        assert_eq!(call.header("content-type"), Some("application/problem+json"));
        assert_eq!(call.json()["phase"], json!(phase));
    }
}

#[test]
fn joining_answers_with_the_ticket_or_the_pass() {
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let reply = house.fetch(
        "POST",
        "/waitingroom/tour/join",
        "Anteroom-Ticket: t0\nContent-Length: 15\n\n{\"entry\": null}",
    );
    assert_eq!(reply.status, 200);
    assert_private(&reply);
    let body = reply.json();
    assert_eq!(
        (&body["state"], &body["ticket"], &body["poll_after_ms"]),
        (&json!("waiting"), &json!("ticket2"), &json!(5_000))
    );
    assert_eq!(house.asked(), ["join Some(\"t0\")"]);
    let house = House::new(Script { join: JoinAnswer::Admitted(pass("fresh")), ..Script::default() });
    let body = house.fetch("POST", "/waitingroom/tour/join", "Content-Length: 0").json();
    assert_eq!(body, json!({ "state": "admitted", "pass": "fresh", "expires_at": 1_000_120 }));
    let retry = House::new(Script::default()).fetch("POST", "/waitingroom/tour/join", "Content-Length: 0");
    assert_eq!(
        (retry.status, &retry.json()["state"], &retry.json()["retry_after_ms"]),
        (429, &json!("retry"), &json!(1_000))
    );
}

#[test]
fn a_status_fits_one_segment_and_keeps_the_connection() {
    let mut longest = waiting();
    longest.ticket = "t".repeat(280);
    longest.message = Some("Ü".repeat(5_000));
    longest.turn = Some(Turn { claim_by: FleetTime::from_unix_seconds(1_900_000_000) });
    let house = House::new(Script { status: StatusAnswer::Waiting(longest), ..Script::default() });
    let mut stream = house.connect();
    for carrier in ["Cookie: wr_ticket=ticket", "Anteroom-Ticket: ticket"] {
        let ask = format!(
            "GET /waitingroom/tour/status?hold=1 HTTP/1.1\nHost: shop.test\nAccept: application/json\n{carrier}"
        );
        let reply = ask_on(&mut stream, &ask);
        assert_eq!(reply.status, 200);
        assert!(reply.size <= 1_460, "{} bytes: {reply:?}", reply.size);
        assert_private(&reply);
        let body = reply.json();
        assert_eq!((&body["called"], &body["claim_by"]), (&json!(true), &json!(1_900_000_000)));
        let by_header = carrier.starts_with("Anteroom");
        assert_eq!(body.get("ticket").is_some(), by_header);
        assert_eq!(reply.cookie("wr_ticket").is_some(), !by_header);
    }
    assert_eq!(house.asked(), ["status ticket Holding", "status ticket Holding"]);
}

#[test]
fn every_end_of_a_ticket_has_its_status() {
    let of = |status: StatusAnswer| {
        let house = House::new(Script { status, ..Script::default() });
        house.fetch("GET", "/waitingroom/tour/status", "Cookie: wr_ticket=ticket")
    };
    let gone = of(StatusAnswer::Ended(Ending::MissedTurn));
    assert_eq!(
        (gone.status, &gone.json()["state"], &gone.json()["reason"]),
        (410, &json!("expired"), &json!("missed_turn"))
    );
    let invalid = of(StatusAnswer::Invalid);
    assert_eq!((invalid.status, &invalid.json()["state"]), (401, &json!("invalid")));
    let unavailable = of(StatusAnswer::Unavailable(Duration::from_secs(2)));
    assert_eq!((unavailable.status, unavailable.header("retry-after")), (503, Some("2")));
    let admitted = of(StatusAnswer::Admitted(pass("fresh")));
    assert_eq!((admitted.status, &admitted.json()["state"]), (200, &json!("admitted")));
    assert!(admitted.cookie("wr_pass").is_some());
    let house = House::new(Script::default());
    assert_eq!(house.fetch("GET", "/waitingroom/tour/status", "").status, 401);
}

#[test]
fn of_several_tickets_the_good_one_counts() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    for (cookies, counts) in [
        ("wr_ticket=foreign; wr_ticket=ticket", "ticket"),
        ("wr_ticket=ended; wr_ticket=seat; wr_ticket=ticket", "ticket"),
        ("wr_ticket=ended; wr_ticket=seat", "seat"),
        ("wr_ticket=foreign; wr_ticket=ended", "ended"),
        ("wr_ticket=one; wr_ticket=two", "one"),
    ] {
        house.fetch("GET", "/waitingroom/tour/status", &format!("Cookie: {cookies}"));
        assert_eq!(house.asked(), [format!("status {counts} Asking")], "{cookies}");
    }
    house.fetch("GET", "/waitingroom/tour/status", "Anteroom-Ticket: own\nCookie: wr_ticket=ticket");
    assert_eq!(house.asked(), ["status own Asking"], "an app says what it means");
    let leave = "Anteroom-Ticket: own\nCookie: wr_ticket=a; wr_ticket=b\nContent-Length: 0";
    house.fetch("POST", "/waitingroom/tour/leave", leave);
    assert_eq!(house.asked(), [r#"leave ["own", "a", "b"] []"#]);
}

#[test]
fn what_nobody_looks_at_takes_neither_a_place_nor_a_turn() {
    let script = Script { status: StatusAnswer::Admitted(pass("fresh")), ..Script::default() };
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..script });
    let html = "Accept: text/html";
    for (method, accept, more) in [
        ("HEAD", html, "Sec-Fetch-Mode: navigate"),
        ("GET", html, "Sec-Purpose: prefetch"),
        ("GET", html, "Sec-Purpose: prefetch;prerender"),
        ("GET", html, "Purpose: prefetch"),
        ("GET", "Accept: image/avif,image/webp,*/*;q=0.8", "Sec-Fetch-Dest: image"),
        ("GET", "Accept: image/png", "X-Old: browser"),
        ("GET", "Accept: */*", "Sec-Fetch-Dest: script"),
    ] {
        for token in ["seat", "ticket"] {
            let reply = house.ask(&format!(
                "{method} /waitingroom/tour?j=1 HTTP/1.1\nHost: shop.test\n{accept}\n{more}\nCookie: wr_ticket={token}"
            ));
            assert_eq!(reply.status, if method == "HEAD" { 200 } else { 503 }, "{more}");
            assert!(reply.header("set-cookie").is_none());
            assert_eq!(house.asked(), Vec::<String>::new(), "{method} {more}");
        }
    }
    for more in ["Sec-Fetch-Dest: document", "Sec-Fetch-Dest: iframe", "X-Old: browser"] {
        house.ask(&format!(
            "GET /waitingroom/tour HTTP/1.1\nHost: shop.test\n{html}\n{more}\nCookie: wr_ticket=ticket"
        ));
        assert_eq!(house.asked(), ["status ticket Asking"], "{more}");
    }
}

#[test]
fn a_script_that_was_told_to_join_may_read_what_the_room_answers() {
    let mut script = Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() };
    script.fields["cookie"] = json!({ "domain": "example.com" });
    let house = House::new(script);
    let ask = |method: &str, path: &str, more: &str| {
        house.ask(&format!(
            "{method} /waitingroom/tour/{path} HTTP/1.1\nHost: api.example.com\nAccept: application/json\n\
             Content-Length: 0\n{more}"
        ))
    };
    let calls =
        [("POST", "join"), ("GET", "status"), ("POST", "leave"), ("DELETE", "ticket"), ("GET", "join")];
    for (method, path) in calls {
        let reply = ask(method, path, "Origin: https://www.example.com");
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://www.example.com"), "{path}");
        assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
        assert!(reply.headers.contains(&("vary".into(), "Origin".into())));
        for stranger in ["Origin: https://evil.test", "Origin: https://www.example.com:8443", "X-None: 1"] {
            assert_eq!(ask(method, path, stranger).header("access-control-allow-origin"), None, "{stranger}");
        }
    }
    house.asked();
    let preflight = |path: &str, origin: &str| {
        ask("OPTIONS", path, &format!("Origin: {origin}\nAccess-Control-Request-Method: POST"))
    };
    let granted = preflight("join", "https://www.example.com");
    assert_eq!((granted.status, granted.header("access-control-allow-methods")), (204, Some("POST")));
    assert!(granted.header("access-control-allow-headers").unwrap().contains("anteroom-ticket"));
    assert_eq!(
        preflight("ticket", "https://www.example.com").header("access-control-allow-methods"),
        Some("DELETE")
    );
    assert_eq!(preflight("join", "https://evil.test").header("access-control-allow-origin"), None);
    assert_eq!(preflight("x", "https://www.example.com").status, 404);
    assert_eq!(house.asked(), Vec::<String>::new());
}

#[test]
fn joins_are_limited_by_address() {
    let house =
        House::with(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() }, |settings| {
            settings.limits.joins_per_min = 2.try_into().unwrap();
        });
    let join = || house.fetch("POST", "/waitingroom/tour/join", "Content-Length: 0").status;
    assert_eq!([join(), join(), join()], [200, 200, 429]);
}

#[test]
fn leaving_gives_up_place_and_pass_and_clears_every_cookie() {
    let house = House::new(Script::default());
    for (method, path) in [("DELETE", "/waitingroom/tour/ticket"), ("POST", "/waitingroom/tour/leave")] {
        let reply = house.fetch(method, path, "Cookie: wr_ticket=t; wr_pass=p\nContent-Length: 0");
        assert_eq!(reply.status, 204);
        for cookie in ["wr_ticket", "wr_pass", "wr_line_tour"] {
            assert!(reply.cookie(cookie).unwrap().contains("Max-Age=0"), "{cookie}");
        }
        assert_eq!(house.asked(), ["leave [\"t\"] [\"p\"]"]);
    }
    let form = "POST /waitingroom/tour/leave HTTP/1.1\nHost: shop.test\nAccept: text/html\nContent-Length: 0";
    assert!(house.ask(form).body.contains("You have left the line"));
}

#[test]
fn no_page_of_another_site_makes_a_visitor_leave() {
    let house = House::new(Script::default());
    let ask = |method: &str, path: &str, more: &str| {
        let path = format!("/waitingroom/tour/{path}");
        house.fetch(method, &path, &format!("Cookie: wr_ticket=t; wr_pass=p\nContent-Length: 0\n{more}"))
    };
    for (method, path) in [("DELETE", "ticket"), ("POST", "leave")] {
        for foreign in [
            "Origin: http://evil.test",
            "Origin: null",
            "Origin: http://evil.test\nSec-Fetch-Site: cross-site",
            "Origin: http://evil.shop.test\nSec-Fetch-Site: same-site",
            "Sec-Fetch-Site: cross-site",
        ] {
            let reply = ask(method, path, foreign);
            assert_eq!(
                (reply.status, reply.json()["state"].as_str()),
                (403, Some("foreign_origin")),
                "{foreign}"
            );
            assert!(super::cookieless(&reply));
            assert_eq!(house.asked(), Vec::<String>::new(), "{foreign}");
        }
        for own in [
            "X-None: 1",
            "Origin: http://shop.test",
            "Origin: null\nSec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: none",
        ] {
            assert_eq!(ask(method, path, own).status, 204, "{own}");
            assert_eq!(house.asked(), ["leave [\"t\"] [\"p\"]"], "{own}");
        }
    }
}

#[test]
fn a_join_whose_body_is_no_json_makes_no_ticket() {
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let join = |kind: &str, body: &str| {
        let head = format!("Content-Length: {}\nContent-Type: {kind}\n\n{body}", body.len());
        house.fetch("POST", "/waitingroom/tour/join", &head)
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    for (kind, body) in
        [(json, "{"), (json, "x=1"), (json, "[1]"), (json, "5"), ("text/plain", "hi"), (form, "{")]
    {
        let reply = join(kind, body);
        assert_eq!((reply.status, reply.json()["state"].as_str()), (400, Some("malformed")), "{kind} {body}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        assert_eq!(house.asked(), Vec::<String>::new(), "{kind} {body}");
    }
    for (kind, body) in [(json, ""), (json, " {} "), (json, r#"{"entry": null}"#), (form, "a=b"), (form, "")]
    {
        assert_eq!(join(kind, body).status, 200, "{kind} {body}");
    }
}

#[test]
fn what_is_not_there_is_404_and_a_wrong_method_405() {
    let house = House::new(Script::default());
    for path in [
        "/waitingroom",
        "/waitingroom/",
        "/waitingroom/other",
        "/waitingroom/tour/x",
        "/waitingroom/_/x.css",
        "/waitingroom/A",
    ] {
        assert_eq!(house.fetch("GET", path, "").status, 404, "{path}");
    }
    let cases = [("POST", ""), ("GET", "/join"), ("POST", "/status"), ("GET", "/leave"), ("GET", "/ticket")];
    for (method, path) in cases {
        let reply = house.fetch(method, &format!("/waitingroom/tour{path}"), "Content-Length: 0");
        assert_eq!(reply.status, 405, "{method} {path}");
        assert!(reply.header("allow").is_some());
    }
    assert_eq!(house.seen(), Vec::<String>::new(), "nothing below the public path reaches the origin");
}

#[test]
fn the_files_of_the_page_are_served_for_ever_and_never_gated() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    let page = house.go("/waitingroom/tour", "wr_ticket=ticket").body;
    for quote in ["href=\"", "src=\""] {
        let address = page.split(quote).nth(1).unwrap().split('"').next().unwrap();
        let reply = house.ask(&format!("GET {address} HTTP/1.1\nHost: shop.test"));
        assert_eq!(reply.status, 200, "{address}");
        assert_eq!(reply.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert!(!reply.body.is_empty());
        assert_eq!(house.ask(&format!("HEAD {address} HTTP/1.1\nHost: shop.test")).body, "");
    }
}

#[test]
fn cookies_are_secure_behind_a_trusted_proxy_with_tls() {
    let house = House::with(Script::default(), |settings| {
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let ask = |proto: &str| {
        house.ask(&format!(
            "GET /waitingroom/tour HTTP/1.1\nHost: shop.test\nAccept: text/html\nX-Forwarded-Proto: {proto}"
        ))
    };
    assert!(ask("https").cookie("wr_ticket").unwrap().ends_with("; Secure"));
    assert!(!ask("http").cookie("wr_ticket").unwrap().contains("Secure"));
}

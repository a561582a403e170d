//! In which language visitors are told things.

use serde_json::json;

use super::{House, Reply, Script, waiting, with_fields};
use crate::desk::{ExpressAnswer, JoinAnswer, StatusAnswer};
use crate::model::edge::Ending;

/// A navigation by a browser that asks for languages.
fn go(house: &House, path: &str, more: &str) -> Reply {
    house.ask(&format!(
        "GET {path} HTTP/1.1\nHost: shop.test\nAccept: text/html,*/*;q=0.8\nSec-Fetch-Mode: navigate\n{more}"
    ))
}

fn is_in(reply: &Reply, tag: &str) -> bool {
    reply.body.contains(&format!("<html lang=\"{tag}\" "))
}

#[test]
fn a_page_is_in_the_language_that_the_browser_asks_for_or_else_in_that_of_the_event() {
    let script =
        Script { status: StatusAnswer::Waiting(waiting()), ..with_fields(json!({ "language": "tr" })) };
    let house = House::new(script);
    for (header, tag) in [
        ("Accept-Language: fr-CH, en;q=0.5", "fr"),
        ("Accept-Language: sv, ar;q=0.5", "ar"),
        ("Accept-Language: sv", "tr"),
        ("Accept-Language: \u{fc}", "tr"),
        ("X-None: 1", "tr"),
    ] {
        let page = go(&house, "/waitingroom/tour", &format!("Cookie: wr_ticket=ticket\n{header}"));
        assert!(is_in(&page, tag), "{header}: {}", page.body);
        let varies = page.headers.iter().filter(|(name, _)| name == "vary");
        let varies: Vec<_> = varies.map(|(_, value)| value.as_str()).collect();
        assert_eq!(varies, ["Accept, Cookie", "Accept-Language"]);
        assert_eq!(page.header("cache-control"), Some("private, no-store"));
    }
}

#[test]
fn a_notice_of_a_protected_path_is_in_the_same_language() {
    let unavailable = ExpressAnswer::Unavailable(std::time::Duration::from_secs(1));
    let house = House::new(Script { express: unavailable, ..with_fields(json!({ "language": "ko" })) });
    let busy = |header: &str| go(&house, "/buy", header);
    assert!(is_in(&busy("Accept-Language: pl"), "pl"));
    assert!(is_in(&busy("X-None: 1"), "ko"));
    assert!(
        is_in(&go(&house, "/waitingroom/none", "Accept-Language: he"), "he"),
        "no event, no language of one"
    );
}

#[test]
fn programs_are_told_the_same_in_every_language() {
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let told = |more: &str| house.fetch("GET", "/waitingroom/none", more).body;
    assert_eq!(told("Accept-Language: ja"), told("Accept-Language: en"));
}

#[test]
fn a_language_that_is_chosen_lasts() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    let english = "Cookie: wr_ticket=ticket\nAccept-Language: en";
    let chosen = go(&house, "/waitingroom/tour?to=/buy/x&lang=de-AT", english);
    assert!(is_in(&chosen, "de"));
    assert_eq!(
        chosen.cookie("anteroom_lang"),
        Some("anteroom_lang=de; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax")
    );
    let links = chosen.body.replace("&#x2f;", "/").replace("&amp;", "&");
    for link in [
        "data-page=\"/waitingroom/tour?to=/buy/x&lang=de\"",
        "action=\"/waitingroom/tour/leave?to=/buy/x&lang=de\"",
    ] {
        assert!(links.contains(link), "{link} in {links}");
    }
    let later = go(&house, "/waitingroom/tour", &format!("{english}\nCookie: anteroom_lang=de"));
    assert!(is_in(&later, "de") && later.cookie("anteroom_lang").is_none());
    let other = go(&house, "/waitingroom/tour?lang=ja", &format!("{english}\nCookie: anteroom_lang=de"));
    assert!(is_in(&other, "ja"));
    for odd in ["?lang=sv", "?lang=", "?lang=%0d%0aX", ""] {
        let page = go(&house, &format!("/waitingroom/tour{odd}"), english);
        assert!(is_in(&page, "en") && page.cookie("anteroom_lang").is_none(), "{odd}");
    }
    let odd = go(&house, "/waitingroom/tour", &format!("{english}\nCookie: anteroom_lang=de%0a"));
    assert!(is_in(&odd, "en"));
}

#[test]
fn a_language_that_is_chosen_survives_the_way_into_the_line() {
    let house = House::new(Script { join: JoinAnswer::Waiting(waiting()), ..Script::default() });
    let first = go(&house, "/waitingroom/tour?lang=he", "X-None: 1");
    assert_eq!(first.header("location"), Some("/waitingroom/tour?to=/buy&lang=he&j=1"));
    assert!(first.cookie("anteroom_lang").is_some() && first.cookie("wr_ticket").is_some());
    let without_cookies = go(&house, "/waitingroom/tour?to=/buy&lang=he&j=1", "X-None: 1");
    assert!(is_in(&without_cookies, "he"));
    let seated = go(&house, "/waitingroom/tour?to=/buy&j=1", "Cookie: wr_ticket=seat; anteroom_lang=he");
    assert!(is_in(&seated, "he"));
    let embedded = "Accept: image/avif,*/*;q=0.8\nSec-Fetch-Dest: image";
    let embedded = house.ask(&format!("GET /waitingroom/tour?lang=he HTTP/1.1\nHost: shop.test\n{embedded}"));
    assert!(embedded.cookie("anteroom_lang").is_none());
}

#[test]
fn the_form_of_the_page_asks_for_the_same_wish_in_another_language() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    let page =
        go(&house, "/waitingroom/tour?to=/buy/x%3Fa%3D1%26b", "Cookie: wr_ticket=ticket; anteroom_lang=uk");
    let form = page.body.replace("&#x2f;", "/");
    for part in [
        "<form class=\"language\" action=\"/waitingroom/tour\"><input type=\"hidden\" name=\"to\" value=\"/buy/x?a=1&amp;b\">",
        "<option value=\"uk\" lang=\"uk\" selected>Українська</option>",
        "<option value=\"zh-Hant\" lang=\"zh-Hant\">繁體中文</option>",
    ] {
        assert!(form.contains(part), "{part} in {form}");
    }
}

#[test]
fn a_notice_that_stays_can_be_read_in_another_language() {
    let form = "<select id=\"lang\"";
    let of = |script: Script| go(&House::new(script), "/waitingroom/tour", "Cookie: wr_ticket=ticket").body;
    let ended = |reason| of(Script { status: StatusAnswer::Ended(reason), ..Script::default() });
    assert!(ended(Ending::MissedTurn).contains(form));
    let busy = StatusAnswer::Unavailable(std::time::Duration::from_secs(1));
    assert!(!of(Script { status: busy, ..Script::default() }).contains(form));
    let leave =
        "POST /waitingroom/tour/leave HTTP/1.1\nHost: shop.test\nAccept: text/html\nContent-Length: 0";
    assert!(
        !House::new(Script::default()).ask(leave).body.contains(form),
        "asking for the page would join anew"
    );
}

#[test]
fn a_lang_of_the_site_is_its_own_and_our_cookie_is_none_of_it() {
    let house = House::new(Script::default());
    let sent = go(&house, "/buy/x?lang=de", "Accept-Language: en");
    assert_eq!(sent.header("location"), Some("/waitingroom/tour?to=/buy/x%3Flang%3Dde"));
    assert!(sent.cookie("anteroom_lang").is_none());
    let page = go(&house, sent.header("location").unwrap(), "X-None: 1");
    assert_eq!(page.header("location"), Some("/waitingroom/tour?to=/buy/x%3Flang%3Dde&j=1"));
    go(&house, "/buy/x?lang=de", "Cookie: wr_pass=pass; anteroom_lang=fr; a=1");
    let seen = house.seen().join("\n");
    assert!(seen.starts_with("GET /buy/x?lang=de ") && seen.contains("a=1"), "{seen}");
    assert!(!seen.contains("anteroom_lang"), "{seen}");
}

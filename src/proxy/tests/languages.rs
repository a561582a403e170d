//! In which language visitors are told things.

use serde_json::json;

use super::{House, Reply, Script, waiting, with_fields};
use crate::desk::{ExpressAnswer, JoinAnswer, StatusAnswer};

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

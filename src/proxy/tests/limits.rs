//! Who asks too often.

use super::house::ask_on;
use super::{House, Script, waiting};
use crate::desk::{Beat, JoinAnswer, StatusAnswer, Waiting};

#[test]
fn a_ticket_that_polls_all_the_time_is_slowed_down() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    let mut stream = house.connect();
    let ask = "GET /waitingroom/tour/status HTTP/1.1\nHost: shop.test\nCookie: wr_ticket=ticket";
    let statuses: Vec<u16> = (0..62).map(|_| ask_on(&mut stream, ask).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 60);
    assert_eq!(statuses.last(), Some(&429));
}

#[test]
fn a_poll_that_a_ticket_lives_by_is_answered_however_many_its_tabs_have_made() {
    let beat = Box::new(Waiting { beat: Beat::First, ..*waiting() });
    let house = House::new(Script { status: StatusAnswer::Waiting(beat), ..Script::default() });
    let mut stream = house.connect();
    let ask = "GET /waitingroom/tour/status HTTP/1.1\nHost: shop.test\nCookie: wr_ticket=ticket";
    assert!((0..62).all(|_| ask_on(&mut stream, ask).status == 200));
}

#[test]
fn a_page_that_is_reloaded_all_the_time_is_slowed_down_too() {
    let house = House::new(Script { status: StatusAnswer::Waiting(waiting()), ..Script::default() });
    let statuses: Vec<u16> = (0..31)
        .flat_map(|_| {
            let page = house.go("/waitingroom/tour", "wr_ticket=ticket").status;
            [page, house.fetch("GET", "/waitingroom/tour/status", "Cookie: wr_ticket=ticket").status]
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 60);
    assert_eq!(&statuses[60..], [429, 429]);
    let page = house.go("/waitingroom/tour", "wr_ticket=ticket");
    assert!(page.body.contains("One moment"), "{page:?}");
}

#[test]
fn a_valid_ticket_joins_whatever_its_neighbours_do_and_is_limited_as_a_ticket() {
    let script = || Script {
        status: StatusAnswer::Waiting(waiting()),
        join: JoinAnswer::Waiting(waiting()),
        ..Script::default()
    };
    let house = House::with(script(), |settings| settings.limits.joins_per_min = 1.try_into().unwrap());
    let join = |token: &str| {
        let more = format!("Anteroom-Ticket: {token}\nContent-Length: 0");
        house.fetch("POST", "/waitingroom/tour/join", &more).status
    };
    assert_eq!([join("seat"), join("seat")], [200, 429]);
    assert!((0..60).all(|_| join("ticket") == 200));
    assert_eq!(join("ticket"), 429);
    assert_eq!(join("ended"), 429, "it would make a new place");
    let form = "POST /waitingroom/tour/join HTTP/1.1\nHost: shop.test\nAccept: text/html\nContent-Length: 0";
    assert!(house.ask(form).body.contains("One moment"));
}

//! A disk that is full: nobody is let in, nobody loses anything, and all goes on once there is room.

use std::time::Duration;

use serde_json::Value;

use super::disk::Disk;
use super::process::{Place, Request, Running, Shop, until};
use super::{Visitor, described, watermark};

/// How often the room is looked at while the disk is full: longer than any wait for an answer.
const LOOKS: u32 = 12;

/// A place whose data lies on a small disk.
fn place(shop: &Shop) -> (Place, Disk) {
    let place = Place::new(shop, "capacity: 2, max_admit_per_sec: 20");
    std::fs::write(place.token(), "operator-of-a-test-0123456789abcdef\n").unwrap();
    let admin = format!("address: \"{}\"", place.admin);
    let file = place.read().replace(&admin, &format!("{admin}, token_file: admin.token"));
    let fair =
        "  - { id: fair, match: [ { path: /fair } ], origin: shop, capacity: 50, max_admit_per_sec: 20 }\n";
    place.write(&(file + fair));
    let disk = Disk::mount(&place.dir.path().join("data"));
    (place, disk)
}

/// A change of many bytes that lets nobody through who was not.
fn large_change() -> String {
    let rules: Vec<Value> =
        (0..100).map(|at| serde_json::json!({ "path": format!("/buy/never/{at:040}") })).collect();
    serde_json::json!({ "bypass": rules }).to_string()
}

/// Fills the disk, and uses what the log has of it until it takes nothing more.
fn fill(place: &Place, disk: &Disk) {
    disk.fill();
    until("the control log takes no more", || {
        place.try_admin("PATCH", "/admin/events/tour", &large_change()).status >= 500
    });
}

/// What a newcomer is answered at an event with many free slots.
fn fair(place: &Place) -> u16 {
    Request::get(place.visitors, "/fair").header("Accept", "text/html").send().status
}

fn is_up(node: &mut Running) -> bool {
    node.0.try_wait().unwrap().is_none()
}

#[test]
fn a_full_disk_freezes_admissions_and_takes_nothing_from_anybody() {
    let shop = Shop::open();
    let (place, disk) = place(&shop);
    let mut node = place.start_on(&disk);
    let mut inside: Vec<_> = (0..2).map(|_| Visitor::joined(&place)).collect();
    for visitor in &mut inside {
        visitor.await_pass();
        assert_eq!(visitor.shop(), 200);
    }
    let leaver = inside.pop().unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Visitor::joined(&place)).collect();
    let references: Vec<_> = waiting.iter_mut().map(Visitor::id).collect();
    until("the log counts the line", || described(&place)["line"]["alive"] == 2);
    let before = watermark(&place);
    assert_eq!(fair(&place), 200);

    fill(&place, &disk);
    until("visitors are told", || waiting[0].status()["phase"] == "frozen");
    assert_eq!(leaver.request("POST", "/waitingroom/tour/leave").send().status, 204);
    for _ in 0..LOOKS {
        for (visitor, reference) in waiting.iter_mut().zip(&references) {
            let told = visitor.status();
            assert_eq!((&told["state"], &told["reference"]), (&"waiting".into(), &reference.as_str().into()));
        }
        assert_eq!(inside[0].shop(), 200, "whoever is in goes on");
        assert_ne!(fair(&place), 200, "nobody new is let in, also where slots are free");
        assert!(is_up(&mut node), "{}", place.logged());
        std::thread::sleep(Duration::from_millis(250));
    }

    let mut late = Visitor::joined(&place);
    let its = late.id();
    assert!(!place.logged().contains("damaged"), "{}", place.logged());

    disk.clear();
    until("one of the line gets the slot", || {
        waiting.iter_mut().any(|visitor| visitor.status()["state"] == "admitted")
    });
    until("the log counts both sessions", || described(&place)["slots"]["live_passes"] == 2);
    assert_eq!(waiting.iter().filter(|visitor| visitor.pass.is_some()).count(), 1);
    assert!(watermark(&place) >= before);
    assert!(waiting.iter().any(|visitor| visitor.shop() == 200));
    assert_ne!(leaver.shop(), 200);
    until("newcomers are let in where there is room", || fair(&place) == 200);
    let before = described(&place);
    node.kill();

    let _node = place.start_on(&disk);
    let after = described(&place);
    for part in ["version", "policy"] {
        assert_eq!(after[part], before[part], "{part}");
    }
    assert_eq!(after["slots"]["live_passes"], 2);
    assert_eq!(inside[0].shop(), 200);
    for (visitor, reference) in waiting.iter_mut().zip(&references) {
        match visitor.pass {
            Some(_) => assert_eq!(visitor.shop(), 200),
            None => assert_eq!(visitor.id(), *reference),
        }
    }
    assert_eq!(late.id(), its, "who came meanwhile waits too");
}

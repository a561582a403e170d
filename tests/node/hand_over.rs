//! `anteroom run --upgrade`: another process takes over, and no visitor notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::Visitor;
use crate::process::{Place, Request, Running, Shop, until};

/// What is open through two hand-overs waits as long as they take.
const PATIENCE: Duration = Duration::from_secs(120);

const SERVES: &str = "the node serves visitors at";
const GIVES_WAY: &str = "another process takes over";

fn count(place: &Place, line: &str) -> usize {
    place.logged().matches(line).count()
}

/// Has another process take over, and waits until it serves.
fn upgrade(place: &Place) -> Running {
    let served = count(place, SERVES);
    let next = place.spawn_with(&["--upgrade"]);
    until("the next process serves", || count(place, SERVES) > served);
    next
}

/// A connection that stays open between requests for as long as the node lets it.
struct KeptAlive<'a> {
    place: &'a Place,
    stream: Option<BufReader<TcpStream>>,
}

impl<'a> KeptAlive<'a> {
    fn new(place: &'a Place) -> Self {
        Self { place, stream: None }
    }

    /// The status of an answer; comes anew only where the answer before said so.
    fn ask(&mut self, path: &str, tokens: &str) -> u16 {
        let mut stream = self.stream.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(self.place.visitors).expect("the connection is not refused");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            BufReader::new(stream)
        });
        let host = self.place.visitors;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n{tokens}\r\n");
        stream.get_mut().write_all(request.as_bytes()).expect("the connection is open");
        let (status, headers) = head(&mut stream);
        let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect("a length").parse().unwrap()];
        stream.read_exact(&mut body).expect("the whole answer");
        if !headers.iter().any(|line| line == "connection: close") {
            self.stream = Some(stream);
        }
        status
    }
}

/// The status and the other lines of a head, in small letters.
fn head(stream: &mut BufReader<TcpStream>) -> (u16, Vec<String>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = stream.read_line(&mut line).expect("the connection is not reset");
        assert!(read > 0, "the connection ended before an answer: {lines:?}");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    (lines[0].split(' ').nth(1).unwrap().parse().unwrap(), lines.split_off(1))
}

fn tokens(visitor: &Visitor<'_>) -> String {
    let header = |name: &str, token: &Option<String>| {
        token.as_ref().map(|token| format!("{name}: {token}\r\n")).unwrap_or_default()
    };
    header("Anteroom-Ticket", &visitor.ticket) + &header("Anteroom-Pass", &visitor.pass)
}

/// A WebSocket to the shop, whose bytes come back.
fn socket(place: &Place, visitor: &Visitor<'_>) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(place.visitors).unwrap());
    stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /buy/socket HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: \
         13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
        place.visitors,
        tokens(visitor)
    );
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (status, _) = head(&mut stream);
    assert_eq!(status, 101);
    stream
}

fn echoes(socket: &mut BufReader<TcpStream>) {
    socket.get_mut().write_all(b"still here").unwrap();
    let mut back = [0; 10];
    socket.read_exact(&mut back).expect("the socket is open");
    assert_eq!(&back, b"still here");
}

#[test]
fn a_process_that_takes_over_turns_nobody_away_loses_no_place_and_admits_nobody_too_many() {
    const CAPACITY: usize = 5;
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 5, max_admit_per_sec: 50");
    let mut old = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let within = inside.request("GET", "/buy/tickets");
    let inside_tokens = tokens(&inside);
    let mut open = socket(&place, &inside);
    echoes(&mut open);
    let over = AtomicBool::new(false);
    let (now_inside, most_inside, admitted) = (AtomicUsize::new(1), AtomicUsize::new(1), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let download = scope.spawn(|| KeptAlive::new(&place).ask("/buy/held", &inside_tokens));
        until("the download has begun", || shop.served.load(Ordering::SeqCst) >= 3);
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let answer = within.try_send().expect("a new connection is answered");
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        });
        scope.spawn(|| {
            let mut connection = KeptAlive::new(&place);
            while !over.load(Ordering::SeqCst) {
                assert_eq!(connection.ask("/buy/tickets", &inside_tokens), 200);
            }
        });
        // Twice as many visitors as there is room for, who go in, and out again.
        for _ in 0..2 * CAPACITY {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let mut visitor = Visitor::new(&place);
                    let first = visitor.ask("POST", "join");
                    let mut state = first["state"].clone();
                    while state != "admitted" && !over.load(Ordering::SeqCst) {
                        assert!(state == "waiting" || state == "retry", "{state} after {first}");
                        std::thread::sleep(Duration::from_millis(20));
                        state = match visitor.ticket {
                            Some(_) => visitor.status(),
                            None => visitor.ask("POST", "join"),
                        }["state"]
                            .clone();
                    }
                    if state != "admitted" {
                        return;
                    }
                    most_inside.fetch_max(now_inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    admitted.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(visitor.shop(), 200);
                    now_inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(visitor.request("POST", "/waitingroom/tour/leave").send().status, 204);
                }
            });
        }
        let is_admitting = || {
            let before = admitted.load(Ordering::SeqCst);
            until("visitors go in", || admitted.load(Ordering::SeqCst) > before + 2 * CAPACITY);
        };
        is_admitting();
        let new = upgrade(&place);
        is_admitting();
        echoes(&mut open);
        assert!(old.0.try_wait().unwrap().is_none(), "the old process serves what is open");
        let newest = upgrade(&place);
        is_admitting();
        echoes(&mut open);
        over.store(true, Ordering::SeqCst);
        shop.lets_go.store(true, Ordering::SeqCst);
        assert_eq!(download.join().unwrap(), 200);
        drop(open);
        for mut process in [old, new] {
            assert!(process.end().success(), "{}", place.logged());
        }
        drop(newest);
    });
    let most = most_inside.load(Ordering::SeqCst);
    assert!(most <= CAPACITY, "{most} were inside");
    assert!(!place.logged().contains("panicked"), "{}", place.logged());
}

#[test]
fn a_line_stands_in_its_order_in_the_process_that_takes_over() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 1, max_admit_per_sec: 20, ordering: fifo");
    let mut old = place.start();
    place.admin("POST", "/admin/events/tour/pause", "");
    let mut line: Vec<_> = (0..4).map(|_| Visitor::joined(&place)).collect();
    let references: Vec<_> = line.iter_mut().map(Visitor::id).collect();
    let run = place.admin("GET", "/admin/node", "");
    let _new = upgrade(&place);
    assert!(old.end().success());
    assert_ne!(place.admin("GET", "/admin/node", ""), run, "another run of the node answers");
    for (visitor, reference) in line.iter_mut().zip(&references) {
        assert_eq!(&visitor.id(), reference);
    }
    place.admin("POST", "/admin/events/tour/resume", "");
    for at in 0..line.len() {
        let (first, behind) = line[at..].split_first_mut().unwrap();
        first.await_pass();
        assert_eq!(first.shop(), 200);
        for other in behind {
            assert_eq!(other.status()["state"], "waiting");
        }
        assert_eq!(first.request("POST", "/waitingroom/tour/leave").send().status, 204);
    }
}

#[test]
fn a_process_that_cannot_take_over_leaves_the_other_one_as_it_was() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 1, max_admit_per_sec: 20");
    let mut nobody = place.spawn_with(&["--upgrade"]);
    assert_eq!(nobody.end().code(), Some(1));
    assert!(place.logged().contains("no node that serves answers at"), "{}", place.logged());

    let old = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let good = place.read();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let another = format!("listeners: [ {{ address: \"{}\" }}, ", taken.local_addr().unwrap());
    let tls = "listeners: [ { address: \"127.0.0.1:0\", tls: { certificate: none.crt, key: none.key } }, ";
    let rows = [
        (good.replace("capacity: 1", "capacity: none"), 2, "events[0].capacity"),
        (good.replace("listeners: [ ", tls), 2, "none.crt"),
        (good.replace("listeners: [ ", &another), 1, "cannot be listened at"),
        (good.replace("id: 1", "id: 2"), 1, "is the log of node 1"),
    ];
    for (file, code, complaint) in rows {
        place.write(&file);
        assert_eq!(place.spawn_with(&["--upgrade"]).end().code(), Some(code), "{complaint}");
        assert!(place.logged().contains(complaint), "{complaint}: {}", place.logged());
        assert_eq!(inside.shop(), 200);
    }
    assert_eq!(count(&place, GIVES_WAY), 0, "{}", place.logged());
    place.write(&good);
    // It goes before anything is given up.
    place.spawn_with(&["--upgrade"]).kill_once(|| count(&place, GIVES_WAY) == 1);
    until("the old one goes on", || place.logged().contains("this one goes on"));
    assert_eq!(inside.shop(), 200);
    assert_eq!(count(&place, SERVES), 1, "{}", place.logged());
    let mut old = old;
    let _new = upgrade(&place);
    assert!(old.end().success());
    assert_eq!(inside.shop(), 200);
}

#[test]
fn a_process_that_ends_before_it_serves_gives_the_place_back() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 1, max_admit_per_sec: 20");
    let mut old = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let mut waiting = Visitor::joined(&place);
    let reference = waiting.id();
    place.admin(
        "PUT",
        "/admin/events/aaa",
        r#"{"capacity": 1, "max_admit_per_sec": 1, "match": [{"path": "/other"}]}"#,
    );
    // An event that is refused, and whose paths nobody else guards: a process with it serves nobody.
    let good = place.read();
    place.write(&format!(
        "{good}  - {{ id: late, match: [ {{ path: /other }}, {{ path: /free }} ], origin: shop, capacity: 1, \
         max_admit_per_sec: 1 }}\n"
    ));
    let stuck = place.spawn_with(&["--upgrade"]);
    stuck.kill_once(|| place.logged().contains("nobody is served until every event"));
    until("the old process serves again", || count(&place, SERVES) == 2);
    assert!(old.0.try_wait().unwrap().is_none());
    assert_eq!(inside.shop(), 200);
    assert_eq!(waiting.id(), reference);
    assert_eq!(Request::get(place.metrics, "/readyz").send().status, 200);
    // And may be followed by another, once that one is in order.
    place.write(&good);
    let _new = upgrade(&place);
    assert!(old.end().success());
    assert_eq!(inside.request("POST", "/waitingroom/tour/leave").send().status, 204);
    waiting.await_pass();
    assert_eq!(waiting.shop(), 200);
}

#[test]
fn of_two_that_would_take_over_at_once_the_second_is_told_of_the_first() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 1, max_admit_per_sec: 20");
    let mut old = place.start();
    let directory = place.file().with_file_name("data").canonicalize().unwrap();
    let mut first = UnixStream::connect(directory.join("upgrade.sock")).unwrap();
    writeln!(first, "anteroom-upgrade 1 1 {}", directory.display()).unwrap();
    let mut answer = [0; 7];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"sockets");
    assert_eq!(place.spawn_with(&["--upgrade"]).end().code(), Some(1));
    assert!(place.logged().contains("another process is taking its place already"), "{}", place.logged());
    // The first one goes, and with it what stood in the way.
    drop(first);
    until("it is noticed", || place.logged().contains("who asked for the place of this process went away"));
    let _new = upgrade(&place);
    assert!(old.end().success());
}

//! One node, as a process: what survives `kill -9`, what signals do, what a start refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails here says where"
)]

mod certs;
mod cluster;
mod disk;
mod full_disk;
mod hand_over;
#[allow(unreachable_pub, reason = "the load tool shows it")]
#[path = "../../load/src/ports.rs"]
mod ports;
mod process;
mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use process::{Place, Request, Shop, output, until};
use serde_json::Value;

/// A visitor who carries tokens in headers, as apps do.
struct Visitor<'a> {
    place: &'a Place,
    ticket: Option<String>,
    pass: Option<String>,
}

impl<'a> Visitor<'a> {
    fn new(place: &'a Place) -> Self {
        Self { place, ticket: None, pass: None }
    }

    fn joined(place: &'a Place) -> Self {
        let mut visitor = Self::new(place);
        until("a join is answered", || visitor.ask("POST", "join")["state"] != "retry");
        visitor
    }

    fn request(&self, method: &str, path: &str) -> Request {
        let mut request = match method {
            "POST" => Request::post(self.place.visitors, path),
            _ => Request::get(self.place.visitors, path),
        };
        for (name, token) in [("Anteroom-Ticket", &self.ticket), ("Anteroom-Pass", &self.pass)] {
            if let Some(token) = token {
                request = request.header(name, token);
            }
        }
        request.header("Accept", "application/json").header("Content-Type", "application/json")
    }

    fn ask(&mut self, method: &str, what: &str) -> Value {
        let answer = self.request(method, &format!("/waitingroom/tour/{what}")).send().json();
        let token = |name: &str| answer[name].as_str().map(str::to_owned);
        self.ticket = token("ticket").or(self.ticket.take());
        self.pass = token("pass").or(self.pass.take());
        answer
    }

    fn status(&mut self) -> Value {
        self.ask("GET", "status")
    }

    fn await_pass(&mut self) {
        until("the visitor is admitted", || self.pass.is_some() || self.status()["state"] == "admitted");
    }

    /// What the protected path answers.
    fn shop(&self) -> u16 {
        self.request("GET", "/buy/tickets").send().status
    }

    /// The name of the ticket, and of the pass that it turns into.
    fn id(&mut self) -> String {
        let status = self.status();
        status["reference"].as_str().unwrap_or_else(|| panic!("it does not wait: {status}")).to_owned()
    }
}

fn described(place: &Place) -> Value {
    place.admin("GET", "/admin/events/tour", "")
}

fn watermark(place: &Place) -> u64 {
    described(place)["line"]["watermark"].as_u64().unwrap()
}

#[test]
fn kill_nine_loses_no_place_no_pass_and_no_change() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let node = place.start();
    place.admin("POST", "/admin/events/tour/pause", "");
    let mut inside = Visitor::joined(&place);
    let mut ended = Visitor::joined(&place);
    let ended_id = ended.id();
    place.admin("POST", "/admin/events/tour/resume", "");
    for visitor in [&mut inside, &mut ended] {
        visitor.await_pass();
        assert_eq!(visitor.shop(), 200);
    }
    place.admin("PATCH", "/admin/events/tour", r#"{"capacity": 2}"#);
    let mut waiting: Vec<_> = (0..3).map(|_| Visitor::joined(&place)).collect();
    let references: Vec<_> = waiting.iter_mut().map(Visitor::id).collect();
    // The slot of the session that ends goes to the first in line: so the watermark has moved.
    place.admin("DELETE", &format!("/admin/events/tour/passes/{ended_id}"), "");
    until("an ended session opens nothing", || ended.shop() != 200);
    until("one of the line is called", || {
        waiting.iter_mut().any(|visitor| visitor.status()["state"] == "admitted")
    });
    until("what was minted is in the log", || described(&place)["slots"]["live_passes"] == 2);
    let before = described(&place);
    node.kill();

    let node = place.start();
    assert_eq!(inside.shop(), 200, "a live pass opens after the restart");
    assert_ne!(ended.shop(), 200, "an ended session stays ended");
    let after = described(&place);
    for part in ["version", "policy"] {
        assert_eq!(after[part], before[part], "{part}");
    }
    assert_eq!(after["policy"]["capacity"], 2, "the live change outlives a start with the old file");
    assert_eq!(after["slots"]["live_passes"], 2);
    assert!(after["slots"]["consumed"].as_u64() >= before["slots"]["consumed"].as_u64());
    assert!(watermark(&place) >= before["line"]["watermark"].as_u64().unwrap());
    for (visitor, reference) in waiting.iter_mut().zip(&references) {
        let status = visitor.status();
        match status["state"].as_str().unwrap() {
            "waiting" => assert_eq!(status["reference"], **reference),
            "admitted" => {}
            other => panic!("{other}: {status}"),
        }
    }
    assert_eq!(waiting.iter().filter(|visitor| visitor.pass.is_some()).count(), 1);
    drop(node);
}

#[test]
fn a_route_stays_with_its_event_and_a_dry_run_is_dry() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let node = place.start();
    let thief =
        |path: &str| format!(r#"{{"capacity": 1, "max_admit_per_sec": 1, "match": [{{"path": "{path}"}}]}}"#);
    let taken = place.try_admin("PUT", "/admin/events/aaa", &thief("/buy/"));
    assert_eq!(taken.status, 409, "{taken:?}");
    assert!(taken.body.contains("event tour"), "{taken:?}");
    assert_eq!(place.try_admin("PUT", "/admin/events/aaa?dry_run=true", &thief("/buy")).status, 409);
    let reserved = place.try_admin("PUT", "/admin/events/aaa", &thief("/waitingroom/x"));
    assert_eq!(reserved.status, 422, "{reserved:?}");
    place.admin("PUT", "/admin/events/aaa", &thief("/other"));
    let before = described(&place);
    for (method, path, body) in [
        ("DELETE", "", ""),
        ("POST", "/pause", ""),
        ("POST", "/close", ""),
        ("POST", "/reset", ""),
        ("POST", "/admit", r#"{"count": 2}"#),
        ("PUT", "/inventory", r#"{"inventory": 7}"#),
    ] {
        let told = place.admin(method, &format!("/admin/events/tour{path}?dry_run=true"), body);
        assert_eq!(told["dry_run"], true, "{method} {path}: {told}");
    }
    place.admin("POST", "/admin/keys/rotate?dry_run=true", "");
    place.write(&place.read().replace("capacity: 3", "capacity: 4"));
    let tried = place.admin("POST", "/admin/reload?dry_run=true", "");
    assert_eq!(tried["changed"], serde_json::json!(["events"]), "{tried}");
    assert_eq!(tried["events"]["tour"]["applied"], serde_json::json!(["capacity"]), "{tried}");
    let after = described(&place);
    assert_eq!((&after["policy"], &after["version"]), (&before["policy"], &before["version"]));

    // An event of the file whose paths another one guards does not keep the node from its start.
    let file = place.read();
    place.write(&format!(
        "{file}  - {{ id: late, match: [ {{ path: /other }} ], origin: shop, capacity: 1, max_admit_per_sec: 1 }}\n"
    ));
    node.kill();
    let _node = place.start();
    assert!(place.logged().contains("event late of the file is not in effect"), "{}", place.logged());
    assert_eq!(place.try_admin("GET", "/admin/events/late", "").status, 404);
}

fn extra(id: &str, routes: &str) -> String {
    format!("  - {{ id: {id}, match: [ {routes} ], origin: shop, capacity: 1, max_admit_per_sec: 1 }}\n")
}

#[test]
fn a_file_moves_a_route_from_one_event_to_another_in_any_order_of_lines() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let file = place.read();
    place.write(&(file.clone() + &extra("one", "{ path: /a }") + &extra("two", "{ path: /b }")));
    let node = place.start();
    // `one` wants what `two` gives up further down.
    place.write(&(file + &extra("one", "{ path: /b }") + &extra("two", "{ path: /c }")));
    let reloaded = place.admin("POST", "/admin/reload", "");
    assert_eq!(reloaded["events"].as_object().map(serde_json::Map::len), Some(3), "{reloaded}");
    for (event, path) in [("one", "/b"), ("two", "/c")] {
        let told = place.admin("GET", &format!("/admin/events/{event}"), "");
        assert_eq!(told["policy"]["match"], serde_json::json!([{ "path": path }]));
    }
    drop(node);
}

/// What the metrics say of the newest configuration.
fn reload_successful(place: &Place) -> bool {
    let metrics = Request::get(place.metrics, "/metrics").send().body;
    let successful = metrics.contains("\nanteroom_config_last_reload_successful 1\n");
    assert_ne!(successful, metrics.contains("\nanteroom_config_last_reload_successful 0\n"), "{metrics}");
    successful
}

#[test]
fn a_file_with_an_event_that_the_log_refuses_changes_nothing() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let good = place.read();
    let node = place.start();
    let live = r#"{"capacity": 1, "max_admit_per_sec": 1, "match": [{"path": "/live"}]}"#;
    place.admin("PUT", "/admin/events/live", live);
    assert!(reload_successful(&place));
    let edited = good.replace("capacity: 3", "capacity: 5");
    let bad =
        edited.clone() + &extra("late", "{ path: /live }, { path: /secret }") + "default_origin: shop\n";
    place.write(&bad);
    let shut = || Request::get(place.visitors, "/secret").send().status;
    for path in ["/admin/reload?dry_run=true", "/admin/reload"] {
        let refused = place.try_admin("POST", path, "");
        assert_eq!(refused.status, 422, "{refused:?}");
        let told: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(told["faults"][0]["path"], "events[1]", "{told}");
        assert!(told["faults"][0]["problem"].as_str().unwrap().contains("belongs to event live"), "{told}");
        assert_eq!(shut(), 404, "no default origin: the rest of the file is not in effect either");
        assert_eq!(described(&place)["policy"]["capacity"], 3);
    }
    assert!(!reload_successful(&place));
    assert_eq!(place.logged().matches("the configuration was refused").count(), 1, "{}", place.logged());
    assert!(!place.logged().contains("was read again"), "{}", place.logged());

    place.write(&edited);
    place.admin("POST", "/admin/reload", "");
    assert!(reload_successful(&place));
    place.write(&bad);
    node.signal("HUP");
    until("the refusal shows", || !reload_successful(&place));
    assert_eq!((shut(), place.logged().contains("was made from the file: late")), (404, false));

    // A start whose event is refused, while another one guards its paths.
    node.kill();
    place.write(&(edited.clone() + &extra("late", "{ path: /live }")));
    let _node = place.start();
    assert!(!reload_successful(&place));
    place.write(&edited);
    place.admin("POST", "/admin/reload", "");
    assert!(reload_successful(&place));
}

#[test]
fn a_reload_of_a_file_at_fault_answers_with_every_fault() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let _node = place.start();
    let good = place.read();
    place.write(&good.replace("capacity: 3", "capacity: none, colour: red"));
    let refused = place.try_admin("POST", "/admin/reload", "");
    assert_eq!(refused.status, 422, "{refused:?}");
    let told: Value = serde_json::from_str(&refused.body).unwrap();
    let faults = told["faults"].as_array().unwrap();
    let paths: Vec<_> = faults.iter().map(|fault| fault["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["events[0].capacity", "events[0].colour"], "{told}");
    assert!(
        faults.iter().all(|fault| fault["line"].as_u64() > Some(1) && fault["column"].is_u64()),
        "{told}"
    );
    assert!(!told["detail"].as_str().unwrap().contains('\n'), "{told}");
    place.write(&good.replace("id: 1,", "id: 2,"));
    let refused = place.try_admin("POST", "/admin/reload", "");
    let told: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!((refused.status, &told["faults"][0]["path"]), (422, &serde_json::json!("node.id")), "{told}");
}

#[test]
fn a_start_serves_nobody_while_a_path_of_the_file_would_be_open() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let file = place.read();
    place.write(&(file.clone() + "default_origin: shop\n"));
    let node = place.start();
    let live = r#"{"capacity": 1, "max_admit_per_sec": 1, "match": [{"path": "/live"}]}"#;
    place.admin("PUT", "/admin/events/live", live);
    node.kill();
    let late = extra("late", "{ path: /live }, { path: /secret }");
    place.write(&(file + &late + "default_origin: shop\n"));
    let mended = std::sync::atomic::AtomicBool::new(false);
    let _node = place.start_while(|visitors| {
        let refused = "nobody is served until every event of the file is in effect";
        if !mended.load(Ordering::SeqCst) {
            assert!(Request::get(visitors, "/secret").try_send().is_none(), "it serves");
            if place.logged().contains(refused) {
                place.admin("DELETE", "/admin/events/live", "");
                mended.store(true, Ordering::SeqCst);
            }
        }
    });
    assert!(mended.load(Ordering::SeqCst), "{}", place.logged());
    assert_eq!(place.logged().matches("event late of the file is not in effect").count(), 1, "said once");
    assert_eq!(place.admin("GET", "/admin/events/late", "")["policy"]["capacity"], 1);
}

#[test]
fn sigterm_ends_an_idle_node_well_and_sigint_ends_it_at_once() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    for signal in ["TERM", "INT"] {
        let mut node = place.start();
        node.signal(signal);
        assert_eq!(node.end().code(), Some(0), "{signal}: {}", place.logged());
        let told = place.logged().matches("in_flight").count();
        assert_eq!(told, 2, "by SIGTERM, which came first, alone: {}", place.logged());
    }
}

#[test]
fn sigterm_waits_for_requests_under_way_and_for_nothing_else() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    for how in ["they end", "SIGINT ends the wait"] {
        shop.lets_go.store(false, Ordering::SeqCst);
        let mut node = place.start();
        // A connection that is kept alive, and silent.
        let mut idle = std::net::TcpStream::connect(place.visitors).unwrap();
        idle.write_all(b"GET /buy HTTP/1.1\r\nHost: shop.test\r\n\r\n").unwrap();
        assert!(idle.read(&mut [0; 1024]).unwrap() > 0);
        let served = shop.served.load(Ordering::SeqCst);
        let visitors = place.visitors;
        let held = std::thread::spawn(move || Request::get(visitors, "/buy/held").try_send());
        until("the request is under way", || shop.served.load(Ordering::SeqCst) > served);
        node.signal("TERM");
        until("the listeners close", || std::net::TcpStream::connect(visitors).is_err());
        // Longer than anything but the request could keep the node.
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(node.0.try_wait().unwrap().is_none(), "{how}: {}", place.logged());
        let ends = how == "they end";
        if ends {
            shop.lets_go.store(true, Ordering::SeqCst);
        } else {
            node.signal("INT");
        }
        assert_eq!(node.end().code(), Some(0), "{how}: {}", place.logged());
        assert_eq!(held.join().unwrap().is_some_and(|answer| answer.body == "the shop"), ends, "{how}");
        assert_eq!(place.logged().contains("cut=1"), !ends, "{how}: {}", place.logged());
    }
}

#[test]
fn sighup_takes_an_edited_line_and_keeps_everything_when_the_file_is_bad() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let mut node = place.start();
    let good = place.read();
    place.write(&good.replace("capacity: 3", "capacity: 5"));
    node.signal("HUP");
    until("the edit takes effect", || described(&place)["policy"]["capacity"] == 5);
    place.write(&good.replace("capacity: 3", "capacity: none, colour: red"));
    node.signal("HUP");
    let refused = "anteroom_config_last_reload_successful 0";
    until("the refusal shows", || Request::get(place.metrics, "/metrics").send().body.contains(refused));
    assert!(place.logged().contains("colour"), "{}", place.logged());
    assert_eq!(described(&place)["policy"]["capacity"], 5);
    place.write(&good.replace("id: 1,", "id: 2,"));
    node.signal("HUP");
    until("it says what needs a restart", || place.logged().contains("node.id"));
    assert!(node.0.try_wait().unwrap().is_none());
}

#[test]
fn a_signal_in_the_first_moment_does_not_kill() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let mut command = process::anteroom();
    let child =
        command.args(["run", "-c"]).arg(place.file()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let node = process::Running(child);
    let exe = std::fs::canonicalize(env!("CARGO_BIN_EXE_anteroom")).unwrap();
    let proc_exe = format!("/proc/{}/exe", node.0.id());
    // Before `exec` the process is still the test's.
    until("the program runs", || std::fs::read_link(&proc_exe).is_ok_and(|path| path == exe));
    let caught = format!("/proc/{}/status", node.0.id());
    until("SIGHUP is taken", || {
        let status = std::fs::read_to_string(&caught).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & 1 == 1
    });
    node.signal("HUP");
    until("the node is ready", || {
        Request::get(place.metrics, "/readyz").try_send().is_some_and(|answer| answer.status == 200)
    });
}

#[test]
fn a_bad_file_is_refused_with_every_fault_and_exit_code_two() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 0, max_admit_per_sec: fast, colour: red");
    for command in ["run", "check"] {
        let (code, told) = output(&[command], Some(&place.file()));
        assert_eq!(code, 2, "{told}");
        for fault in ["capacity", "max_admit_per_sec", "colour"] {
            assert!(told.contains(fault), "{command} does not tell of {fault}: {told}");
        }
    }
    assert!(!place.dir.path().join("data").exists(), "a refused start leaves nothing behind");
    assert_eq!(output(&["run"], None).0, 2);
    assert_eq!(output(&["sing"], None).0, 2);
    assert_eq!(output(&["--version"], None).0, 0);
}

#[test]
fn a_good_file_passes_the_check_and_a_node_passes_the_healthcheck() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    assert_eq!(output(&["check"], Some(&place.file())).0, 0);
    assert_eq!(output(&["healthcheck"], Some(&place.file())).0, 1);
    let _node = place.start();
    assert_eq!(output(&["healthcheck"], Some(&place.file())).0, 0);
}

#[test]
fn what_a_start_would_meet_beside_the_file_is_told_by_the_check_which_touches_nothing() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let good = place.read();
    let check = || output(&["check"], Some(&place.file()));
    let data = place.dir.path().join("data");
    assert_eq!((check().0, data.exists()), (0, false));
    let node = place.start();
    assert_eq!(check().0, 0, "of a node that runs");
    place.write(&good.replace("id: 1,", "id: 2,"));
    let (code, told) = check();
    assert!(code == 2 && told.contains("node.id: ") && told.contains("log of node 1"), "{told}");
    node.kill();
    assert_eq!(check().0, 2);
    place.write(&good);
    let (log, token) = (data.join("control.redb"), data.join("admin.token"));
    let (whole, secret) = (std::fs::read(&log).unwrap(), std::fs::read(&token).unwrap());
    assert_eq!(check().0, 0, "of a log that was not closed");
    assert_eq!(std::fs::read(&log).unwrap(), whole, "nothing was written");

    let mut torn = whole.clone();
    torn.iter_mut().skip(64).for_each(|byte| *byte = !*byte);
    for (what, bytes) in [("foreign", b"dear diary".as_slice()), ("empty", b""), ("damaged", &torn)] {
        std::fs::write(&log, bytes).unwrap();
        let (code, told) = check();
        assert!(code == 2 && told.contains("node.data_dir: "), "{what}: {told}");
        assert_eq!(output(&["run"], Some(&place.file())).0, 1, "{what}");
        assert_eq!(std::fs::read(&log).unwrap(), bytes, "{what}: left as it is");
    }
    std::fs::write(&log, &whole).unwrap();

    for bad in ["", "short\n"] {
        std::fs::write(&token, bad).unwrap();
        let (code, told) = check();
        assert!(code == 2 && told.contains("admin.token_file: "), "{told}");
        assert_eq!(output(&["run"], Some(&place.file())).0, 1);
    }
    std::fs::write(&token, &secret).unwrap();
    for (from, to, path) in [
        ("./data", "./anteroom.yaml/data", "node.data_dir: "),
        ("./data", "./anteroom.yaml", "node.data_dir: "),
        ("admin: {", "admin: { token_file: ./nowhere/token,", "admin.token_file: "),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{good}");
        place.write(&text);
        let (code, told) = check();
        assert!(code == 2 && told.contains(path), "{to}: {told}");
        assert_eq!(output(&["run"], Some(&place.file())).0, 1, "{to}");
    }
}

#[test]
fn an_address_or_a_directory_in_use_ends_the_start_with_one_line_and_exit_code_one() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let _node = place.start();
    let (code, told) = output(&["run"], Some(&place.file()));
    assert_eq!((code, told.lines().count()), (1, 1), "{told}");
    assert!(told.contains(&place.visitors.to_string()), "{told}");
    let other = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let data = place.dir.path().join("data");
    other.write(&other.read().replace("./data", data.to_str().unwrap()));
    let (code, told) = output(&["run"], Some(&other.file()));
    assert_eq!((code, told.lines().count()), (1, 1), "{told}");
    assert!(told.contains("in use"), "{told}");
}

#[test]
fn the_demo_shows_a_line_on_any_free_port_and_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = process::anteroom();
    command.args(["demo", "--port", "0"]).env("TMPDIR", scratch.path());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut demo = process::Running(command.spawn().unwrap());
    let mut told = BufReader::new(demo.0.stdout.take().unwrap()).lines();
    let line =
        told.find_map(|line| line.unwrap().split_once("Open http://").map(|(_, rest)| rest.to_owned()));
    let door: SocketAddr = line.unwrap().split('/').next().unwrap().parse().unwrap();
    until("a newcomer is put in line", || {
        let answer = Request::get(door, "/").header("Accept", "text/html").try_send();
        answer.is_some_and(|answer| answer.status == 302)
    });
    demo.signal("INT");
    assert_eq!(demo.end().code(), Some(0));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_control_log_of_somebody_else_is_refused_and_left_alone() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let log = place.dir.path().join("data/control.redb");
    std::fs::create_dir(place.dir.path().join("data")).unwrap();
    std::fs::write(&log, "dear diary").unwrap();
    let (code, told) = output(&["run"], Some(&place.file()));
    assert_eq!((code, told.lines().count()), (1, 1), "{told}");
    assert_eq!(std::fs::read(&log).unwrap(), b"dear diary");
}

#[test]
fn an_event_that_the_api_made_is_judged_beside_the_file_that_a_start_reads() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    place.write(&(place.read() + "default_origin: shop\n"));
    let node = place.start();
    let bound = r#"{"capacity": 1, "max_admit_per_sec": 1,
        "match": [{"host": "a.example", "path": "/live"}, {"path": "/queue"}]}"#;
    let made = place.admin("PUT", "/admin/events/live", bound);
    assert!(made["warnings"].to_string().contains("passes the gate"), "{made}");
    node.kill();
    place.write(&(place.read() + "public_path: /queue\n"));
    let _node = place.start();
    for told in ["event live: /live is guarded for the host a.example only", "event live: /queue lies below"]
    {
        assert!(place.logged().contains(told), "{told}: {}", place.logged());
    }
}

#[test]
fn a_log_of_another_node_is_refused_at_once_with_one_line() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    place.start().kill();
    place.write(&place.read().replace("id: 1,", "id: 2,"));
    let (code, told) = output(&["run"], Some(&place.file()));
    assert_eq!((code, told.lines().count()), (1, 1), "{told}");
    assert!(told.contains("`node.id: 1`"), "{told}");
    place.write(&place.read().replace("id: 2,", "id: 1,"));
    let _node = place.start();
}

#[test]
fn no_level_of_logging_writes_out_what_visitors_send() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 1, max_admit_per_sec: 20");
    let node = place.start_saying("trace");
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let mut waiting = Visitor::joined(&place);
    assert_eq!(waiting.status()["state"], "waiting");
    let secret = "Xq7-a-visitors-own-secret";
    for path in ["/buy/tickets", "/elsewhere", "/waitingroom/tour"] {
        let cookies = format!("session={secret}; wr_pass={}", inside.pass.as_ref().unwrap());
        Request::get(place.visitors, path).header("Cookie", &cookies).send();
        // A head that is no head: a library may tell what it could not parse.
        Request::get(place.visitors, path).header("Cookie", &cookies).header("bad name", secret).try_send();
    }
    drop(node);
    let logged = place.logged();
    assert!(logged.contains("the node serves visitors"), "{logged}");
    let admin = std::fs::read_to_string(place.dir.path().join("data/admin.token")).unwrap();
    let tokens = [waiting.ticket, inside.pass].map(Option::unwrap);
    for hidden in tokens.iter().map(String::as_str).chain([secret, admin.trim()]) {
        let line = logged.lines().find(|line| line.contains(hidden));
        assert_eq!(line, None, "{hidden}");
    }
}

#[test]
fn from_the_first_moment_on_nothing_without_a_pass_reaches_the_origin() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20, mode: closed");
    place.write(&(place.read() + "default_origin: shop\n"));
    for _ in 0..3 {
        let node = place.start_while(|address: SocketAddr| {
            let _ = Request::get(address, "/buy/tickets").try_send();
        });
        assert_eq!(shop.served.load(Ordering::SeqCst), 0);
        node.kill();
    }
    let _node = place.start();
    assert_eq!(Request::get(place.visitors, "/").send().status, 200, "what no event matches is served");
}

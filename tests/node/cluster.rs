//! `anteroom cluster`: nodes that run are asked, and say what they are and what they do not do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::process::{Place, Request, Running, Shop, anteroom, until};
use crate::{Visitor, ports};

fn cluster(arguments: &[&str], file: &Path) -> (Option<i32>, String, String) {
    let output = anteroom().arg("cluster").args(arguments).arg("-c").arg(file).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_lone_node_tells_that_it_is_alone_and_takes_nobody_in() {
    let shop = Shop::open();
    let place = Place::new(&shop, "capacity: 3, max_admit_per_sec: 20");
    let file = place.file();
    let (code, told, complaint) = cluster(&["status"], &file);
    assert_eq!((code, told.as_str()), (Some(1), ""));
    assert!(complaint.contains("admin.token cannot be read"), "{complaint}");

    let node = place.start();
    let mut told = String::new();
    until("the node has acknowledged what is in the log", || {
        let (code, lines, complaint) = cluster(&["status"], &file);
        assert_eq!((code, complaint.as_str()), (Some(0), ""));
        told = lines;
        told.contains("  heard  ")
    });
    assert!(told.starts_with("this node is alone; log index ") && told.contains("\nnode 1  run "), "{told}");
    let scraped = Request::get(place.metrics, "/metrics").send().body;
    assert!(scraped.contains("anteroom_leads 1\n"), "{scraped}");
    let (code, json, _) = cluster(&["status", "--json"], &file);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["alone"], &json["nodes"][0]["node"]), (Some(0), &true.into(), &1.into()));

    let changes: [&[&str]; 4] =
        [&["init"], &["add", "2", "127.0.0.1:7946"], &["remove", "1"], &["expel", "2"]];
    for arguments in changes {
        let (code, told, complaint) = cluster(arguments, &file);
        assert_eq!((code, told.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(complaint.contains("this node is alone"), "{arguments:?}: {complaint}");
    }
    assert_eq!(cluster(&["add", "2", "nowhere"], &file).0, Some(2));
    assert_eq!(cluster(&["status"], Path::new("/nowhere.yaml")).0, Some(2));

    node.kill();
    let (code, _, complaint) = cluster(&["status"], &file);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("does the node run?"), "{complaint}");
}

/// Three controllers with certificates, each with a file and a directory of its own.
struct Fleet {
    dir: tempfile::TempDir,
    peers: Vec<SocketAddr>,
}

impl Fleet {
    fn new() -> Self {
        let fleet = Self { dir: tempfile::tempdir().unwrap(), peers: addresses(3) };
        fleet.certs(&["ca", "--out", "ca"]);
        let controllers = fleet.controllers();
        for (at, peer) in fleet.peers.iter().enumerate() {
            let id = (at + 1).to_string();
            fleet.certs(&["node", "--ca", "ca", "--id", &id, "--out", &id]);
            let [visitors, admin, metrics] = addresses(3).try_into().unwrap();
            let config = format!(
                "node: {{ id: {id}, data_dir: ./data }}\n\
                 listeners: [ {{ address: \"{visitors}\" }} ]\n\
                 admin: {{ address: \"{admin}\" }}\n\
                 metrics: {{ address: \"{metrics}\" }}\n\
                 cluster:\n  listen: \"{peer}\"\n  controllers: {{ {controllers} }}\n  \
                 tls: {{ ca: ca.crt, certificate: node.crt, key: node.key }}\n"
            );
            std::fs::write(fleet.file(at), config).unwrap();
        }
        fleet
    }

    /// A fleet that is founded, and its controllers.
    fn founded() -> (Self, Vec<Running>) {
        let fleet = Self::new();
        let controllers = (0..3).map(|at| fleet.start(at)).collect();
        until("the fleet is founded", || cluster(&["init"], &fleet.file(0)).0 == Some(0));
        (fleet, controllers)
    }

    /// In how many lines a node's status says this.
    fn lines(&self, at: usize, with: &str) -> usize {
        let told = cluster(&["status"], &self.file(at)).1;
        told.lines().filter(|line| line.contains(with)).count()
    }

    fn certs(&self, arguments: &[&str]) {
        let mut command = anteroom();
        let output = command.arg("certs").args(arguments).current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// The controllers as a configuration names them.
    fn controllers(&self) -> String {
        let named = |(at, peer): (usize, &SocketAddr)| format!("{}: \"{peer}\"", at + 1);
        self.peers.iter().enumerate().map(named).collect::<Vec<_>>().join(", ")
    }

    /// The place of an edge of this fleet, with this event in its file.
    fn edge(&self, shop: &Shop, event: &str) -> Place {
        self.certs(&["node", "--ca", "ca", "--id", "4", "--out", "edge"]);
        let place = Place::new(shop, event);
        let (peer, controllers) = (addresses(1)[0], self.controllers());
        let tls = self.dir.path().join("edge");
        let tls = tls.display();
        let alone = place.read().replace("id: 1", "id: 4");
        place.write(&format!(
            "{alone}cluster:\n  listen: \"{peer}\"\n  controllers: {{ {controllers} }}\n  \
             tls: {{ ca: {tls}/ca.crt, certificate: {tls}/node.crt, key: {tls}/node.key }}\n"
        ));
        place
    }

    /// The place of an edge that the leader numbers; its file says nothing that another's could not.
    fn numbered_edge(&self, shop: &Shop) -> Place {
        if !self.dir.path().join("web").exists() {
            self.certs(&["edge", "--ca", "ca", "--name", "web", "--out", "web"]);
        }
        let place = Place::new(shop, "capacity: 2, max_admit_per_sec: 20");
        let (controllers, tls) = (self.controllers(), self.dir.path().join("web"));
        let (tls, alone) = (tls.display(), place.read().replace("id: 1", "id: auto"));
        place.write(&format!(
            "{alone}cluster:\n  listen: \"0.0.0.0:{}\"\n  controllers: {{ {controllers} }}\n  \
             tls: {{ ca: {tls}/ca.crt, certificate: {tls}/node.crt, key: {tls}/node.key }}\n",
            addresses(1)[0].port()
        ));
        place
    }

    /// Has every controller certify numbers.
    fn certify_numbers(&self) {
        self.certs(&["numbering", "--ca", "ca", "--out", "numbering"]);
        for at in 0..3 {
            let text = std::fs::read_to_string(self.file(at)).unwrap();
            let files = "{ certificate: ../numbering/numbering.crt, key: ../numbering/numbering.key }";
            std::fs::write(self.file(at), format!("{text}  numbering: {files}\n")).unwrap();
        }
    }

    fn file(&self, at: usize) -> PathBuf {
        self.dir.path().join((at + 1).to_string()).join("anteroom.yaml")
    }

    fn start(&self, at: usize) -> Running {
        let mut command = anteroom();
        command.args(["run", "-c"]).arg(self.file(at)).stderr(Stdio::null()).stdout(Stdio::null());
        Running(command.spawn().unwrap())
    }
}

fn addresses(count: usize) -> Vec<SocketAddr> {
    (0..count).map(|_| ports::free().unwrap()).collect()
}

#[test]
fn three_controllers_are_founded_told_lose_one_and_take_it_back_by_commands() {
    let fleet = Fleet::new();
    let mut nodes: Vec<_> = (0..3).map(|at| Some(fleet.start(at))).collect();
    until("a controller tells that nothing is founded", || {
        cluster(&["status"], &fleet.file(0)).1.starts_with("a fleet that is not founded")
    });
    until("the fleet is founded", || cluster(&["init"], &fleet.file(0)).0 == Some(0));
    let (code, _, complaint) = cluster(&["init"], &fleet.file(1));
    assert_eq!(code, Some(1));
    assert!(complaint.contains("founded"), "{complaint}");

    let lines = |at, with| fleet.lines(at, with);
    for at in 0..3 {
        until("every controller votes and every node is heard", || {
            lines(at, "  votes  ") == 3 && lines(at, "  leads  ") == 1 && lines(at, "  heard  ") == 3
        });
    }
    let json: Value = serde_json::from_str(&cluster(&["status", "--json"], &fleet.file(1)).1).unwrap();
    let all = json["controllers"].as_array().unwrap();
    let leader = all.iter().position(|row| row["leads"] == true).unwrap();
    let lost = (leader + 1) % 3;
    nodes[lost].take().unwrap().kill();
    let asked = (leader + 2) % 3;
    let id = (lost + 1).to_string();
    until("the lost controller is told as dead", || {
        lines(asked, "  does not answer, last ") == 1 && lines(asked, "  not heard, last ") == 1
    });
    until("the lost controller is removed", || cluster(&["remove", &id], &fleet.file(asked)).0 == Some(0));
    until("the lost node is forgotten", || cluster(&["expel", &id], &fleet.file(asked)).0 == Some(0));
    let (code, _, complaint) = cluster(&["add", &id, "127.0.0.1:1"], &fleet.file(asked));
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(
        complaint.contains("does not answer at 127.0.0.1:1 (") && complaint.contains("nothing was changed")
    );
    assert_eq!(complaint.matches("refused").count(), 1, "{complaint}");
    until("two are left", || {
        // One of them is named in the first line too.
        lines(asked, "controller ") == 1 + 2 && lines(asked, "node ") == 2
    });

    let data = fleet.file(lost).with_file_name("data");
    std::fs::remove_dir_all(data).unwrap();
    nodes[lost] = Some(fleet.start(lost));
    let address = fleet.peers[lost].to_string();
    until("it is added with an empty disk", || {
        cluster(&["add", &id, &address], &fleet.file(asked)).0 == Some(0)
    });
    until("it votes and is heard again", || lines(lost, "  votes  ") == 3 && lines(lost, "  heard  ") == 3);
}

#[test]
fn an_edge_that_starts_while_no_controller_answers_keeps_every_place_and_opens_nothing() {
    let (fleet, controllers) = Fleet::founded();
    let shop = Shop::open();
    let place = fleet.edge(&shop, "capacity: 1, max_admit_per_sec: 20");
    let edge = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let mut waiting = Visitor::joined(&place);
    let reference = waiting.id();
    let kept = place.dir.path().join("data/heard");
    let knows_event =
        || std::fs::read(&kept).is_ok_and(|kept| kept.windows(4).any(|part| part == b"tour".as_slice()));
    until("the edge keeps what it hears", knows_event);
    controllers.into_iter().for_each(Running::kill);
    edge.kill();

    let _edge = place.spawn();
    let is_frozen = || {
        let answer = waiting.request("GET", "/waitingroom/tour/status").try_send();
        answer.is_some_and(|answer| answer.status == 200 && answer.json()["phase"] == "frozen")
    };
    until("the line is shown, and stands still", is_frozen);
    assert_eq!(waiting.id(), reference);
    let served = shop.served.load(Ordering::SeqCst);
    let browse = |path: &str| Request::get(place.visitors, path).header("Accept", "text/html");
    assert_eq!(browse("/buy/tickets").send().status, 302);
    let ticket = waiting.ticket.clone().unwrap();
    let page = browse("/waitingroom/tour").header("Anteroom-Ticket", &ticket).send();
    assert!(page.status == 200 && page.body.contains("The line stands still"), "{page:?}");
    assert_ne!(waiting.shop(), 200);
    let refused = inside.request("GET", "/buy/tickets").send();
    assert_eq!((refused.status, &refused.json()["state"]), (503, &"frozen".into()));
    assert_eq!(Visitor::joined(&place).status()["phase"], "frozen");
    assert_eq!(shop.served.load(Ordering::SeqCst), served);
    assert_eq!(Request::get(place.metrics, "/readyz").send().status, 503);

    let _controllers: Vec<_> = (0..3).map(|at| fleet.start(at)).collect();
    until("who was inside is inside again", || inside.shop() == 200);
    assert_eq!(inside.request("POST", "/waitingroom/tour/leave").send().status, 204);
    waiting.await_pass();
    assert_eq!(waiting.shop(), 200);
    assert!(!place.logged().contains("panicked"), "{}", place.logged());
}

#[test]
fn a_fleet_that_lost_most_of_its_controllers_goes_on_from_the_one_that_is_left() {
    let (fleet, nodes) = Fleet::founded();
    let mut nodes: Vec<_> = nodes.into_iter().map(Some).collect();
    let shop = Shop::open();
    let place = fleet.edge(&shop, "capacity: 1, max_admit_per_sec: 20");
    let edge = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    let mut waiting = Visitor::joined(&place);
    let reference = waiting.id();
    let (running, _, complaint) = cluster(&["restore", "--lost", "2", "3"], &fleet.file(0));
    assert_eq!(running, Some(1));
    assert!(complaint.contains("in use by another Anteroom"), "{complaint}");
    nodes.iter_mut().for_each(|node| node.take().unwrap().kill());
    edge.kill();
    let empty = fleet.file(1).with_file_name("data");
    let old = fleet.file(2).with_file_name("data");
    std::fs::remove_dir_all(&empty).unwrap();

    for (lost, why) in [("2", "2, 3, and 2 named"), ("7", "2, 3, and 7 named")] {
        let (code, _, complaint) = cluster(&["restore", "--lost", lost], &fleet.file(0));
        assert_eq!(code, Some(1));
        assert!(complaint.contains(why), "{complaint}");
    }
    let (code, told, complaint) = cluster(&["restore", "--lost", "2", "3"], &fleet.file(0));
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert!(told.starts_with("node 1 is the only controller of its fleet"), "{told}");
    nodes[0] = Some(fleet.start(0));
    let lines = |at, with| fleet.lines(at, with);
    // It is named in the first line too.
    until("it leads alone", || lines(0, "controller ") == 1 + 1 && lines(0, "  leads  ") == 1);
    // One that was lost comes back with the disk that it had: it has no say.
    assert!(old.is_dir());
    nodes[2] = Some(fleet.start(2));
    let _edge = place.start();
    until("who was inside is inside again", || inside.shop() == 200);
    assert_eq!(waiting.id(), reference);
    assert_eq!(place.admin("GET", "/admin/events/tour", "")["slots"]["live_passes"], 1);
    nodes[1] = Some(fleet.start(1));
    let address = fleet.peers[1].to_string();
    until("another one is added", || cluster(&["add", "2", &address], &fleet.file(0)).0 == Some(0));
    until("both vote", || lines(0, "  votes  ") == 2 && lines(1, "  votes  ") == 2);
    assert_eq!(lines(0, "controller 3"), 0);
    assert_eq!(inside.request("POST", "/waitingroom/tour/leave").send().status, 204);
    waiting.await_pass();
    assert_eq!(waiting.shop(), 200);
}

#[test]
fn a_node_that_was_expelled_while_it_was_away_comes_back_and_serves() {
    let (fleet, _nodes) = Fleet::founded();
    let shop = Shop::open();
    let place = fleet.edge(&shop, "capacity: 2, max_admit_per_sec: 20");
    let edge = place.start();
    let mut inside = Visitor::joined(&place);
    inside.await_pass();
    assert_eq!(inside.shop(), 200);
    edge.signal("STOP");
    until("it is expelled", || cluster(&["expel", "4"], &fleet.file(0)).0 == Some(0));
    let told = cluster(&["status"], &fleet.file(0)).1;
    assert!(!told.contains("\nnode 4 "), "{told}");
    edge.signal("CONT");
    until("it is a node of the fleet again", || {
        let told = cluster(&["status"], &fleet.file(0)).1;
        told.lines().any(|line| line.starts_with("node 4 ") && line.contains("  heard  "))
    });
    until("it serves", || Request::get(place.metrics, "/readyz").send().status == 200);
    assert_eq!(inside.shop(), 200);
    let mut next = Visitor::joined(&place);
    next.await_pass();
    assert_eq!(next.shop(), 200);
}

#[test]
fn edges_of_one_certificate_are_numbered_by_the_leader_and_keep_their_numbers_with_their_disks() {
    let fleet = Fleet::new();
    fleet.certify_numbers();
    let shop = Shop::open();
    let places = [fleet.numbered_edge(&shop), fleet.numbered_edge(&shop)];
    let waiting = places[0].spawn();
    until("it says that it waits", || places[0].logged().contains("this edge has no number yet"));
    let probe = |path: &str| {
        Request::get(places[0].metrics, path).try_send().map(|answer| (answer.status, answer.body))
    };
    until("it lives and is not ready", || {
        probe("/livez").is_some_and(|(status, _)| status == 200)
            && probe("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("number"))
    });
    assert!(Request::get(places[0].visitors, "/buy").try_send().is_none(), "nobody listens");

    let _controllers: Vec<_> = (0..3).map(|at| fleet.start(at)).collect();
    until("the fleet is founded", || cluster(&["init"], &fleet.file(0)).0 == Some(0));
    let other = places[1].start();
    let numbers = || {
        let told = cluster(&["status"], &fleet.file(0)).1;
        let heard = told.lines().filter(|line| line.contains(" (web) ") && line.contains("  heard "));
        let number = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
        heard.filter_map(number).collect::<Vec<_>>()
    };
    let mut first = Vec::new();
    until("both edges are told by number and name", || {
        first = numbers();
        first.len() == 2
    });
    assert!(first[0] != first[1] && first.iter().all(|number| number.parse::<u16>().unwrap() >= 10_000));
    until("the one that waited is ready", || probe("/readyz").is_some_and(|(status, _)| status == 200));
    let mut visitor = Visitor::joined(&places[0]);
    visitor.await_pass();
    assert_eq!(visitor.shop(), 200);

    // One comes back with its disk, the other without.
    waiting.kill();
    other.kill();
    until("both are not heard", || numbers().is_empty());
    std::fs::remove_dir_all(places[1].dir.path().join("data")).unwrap();
    let _edges = [places[0].start(), places[1].start()];
    let mut again = Vec::new();
    until("both are heard again", || {
        again = numbers();
        again.len() == 2
    });
    assert_eq!(again.iter().filter(|number| first.contains(number)).count(), 1, "{first:?} {again:?}");
    for place in &places {
        assert!(!place.logged().contains("panicked"), "{}", place.logged());
    }
}

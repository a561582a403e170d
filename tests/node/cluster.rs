//! `anteroom cluster`: nodes that run are asked, and say what they are and what they do not do.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::process::{Place, Request, Running, Shop, anteroom, until};

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
        told.contains("acknowledged index")
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
        let certs = |arguments: &[&str]| {
            let mut command = anteroom();
            let output = command.arg("certs").args(arguments).current_dir(fleet.dir.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        certs(&["ca", "--out", "ca"]);
        let named = |(at, peer): (usize, &SocketAddr)| format!("{}: \"{peer}\"", at + 1);
        let controllers = fleet.peers.iter().enumerate().map(named).collect::<Vec<_>>().join(", ");
        for (at, peer) in fleet.peers.iter().enumerate() {
            let id = (at + 1).to_string();
            certs(&["node", "--ca", "ca", "--id", &id, "--out", &id]);
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
    let bound: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap()).collect()
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

    let lines = |at: usize, with: &str| {
        let told = cluster(&["status"], &fleet.file(at)).1;
        told.lines().filter(|line| line.contains(with)).count()
    };
    for at in 0..3 {
        until("every controller votes and every node is heard", || {
            lines(at, "  votes  ") == 3 && lines(at, "  leads  ") == 1 && lines(at, "acknowledged index") == 3
        });
    }
    let json: Value = serde_json::from_str(&cluster(&["status", "--json"], &fleet.file(1)).1).unwrap();
    let all = json["controllers"].as_array().unwrap();
    let leader = all.iter().position(|row| row["leads"] == true).unwrap();
    let lost = (leader + 1) % 3;
    nodes[lost].take().unwrap().kill();
    let asked = (leader + 2) % 3;
    let id = (lost + 1).to_string();
    until("the lost controller is removed", || cluster(&["remove", &id], &fleet.file(asked)).0 == Some(0));
    until("the lost node is forgotten", || cluster(&["expel", &id], &fleet.file(asked)).0 == Some(0));
    until("two are left", || lines(asked, "controller ") == 2 && lines(asked, "node ") == 2);

    let data = fleet.file(lost).with_file_name("data");
    std::fs::remove_dir_all(data).unwrap();
    nodes[lost] = Some(fleet.start(lost));
    let address = fleet.peers[lost].to_string();
    until("it is added with an empty disk", || {
        cluster(&["add", &id, &address], &fleet.file(asked)).0 == Some(0)
    });
    until("it votes and is heard again", || {
        lines(lost, "  votes  ") == 3 && lines(lost, "acknowledged index") == 3
    });
}

//! `anteroom cluster`: a node that runs is asked, and says what it does not do.

use std::path::Path;

use serde_json::Value;

use crate::process::{Place, Shop, anteroom, until};

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

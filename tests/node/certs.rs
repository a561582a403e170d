//! `anteroom certs`: from nothing to files that a configuration may name.

use crate::process::anteroom;

#[test]
fn certificates_are_made_by_two_commands_and_accepted_by_check() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = anteroom().args(arguments).current_dir(place.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, told, _) = run(&["certs", "ca", "--out", "fleet"]);
    assert_eq!(code, Some(0));
    assert!(told.contains("anteroom certs node --ca fleet --id N"), "{told}");
    let node = ["certs", "node", "--ca", "fleet", "--id", "7", "--out", "seven", "--days", "30"];
    let (code, told, _) = run(&node);
    assert_eq!(code, Some(0));
    assert!(told.contains("node-7.anteroom.internal, valid for 30 days"), "{told}");

    // What the command says to write is what the configuration takes.
    let tls = told.lines().find(|line| line.trim_start().starts_with("tls:")).unwrap();
    let config = format!(
        "node: {{ id: 7 }}\nlisteners: [ {{ address: 127.0.0.1:0 }} ]\ncluster:\n    listen: 127.0.0.1:0\n    controllers: {{ 7: \
         127.0.0.1:7946 }}\n{tls}\n"
    );
    std::fs::write(place.path().join("seven/anteroom.yaml"), config).unwrap();
    let (code, told, complaints) = run(&["check", "-c", "seven/anteroom.yaml"]);
    assert_eq!((code, complaints.as_str()), (Some(0), ""), "{told}");

    // And files that are not this node's, or not of its fleet, are told by their key and line.
    assert_eq!(run(&["certs", "ca", "--out", "other"]).0, Some(0));
    let at = |name: &str| place.path().join(name);
    let own = std::fs::read(at("seven/ca.crt")).unwrap();
    std::fs::copy(at("other/ca.crt"), at("seven/ca.crt")).unwrap();
    let (code, _, complaints) = run(&["check", "-c", "seven/anteroom.yaml"]);
    assert_eq!(code, Some(2));
    assert!(complaints.starts_with("seven/anteroom.yaml:6:12: cluster.tls.ca: "), "{complaints}");
    assert!(complaints.contains("did not sign") && complaints.lines().count() == 1, "{complaints}");
    std::fs::write(at("seven/ca.crt"), own).unwrap();
    let text = std::fs::read_to_string(at("seven/anteroom.yaml")).unwrap();
    std::fs::write(at("seven/anteroom.yaml"), text.replace("id: 7", "id: 8")).unwrap();
    let (code, _, complaints) = run(&["check", "-c", "seven/anteroom.yaml"]);
    assert_eq!(code, Some(2));
    assert!(
        complaints.contains("6:24: cluster.tls.certificate: ") && complaints.contains("--id 8"),
        "{complaints}"
    );

    let (code, _, complaints) = run(&node);
    assert_eq!(code, Some(1));
    assert!(complaints.contains("seven/node.key is there already"), "{complaints}");
    for (id, days, expected) in
        [("0", "1", 2), ("10000", "1", 2), ("8", "0", 2), ("8", "3651", 2), ("8", "3650", 0)]
    {
        let (code, ..) =
            run(&["certs", "node", "--ca", "fleet", "--out", "eight", "--id", id, "--days", days]);
        assert_eq!(code, Some(expected), "{id} {days}");
    }
}

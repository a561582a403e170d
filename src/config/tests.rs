use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Every file of a folder below this one; a file that is added is a test that is added.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn good_files_are_read() {
    for file in files("src/config/testdata/good") {
        let settings = load(&file).unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(settings.difference(&settings), Difference::default(), "{}", file.display());
    }
}

#[test]
fn bad_files_are_refused_with_exactly_the_faults_beside_them() {
    for file in files("src/config/testdata/bad") {
        let faults = parse(&text_of(&file), Path::new("")).expect_err("is at fault").to_string();
        assert_eq!(faults.trim(), text_of(&file.with_extension("faults")).trim(), "{}", file.display());
    }
}

#[test]
fn the_shipped_examples_are_without_fault() {
    for file in files("conf") {
        let settings = load(&file).unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(settings.warnings(), Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn five_faults_are_told_at_once_with_path_line_and_column() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/bad/five_faults.yaml");
    let faults = load(&file).unwrap_err();
    let paths: Vec<_> = faults.as_slice().iter().map(|fault| fault.path.as_str()).collect();
    for path in [
        "node.id",
        "listeners[0].address",
        "events[0].match[0].path",
        "events[0].capacity",
        "events[0].orderin",
    ] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    assert!(faults.as_slice().iter().all(|fault| fault.position.is_some()), "{faults}");
    assert!(faults.to_string().contains("five_faults.yaml:8:5: events[0].capacity: "), "{faults}");
}

#[test]
fn what_is_left_out_has_its_default() {
    let settings = parse("listeners: [ { address: 0.0.0.0:8080 } ]", Path::new("/etc/anteroom")).unwrap();
    assert_eq!(settings.node.id.to_string(), "1");
    assert_eq!(settings.node.data_dir, Path::new("/etc/anteroom/data"));
    assert_eq!(settings.admin.token_file, Path::new("/etc/anteroom/data/admin.token"));
    assert_eq!(settings.admin.address.to_string(), "127.0.0.1:9900");
    assert_eq!(settings.metrics.address.to_string(), "127.0.0.1:9901");
    assert_eq!(settings.public_path, "/waitingroom");
    assert_eq!(settings.limits.joins_per_sec.get(), 20_000);
    assert_eq!(settings.limits.strangers_per_min.get(), 600);
}

#[test]
fn a_missing_file_is_told_by_its_name() {
    let faults = load(Path::new("/nowhere/anteroom.yaml")).unwrap_err().to_string();
    assert!(faults.starts_with("/nowhere/anteroom.yaml: cannot be read"), "{faults}");
}

#[test]
fn tls_files_are_read_before_anything_is_bound() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let text = "listeners: [ { address: 127.0.0.1:1, tls: { certificate: a.crt, key: a.key } } ]";
    fs::write(directory.path().join("a.crt"), made.cert.pem()).unwrap();
    fs::write(directory.path().join("a.key"), "no key at all").unwrap();
    let faults = parse(text, directory.path()).unwrap_err();
    assert_eq!(faults.as_slice().len(), 1, "{faults}");
    assert_eq!(faults.as_slice()[0].path, "listeners[0].tls.key");
    fs::write(directory.path().join("a.key"), made.signing_key.serialize_pem()).unwrap();
    assert!(parse(text, directory.path()).is_ok());
}

#[test]
fn a_secret_that_everybody_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let set = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    let settings = parse("listeners: [ { address: 127.0.0.1:1 } ]", directory.path()).unwrap();
    assert_eq!(settings.warnings(), Vec::<String>::new(), "nothing is there before the first start");
    fs::create_dir(at("data")).unwrap();
    fs::write(at("data/admin.token"), "0123456789abcdef").unwrap();
    for (data, token, told) in [(0o755, 0o640, 0), (0o700, 0o600, 0), (0o700, 0o644, 1), (0o777, 0o602, 2)] {
        set("data", data);
        set("data/admin.token", token);
        assert_eq!(settings.warnings().len(), told, "{data:o} {token:o}: {:?}", settings.warnings());
    }
}

#[test]
fn a_socket_path_that_no_system_takes_is_warned_of() {
    for (length, told) in [(100, 0), (101, 1)] {
        let path = format!("/{}", "s".repeat(length - 1));
        let text = format!("listeners: [ {{ address: 127.0.0.1:1 }} ]\nnode: {{ upgrade_sock: {path} }}");
        let warnings = parse(&text, Path::new("/")).unwrap().warnings();
        let of_it = warnings.iter().filter(|warning| warning.contains("`node.upgrade_sock`"));
        assert_eq!(of_it.count(), told, "{warnings:?}");
    }
}

/// The example's own section, which stands there as a comment.
fn shipped_cluster() -> String {
    let lines = include_str!("../../conf/anteroom.yaml").lines().skip_while(|line| *line != "# cluster:");
    let section = lines.map_while(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join("\n");
    format!("listeners: [ {{ address: 127.0.0.1:1 }} ]\n{section}\n")
}

/// A directory with the files that the example's section names.
fn with_peer_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    for (name, text) in [("ca.crt", made.cert.pem()), ("node.crt", made.cert.pem()), ("node.key", key)] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

#[test]
fn the_shipped_cluster_is_read() {
    let directory = with_peer_files();
    let settings = parse(&shipped_cluster(), directory.path()).unwrap_or_else(|faults| panic!("{faults}"));
    let cluster = settings.cluster.unwrap();
    assert_eq!(cluster.listen.to_string(), "10.0.0.1:7946");
    assert_eq!(cluster.advertise.map(|at| at.to_string()).as_deref(), Some("10.0.0.1:7946"));
    assert_eq!(cluster.heartbeat.as_millis(), 100);
    assert_eq!(cluster.tls.key, directory.path().join("node.key"));
    let controllers = cluster.controllers.iter().map(|(id, at)| format!("{id} {at}")).collect::<Vec<_>>();
    assert_eq!(controllers, ["1 10.0.0.1:7946", "2 10.0.0.2:7946", "3 10.0.0.3:7946"]);
}

#[test]
fn files_of_a_cluster_are_read_and_its_key_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = with_peer_files();
    let warnings = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(directory.path().join("node.key"), permissions).unwrap();
        parse(&shipped_cluster(), directory.path()).unwrap().warnings()
    };
    assert_eq!(warnings(0o600), Vec::<String>::new());
    let told = warnings(0o644);
    assert!(told.len() == 1 && told[0].contains("node.key"), "{told:?}");
    for (name, key) in [
        ("ca.crt", "cluster.tls.ca"),
        ("node.crt", "cluster.tls.certificate"),
        ("node.key", "cluster.tls.key"),
    ] {
        let directory = with_peer_files();
        fs::write(directory.path().join(name), "no PEM at all").unwrap();
        let faults = parse(&shipped_cluster(), directory.path()).unwrap_err();
        let paths: Vec<_> = faults.as_slice().iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, [key]);
    }
}

#[test]
fn one_three_or_five_controllers_make_a_fleet() {
    let directory = with_peer_files();
    for count in 0..=7 {
        let controllers: Vec<_> = (1..=count).map(|id| format!("{id}: a-{id}.internal:7946")).collect();
        let text = format!(
            "listeners: [ {{ address: 127.0.0.1:1 }} ]\ncluster: {{ listen: 127.0.0.1:7946, tls: {{ ca: ca.crt, certificate: \
             node.crt, key: node.key }}, controllers: {{ {} }} }}",
            controllers.join(", ")
        );
        let read = parse(&text, directory.path());
        assert_eq!(read.is_ok(), matches!(count, 1 | 3 | 5), "{count}: {read:?}");
    }
}

#[test]
fn a_changed_cluster_needs_a_restart() {
    let directory = with_peer_files();
    let at = |text: &str| parse(text, directory.path()).unwrap();
    let fleet = at(&shipped_cluster());
    let alone = at("listeners: [ { address: 127.0.0.1:1 } ]");
    let slower = at(&shipped_cluster().replace("heartbeat_ms: 100", "heartbeat_ms: 200"));
    for other in [alone, slower] {
        let difference = fleet.difference(&other);
        assert_eq!((difference.needs_restart, difference.reloadable.len()), (vec!["cluster"], 0));
    }
}

#[test]
fn a_reload_knows_what_needs_a_restart() {
    let at = |text: &str| parse(text, Path::new("/")).unwrap();
    let old = at("listeners: [ { address: 127.0.0.1:1 } ]");
    let new =
        at("{ listeners: [ { address: 127.0.0.1:2 } ], node: { id: 2 }, limits: { joins_per_sec: 5 } }");
    let difference = old.difference(&new);
    assert_eq!(difference.needs_restart, ["node.id", "listeners"]);
    assert_eq!(difference.reloadable, ["limits"]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_places_that_are_in_it(
        file in proptest::sample::select(vec![
            include_str!("testdata/good/every_key.yaml"), include_str!("testdata/good/anchors.yaml"),
        ]),
        from in 0_usize..1500,
        length in 0_usize..40,
        put in "[-a-z0-9:\\[\\]{},&*!|>'\" \n.#%é]{0,12}",
    ) {
        let boundary = |at: usize| (0..=at.min(file.len())).rev().find(|at| file.is_char_boundary(*at)).unwrap();
        let (from, to) = (boundary(from), boundary(from + length).max(boundary(from)));
        let text = format!("{}{put}{}", &file[..from], &file[to..]);
        if let Err(faults) = parse(&text, Path::new("/nowhere")) {
            proptest::prop_assert!(!faults.as_slice().is_empty());
            for Position { line, .. } in faults.as_slice().iter().filter_map(|fault| fault.position) {
                proptest::prop_assert!((1..=text.lines().count() + 1).contains(&line), "{}", faults);
            }
        }
    }
}

#[test]
fn an_edge_that_the_leader_numbers_need_not_say_where_it_is_reached() {
    let directory = with_peer_files();
    let text = |id: &str| {
        format!(
            "node: {{ id: {id} }}\nlisteners: [ {{ address: 127.0.0.1:1 }} ]\ncluster: {{ listen: 0.0.0.0:7946, tls: {{ ca: ca.crt, \
             certificate: node.crt, key: node.key }}, controllers: {{ 1: 10.0.0.1:7946 }} }}"
        )
    };
    let edge = parse(&text("auto"), directory.path()).unwrap();
    assert_eq!((edge.node.id, edge.cluster.unwrap().advertise), (OwnNumber::Auto, None));
    let faults = parse(&text("4"), directory.path()).unwrap_err();
    assert_eq!(faults.as_slice()[0].path, "cluster.advertise");
}

//! The layers of `src/lib.rs`: imports go down only, modules of one layer do not import each other, and the model
//! touches nothing outside itself.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here says where")]

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each layer, the lowest first; `docs/architecture.md` draws them.
const LAYERS: [&[&str]; 5] = [
    &["model"],
    &["clock", "config", "lifecycle", "metrics", "page", "peer", "simulation", "whole_file"],
    &["desk"],
    &["proxy", "control", "gossip", "admin"],
    &["app", "cli", "main"],
];

const LONGEST_FILE: usize = 500;

fn sources(of: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(of)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    assert!(files.len() > 3, "found no sources in {of}");
    files
}

fn module(path: &Path) -> String {
    let below = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The top-level modules that a source names after `crate::` or `anteroom::`.
fn imports(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for root in ["crate::", "anteroom::"] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at + root.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                let group = group.split('}').next().unwrap();
                found.extend(group.split(',').map(|name| word(name.trim())));
            } else {
                found.push(word(rest));
            }
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn every_module_has_a_layer() {
    for (path, _) in sources("src") {
        let module = module(&path);
        assert!(module == "lib" || layer(&module).is_some(), "{module} stands in no layer of {LAYERS:?}");
    }
}

#[test]
fn imports_go_down_only() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let own = module(&path);
        let Some(own_layer) = layer(&own) else { continue };
        for import in imports(&text) {
            let Some(import_layer) = layer(&import) else { continue };
            let allowed = import == own || import_layer < own_layer || own_layer == LAYERS.len() - 1;
            if !allowed {
                wrong.push(format!("{} imports {import}", path.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_model_is_pure() {
    let impure = [
        "std::fs",
        "std::net::Tcp",
        "std::thread",
        "std::env",
        "Mutex",
        "RwLock",
        "SystemTime",
        "Instant::",
        "tokio::",
        "pingora",
        "openraft",
        "rand::",
        "tracing::",
        "println!",
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources("src").into_iter().filter(|(path, _)| module(path) == "model") {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for word in impure {
            if code.contains(word) {
                wrong.push(format!("{} uses {word}", path.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn files_stay_short_and_are_named_for_what_they_hold() {
    let vague = ["utils", "util", "common", "helpers", "helper", "manager", "data", "info", "misc"];
    let mut wrong = Vec::new();
    for (path, text) in sources("src").into_iter().chain(sources("load/src")) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            wrong.push(format!("{} has {lines} lines", path.display()));
        }
        if vague.contains(&stem.as_str()) {
            wrong.push(format!("{} says nothing by its name", path.display()));
        }
    }
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    if fs::read_to_string(main).unwrap().lines().count() > 120 {
        wrong.push("src/main.rs has more than 120 lines".to_owned());
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_lock_file_holds_no_banned_crate() {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    for banned in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls", "rsa", "protobuf"] {
        assert!(!lock.contains(&format!("name = \"{banned}\"\n")), "{banned} is banned in deny.toml");
    }
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    assert!(
        !manifest.contains("single-term-leader"),
        "elections can stall for ever with that feature of openraft"
    );
}

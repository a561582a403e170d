//! What the container image promises, read from its Dockerfile.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here says where")]

use std::fs;
use std::path::Path;

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The instructions, continued lines joined, comments left out.
fn instructions() -> Vec<(String, String)> {
    let text = file("Dockerfile");
    let code: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    code.join("\n")
        .replace("\\\n", " ")
        .lines()
        .map(|line| {
            let (name, rest) = line.split_once(' ').unwrap();
            (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// The instructions of the image itself, without those of the stage that builds.
fn last_stage() -> Vec<(String, String)> {
    let all = instructions();
    let from = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    all[from..].to_vec()
}

fn only(name: &str) -> String {
    let found: Vec<String> =
        last_stage().into_iter().filter(|(own, _)| own == name).map(|(_, rest)| rest).collect();
    assert_eq!(found.len(), 1, "one {name} in the last stage");
    found[0].clone()
}

#[test]
fn the_image_runs_as_an_ordinary_user() {
    let user: u32 = only("USER").parse().expect("a number, so that orchestrators can see it is not root");
    assert!(user >= 10_000);
    let stage = last_stage();
    let place = |name: &str| stage.iter().position(|(own, _)| own == name).unwrap();
    assert!(place("USER") < place("ENTRYPOINT"));
}

#[test]
fn only_the_data_directory_is_written() {
    assert_eq!(only("VOLUME"), "/var/lib/anteroom");
    let made = last_stage().into_iter().find(|(name, _)| name == "RUN").unwrap().1;
    assert!(made.contains("--owner=10001 --group=10001 --mode=0700 /var/lib/anteroom"));
}

#[test]
fn the_health_check_is_the_programs_own() {
    let check = only("HEALTHCHECK");
    assert!(check.contains(r#"CMD ["/usr/local/bin/anteroom", "healthcheck""#), "{check}");
}

#[test]
fn the_program_gets_its_signals_itself() {
    assert_eq!(only("ENTRYPOINT"), r#"["/usr/local/bin/anteroom"]"#);
    assert!(only("CMD").starts_with(r#"["run", "#));
}

#[test]
fn the_build_is_the_makefiles() {
    let made: Vec<String> = instructions()
        .into_iter()
        .filter(|(name, rest)| name == "RUN" && rest.starts_with("make "))
        .map(|(_, rest)| rest)
        .collect();
    assert_eq!(made, ["make build-needs", "make build"]);
    let makefile = file("Makefile");
    for target in ["build-needs", "build"] {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "no target {target}");
    }
    assert!(
        makefile.contains("--release --locked --bin anteroom"),
        "the image copies target/release/anteroom"
    );
}

#[test]
fn no_secret_and_no_build_result_enters_the_image() {
    let ignored = file(".dockerignore");
    for name in [".git", "**/target", "data", "conf/data"] {
        assert!(ignored.lines().any(|line| line == name), "{name} is not in .dockerignore");
    }
}

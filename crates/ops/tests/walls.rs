//! Which crate may know which (docs/decisions/0031-crates-by-permission.md). An arrow that is not drawn
//! here does not exist: who needs another one argues for it in the decision, and draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From each crate to those that it depends on. Tests may depend on more.
const ARROWS: [(&str, &[&str]); 21] = [
    // What decides.
    ("paxos", &[]),
    ("ops", &["paxos"]),
    ("formats", &["ops", "paxos"]),
    ("store", &["formats", "ops", "paxos"]),
    ("wire", &["formats", "paxos"]),
    ("replica", &["formats", "ops", "paxos", "store", "wire"]),
    ("commands", &[]),
    (
        "node",
        &[
            "commands", "formats", "ops", "paxos", "replica", "store", "wire",
        ],
    ),
    // What performs.
    ("splice", &[]),
    ("pmem", &[]),
    ("uring", &["ops"]),
    ("linux", &["ops", "pmem", "splice", "uring"]),
    // What asks.
    ("talk", &["paxos", "wire"]),
    ("client", &["talk", "wire"]),
    ("terminal", &["client", "linux"]),
    // What searches, measures and torments.
    ("history", &[]),
    (
        "sim",
        &[
            "commands", "formats", "node", "ops", "paxos", "replica", "store", "talk", "wire",
        ],
    ),
    (
        "testbed",
        &[
            "client", "formats", "linux", "ops", "paxos", "store", "terminal",
        ],
    ),
    (
        "bench",
        &[
            "client", "formats", "linux", "node", "ops", "paxos", "replica", "sim", "terminal",
            "testbed", "wire",
        ],
    ),
    (
        "torture",
        &[
            "client", "formats", "history", "linux", "store", "terminal", "testbed",
        ],
    ),
    (
        "cli",
        &[
            "bench", "client", "formats", "linux", "node", "ops", "paxos", "replica", "sim",
            "store", "terminal", "testbed", "torture", "wire",
        ],
    ),
];

#[test]
fn every_arrow_between_crates_is_drawn_and_every_drawn_one_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names: BTreeSet<String> = fs::read_dir(&crates)
        .expect("the workspace's crates")
        .map(|entry| entry.expect("readable").file_name())
        .map(|name| name.into_string().expect("text"))
        .collect();
    let drawn: BTreeMap<&str, BTreeSet<&str>> = ARROWS
        .iter()
        .map(|(from, to)| (*from, to.iter().copied().collect()))
        .collect();
    let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(drawn.keys().copied().collect::<BTreeSet<_>>(), all);
    for name in &names {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml"));
        let manifest = manifest.expect("every crate has a manifest");
        let found: BTreeSet<&str> = dependencies(&manifest)
            .filter(|dependency| all.contains(dependency))
            .collect();
        assert_eq!(found, drawn[name.as_str()], "what {name} depends on");
    }
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().map(str::trim);
    let section = lines.skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| Some(line.split(['.', '=', ' ']).next()?.trim()))
}

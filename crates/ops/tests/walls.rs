//! The arrows between crates (docs/decisions/0031-crates-by-permission.md). An arrow that is not drawn here
//! does not exist: a change that needs another one argues for it in the decision, and draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The crates that each crate depends on. Tests may depend on more.
const ARROWS: [(&str, &[&str]); 39] = [
    // Crates that decide.
    ("access", &[]),
    ("tickets", &["access"]),
    ("paxos", &[]),
    ("ops", &["paxos"]),
    ("formats", &["ops", "paxos"]),
    ("store", &["formats", "ops", "paxos"]),
    ("wire", &["formats", "paxos"]),
    ("replica", &["formats", "ops", "paxos", "store", "wire"]),
    ("commands", &[]),
    ("resp", &[]),
    ("kv", &["resp"]),
    ("slots", &[]),
    ("streams", &["paxos"]),
    (
        "door",
        &[
            "access", "formats", "host", "kv", "letters", "ops", "paxos", "resp", "slots",
        ],
    ),
    (
        "node",
        &[
            "access", "commands", "formats", "letters", "ops", "paxos", "replica", "slots",
            "store", "tickets", "wire",
        ],
    ),
    (
        "spaces",
        &["formats", "host", "ops", "paxos", "shelf", "streams"],
    ),
    (
        "letters",
        &["access", "formats", "ops", "paxos", "slots", "tickets"],
    ),
    (
        "host",
        &["formats", "letters", "ops", "paxos", "shelf", "slots"],
    ),
    // A crate around the node.
    ("carrier", &["formats", "ops"]),
    // Crates that perform.
    ("shelf", &[]),
    ("splice", &[]),
    ("pmem", &[]),
    ("heap", &[]),
    ("uring", &["ops"]),
    ("linux", &["ops", "pmem", "splice", "uring"]),
    (
        "http-door",
        &[
            "access", "host", "letters", "linux", "ops", "spaces", "streams", "wire",
        ],
    ),
    // Crates that ask.
    ("talk", &["paxos", "wire"]),
    ("client", &["access", "talk", "wire"]),
    // Between both: connections that are made beside a kernel, or beside a client.
    ("tls", &["access", "client", "linux", "ops"]),
    ("terminal", &["client", "linux"]),
    // A crate for other programs.
    (
        "embed",
        &[
            "client", "formats", "host", "linux", "node", "ops", "replica", "shelf", "wire",
        ],
    ),
    // Crates that are shipped.
    (
        "serve",
        &[
            "access",
            "carrier",
            "client",
            "door",
            "formats",
            "heap",
            "host",
            "http-door",
            "letters",
            "linux",
            "node",
            "ops",
            "replica",
            "spaces",
            "store",
            "terminal",
            "tls",
            "wire",
        ],
    ),
    (
        "testbed",
        &[
            "client", "formats", "linux", "ops", "paxos", "store", "terminal", "wire",
        ],
    ),
    (
        "bench",
        &[
            "client", "formats", "linux", "ops", "paxos", "replica", "terminal", "testbed", "tls",
            "wire",
        ],
    ),
    (
        "cli",
        &[
            "access", "bench", "carrier", "client", "formats", "host", "kv", "linux", "node",
            "ops", "replica", "serve", "shelf", "slots", "store", "streams", "terminal", "testbed",
            "tickets", "tls", "wire",
        ],
    ),
    // Crates that search for mistakes, and are not shipped.
    ("history", &[]),
    (
        "sim",
        &[
            "commands", "formats", "node", "ops", "paxos", "replica", "store", "talk", "wire",
        ],
    ),
    (
        "torture",
        &[
            "access", "client", "formats", "history", "kv", "linux", "resp", "store", "terminal",
            "testbed", "tls", "wire",
        ],
    ),
    (
        "lab",
        &[
            "bench", "carrier", "client", "embed", "formats", "kv", "linux", "node", "ops",
            "paxos", "replica", "resp", "serve", "shelf", "sim", "terminal", "testbed", "torture",
            "wire",
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

/// All crates that a crate is made of, itself included.
fn reached(from: &str) -> BTreeSet<&'static str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        let (name, to) = ARROWS.iter().find(|(known, _)| *known == name).expect(name);
        if reached.insert(*name) {
            open.extend(*to);
        }
    }
    reached
}

#[test]
fn what_is_shipped_is_made_of_nothing_that_searches_for_mistakes() {
    let shipped = reached("cli");
    for searches in ["sim", "torture", "history", "lab"] {
        assert!(!shipped.contains(searches), "{searches}");
        assert!(reached("lab").contains(searches), "{searches}");
    }
}

/// `linux` has the switch. No other crate that is shipped touches it.
#[test]
fn only_the_lab_makes_a_disk_fail() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let touches_it = |name: &str| {
        let files = sources(&crates.join(name).join("src"));
        let ways = ["Faults", ".faults.", ".faults ="];
        files
            .iter()
            .any(|text| ways.iter().any(|way| text.contains(way)))
    };
    assert!(touches_it("lab") && touches_it("linux"), "as it is written");
    for name in reached("cli").into_iter().filter(|name| *name != "linux") {
        assert!(!touches_it(name), "{name}");
    }
}

fn sources(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => fs::read_to_string(&path).into_iter().collect(),
        })
        .collect()
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().map(str::trim);
    let section = lines.skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| Some(line.split(['.', '=', ' ']).next()?.trim()))
}

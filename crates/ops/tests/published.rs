//! The crates that are ready to be published (docs/embedding.md, "Publishing the crates"): each can be uploaded as it is, with what it
//! depends on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// In the order in which they have to be there.
const PUBLISHED: [&str; 7] = [
    "paxos", "ops", "formats", "wire", "talk", "access", "client",
];
/// Those that programs name.
const NAMED: [&str; 2] = ["paxos", "client"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The keys and values of a section of a manifest.
fn section(manifest: &str, name: &str) -> BTreeMap<String, String> {
    let heading = format!("[{name}]");
    let lines = manifest.lines().map(str::trim);
    let lines = lines.skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the workspace's crates");
    let names = entries.map(|entry| entry.expect("readable").file_name());
    names
        .map(|name| name.into_string().expect("text"))
        .collect()
}

#[test]
fn what_is_published_says_what_it_is() {
    let mut published = Vec::new();
    for name in crates() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let package = section(&manifest, "package");
        match package.get("publish").map(String::as_str) {
            Some("true") => published.push(name.clone()),
            _ => {
                assert_eq!(package["publish.workspace"], "true", "{name}");
                continue;
            }
        }
        assert_eq!(package["name"], format!("\"logberg-{name}\""));
        for key in [
            "version.workspace",
            "license.workspace",
            "rust-version.workspace",
        ] {
            assert_eq!(package[key], "true", "{name}: {key}");
        }
        for key in [
            "description",
            "documentation",
            "readme",
            "keywords",
            "categories",
        ] {
            assert!(package.contains_key(key), "{name}: {key}");
        }
        let readme = read(&format!("crates/{name}/README.md"));
        assert!(readme.starts_with(&format!("# logberg-{name}\n")), "{name}");
        assert!(readme.contains("Apache-2.0"), "{name}");
        assert_eq!(read(&format!("crates/{name}/LICENSE")), read("LICENSE"));
    }
    published.sort();
    let mut expected = PUBLISHED.map(str::to_owned);
    expected.sort();
    assert_eq!(published, expected);
    assert_eq!(
        section(&read("Cargo.toml"), "workspace.package")["publish"],
        "false"
    );
}

/// A dependency without a version, or on a crate that is not there, is refused at the upload.
#[test]
fn what_is_published_depends_on_nothing_that_is_not() {
    let workspace = read("Cargo.toml");
    let version = section(&workspace, "workspace.package")["version"].clone();
    let known = section(&workspace, "workspace.dependencies");
    let all = crates();
    for (place, name) in PUBLISHED.iter().enumerate() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        for dependency in section(&manifest, "dependencies").keys() {
            let dependency = dependency.trim_end_matches(".workspace");
            let its = &known[dependency];
            if !all.iter().any(|one| one == dependency) {
                assert!(!its.contains("path"), "{name}: {dependency} = {its}");
                continue;
            }
            assert!(
                PUBLISHED[..place].contains(&dependency),
                "{name} depends on {dependency}, which is not published before it"
            );
            for part in [
                format!("package = \"logberg-{dependency}\""),
                format!("version = {version}"),
            ] {
                assert!(its.contains(&part), "{dependency} = {its} lacks {part}");
            }
        }
    }
}

#[test]
fn what_programs_name_denies_gaps_in_its_pages() {
    for name in NAMED {
        let text = read(&format!("crates/{name}/src/lib.rs"));
        assert!(text.contains("#![deny(missing_docs)]"), "{name}");
    }
    let page = read("docs/embedding.md");
    let order = PUBLISHED.map(|name| format!("-p logberg-{name}")).join(" ");
    assert!(page.contains(&format!("cargo publish {order} --dry-run")));
}

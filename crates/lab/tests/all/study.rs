//! The papers' experiments, as small as they can be, with real nodes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::PROGRAM;

fn lab(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split(' ')).arg("--json");
    if !arguments.starts_with("mex messages") && !arguments.starts_with("all") {
        command.arg("--directory").arg(directory);
    }
    command.output().expect("the program runs")
}

fn run(directory: &Path, arguments: &str) -> Value {
    let output = lab(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["format"], "logberg.lab/1");
    assert_eq!(run["run"]["complete"], true, "{run}");
    let left = std::fs::read_dir(directory).expect("it is there").count();
    assert_eq!(left, 0, "nothing is left behind");
    run
}

fn check<'a>(run: &'a Value, name: &str) -> &'a Value {
    let mut checks = run["checks"].as_array().expect("checks").iter();
    let found = checks.find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {}", run["checks"]))
}

fn variants(run: &Value, of: &str) -> Vec<String> {
    let cells = run[of].as_array().expect("a list").iter();
    let names = cells.map(|cell| cell["variant"].as_str().expect("a name").to_owned());
    let mut names: Vec<String> = names.collect();
    names.dedup();
    names
}

#[test]
fn a_replica_comes_back_with_its_disk_and_without_and_every_value_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "mex recovery --bytes 1MiB --value-sizes 5KB",
    );
    let names = variants(&run, "cells");
    assert_eq!(names, ["disk lost", "disk kept", "all crashed, disks kept"]);
    assert_eq!(run["counts"]["bytes of values"], 1 << 20);
}

#[test]
fn slots_move_although_the_node_that_gives_them_dies() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "mex move --kill --bytes 1MiB --value-sizes 5KB",
    );
    let names = variants(&run, "cells");
    assert_eq!(names, ["at rest", "its leader dies"]);
}

#[test]
fn groups_of_many_replicas_and_few_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "mex replicas --replicas 1,3 --rounds 6 --slice 0.1";
    let run = run(directory.path(), arguments);
    for of in ["cells", "rates"] {
        let names = variants(&run, of);
        for name in ["one key", "many keys", "many keys-again"] {
            assert!(names.iter().any(|found| found == name), "{of}: {names:?}");
        }
    }
    let published = run["published"].as_array().expect("numbers");
    assert!(published.iter().all(|number| number["unit"] == "per_s"));
    let rounds = run["rates"][0]["slices_per_s"].as_array().expect("slices");
    assert_eq!(rounds.len(), 6);
}

#[test]
fn changes_of_the_map_move_no_more_slots_than_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(directory.path(), "mex controller --rounds 6");
    assert_eq!(check(&run, "moves beyond the fewest")["ours"], 0.0);
    assert!(run["counts"]["slots moved"].as_u64() > Some(6 * 4 * 2_730));
}

#[test]
fn all_keeps_runs_and_makes_a_page_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("runs");
    let all = format!("all --quick --only messages --to {}", to.display());
    let output = lab(directory.path(), &all);
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told[0]["experiment"], "mex messages");
    let page = std::fs::read_to_string(to.join("index.html")).expect("a page");
    assert!(page.contains("mex messages"));
    let kept = std::fs::read_to_string(to.join("mex-messages.json")).expect("a run");
    let run: Value = serde_json::from_str(&kept).expect("JSON");
    // Counts of the engine, which no machine changes.
    for (name, ours) in [
        ("requests, vanilla/leader", 2.0),
        ("requests of an agreement, leader", 2.0),
    ] {
        assert_eq!(check(&run, name)["ours"], ours);
    }
    let output = lab(
        directory.path(),
        &format!("all --only nothing --to {}", to.display()),
    );
    assert_eq!(output.status.code(), Some(2));
}

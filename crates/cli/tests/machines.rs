//! What operators say to save a machine, and to fill one, and what they are told.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::Nodes;
use nodes::rows::node;
use serde_json::Value;

#[path = "../../embed/tests/nodes/mod.rs"]
#[allow(dead_code)]
mod nodes;

/// Asks node after node, until one does it.
fn ask(nodes: &mut Nodes, command: &str) -> String {
    let begun = Instant::now();
    for index in (0..3).cycle() {
        let answer = nodes.node(index).ask(command).expect("it runs");
        // Its log may be there in a moment.
        let is_later = answer.contains("its log is not here");
        if !answer.starts_with("! not here") && !is_later {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        sleep(Duration::from_millis(10));
    }
    unreachable!("it goes round")
}

fn logberg(nodes: &Nodes, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.args(arguments);
    command.args(["--server", &nodes.addresses.join(","), "--json"]);
    command.output().expect("it runs")
}

fn well(nodes: &Nodes, arguments: &[&str]) -> Value {
    let output = logberg(nodes, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn fails(nodes: &Nodes, arguments: &[&str], code: i32, part: &str) {
    let output = logberg(nodes, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn a_machine_is_saved_by_hand_and_filled() {
    let mut nodes = Nodes::three("rows");
    for number in 0..90 {
        assert_eq!(ask(&mut nodes, &format!("put-{number} {number}")), "ok");
    }
    let had = ask(&mut nodes, "fresh-sum");
    let place = tempfile::tempdir().expect("there is room");
    let (file, parts) = (place.path().join("rows.lbb"), place.path().join("parts"));
    fs::create_dir(&parts).expect("there is room");
    let saved = well(&nodes, &["backup", "rows", "--to", text(&file)]);
    assert_eq!(saved["rows"], 90, "{saved}");
    let checked = well(&nodes, &["backup", "verify", text(&file)]);
    assert_eq!(checked["rows"], 90, "{checked}");
    assert_eq!(checked["position"], saved["position"], "{checked}");
    well(&nodes, &["backup", "rows", "--to", text(&parts)]);
    let nothing = well(&nodes, &["backup", "rows", "--to", text(&parts)]);
    assert_eq!(nothing["nothing_new"], true, "{nothing}");

    // A byte has rotted: nothing is made of it.
    let mut bytes = fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let rotten = place.path().join("rotten.lbb");
    fs::write(&rotten, bytes).expect("there is room");
    fails(&nodes, &["backup", "verify", text(&rotten)], 6, "checksum");
    fails(
        &nodes,
        &["restore", text(&rotten), "--log", "other"],
        6,
        "checksum",
    );
    fails(&nodes, &["log", "show", "other"], 5, "there is no log");

    // It is not new; then it is made anew.
    let restore = ["restore", text(&parts), "--log", "rows"];
    fails(&nodes, &restore, 4, "only a new one is filled");
    fails(
        &nodes,
        &["restore", text(&file), "--log", "other"],
        4,
        "no machine",
    );
    fails(&nodes, &["log", "show", "other"], 5, "there is no log");
    well(&nodes, &["log", "delete", "rows", "--yes"]);
    let restored = well(&nodes, &restore);
    assert_eq!(restored["rows"], 90, "{restored}");
    assert_eq!(ask(&mut nodes, "fresh-sum"), had);
    assert_eq!(ask(&mut nodes, "put-1 1"), "ok");
    assert_eq!(ask(&mut nodes, "fresh-sum"), had);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run(
        "a_machine_is_saved_by_hand_and_filled",
        a_machine_is_saved_by_hand_and_filled,
    );
    Ok(())
}

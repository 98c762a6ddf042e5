//! A majority is lost for good, and with it most of a machine's states: what the survivor has lives on, also where its state is ahead
//! of what it knows of the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::Nodes;
use nodes::rows::{node, status};
use serde_json::Value;

#[path = "../../embed/tests/nodes/mod.rs"]
#[allow(dead_code)]
mod nodes;

fn put(nodes: &mut Nodes, range: std::ops::Range<u64>) {
    let mut at = 0;
    for number in range {
        let begun = Instant::now();
        loop {
            while nodes.running[at % 3].is_none() {
                at += 1;
            }
            let command = format!("put-{number} {number}");
            let answer = nodes.node(at % 3).ask(&command).expect("it runs");
            if answer == "ok" {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
            at += 1;
            sleep(Duration::from_millis(10));
        }
    }
}

/// The sum of these nodes' states, once all have the same and so many rows: a command may be answered before a state has it.
fn same(nodes: &mut Nodes, indexes: &[usize], rows: u64) -> String {
    let rows = format!("{rows} rows");
    let begun = Instant::now();
    loop {
        let ask = |index: &usize| nodes.node(*index).ask("sum").expect("it runs");
        let sums: Vec<String> = indexes.iter().map(ask).collect();
        let whole = |index: &usize| status(&nodes.addresses[*index]).1;
        let is_whole = indexes.iter().all(whole);
        if is_whole && sums[0].starts_with(&rows) && sums.iter().all(|sum| *sum == sums[0]) {
            return sums[0].clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{sums:?}");
        sleep(Duration::from_millis(50));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("there is room");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it is there");
        let to = to.join(entry.file_name());
        let kind = entry.file_type().expect("it has one");
        match kind.is_dir() {
            true => copy(&entry.path(), &to),
            // The socket of a node that was killed.
            false if !kind.is_file() => {}
            false => _ = fs::copy(entry.path(), to).expect("there is room"),
        }
    }
}

fn recover(old: &Path, new: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.args(["recover", "--unsafe", "--accept-data-loss", "--json"]);
    command.arg("--directory").arg(old).arg("--into").arg(new);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["states"][0].clone()
}

/// The words of `logberg` with these arguments, and its exit code.
fn said(arguments: &[&str], directory: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    let output = command.args(arguments).arg(directory).output();
    let output = output.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Changes a byte in the middle of each table of the states below.
fn damage(directory: &Path) {
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it is there").path();
        if path.is_dir() {
            damage(&path);
        } else if path
            .parent()
            .is_some_and(|parent| parent.ends_with("tables"))
        {
            let mut bytes = fs::read(&path).expect("it is there");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).expect("there is room");
        }
    }
}

/// States are looked at, and told of before anything is done; nothing is changed.
fn states_are_looked_at(survivor: &Path, here: &Path) {
    let (code, text) = said(&["verify"], survivor);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("STANDS AT BYTE"), "{text}");
    assert!(!text.contains("not one of ours"), "{text}");
    let look = ["recover", "--unsafe", "--directory"];
    let (code, text) = said(&look, survivor);
    assert_eq!(code, Some(0), "{text}");
    let carried = "its state can be carried over, and ";
    assert!(text.contains(carried), "{text}");

    // Where a state cannot be looked at nothing is said of it, and nothing is left behind.
    let into = here.join("blind");
    let mut blind = Command::new(env!("CARGO_BIN_EXE_logberg"));
    blind.args(["recover", "--unsafe", "--accept-data-loss"]);
    blind.env("TMPDIR", here.join("nowhere"));
    blind
        .arg("--directory")
        .arg(survivor)
        .arg("--into")
        .arg(&into);
    let output = blind.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot be carried over"), "{text}");
    assert!(text.contains("nowhere"), "{text}");
    assert!(!into.exists(), "nothing was made");

    let rotten = here.join("rotten");
    copy(survivor, &rotten);
    damage(&rotten.join("state"));
    let (code, text) = said(&["verify"], &rotten);
    assert_eq!(code, Some(6), "{text}");
    assert!(text.contains("DAMAGED state of "), "{text}");
    assert!(text.contains("makes it anew"), "{text}");
    let (code, text) = said(&look, &rotten);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("NO STATE can be carried over"), "{text}");
    let state = recover(&rotten, &here.join("of-rotten"));
    let lost = state["lost"].as_str().unwrap_or_default();
    assert!(lost.contains("is damaged"), "{state}");
}

/// The survivor's new cluster serves what it had, takes more, and a node that joins copies it.
fn lives_on(nodes: &mut Nodes, new: &Path, had: &str, rows: u64) {
    (0..3).for_each(|index| nodes.kill(index));
    nodes.start_with(2, new, None);
    // The rest of the log is applied once it leads itself.
    assert_eq!(same(nodes, &[2], rows), had);
    put(nodes, 10_000..10_060);
    let joins: PathBuf = new.with_extension("joins");
    let address = nodes.addresses[2].clone();
    nodes.start_with(1, &joins, Some(address));
    put(nodes, 10_060..10_080);
    same(nodes, &[1, 2], rows + 80);
    (0..3).for_each(|index| nodes.kill(index));
}

fn a_survivors_state_lives_on() {
    let mut nodes = Nodes::three("rows");
    put(&mut nodes, 0..200);
    let had = same(&mut nodes, &[0, 1, 2], 200);
    assert!(
        status(&nodes.addresses[2]).0 > 1 << 20,
        "the log was trimmed"
    );
    nodes.kill(2);
    put(&mut nodes, 200..300);
    let later = same(&mut nodes, &[0, 1], 300);
    // A shelf has what was flushed.
    sleep(Duration::from_secs(1));
    (0..2).for_each(|index| nodes.kill(index));
    let here = nodes.directory.path().to_owned();

    states_are_looked_at(&nodes.data(2), &here);
    let state = recover(&nodes.data(2), &here.join("alone"));
    assert_eq!(state["stands"], "within", "{state}");
    lives_on(&mut nodes, &here.join("alone"), &had, 200);

    // Its disk of states was another node's, which had more.
    let mixed = here.join("mixed");
    copy(&nodes.data(2), &mixed);
    fs::remove_dir_all(mixed.join("state")).expect("it is there");
    copy(&nodes.data(0).join("state"), &mixed.join("state"));
    let (code, text) = said(&["verify"], &mixed);
    assert_eq!(code, Some(6), "{text}");
    assert!(text.contains("ahead of the log"), "{text}");
    let state = recover(&mixed, &here.join("ahead"));
    assert_eq!(state["stands"], "ahead", "{state}");
    lives_on(&mut nodes, &here.join("ahead"), &later, 300);

    // And without any state it is said so.
    let bare = here.join("bare");
    copy(&nodes.data(2), &bare);
    fs::remove_dir_all(bare.join("state")).expect("it is there");
    let look = ["recover", "--unsafe", "--directory"];
    let (_, text) = said(&look, &bare);
    assert!(text.contains("is LOST here"), "{text}");
    let state = recover(&bare, &here.join("nothing"));
    let lost = state["lost"].as_str().unwrap_or_default();
    assert!(lost.contains("none in this directory"), "{state}");
}

/// Two nodes' states are taken away while they run, and nothing is written. They no longer count as whole, and are made anew from the
/// third, which is then switched off for good.
fn states_that_are_taken_away_while_nodes_run_are_made_anew() {
    let mut nodes = Nodes::three("rows");
    put(&mut nodes, 0..200);
    let had = same(&mut nodes, &[0, 1, 2], 200);
    // A shelf has what was flushed.
    sleep(Duration::from_secs(1));
    for index in 0..2 {
        fs::remove_dir_all(nodes.data(index).join("state")).expect("it is there");
    }
    let is_back = |index: usize| nodes.data(index).join("state").exists();
    let begun = Instant::now();
    while !(is_back(0) && is_back(1)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody looks");
        sleep(Duration::from_millis(100));
    }
    assert_eq!(same(&mut nodes, &[0, 1, 2], 200), had);
    (0..3).for_each(|index| nodes.kill(index));
    fs::remove_dir_all(nodes.data(2)).expect("it is there");
    (0..2).for_each(|index| nodes.start(index));
    assert_eq!(same(&mut nodes, &[0, 1], 200), had);
    put(&mut nodes, 200..210);
}

/// All are put back to an earlier moment but one node's state, which has what the log has no more. It is made anew, and serves nothing of its own.
fn a_state_that_is_newer_than_its_log_is_made_anew() {
    let mut nodes = Nodes::three("rows");
    put(&mut nodes, 0..50);
    same(&mut nodes, &[0, 1, 2], 50);
    (0..3).for_each(|index| nodes.kill(index));
    let here = nodes.directory.path().to_owned();
    let saved = |index: usize| here.join(format!("saved-{index}"));
    (0..3).for_each(|index| copy(&nodes.data(index), &saved(index)));
    (0..3).for_each(|index| nodes.start(index));
    put(&mut nodes, 100..120);
    same(&mut nodes, &[0, 1, 2], 70);
    // A shelf has what was flushed.
    sleep(Duration::from_secs(1));
    (0..3).for_each(|index| nodes.kill(index));
    for index in 0..3 {
        let newer = here.join(format!("newer-{index}"));
        fs::rename(nodes.data(index).join("state"), &newer).expect("it is there");
        fs::remove_dir_all(nodes.data(index)).expect("it is there");
        copy(&saved(index), &nodes.data(index));
        if index == 2 {
            fs::remove_dir_all(nodes.data(index).join("state")).expect("it is there");
            fs::rename(&newer, nodes.data(index).join("state")).expect("it is there");
        }
    }
    (0..3).for_each(|index| nodes.start(index));
    // Rows of the same length, and as many as those that are gone, and more.
    put(&mut nodes, 200..240);
    same(&mut nodes, &[0, 1, 2], 90);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run("a_survivors_state_lives_on", a_survivors_state_lives_on);
    nodes::run(
        "states_that_are_taken_away_while_nodes_run_are_made_anew",
        states_that_are_taken_away_while_nodes_run_are_made_anew,
    );
    nodes::run(
        "a_state_that_is_newer_than_its_log_is_made_anew",
        a_state_that_is_newer_than_its_log_is_made_anew,
    );
    Ok(())
}

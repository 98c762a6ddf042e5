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

/// The rows of these nodes, once they have the same.
fn same(nodes: &mut Nodes, indexes: &[usize]) -> String {
    let begun = Instant::now();
    loop {
        let ask = |index: &usize| nodes.node(*index).ask("sum").expect("it runs");
        let sums: Vec<String> = indexes.iter().map(ask).collect();
        let whole = |index: &usize| status(&nodes.addresses[*index]).1;
        let is_whole = indexes.iter().all(whole);
        if is_whole && sums[0].contains(" rows") && sums.iter().all(|sum| *sum == sums[0]) {
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
        match entry.file_type().expect("it has one").is_dir() {
            true => copy(&entry.path(), &to),
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

/// The survivor's new cluster serves what it had, takes more, and a node that joins copies it.
fn lives_on(nodes: &mut Nodes, new: &Path, had: &str) {
    (0..3).for_each(|index| nodes.kill(index));
    nodes.start_with(2, new, None);
    // The rest of the log is applied once it leads itself.
    let begun = Instant::now();
    loop {
        let has = same(nodes, &[2]);
        if has == had {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{has}, not {had}"
        );
        sleep(Duration::from_millis(50));
    }
    put(nodes, 10_000..10_060);
    let joins: PathBuf = new.with_extension("joins");
    let address = nodes.addresses[2].clone();
    nodes.start_with(1, &joins, Some(address));
    put(nodes, 10_060..10_080);
    same(nodes, &[1, 2]);
    (0..3).for_each(|index| nodes.kill(index));
}

fn a_survivors_state_lives_on() {
    let mut nodes = Nodes::three("rows");
    put(&mut nodes, 0..200);
    let had = same(&mut nodes, &[0, 1, 2]);
    assert!(
        status(&nodes.addresses[2]).0 > 1 << 20,
        "the log was trimmed"
    );
    nodes.kill(2);
    put(&mut nodes, 200..300);
    let later = same(&mut nodes, &[0, 1]);
    // A shelf has what was flushed.
    sleep(Duration::from_secs(1));
    (0..2).for_each(|index| nodes.kill(index));
    let here = nodes.directory.path().to_owned();

    let state = recover(&nodes.data(2), &here.join("alone"));
    assert_eq!(state["stands"], "within", "{state}");
    lives_on(&mut nodes, &here.join("alone"), &had);

    // Its disk of states was another node's, which had more.
    let mixed = here.join("mixed");
    copy(&nodes.data(2), &mixed);
    fs::remove_dir_all(mixed.join("state")).expect("it is there");
    copy(&nodes.data(0).join("state"), &mixed.join("state"));
    let state = recover(&mixed, &here.join("ahead"));
    assert_eq!(state["stands"], "ahead", "{state}");
    lives_on(&mut nodes, &here.join("ahead"), &later);

    // And without any state it is said so.
    let bare = here.join("bare");
    copy(&nodes.data(2), &bare);
    fs::remove_dir_all(bare.join("state")).expect("it is there");
    let state = recover(&bare, &here.join("nothing"));
    let lost = state["lost"].as_str().unwrap_or_default();
    assert!(lost.contains("none in this directory"), "{state}");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run("a_survivors_state_lives_on", a_survivors_state_lives_on);
    Ok(())
}

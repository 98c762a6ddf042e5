//! The simulator as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::PROGRAM;

fn sim(arguments: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("sim").args(arguments.split_whitespace());
    command.env_remove("LOGBERG_LOG");
    command.output().expect("the program runs")
}

fn json(arguments: &str) -> Value {
    let output = sim(&format!("{arguments} --json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.is_empty(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn seeds_give_the_same_on_one_thread_and_on_two() {
    let arguments = "--seeds 20..24 --steps 20000";
    let mut one = json(&format!("{arguments} --jobs 1"));
    let mut two = json(&format!("{arguments} --jobs 2"));
    for key in [
        "seeds",
        "steps",
        "simulated_hours",
        "acked_bytes_per_million_steps",
    ] {
        assert!(one[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {one}");
    }
    assert_eq!(one["violations"], 0);
    assert!(one["coverage"]["elections"].as_u64() > Some(0));
    assert!(one["never"].is_array());
    for time in ["seconds", "steps_per_second"] {
        assert!(one.as_object_mut().unwrap().remove(time).is_some());
        two.as_object_mut().unwrap().remove(time);
    }
    assert_eq!(one, two);
}

#[test]
fn a_run_is_saved_as_a_script_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("run.toml");
    let script = script.to_str().unwrap();
    let seed = json(&format!(
        "--seed 7 --steps 5000 --faults kill,losses --save {script}"
    ));
    let replayed = json(&format!("--script {script}"));
    assert_eq!(seed["trace_hash"], replayed["trace_hash"]);
    let traced = sim(&format!("--script {script} --trace"));
    let lines = String::from_utf8_lossy(&traced.stderr);
    assert!(lines.lines().count() > 1000, "{} bytes", lines.len());
}

#[test]
fn what_cannot_be_run_is_said() {
    for (arguments, sentence) in [
        ("--seeds 5..5", "a range of seeds"),
        ("--faults rain", "there is no fault \"rain\""),
        ("--trace", "--seed N or --script FILE"),
        ("--seed 1 --seeds 1..2", "cannot be used with"),
    ] {
        let output = sim(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(sentence), "{arguments}: {said}");
    }
    let missing = sim("--script /nowhere/run.toml");
    assert_eq!(missing.status.code(), Some(5));
}

//! The torture as a user runs it: it ends well, it ends badly when something is wrong, and it leaves
//! nothing but what is to be looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::PROGRAM;

fn torture(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("torture").args(arguments.split_whitespace());
    command.args(["--json", "--directory", &directory.to_string_lossy()]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(directory: &Path, arguments: &str) -> (Output, Value) {
    let output = torture(directory, arguments)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {said}"));
    (output, report)
}

fn number(report: &Value, key: &str) -> u64 {
    let value = report[key].as_u64();
    value.unwrap_or_else(|| panic!("{key} in {report}"))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("ours").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Processes whose command line names the directory.
fn processes(directory: &Path) -> Vec<String> {
    let name = directory.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(&name) && line.contains(" node ")).then_some(line)
    });
    lines.collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// So short a time has room for a few strikes: kill, restart-all, one-way, stop and partition with
/// this seed, and fewer where the nodes recover slowly. CI runs a minute of them besides.
#[test]
fn twelve_seconds_of_faults_lose_nothing() {
    let directory = tempfile::tempdir().expect("a place");
    let (output, report) = run(directory.path(), "--minutes 0.2 --seed 2207");
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(number(&report, "lost_bytes"), 0);
    assert_eq!(number(&report, "unjustified_reads"), 0);
    assert_eq!(number(&report, "violations_count"), 0);
    assert_eq!(report["identical"], true);
    for key in [
        "acked_bytes",
        "appends",
        "reads",
        "stale_reads",
        "streams",
        "longest_stall_ms",
    ] {
        assert!(number(&report, key) > 0, "{key} in {report}");
    }
    // Each kind was done, or the report says why not.
    let faults = report["faults"].as_object().expect("an object");
    let not_done = report["not_done"].as_array().expect("an array");
    assert_eq!(faults.len() + not_done.len(), 9, "{report}");
    assert!(faults.len() >= 3, "{report}");
    assert_eq!(report["how"].as_object().map(|how| how.len()), Some(9));
    // Three logs on three nodes, each with all that was acknowledged.
    let found = report["found"].as_array().expect("an array");
    assert_eq!(found.len(), 9);
    let of_one = found.iter().filter(|found| found["node"] == 1);
    let held: u64 = of_one.map(|found| number(found, "bytes")).sum();
    assert!(held >= number(&report, "acked_bytes"), "{report}");
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(processes(directory.path()), Vec::<String>::new());
}

#[test]
fn twelve_seconds_of_faults_leave_an_order_of_all_that_clients_of_keys_were_answered() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--kv --minutes 0.2 --faults kill,stop,partition,lose-state --seed 31";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(number(&report, "violations_count"), 0);
    assert_eq!(number(&report, "objects"), number(&report, "linearizable"));
    assert!(number(&report, "objects") >= 16, "{report}");
    let by_object = report["calls"]["by_object"].as_object().expect("an object");
    assert_eq!(by_object.len(), 9, "{report}");
    assert!(number(&report["calls"], "done") > 500, "{report}");
    assert!(number(&report["unavailable"][0], "ms") > 0, "{report}");
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(processes(directory.path()), Vec::<String>::new());
}

#[test]
fn keys_that_are_put_back_to_what_they_were_are_found() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--kv --minutes 0.12 --faults kill --sabotage rewind";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(number(&report, "violations_count") > 0, "{report}");
    let refused = report["refused"].as_array().expect("an array");
    assert!(refused.len() >= 4, "{report}");
    // Their histories are there, and say so again.
    let kept = PathBuf::from(report["kept"].as_str().expect("a path"));
    let files = entries(&kept.join("history"));
    assert_eq!(files.len(), refused.len());
    let mut registers = files
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(".register.jsonl"));
    for path in &mut registers {
        let text = fs::read_to_string(path).expect("a history");
        let history = history::parse_calls(&text).expect("well-formed");
        let verdict = history::search(&history::Register, &history, 5_000_000);
        assert!(
            matches!(verdict, Ok(history::Verdict::Refused(_))),
            "{}",
            path.display()
        );
    }
}

#[test]
fn answers_of_before_in_the_place_of_present_ones_are_found() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--kv --minutes 0.12 --faults stop --sabotage stale-reads";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(number(&report, "violations_count") > 0, "{report}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("have no order"), "{said}");
}

#[test]
fn twelve_seconds_of_faults_leave_an_order_of_all_that_clients_of_streams_were_answered() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--http --minutes 0.2 --faults kill,stop,partition,lose-state --seed 25";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(number(&report, "violations_count"), 0);
    assert_eq!(number(&report, "streams"), number(&report, "linearizable"));
    let requests = &report["requests"];
    // Each stream is read whole at each node, at the end.
    assert!(
        number(requests, "reads") >= 18 && number(requests, "peeks") > 0,
        "{report}"
    );
    assert!(number(requests, "appends") > 100, "{report}");
    assert!(
        report["faults"]
            .as_object()
            .is_some_and(|faults| !faults.is_empty()),
        "{report}"
    );
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(processes(directory.path()), Vec::<String>::new());
}

#[test]
fn streams_that_are_put_back_to_what_they_were_and_reads_of_before_are_found() {
    for sabotage in [
        "--faults kill --sabotage rewind",
        "--faults stop --sabotage stale-reads",
    ] {
        let directory = tempfile::tempdir().expect("a place");
        let (output, report) = run(
            directory.path(),
            &format!("--http --minutes 0.12 {sabotage}"),
        );
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert!(number(&report, "violations_count") > 0, "{report}");
        // The histories are there, and say so again.
        let kept = PathBuf::from(report["kept"].as_str().expect("a path"));
        let files = entries(&kept.join("history"));
        assert_eq!(files.len() as u64, number(&report, "streams"));
        let wrong = files.iter().filter(|path| {
            let text = fs::read_to_string(path).expect("a history");
            let history = history::parse(&text).expect("well-formed");
            !history::check(&history).is_ok_and(|violations| violations.is_empty())
        });
        assert!(wrong.count() > 0, "{report}");
    }
}

/// A rest is what leaves the last command of log 0 unknown on every disk. Twenty rounds with longer ones are
/// for `logberg-lab torture --rests 20`.
#[test]
fn what_was_answered_outlives_a_rest_and_the_death_of_all() {
    let directory = tempfile::tempdir().expect("a place");
    let (output, report) = run(directory.path(), "--rests 2 --rest 3 --append 20MB");
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(number(&report, "rounds"), 2);
    assert_eq!(number(&report, "lost_bytes"), 0);
    assert_eq!(number(&report, "wrong_rounds"), 0);
    assert!(number(&report, "acked_bytes") >= 40_000_000, "{report}");
    let commands = report["last_commands"].as_object().expect("an object");
    assert_eq!(commands.len(), 2, "{report}");
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(processes(directory.path()), Vec::<String>::new());
}

#[test]
fn rounds_of_rests_are_not_mixed_with_faults_at_random() {
    for wrong in [
        "--rests 0",
        "--rests 2 --minutes 1",
        "--rest 3",
        "--rests 2 --rest x",
        "--rests 2 --last x",
    ] {
        let directory = tempfile::tempdir().expect("a place");
        let output = torture(directory.path(), wrong).output();
        let output = output.expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
    }
}

/// Checks that kept files can be looked at, with their histories, which the checker reads.
fn kept(directory: &Path, report: &Value) -> PathBuf {
    let kept = PathBuf::from(report["kept"].as_str().expect("a path"));
    assert_eq!(entries(directory), [kept.as_path()]);
    for name in [
        "strikes.txt",
        "cluster/node-1.log",
        "cluster/node-3/manifest",
    ] {
        assert!(kept.join(name).exists(), "{name}");
    }
    let text = fs::read_to_string(kept.join("history/main.jsonl")).expect("a history");
    assert!(history::parse(&text).expect("well-formed").len() > 10);
    kept
}

#[test]
fn disks_put_back_to_an_earlier_state_are_found_to_have_lost_bytes() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--minutes 0.12 --faults kill --sabotage rewind";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(number(&report, "lost_bytes") > 100_000, "{report}");
    assert!(number(&report, "unjustified_reads") > 0, "{report}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("acknowledged bytes are lost"), "{said}");
    assert!(said.contains("strikes.txt"), "{said}");
    kept(directory.path(), &report);
}

#[test]
fn stale_reads_in_the_place_of_linearizable_ones_are_found() {
    let directory = tempfile::tempdir().expect("a place");
    let arguments = "--minutes 0.2 --faults stop,partition --sabotage stale-reads";
    let (output, report) = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(number(&report, "lost_bytes"), 0, "{report}");
    assert_eq!(report["identical"], true, "{report}");
    assert!(number(&report, "unjustified_reads") > 0, "{report}");
    let kept = kept(directory.path(), &report);
    // The files alone say so again, and which.
    let logs = entries(&kept.join("history"));
    let violations = logs.iter().map(|path| {
        let text = fs::read_to_string(path).expect("a history");
        let history = history::parse(&text).expect("well-formed");
        history::check(&history).expect("whole").len() as u64
    });
    assert_eq!(violations.sum::<u64>(), number(&report, "violations_count"));
}

fn begin(directory: &Path) -> Child {
    let child = torture(directory, "--minutes 5").spawn();
    let child = child.expect("the program runs");
    wait_for("three nodes", || processes(directory).len() == 3);
    child
}

#[test]
fn an_interrupted_torture_cleans_up() {
    let directory = tempfile::tempdir().expect("a place");
    let child = begin(directory.path());
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(processes(directory.path()), Vec::<String>::new());
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn nodes_die_with_a_killed_torture_and_the_next_one_removes_what_it_left() {
    let directory = tempfile::tempdir().expect("a place");
    let mut child = begin(directory.path());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    wait_for("no nodes", || processes(directory.path()).is_empty());
    assert_eq!(entries(directory.path()).len(), 1);
    let output = torture(directory.path(), "--minutes 0.05 --faults stop").output();
    assert!(output.expect("the program runs").status.success());
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_unknown_fault_is_wrong_usage_and_the_known_ones_are_named() {
    let directory = tempfile::tempdir().expect("a place");
    let output = Command::new(PROGRAM)
        .args(["torture", "--faults", "earthquake"])
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("one-way") && said.contains("corrupt"),
        "{said}"
    );
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn where_there_are_no_tools_for_namespaces_it_says_what_it_needs() {
    let run = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["torture", "--namespaces", "--minutes", "0.1"]);
        command.args(more).env("PATH", "/nowhere");
        command.output().expect("the program runs")
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    let needs = "logberg-lab: torture --namespaces is not possible here: it takes ";
    assert!(said.starts_with(needs), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let output = run(&["--where-allowed"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not possible here"));
}

//! `logberg doctor` looks, says what it saw, and leaves nothing.

use crate::harness;

use std::fs;
use std::path::Path;

use harness::{err, logberg, out};
use serde_json::Value;

fn doctor(directory: &Path) -> (Value, Option<i32>, String) {
    let shown = directory.to_str().expect("plain");
    let mut command = logberg("127.0.0.1:1", &["doctor", shown, "--json"]);
    let output = command.output().expect("the binary runs");
    let report = serde_json::from_str(&out(&output)).expect("JSON");
    (report, output.status.code(), err(&output))
}

fn verdict<'a>(report: &'a Value, check: &str) -> &'a str {
    let checks = report["checks"].as_array().expect("a list");
    let found = checks.iter().find(|found| found["check"] == check);
    let found = found.unwrap_or_else(|| panic!("{check} is not in {report}"));
    found["verdict"].as_str().expect("a word")
}

#[test]
fn every_check_has_a_verdict_and_the_exit_code_agrees() {
    let place = tempfile::tempdir().expect("a place");
    let (report, code, said) = doctor(&place.path().join("not/yet"));
    for check in [
        "open files",
        "io_uring",
        "clock source",
        "congestion control",
        "transparent huge pages",
        "memory",
        "file system",
        "disk cache",
        "free space",
        "free inodes",
        "write path",
        "durable writes (O_DIRECT)",
        "durable writes (fdatasync)",
    ] {
        let verdict = verdict(&report, check);
        assert!(["ok", "better", "must"].contains(&verdict), "{verdict}");
    }
    for found in report["checks"].as_array().expect("a list") {
        assert_eq!(
            found["change"].is_null(),
            found["verdict"] == "ok",
            "{found}"
        );
    }
    let needed = report["checks"].as_array().expect("a list");
    let needed = needed.iter().any(|found| found["verdict"] == "must");
    assert_eq!(report["ok"], !needed);
    assert_eq!(code, Some(i32::from(needed)), "{said}");
    let left = fs::read_dir(place.path()).expect("it is there").count();
    assert_eq!(left, 0, "it left something");
}

#[test]
fn a_directory_in_memory_is_no_place_for_data() {
    let Ok(place) = tempfile::tempdir_in("/dev/shm") else {
        println!("not run: there is no /dev/shm here");
        return;
    };
    let (report, code, said) = doctor(place.path());
    assert_eq!(verdict(&report, "file system"), "must");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("must be changed"), "{said}");
}

#[test]
fn a_file_is_no_directory() {
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("file");
    fs::write(&file, "x").expect("room");
    let shown = file.to_str().expect("plain");
    let output = logberg("127.0.0.1:1", &["doctor", shown]).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
}

//! The demo, from outside.

use crate::outside;

use std::fs;

use outside::{Running, err, json, nodes_below, run, wait_until};
use rustix::process::Signal;
use sha2::{Digest, Sha256};

#[test]
fn the_leader_dies_in_the_middle_and_nothing_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("demo");
    let path = directory.to_str().unwrap();
    let output = run(&["demo", "--bytes", "64MiB", "--json", "--dir", path]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let report = json(&output);
    let number = |name: &str| {
        report[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {report}"))
    };
    assert_eq!(report["identical"], true, "{report}");
    assert_eq!(number("bytes"), f64::from(64 << 20));
    assert_eq!(number("acked_bytes"), number("bytes"));
    assert_eq!(number("lost_bytes"), 0.0);
    let part = number("killed_at_acked_bytes") / number("bytes");
    assert!((0.25..=0.75).contains(&part), "{report}");
    assert!(number("in_flight_bytes") > 0.0, "{report}");
    assert!(number("failover_ms") > 0.0, "{report}");
    assert!(
        number("bytes_resent") >= 0.0 && number("streams") >= 2.0,
        "{report}"
    );
    assert!(number("append_mb_per_s") > 0.0, "{report}");
    assert!(number("ack_p50_ms") > 0.0 && number("ack_p99_ms") >= number("ack_p50_ms"));
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!(node["sha256"], report["sha256"], "{report}");
        assert_eq!(node["bytes"], report["bytes"], "{report}");
        assert!(node["id"].is_u64());
    }
    assert!(!directory.exists(), "what was made is removed");
}

#[test]
fn a_file_comes_back_with_its_own_hash() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let output = run(&["demo", "--file", file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let report = json(&output);
    let hash = Sha256::digest(fs::read(file).unwrap());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(report["sha256"], hash);
    assert_eq!(report["identical"], true, "{report}");
}

#[test]
fn very_few_bytes_are_killed_for_as_well() {
    for bytes in ["0", "1", "1000"] {
        let output = run(&["demo", "--bytes", bytes, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{bytes}: {}", err(&output));
        let report = json(&output);
        assert_eq!(report["acked_bytes"].to_string(), bytes);
        assert_eq!(report["identical"], true, "{report}");
        let notes = report["notes"].as_array().unwrap();
        assert!(bytes == "1000" || !notes.is_empty(), "it says so: {report}");
    }
}

#[test]
fn one_flipped_byte_on_one_disk_is_found_and_named() {
    let output = run(&["demo", "--bytes", "8MiB", "--corrupt", "2", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
    let report = json(&output);
    assert_eq!(report["identical"], false);
    assert_eq!(report["lost_bytes"], 0, "two others have it: {report}");
    let said = err(&output);
    assert!(said.contains("node 2") && said.contains(".seg"), "{said}");
    assert!(said.contains("at byte"), "{said}");
    for (node, sound) in [(0, true), (1, false), (2, true)] {
        assert_eq!(report["nodes"][node]["identical"], sound, "{report}");
    }
}

#[test]
fn its_nodes_do_not_outlive_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    let mut demo = Running::start(&["demo", "--bytes", "1GiB", "--dir", path]);
    wait_until("three nodes run", || nodes_below(place.path()).len() == 3);
    demo.signal(Signal::KILL);
    demo.wait();
    wait_until("no node runs", || nodes_below(place.path()).is_empty());
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("demo");
    let path = directory.to_str().unwrap();
    let mut demo = Running::start(&["demo", "--bytes", "1GiB", "--dir", path]);
    wait_until("three nodes run", || nodes_below(&directory).len() == 3);
    demo.signal(Signal::INT);
    assert_eq!(demo.wait().code(), Some(130));
    assert!(nodes_below(&directory).is_empty());
    assert!(!directory.exists());
}

#[test]
fn a_directory_with_something_in_it_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), "mine").unwrap();
    let output = run(&["demo", "--dir", place.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("not empty"), "{}", err(&output));
    assert!(place.path().join("mine").exists());
}

#[test]
fn a_disk_that_is_too_small_is_told_before_anything_starts() {
    let output = run(&["demo", "--bytes", "900000GiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("are free"), "{}", err(&output));
}

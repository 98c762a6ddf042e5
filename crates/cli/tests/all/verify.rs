//! The offline check, from outside.

use crate::harness;
use crate::outside;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use harness::{Cluster, Content};
use outside::{err, json, out, run};

fn verify(directory: &Path, more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["verify", directory.to_str().unwrap()];
    arguments.extend_from_slice(more);
    run(&arguments)
}

#[test]
fn a_sound_directory_is_told_from_a_damaged_one() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    let demo = run(&["demo", "--bytes", "4MiB", "--dir", path, "--keep"]);
    assert_eq!(demo.status.code(), Some(0), "{}", err(&demo));
    for id in 1..=3 {
        let output = verify(&place.path().join(format!("node-{id}")), &["--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let report = json(&output);
        assert_eq!(report["sound"], true);
        let main = &report["logs"][1];
        assert_eq!(main["name"], "main", "{report}");
        assert!(main["held_bytes"].as_u64().unwrap() >= 4 << 20, "{report}");
    }
    let above = verify(place.path(), &[]);
    assert_eq!(above.status.code(), Some(5));
    assert!(err(&above).contains("node-1"), "{}", err(&above));

    let node = place.path().join("node-3");
    let segment = node.join("log-1/0000000000000001.seg");
    let file = File::options()
        .read(true)
        .write(true)
        .open(&segment)
        .unwrap();
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    let output = verify(&node, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", out(&output));
    assert!(
        out(&output).contains("0000000000000001.seg"),
        "{}",
        out(&output)
    );
    assert!(out(&output).contains("DAMAGED"), "{}", out(&output));
}

#[test]
fn a_segment_missing_in_the_middle_is_named_and_not_expected_from_peers() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 8 << 20));
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let segments = node.segments(1);
    assert!(segments.len() > 2, "{segments:?}");
    fs::remove_file(&segments[1]).unwrap();
    let output = verify(&node.data, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", out(&output));
    let said = out(&output);
    let line = said.lines().find(|line| line.starts_with("MISSING"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("0000000000000002.seg"), "{line}");
    assert!(!said.contains("DAMAGED"), "what is there is sound: {said}");
    assert!(
        err(&output).contains("put the missing files back"),
        "{}",
        err(&output)
    );
}

#[test]
fn what_is_not_a_node_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), "mine").unwrap();
    let output = verify(place.path(), &[]);
    assert_eq!(output.status.code(), Some(5));
    assert!(
        err(&output).contains("not a node's directory"),
        "{}",
        err(&output)
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    let missing = verify(&place.path().join("missing"), &[]);
    assert_eq!(missing.status.code(), Some(5));
    let file = verify(&place.path().join("mine"), &[]);
    assert_eq!(file.status.code(), Some(5));
}

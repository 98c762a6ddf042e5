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
        assert_eq!(report["starts"], true);
        let said = out(&verify(&place.path().join(format!("node-{id}")), &[]));
        assert!(!said.contains("not one of ours"), "{said}");
        let main = &report["logs"][1];
        assert_eq!(main["name"], "main", "{report}");
        assert!(main["held_bytes"].as_u64().unwrap() >= 4 << 20, "{report}");
    }
    let above = verify(place.path(), &[]);
    assert_eq!(above.status.code(), Some(5));
    assert!(err(&above).contains("node-1"), "{}", err(&above));
}

fn flip_the_middle_of(segment: &Path) {
    let file = File::options().read(true).write(true).open(segment);
    let file = file.unwrap();
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

/// No leader changes while bytes are unchosen, so no byte stands in two records.
#[test]
fn damage_is_named_and_a_node_starts_from_it_that_can_fetch_what_it_lacks() {
    let mut cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 4 << 20));
    let leader = cluster.leader("main");
    for node in &mut cluster.nodes {
        node.signal("-TERM");
        assert_eq!(node.wait(), Some(0), "{}", node.said());
    }
    let node = &cluster.nodes[leader];
    flip_the_middle_of(&node.segments(1)[0]);
    let output = verify(&node.data, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", out(&output));
    let said = out(&output);
    assert!(said.contains("0000000000000001.seg"), "{said}");
    assert!(said.contains("DAMAGED"), "{said}");
    // Machines need not know how each problem is told.
    let report = json(&verify(&node.data, &["--json"]));
    assert_eq!(
        (&report["sound"], &report["starts"]),
        (&false.into(), &true.into())
    );
}

/// A start fetches them, and says so; it would be silent where they went with files that somebody has.
#[test]
fn bytes_that_went_with_the_oldest_files_are_missed_by_verify_and_doctor() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 12 << 20));
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let found = |data: &Path| {
        let report = json(&run(&["doctor", data.to_str().unwrap(), "--json"]));
        let checks = report["checks"].as_array().unwrap().iter();
        let mut of_files = checks.filter(|check| check["check"] == "directory's files");
        let of = of_files.next().unwrap_or_else(|| panic!("{report}"));
        (of["verdict"].clone(), of["found"].to_string())
    };
    assert_eq!(found(&node.data).0, "ok");
    let segments = node.segments(1);
    assert!(segments.len() > 2, "{segments:?}");
    fs::remove_file(&segments[0]).unwrap();
    let (verdict, what) = found(&node.data);
    assert_eq!(verdict, "better", "{what}");
    assert!(what.contains("from byte 0 of stream 1.1.1 on"), "{what}");
    let output = verify(&node.data, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", out(&output));
    assert!(out(&output).contains("MISSING"), "{}", out(&output));
}

/// The verdict of one who looks at a directory.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Sound,
    Damaged,
    Refused,
}

impl Judged {
    fn by_verify(data: &Path) -> Judged {
        match verify(data, &[]).status.code() {
            Some(0) => Judged::Sound,
            Some(6) => Judged::Damaged,
            Some(9) => Judged::Refused,
            other => panic!("{other:?}"),
        }
    }

    fn by_recover(data: &Path) -> Judged {
        let shown = data.to_str().unwrap();
        let output = run(&["recover", "--unsafe", "--directory", shown, "--json"]);
        if output.status.code() != Some(0) {
            assert!(err(&output).contains("cannot be read at all"), "{output:?}");
            return Judged::Refused;
        }
        let report = json(&output);
        let mut logs = report["logs"].as_array().unwrap().iter();
        match logs.all(|log| log["damaged"].as_array().unwrap().is_empty()) {
            true => Judged::Sound,
            false => Judged::Damaged,
        }
    }

    fn by_doctor(data: &Path) -> Judged {
        let report = json(&run(&["doctor", data.to_str().unwrap(), "--json"]));
        let checks = report["checks"].as_array().unwrap().iter();
        let mut found = checks.filter(|check| check["check"] == "directory's files");
        let of = found.next().unwrap_or_else(|| panic!("{report}"));
        match (of["verdict"].as_str(), of["found"].as_str()) {
            (Some("ok"), _) => Judged::Sound,
            (Some("must"), Some(what)) if what.contains("is damaged at byte") => Judged::Damaged,
            (Some("must"), Some(_)) => Judged::Refused,
            other => panic!("{other:?}"),
        }
    }

    fn by_start(data: &Path) -> Judged {
        let listen = format!("{}:7099", harness::own_ip());
        let mut node = harness::Node::new(data.to_owned(), listen, &[]);
        node.start();
        let answers = harness::wait_for(
            || match (node.is_running(), node.status()) {
                (true, None) => None,
                (_, status) => Some(status.is_some()),
            },
            || "it neither answers nor ends".to_owned(),
        );
        match answers {
            true => node.kill(),
            false => assert_eq!(node.wait(), Some(9)),
        }
        match (
            answers,
            node.said().contains("acknowledged data is corrupt"),
        ) {
            (false, _) => Judged::Refused,
            (true, true) => Judged::Damaged,
            (true, false) => Judged::Sound,
        }
    }
}

#[test]
fn verify_recover_doctor_and_the_start_judge_a_flipped_bit_alike() {
    let mut cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 300_000));
    cluster.wait_whole();
    for node in &mut cluster.nodes {
        node.signal("-TERM");
        assert_eq!(node.wait(), Some(0), "{}", node.said());
    }
    let node = &cluster.nodes[0];
    let newest = node.segments(1).pop().unwrap();
    let length = fs::metadata(&newest).unwrap().len();
    let within = newest.strip_prefix(&node.data).unwrap();
    let mut seen = Vec::new();
    for (at, expected) in [
        (10, Some(Judged::Damaged)),
        (4095, Some(Judged::Damaged)),
        (4096 + 20, Some(Judged::Refused)),
        (length / 3, None),
        (length / 2 + 77, None),
        (length - 1, None),
    ] {
        let copy = cluster.directory.path().join(format!("flipped-{at}"));
        harness::copy_tree(&node.data, &copy);
        let file = copy.join(within);
        let file = File::options().read(true).write(true).open(file).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        let judged = Judged::by_verify(&copy);
        assert_eq!(Judged::by_recover(&copy), judged, "byte {at}");
        assert_eq!(Judged::by_doctor(&copy), judged, "byte {at}");
        // The start changes the directory, and comes last.
        assert_eq!(Judged::by_start(&copy), judged, "byte {at}");
        assert!(
            expected.is_none_or(|expected| expected == judged),
            "byte {at}: {judged:?}"
        );
        seen.push(judged);
    }
    assert!(seen.contains(&Judged::Damaged), "{seen:?}");
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
    assert_eq!(output.status.code(), Some(9), "{}", out(&output));
    assert_eq!(json(&verify(&node.data, &["--json"]))["starts"], false);
    let said = out(&output);
    let line = said.lines().find(|line| line.starts_with("MISSING"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("0000000000000002.seg"), "{line}");
    assert!(!said.contains("DAMAGED"), "what is there is sound: {said}");
    assert!(
        err(&output).contains("put what is missing back"),
        "{}",
        err(&output)
    );
    let node = &mut cluster.nodes[0];
    node.start();
    assert_eq!(node.wait(), Some(9));
    assert!(
        node.said().contains("segment 2 is missing between two"),
        "{}",
        node.said()
    );
}

/// The start says the same as `verify` says of it.
#[test]
fn verify_says_that_a_node_does_not_start_in_the_words_of_the_start() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 1 << 20));
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let sound = verify(&node.data, &[]);
    assert_eq!(sound.status.code(), Some(0), "{}", out(&sound));
    assert!(!out(&sound).contains("mark"), "{}", out(&sound));
    // Every checkpoint is gone: the second block of each segment.
    for segment in node.segments(1) {
        let file = File::options().write(true).open(&segment).unwrap();
        file.write_all_at(&[0; 4096], 4096).unwrap();
    }
    let output = verify(&node.data, &[]);
    assert_eq!(output.status.code(), Some(9), "{}", out(&output));
    let said = err(&output);
    assert!(said.contains("the promise is unknown"), "{said}");
    assert!(!said.contains("let the node run"), "{said}");
    node.start();
    assert_eq!(node.wait(), Some(9));
    assert!(
        node.said().contains("the promise is unknown"),
        "{}",
        node.said()
    );
}

#[test]
fn files_that_a_start_can_do_without_are_told_of_and_a_damaged_manifest_must_be_settled() {
    let mut cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    let node = &mut cluster.nodes[2];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let flipped = |name: &str, look: &dyn Fn()| {
        let path = node.data.join(name);
        let whole = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(&path, damaged).expect("room");
        look();
        fs::write(&path, whole).expect("room");
    };
    for name in ["met", "ends"] {
        flipped(name, &|| {
            let verified = verify(&node.data, &[]);
            assert_eq!(
                verified.status.code(),
                Some(6),
                "{name}: {}",
                out(&verified)
            );
            let said = out(&verified);
            assert!(
                said.contains(&format!("/{name}")) && said.contains("cannot be read"),
                "{said}"
            );
        });
    }
    flipped("manifest", &|| {
        let shown = node.data.to_str().expect("a plain path");
        let doctor = run(&["doctor", shown]);
        assert_eq!(doctor.status.code(), Some(1), "{}", out(&doctor));
        assert!(
            out(&doctor).contains("manifest is damaged"),
            "{}",
            out(&doctor)
        );
    });
    assert_eq!(verify(&node.data, &[]).status.code(), Some(0));
}

#[test]
fn first_segments_that_are_gone_are_told_of_and_fetched_from_peers() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, 8 << 20);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let index = cluster.follower("main");
    let node = &mut cluster.nodes[index];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    fs::remove_file(&node.segments(1)[0]).unwrap();
    let output = verify(&node.data, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", out(&output));
    let said = out(&output);
    assert!(
        said.contains("MISSING") && said.contains("not trimmed"),
        "{said}"
    );
    assert!(
        err(&output).contains("let the node run"),
        "{}",
        err(&output)
    );
    node.start();
    cluster.wait_whole();
    cluster.check_node(index, "main", &[content]);
}

#[test]
fn the_cut_tail_of_a_clean_stop_is_not_called_harmless() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 100_000));
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let newest = node.segments(1).pop().unwrap();
    let bytes = fs::read(&newest).unwrap();
    let written = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    let last = bytes.chunks(4096).rposition(written).unwrap();
    let file = File::options().write(true).open(&newest).unwrap();
    file.set_len((last as u64 - 2) * 4096).unwrap();
    let said = out(&verify(&node.data, &[]));
    assert!(said.contains("main has no such mark"), "{said}");
    assert!(!said.contains("no harm"), "{said}");
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

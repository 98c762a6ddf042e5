//! Backups of real clusters, and what comes of them when they are restored.

use crate::harness;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use harness::{Cluster, Content, LONG, ask, err, wait_for};
use serde_json::Value;

/// The streams of a log as `streams` lists them, in the order of opening.
fn streams(cluster: &Cluster, log: &str) -> Vec<Value> {
    let said = cluster.run_well(&["streams", log, "--json"]);
    serde_json::from_str(&said).expect("JSON")
}

/// The same, without what a restored log cannot have: names become places.
fn shape(streams: &[Value]) -> Vec<Value> {
    let place = |name: &Value| {
        let known = streams.iter().position(|stream| &stream["name"] == name);
        known.map_or(Value::Null, Into::into)
    };
    let shapes = streams.iter().map(|stream| {
        // The last one may be cut, or not be known to be yet.
        let end = match stream["end"].as_str() {
            Some("closed") => "closed",
            _ => "cut",
        };
        let continues = &stream["continues"];
        serde_json::json!({
            "label": stream["label"], "length": stream["length"], "trimmed": stream["trimmed"], "end": end,
            "continues": place(&continues["stream"]), "at": continues["at"],
        })
    });
    shapes.collect()
}

fn left(cluster: &Cluster, log: &str) -> Vec<u8> {
    let output = cluster.run(&["read", log, "--left"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    output.stdout
}

fn append(cluster: &Cluster, arguments: &[&str], content: Content) {
    let output =
        cluster.run_with_input(&[&["append", "main"], arguments].concat(), &content.bytes());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

/// A stream whose writer vanished, and the name of it.
fn append_and_vanish(cluster: &Cluster, bytes: &[u8]) -> String {
    let leader = cluster.nodes[cluster.leader("main")].listen.clone();
    let mut raw = harness::Raw::say(&leader, "logberg/1 append main label=cut\n");
    let line = raw.line();
    let name = line.split(' ').nth(1).expect("a name").trim().to_owned();
    raw.send(bytes);
    raw.wait_ack(bytes.len() as u64);
    name
}

/// A stream that goes on from another, and is closed.
fn go_on(cluster: &Cluster, place: &str, content: Content) {
    let leader = cluster.nodes[cluster.leader("main")].listen.clone();
    let line = format!("logberg/1 append main continues={place} end=fin mode=takeover\n");
    let mut raw = harness::Raw::say(&leader, &line);
    raw.send(&content.bytes());
    raw.half_close();
    let said = raw.rest_text();
    assert!(
        said.contains(&format!("closed {}", content.length)),
        "{said}"
    );
}

fn fails(output: &Output, code: i32, part: &str) {
    let said = err(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "{part:?} is not in: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Streams that are closed, cut, continued, empty and trimmed.
fn filled() -> Cluster {
    let cluster = Cluster::start(3);
    append(&cluster, &["--label", "first"], Content::new(1, 3_000_000));
    append(&cluster, &["--label", "näme"], Content::new(2, 1_500_000));
    let name = append_and_vanish(&cluster, b"cut off");
    let place = format!("{name}@7");
    go_on(&cluster, &place, Content::new(3, 10_000));
    append(&cluster, &[], Content::new(4, 0));
    append(&cluster, &[], Content::new(5, 70_000));
    cluster
}

#[test]
fn a_log_comes_back_in_another_cluster_as_it_was() {
    let cluster = filled();
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("main.lbb");
    let said = cluster.run_well(&["backup", "main", "--to", text(&file), "--json"]);
    let saved: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(saved["bytes"], 4_580_007, "{saved}");
    let said = cluster.run_well(&["backup", "verify", text(&file)]);
    assert!(said.contains("is sound") && said.contains("näme"), "{said}");
    let files = fs::read_dir(place.path()).expect("there").count();
    assert_eq!(files, 1, "nothing beside it");

    let other = Cluster::start(1);
    let said = other.run_well(&["restore", text(&file), "--log", "again", "--json"]);
    let restored: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(restored["bytes"], saved["bytes"], "{restored}");
    assert_eq!(
        shape(&streams(&other, "again")),
        shape(&streams(&cluster, "main"))
    );
    assert!(left(&other, "again") == left(&cluster, "main"));
    for key in ["chains_cut", "streams_split", "streams_shifted"] {
        assert_eq!(restored[key], 0, "{restored}");
    }
    // Each by its new name.
    for pair in restored["names"].as_array().expect("a list") {
        let of = |cluster: &Cluster, log: &str, name: &Value| {
            cluster
                .run(&["read", log, name.as_str().expect("a name")])
                .stdout
        };
        assert!(
            of(&cluster, "main", &pair["was"]) == of(&other, "again", &pair["is"]),
            "{pair}"
        );
    }
    fails(
        &other.run(&["restore", text(&file), "--log", "again"]),
        4,
        "exists",
    );
    fails(
        &cluster.run(&["backup", "main", "--to", text(&file)]),
        4,
        "exists already",
    );
    fails(&cluster.run(&["backup", "none", "--to", "x"]), 5, "no log");
    fails(
        &cluster.run(&["backup", "directory", "--to", "x"]),
        4,
        "log 0",
    );
    fails(
        &cluster.run(&["restore", "/nowhere", "--log", "x"]),
        5,
        "/nowhere",
    );
}

#[test]
fn each_part_adds_what_came_since_and_positions_survive_a_trim() {
    let cluster = Cluster::start(3);
    let place = tempfile::tempdir().expect("a place");
    let back_up = || -> Value {
        let said = cluster.run_well(&["backup", "main", "--to", text(place.path()), "--json"]);
        serde_json::from_str(&said).expect("JSON")
    };
    append(&cluster, &[], Content::new(1, 2_500_000));
    let name = append_and_vanish(&cluster, &[7; 1000]);
    assert_eq!(back_up()["bytes"], 2_501_000);
    let again = back_up();
    assert_eq!(
        (&again["bytes"], &again["nothing_new"]),
        (&0.into(), &true.into()),
        "{again}"
    );
    let place_of = format!("{name}@1000");
    go_on(&cluster, &place_of, Content::new(2, 200_000));
    let second = back_up();
    assert_eq!(
        (&second["part"], &second["bytes"]),
        (&2.into(), &200_000.into()),
        "{second}"
    );
    // Into the middle of the first stream's continuation: the first ones leave the table.
    cluster.run_well(&["trim", "main", "--before", &format!("{name}@400"), "--yes"]);
    append(&cluster, &[], Content::new(3, 50_000));
    let third = back_up();
    assert_eq!(
        (&third["part"], &third["bytes"]),
        (&3.into(), &50_000.into()),
        "{third}"
    );
    cluster.run_well(&["backup", "verify", text(place.path())]);

    let said = cluster.run_well(&["restore", text(place.path()), "--log", "kept", "--json"]);
    let kept: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(kept["filled_bytes"], 400, "{kept}");
    assert_eq!(
        shape(&streams(&cluster, "kept")),
        shape(&streams(&cluster, "main"))
    );
    assert!(left(&cluster, "kept") == left(&cluster, "main"));

    let arguments = [
        "restore",
        text(place.path()),
        "--log",
        "low",
        "--positions",
        "shift",
        "--json",
    ];
    let shifted: Value = serde_json::from_str(&cluster.run_well(&arguments)).expect("JSON");
    assert_eq!(
        (&shifted["filled_bytes"], &shifted["streams_shifted"]),
        (&0.into(), &1.into())
    );
    assert!(left(&cluster, "low") == left(&cluster, "main"));

    // Another log has no place there.
    cluster.run_well(&["log", "create", "other"]);
    let output = cluster.run(&["backup", "other", "--to", text(place.path())]);
    fails(&output, 4, "of another log");
    // And nothing is put upon what is damaged.
    fs::remove_file(place.path().join("part-000002.lbb")).expect("ours");
    append(&cluster, &[], Content::new(4, 10));
    fails(
        &cluster.run(&["backup", "main", "--to", text(place.path())]),
        6,
        "part-000002.lbb is missing",
    );
    fails(
        &cluster.run(&["restore", text(place.path()), "--log", "no"]),
        6,
        "missing",
    );
    let logs = cluster.run_well(&["log", "list"]);
    assert!(!logs.contains("no "), "nothing was made: {logs}");
}

#[test]
fn a_damaged_backup_is_never_restored() {
    let cluster = Cluster::start(1);
    append(&cluster, &[], Content::new(1, 2_000_000));
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("main.lbb");
    cluster.run_well(&["backup", "main", "--to", text(&file)]);
    let sound = fs::read(&file).expect("it is there");
    let damaged = place.path().join("damaged.lbb");
    let with = |bytes: &[u8]| fs::write(&damaged, bytes).expect("room");
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let end = sound.len();
    for (bytes, part) in [
        (flipped(25), "damaged at byte"),
        (flipped(1_000_000), "another checksum"),
        (flipped(end - 30), "damaged at byte"),
        (sound[..end / 2].to_vec(), "never finished"),
        (sound[..end - 1].to_vec(), "never finished"),
        ([&sound[..], b"x"].concat(), "behind its end"),
    ] {
        with(&bytes);
        fails(&cluster.run(&["backup", "verify", text(&damaged)]), 6, part);
        fails(
            &cluster.run(&["restore", text(&damaged), "--log", "no"]),
            6,
            part,
        );
    }
    // A log that is refused was not made, and nobody is sent to delete it.
    for more in [
        &["--log", "../no"][..],
        &["--log", "other", "--members", "1,99"],
    ] {
        let output = cluster.run(&[&["restore", text(&file)], more].concat());
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("may hold a part"), "{said}");
    }
    let mut newer = sound.clone();
    newer[8] = 9;
    with(&newer);
    let verify = ["backup", "verify", text(&damaged)];
    fails(&cluster.run(&verify), 6, "damaged at byte 0");
    // With the checksum that a newer program would write.
    let json = 20..20 + u32::from_le_bytes(newer[12..16].try_into().expect("four")) as usize;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&newer[..16]), &newer[json]);
    newer[16..20].copy_from_slice(&checksum.to_le_bytes());
    with(&newer);
    fails(&cluster.run(&verify), 4, "newer program");
    with(b"something else altogether");
    fails(&cluster.run(&verify), 6, "does not begin as a backup does");
    let other = damaged.with_extension("txt");
    fs::write(&other, "something else altogether").expect("room");
    let verify = ["backup", "verify", text(&other)];
    fails(&cluster.run(&verify), 5, "no backup");
    let logs = cluster.run_well(&["log", "list"]);
    assert!(!logs.contains("no "), "nothing was made: {logs}");
}

/// The file that a backup writes before it has its name.
fn unfinished(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).expect("there");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.find(|path| path.extension().is_some_and(|e| e == "unfinished"))?;
    (fs::metadata(&found).ok()?.len() > 0).then_some(found)
}

#[test]
fn what_is_killed_midway_leaves_nothing_that_passes_for_a_backup() {
    let cluster = Cluster::start(1);
    let content = Content::new(1, 60_000_000);
    cluster.append("main", &[], content);
    let place = tempfile::tempdir().expect("a place");
    let node = &cluster.nodes[0];
    let mut attempt = 0;
    let left = loop {
        attempt += 1;
        assert!(attempt < 50, "it is always faster than this test");
        let file = place.path().join(format!("{attempt}.lbb"));
        let mut command = cluster.logberg(&["backup", "main", "--to", text(&file)]);
        let mut child = command.spawn().expect("the binary runs");
        let begun = std::time::Instant::now();
        while unfinished(place.path()).is_none() && begun.elapsed() < LONG {
            if child.try_wait().expect("ours").is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It waits for bytes that do not come, and dies.
        node.signal("-STOP");
        std::thread::sleep(Duration::from_millis(50));
        child.kill().expect("ours");
        child.wait().expect("ours");
        node.signal("-CONT");
        if let Some(left) = unfinished(place.path()).filter(|_| !file.exists()) {
            break left;
        }
    };
    // Even under a name that looks like one.
    let disguised = place.path().join("disguised.lbb");
    fs::rename(left, &disguised).expect("ours");
    wait_for(|| ask(&node.listen, "status"), || cluster.logs());
    fails(
        &cluster.run(&["backup", "verify", text(&disguised)]),
        6,
        "never finished",
    );
    fails(
        &cluster.run(&["restore", text(&disguised), "--log", "no"]),
        6,
        "never finished",
    );
    // The next attempt is not in its way.
    let file = place.path().join("whole.lbb");
    cluster.run_well(&["backup", "main", "--to", text(&file)]);
    cluster.run_well(&["restore", text(&file), "--log", "whole"]);
    let mut command = cluster.logberg(&["read", "whole"]);
    let mut child = command.spawn().expect("the binary runs");
    let mut pipe = child.stdout.take().expect("piped");
    assert_eq!(content.compare(&mut pipe), Ok(()));
    assert_eq!(pipe.read(&mut [0; 1]).expect("a pipe"), 0);
    assert!(child.wait().expect("ours").success());
}

/// The log of a machine that no node has: there are no rows to be saved, and nobody who would take some.
#[test]
fn rows_are_asked_of_nodes_that_have_the_machine() {
    let cluster = Cluster::start(1);
    cluster.run_well(&["log", "create", "bank", "--kind", "state"]);
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("bank.lbb");
    let saved = cluster.run(&["backup", "bank", "--to", text(&file)]);
    fails(&saved, 4, "has no machine for this log");
    assert_eq!(unfinished(place.path()), None);
    assert!(!file.exists());
}

/// By way of a pipe, and all at once.
#[test]
fn a_backup_goes_through_pipes_and_all_logs_are_saved_at_once() {
    let cluster = Cluster::start(1);
    cluster.run_well(&["log", "create", "other"]);
    let content = Content::new(7, 3 << 20);
    cluster.append("main", &[], content);
    cluster.append("other", &[], Content::new(8, 1 << 10));

    let poured = cluster.run(&["backup", "main", "--to", "-"]);
    assert!(poured.status.success(), "{}", err(&poured));
    let restored = cluster.run_with_input(&["restore", "-", "--log", "again"], &poured.stdout);
    assert!(restored.status.success(), "{}", err(&restored));
    let read = cluster.run(&["read", "again"]).stdout;
    assert_eq!(content.compare(&mut &read[..]), Ok(()));
    // A stream that was cut on the way is no backup, and makes no log.
    let cut = &poured.stdout[..poured.stdout.len() - 1];
    let refused = cluster.run_with_input(&["restore", "-", "--log", "cut"], cut);
    assert_eq!(refused.status.code(), Some(6), "{}", err(&refused));
    assert_eq!(cluster.run(&["log", "show", "cut"]).status.code(), Some(5));

    let place = tempfile::tempdir().expect("room");
    let to = place.path().to_str().expect("plain");
    let saved = cluster.run_well(&["backup", "--all", "--to", to, "--json"]);
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved.as_array().map(Vec::len), Some(3), "{saved}");
    for log in ["main", "other", "again"] {
        let path = place.path().join(log);
        cluster.run_well(&["backup", "verify", path.to_str().expect("plain")]);
    }
    let again = cluster.run_well(&["backup", "--all", "--to", to]);
    assert_eq!(again.matches("nothing has come").count(), 3, "{again}");
    let one_file = cluster.run(&["backup", "--all", "--to", "-"]);
    assert_eq!(one_file.status.code(), Some(2), "{}", err(&one_file));
}

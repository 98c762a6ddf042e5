//! The scrubber on real disks.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use formats::record::{RECORD_HEADER, RecordHeader};
use harness::{Cluster, Content, LONG, err, out, wait_for};
use ops::BLOCK;
use serde_json::Value;

use crate::harness;

/// Flips one bit where a file of records is full of content.
fn flip(segment: &Path) {
    let file = File::options().read(true).write(true).open(segment);
    let file = file.expect("a segment");
    let middle = file.metadata().expect("a length").len() / 2;
    let mut byte = [0; 1];
    file.read_exact_at(&mut byte, middle).expect("it is there");
    file.write_all_at(&[byte[0] ^ 0x10], middle).expect("room");
}

/// The place in a segment of this byte of its only stream.
fn place_of(segment: &[u8], position: u64) -> usize {
    let blocks = segment.chunks(BLOCK).enumerate();
    let mut place = blocks.filter_map(|(at, block)| {
        let (header, _, _) = RecordHeader::decode(block, None).ok()?;
        let held = header.bytes().filter(|held| held.contains(&position))?;
        Some(at * BLOCK + RECORD_HEADER + (position - held.start) as usize)
    });
    place.next_back().expect("a record of it")
}

/// The outcome of a scrub of main.
fn scrub(cluster: &Cluster) -> (Value, Option<i32>) {
    scrub_of(cluster, "main")
}

fn scrub_of(cluster: &Cluster, log: &str) -> (Value, Option<i32>) {
    let arguments = ["scrub", "--log", log, "--wait", "--json", "--timeout", "60"];
    let output = cluster.run(&arguments);
    let report: Value = serde_json::from_str(&out(&output))
        .unwrap_or_else(|_| panic!("{}\n{}", err(&output), cluster.logs()));
    (report["scrubs"][0]["last"].clone(), output.status.code())
}

#[test]
fn a_byte_that_rots_on_a_disk_is_found_by_a_scrub_before_anybody_reads_it() {
    let cluster = Cluster::start(3);
    let content = Content::new(1, 24_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let (last, code) = scrub(&cluster);
    assert_eq!((&last["damaged"], code), (&0.into(), Some(0)), "{last}");
    assert_eq!(last["compared_bytes"], 24_000_000, "{last}");
    // A follower's disk first, then the leader's.
    for index in [cluster.follower("main"), cluster.leader("main")] {
        let segments = cluster.nodes[index].segments(1);
        assert!(segments.len() > 3, "{segments:?}");
        flip(&segments[2]);
        let (last, code) = scrub(&cluster);
        assert_eq!(last["damaged"], 1, "{last}\n{}", cluster.logs());
        assert_eq!(last["repaired"], 1, "{last}\n{}", cluster.logs());
        assert_eq!(last["different"], 0, "{last}");
        assert_eq!(code, Some(0));
        wait_for(
            || {
                cluster.nodes[index]
                    .said()
                    .contains("whole again")
                    .then_some(())
            },
            || cluster.logs(),
        );
        cluster.check_node(index, "main", &[content]);
    }
    let (last, _) = scrub(&cluster);
    assert_eq!(last["damaged"], 0, "{last}");
}

/// Nobody can fill what nobody holds, and no command may end as if all were well.
#[test]
fn a_record_that_has_rotted_on_every_disk_is_told_as_lost() {
    let cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 6_000_000));
    cluster.wait_whole();
    // At the same byte of the stream on each.
    for node in &cluster.nodes {
        let path = &node.segments(1)[0];
        let bytes = std::fs::read(path).expect("a segment");
        let record = place_of(&bytes, 100_000);
        let file = File::options().write(true).open(path).expect("a segment");
        let byte = bytes[record] ^ 0x10;
        file.write_all_at(&[byte], record as u64).expect("room");
    }
    let (last, code) = scrub(&cluster);
    assert!(
        last["lost_bytes"].as_u64() > Some(0),
        "{last}\n{}",
        cluster.logs()
    );
    assert_eq!(code, Some(9), "{last}");
    // Also when nothing is found damaged any more.
    let (last, code) = scrub(&cluster);
    assert_eq!(last["damaged"], 0, "{last}");
    assert_eq!(code, Some(9), "{last}");
    wait_for(
        || {
            let output = cluster.run(&["status"]);
            let said = out(&output);
            (said.contains("bytes-lost") && output.status.code() == Some(8)).then_some(())
        },
        || out(&cluster.run(&["status"])),
    );
}

#[test]
fn the_rate_of_scrubs_is_a_setting_and_one_that_is_asked_for_is_done_at_any() {
    let settings = |rate: &str| {
        let mut command =
            harness::logberg("x:1", &["node", "--data", "/nowhere", "--print-config"]);
        let output = command.args(["--scrub-rate", rate]).output();
        out(&output.expect("the binary runs"))
    };
    assert!(
        settings("0").contains("scrub-rate = 0"),
        "{}",
        settings("0")
    );
    assert!(settings("3M").contains("scrub-rate = 3000000"));
    // A scrub that somebody asks for is done all the same.
    let cluster = Cluster::start_with(1, 1, |node| {
        let more = ["--scrub-rate".to_owned(), "0".to_owned()];
        node.arguments.extend(more);
    });
    cluster.wait_whole();
    cluster.append("main", &[], Content::new(1, 3_000_000));
    let (last, code) = scrub(&cluster);
    assert_eq!(last["bytes"], 3_000_000, "{last}");
    assert_eq!(last["compared_bytes"], 0, "with whom? {last}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_scrub_of_no_log_says_so() {
    let cluster = Cluster::start(1);
    let output = cluster.run(&["scrub", "--log", "none"]);
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    let said = cluster.run_well(&["scrub"]);
    assert!(said.contains("main"), "{said}");
}

fn verified(node: &harness::Node) -> (Option<i32>, String) {
    let directory = node.data.to_str().expect("plain");
    let output = cluster_free(&["verify", directory]);
    (output.status.code(), out(&output) + &err(&output))
}

fn cluster_free(arguments: &[&str]) -> std::process::Output {
    let output = harness::logberg("127.0.0.1:1", arguments).output();
    output.expect("the program runs")
}

fn rot(segment: &Path, at: usize) {
    let file = File::options().read(true).write(true).open(segment);
    let file = file.expect("a segment");
    let mut bytes = [0; 64];
    file.read_exact_at(&mut bytes, at as u64).expect("there");
    file.write_all_at(&bytes.map(|byte| !byte), at as u64)
        .expect("room");
}

/// No reader ever comes by a checkpoint, a first block, or a record without bytes. Two nodes of three with a rotten checkpoint each
/// would not start again, and nothing would have said so before.
#[test]
fn rot_where_no_bytes_stand_costs_no_node_its_next_start() {
    let mut cluster = Cluster::start(3);
    let mut contents = Vec::new();
    for seed in 1..=3 {
        let content = Content::new(seed, 50_000);
        cluster.append("main", &[], content);
        contents.push(content);
    }
    cluster.wait_whole();
    let places = [(0, 0, BLOCK + 100), (1, 0, BLOCK + 100), (2, 1, 100)];
    for (index, log, at) in places {
        rot(&cluster.nodes[index].segments(log)[0], at);
    }
    wait_for(
        || {
            let output = cluster.run(&["scrub", "--wait", "--timeout", "60"]);
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            let found = |node: &harness::Node| node.said().contains("has rotted");
            cluster.nodes.iter().all(found).then_some(())
        },
        || cluster.logs(),
    );
    // A record without bytes: the next start fetches what it said.
    rot(&cluster.nodes[2].segments(0)[0], 2 * BLOCK + 100);
    for node in &mut cluster.nodes {
        node.signal("-TERM");
        assert_eq!(node.wait(), Some(0), "{}", node.said());
    }
    for index in [0, 1] {
        let (code, said) = verified(&cluster.nodes[index]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("later records hold"), "{said}");
    }
    for _ in 0..2 {
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.wait_whole();
        cluster.check_same("main", &contents);
        for node in &mut cluster.nodes {
            node.signal("-TERM");
            assert_eq!(node.wait(), Some(0), "{}", node.said());
        }
    }
    for node in &cluster.nodes {
        let (code, said) = verified(node);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn the_log_of_a_group_of_keys_is_scrubbed_and_repaired() {
    let door_of = |listen: &str| listen.replace(":700", ":850");
    let cluster = Cluster::start_with(3, 3, |node| {
        let door = door_of(&node.listen);
        node.arguments.extend(["--kv".to_owned(), door]);
    });
    cluster.run_well(&["kv", "init", "--groups", "1"]);
    let leader = cluster.leader("kv-1-of-1");
    let mut client =
        std::net::TcpStream::connect(door_of(&cluster.nodes[leader].listen)).expect("a door");
    client.set_read_timeout(Some(LONG)).expect("a socket");
    let value = "v".repeat(1 << 20);
    for number in 0..24 {
        let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nkey{number:02}\r\n$1048576\r\n{value}\r\n");
        client.write_all(set.as_bytes()).expect("it listens");
        let mut reply = [0; 5];
        client.read_exact(&mut reply).expect("it answers");
        assert_eq!(&reply, b"+OK\r\n");
    }
    let (last, code) = scrub_of(&cluster, "kv-1-of-1");
    assert_eq!((&last["damaged"], code), (&0.into(), Some(0)), "{last}");
    let compared = last["compared_bytes"].as_u64().expect("a count");
    assert!(compared > 24 << 20, "{last}");
    let status = cluster.nodes[leader].status().expect("it answers");
    let logs = status["logs"].as_array().expect("logs").iter();
    let mut ids = logs.filter(|log| log["name"] == "kv-1-of-1");
    let id = ids
        .next()
        .and_then(|log| log["id"].as_u64())
        .expect("it is there");
    let index = cluster.follower("kv-1-of-1");
    let segments = cluster.nodes[index].segments(u32::try_from(id).expect("a small one"));
    assert!(segments.len() > 2, "{segments:?}");
    flip(&segments[1]);
    let (last, code) = scrub_of(&cluster, "kv-1-of-1");
    assert_eq!(last["damaged"], 1, "{last}\n{}", cluster.logs());
    assert_eq!((&last["repaired"], code), (&1.into(), Some(0)), "{last}");
    let (last, _) = scrub_of(&cluster, "kv-1-of-1");
    assert_eq!(last["damaged"], 0, "{last}");
}

//! Clients that send single bytes, each on its own, and what the cluster makes of them.

use std::time::Duration;

use formats::RECORD_HEADER;
use formats::record::{RecordHeader, RecordKind};
use ops::BLOCK;

use crate::stage::{MS, Stage};

/// The number of batches of content on a node's disk, and of bytes in them.
fn batches(stage: &Stage, index: usize) -> (u64, u64) {
    let disk = stage.world.disk(stage.nodes[index]);
    let (mut batches, mut bytes) = (0, 0);
    for (path, _) in disk.files() {
        let Some(contents) = disk.contents(&path) else {
            continue;
        };
        if path.extension().is_none_or(|extension| extension != "seg") {
            continue;
        }
        let mut at = BLOCK;
        while let Some(header) = contents.get(at..at + RECORD_HEADER) {
            let Ok((record, ..)) = RecordHeader::decode(header, None) else {
                break;
            };
            at += record.total_length();
            if record.kind == RecordKind::Accept && record.bytes().is_some() {
                batches += 1;
                bytes += u64::from(record.payload_length);
            }
        }
    }
    (batches, bytes)
}

#[test]
fn single_bytes_that_come_while_a_write_is_in_flight_become_one_batch() {
    const BYTES: u64 = 2_000;
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 1);
        stage.pass(200 * MS);
        let before: Vec<_> = (0..3).map(|index| batches(&stage, index)).collect();
        for host in stage.nodes.clone() {
            stage.world.disk_mut(host).faults.slow_factor = 100;
        }
        let began = stage.world.now();
        for _ in 0..BYTES {
            caller.say(&mut stage.world, 1);
            stage.pass(Duration::from_micros(10));
        }
        stage.wait("the acknowledgement", |_| caller.has_all());
        let took_ms = (stage.world.now() - began).as_millis();
        stage.pass(500 * MS);
        for (index, before) in before.into_iter().enumerate() {
            let after = batches(&stage, index);
            assert_eq!(after.1 - before.1, BYTES, "node {index}");
            let made = after.0 - before.0;
            println!("seed {seed} node {index}: {made} batches in {took_ms} ms");
            // The first byte goes alone; after that it is one batch for each write of the disk.
            assert!((2..=20).contains(&made), "{made} batches on node {index}");
        }
        let acks = caller
            .text()
            .lines()
            .filter(|line| line.starts_with("ack "))
            .count();
        assert!(acks < 25, "{acks} acks");
    }
}

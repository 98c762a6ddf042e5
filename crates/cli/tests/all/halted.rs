//! Log 0 holds bytes that are no command. Every checksum of disk and network is right: a program was
//! wrong when it wrote them, or a machine's memory.

use crate::harness;

use std::fs;
use std::path::Path;

use formats::record::{RecordHeader, RecordKind, ValueKind};
use formats::segment::SegmentHeader;
use formats::version::Speaks;
use formats::{RECORD_HEADER, digest};
use harness::{Cluster, Content, wait_for};
use ops::BLOCK;

/// Flips a bit of the last command that stands in a segment, and makes all checksums right.
fn spoil_last_command(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    let salt = SegmentHeader::decode(Speaks::ALL, &bytes[..BLOCK])
        .unwrap()
        .salt;
    let mut records = Vec::new();
    let mut at = BLOCK;
    while let Ok((header, _, _)) = RecordHeader::decode(&bytes[at..], Some(salt)) {
        records.push((at, header));
        at += header.total_length();
    }
    let has_commands = |header: &RecordHeader| {
        header.kind == RecordKind::Accept
            && header.value == ValueKind::Content
            && header.payload_length > 0
    };
    let last = records.iter().rposition(|(_, header)| has_commands(header));
    let mut chain = None;
    for (at, mut header) in records.split_off(last.expect("it holds commands")) {
        let payload = at + RECORD_HEADER..at + RECORD_HEADER + header.payload_length as usize;
        match chain {
            None => {
                bytes[payload.end - 1] ^= 1;
                header.digest = digest(&bytes[payload]);
            }
            Some(checksum) => header.chain = checksum,
        }
        chain = Some(header.encode(salt, &mut bytes[at..]));
    }
    fs::write(segment, bytes).unwrap();
}

#[test]
fn a_node_that_finds_no_command_in_its_directory_says_so_where_and_goes_on() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 1 << 20));
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    let segments = node.segments(0);
    spoil_last_command(segments.last().unwrap());
    node.start();
    let node = &cluster.nodes[0];
    let warning = wait_for(
        || {
            let status = node.status()?;
            let warnings = status["health"]["warnings"].as_array()?.clone();
            warnings
                .into_iter()
                .find(|warning| warning["code"] == "commands-halted")
        },
        || node.said(),
    );
    assert_eq!(warning["log"], "directory", "{warning}");
    let sentence = warning["sentence"].as_str().unwrap();
    let damage = "what the log holds is damaged: the stream is broken at byte ";
    assert!(sentence.contains(damage), "{sentence}");
    assert!(
        sentence.ends_with("the checksum of the frame there is wrong"),
        "{sentence}"
    );
    assert!(
        node.said().contains("follows the directory no more"),
        "{}",
        node.said()
    );
    cluster.append("main", &[], Content::new(2, 1 << 20));
}

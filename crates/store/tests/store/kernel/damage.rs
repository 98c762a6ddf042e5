//! Logs whose disk is then damaged, and what must hold of the rest.

use std::path::PathBuf;

use ops::Time;
use paxos::StreamPosition;
use store::{ReadFailure, Store};

use super::script::{Recovery, Truth, config, first_checkpoint, read, settle};
use super::{Kernel, MemoryDisk, Random};

/// A log of several segments, all of it acknowledged, cleanly closed.
pub fn log(seed: u64, records: usize) -> (MemoryDisk, Truth) {
    let mut random = Random(seed);
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    let mut kernel = Kernel::new(disk);
    let mut truth = Truth::default();
    let mut store = Store::create(config(seed, 1), &first_checkpoint());
    for _ in 0..records {
        if store.wants_roll() {
            store.roll(&truth.checkpoint(), truth.context());
        }
        truth.append(&mut store, &mut random);
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    truth.watch(&mut store);
    assert_eq!(truth.durable_tag, records as u64);
    (kernel.disk, truth)
}

pub fn segments(disk: &MemoryDisk) -> Vec<PathBuf> {
    disk.files.keys().cloned().collect()
}

/// Checks that nothing is made up, and nothing that is gone goes unmentioned, whatever happened to the disk.
pub fn check_damaged(recovery: &Recovery, truth: &Truth) {
    let (store, report, recovered) = recovery;
    for run in &recovered.accepted {
        assert!(truth.accepted.contains(run), "an acceptance is made up");
    }
    let gone = truth
        .accepted
        .iter()
        .filter(|run| !recovered.accepted.contains(run));
    let gone_up_to = gone.map(|run| run.slots.end).max();
    if let Some(gone_up_to) = gone_up_to {
        assert!(recovered.gap, "an acceptance is gone without a word");
        assert_ne!(report.corruptions, []);
        assert!(report.learn_past >= Some(gone_up_to));
        assert_eq!(store.learn_past(), report.learn_past);
    }
    assert_eq!(report.promised, truth.promised);
}

/// Reads all bytes ever acknowledged; returns how many are gone.
pub fn read_all(store: &mut Store, disk: &MemoryDisk, truth: &Truth) -> u64 {
    let mut kernel = Kernel::new(disk.clone());
    let mut gone = 0;
    for (stream, range) in &truth.bytes {
        let mut at = range.start;
        while at < range.end {
            match read(store, &mut kernel, *stream, at) {
                Ok(count) => at += count,
                Err(ReadFailure::NotHeld | ReadFailure::Corrupt { .. }) => {
                    let rest = StreamPosition(at)..StreamPosition(range.end);
                    let hole = store.holdings().missing(*stream, rest).next();
                    let end = hole.expect("what cannot be read is not held").end.0;
                    gone += end - at;
                    at = end;
                }
                Err(ReadFailure::Io(error)) => panic!("{error}"),
            }
        }
    }
    gone
}

//! A start costs what changed, and not what ever was.

use std::path::PathBuf;

use ops::Time;

use crate::kernel::script::{Truth, config, new_store, recover, settle};
use crate::kernel::{MemoryDisk, Random};

fn segment(number: u64) -> PathBuf {
    config(0, 1)
        .directory
        .join(formats::segment::file_name(number))
}

/// A log of so many segments, at rest.
fn of_segments(count: u64) -> (MemoryDisk, Truth) {
    let (mut store, mut kernel) = new_store(1);
    let mut truth = Truth::default();
    let mut random = Random(7);
    settle(&mut store, &mut kernel, Time(0));
    for _ in 1..count {
        truth.append(&mut store, &mut random);
        store.roll(&truth.checkpoint(), truth.context());
        settle(&mut store, &mut kernel, Time(0));
    }
    (kernel.disk, truth)
}

/// The files that a start makes durable, refused or not.
fn settled(mut disk: MemoryDisk) -> Vec<PathBuf> {
    disk.settled.clear();
    let _ = recover(&mut disk, 2);
    assert_eq!(disk.settled.remove(0), config(0, 1).directory);
    disk.settled
}

#[test]
fn a_start_settles_the_newest_segment_and_none_before() {
    for count in [1, 2, 9] {
        let (disk, _) = of_segments(count);
        assert_eq!(settled(disk), [segment(count)]);
    }
}

#[test]
fn a_start_settles_all_from_the_newest_segment_that_was_begun() {
    let (disk, _) = of_segments(4);
    // The next file was made, and nothing was written to it.
    let mut made = disk.clone();
    made.files.insert(segment(5), vec![0; 8192]);
    assert_eq!(settled(made), [segment(5), segment(4)]);
    // A spare was taken, and nothing of its new use was written.
    let mut taken = disk.clone();
    let used = taken.files[&segment(1)].clone();
    taken.files.insert(segment(5), used);
    assert_eq!(settled(taken), [segment(5), segment(4)]);
    // The first block has rotted, or is not given: nobody knows that the segment was begun.
    let mut rotten = disk.clone();
    rotten.files.get_mut(&segment(4)).unwrap()[20] ^= 1;
    assert_eq!(settled(rotten), [segment(4), segment(3)]);
    let mut refused = disk;
    refused.unreadable.insert((segment(4), 0));
    assert_eq!(settled(refused), [segment(4), segment(3)]);
}

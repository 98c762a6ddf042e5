//! A start costs what changed, and not the whole past.

use std::path::PathBuf;

use formats::segment::spare_name;
use formats::version;
use ops::{BLOCK, Time};
use paxos::{PromisedTerm, Slot};
use store::{NewRecord, RecordContext, Store, StoreConfig};

use crate::kernel::script::{
    Truth, config, first_checkpoint, new_disk, new_store, recover, settle,
};
use crate::kernel::{Kernel, LateWrite, MemoryDisk, Random};

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
    settle(&mut store, &mut kernel, Time::ZERO);
    for _ in 1..count {
        truth.append(&mut store, &mut random);
        store.roll(&truth.checkpoint(), truth.context());
        settle(&mut store, &mut kernel, Time::ZERO);
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

/// With room for a few records before the next file is made.
fn roomy(salt_seed: u64) -> StoreConfig {
    StoreConfig {
        segment_bytes_first: 1 << 20,
        segment_bytes_max: 1 << 20,
        ..config(salt_seed, 1)
    }
}

fn new_roomy() -> (Store, Kernel) {
    let store = Store::create(roomy(1), &first_checkpoint());
    (store, Kernel::new(new_disk()))
}

/// Nothing is written for a while. Each time begins later than the one before.
fn rest(store: &mut Store, kernel: &mut Kernel, nth: u32) {
    for time in [1, 2] {
        let now = Time::from_micros(u64::from(nth) * 1_000_000 + time * 100_000);
        settle(store, kernel, now);
        store.on_time(now);
        settle(store, kernel, now);
    }
}

/// A promise, and its word of the slots.
fn promise(store: &mut Store, number: u32, first_unchosen: u64) {
    let mut promised = PromisedTerm::default();
    promised.0.number = number;
    let mut checkpoint = first_checkpoint();
    checkpoint.promised = promised;
    let context = RecordContext {
        promised,
        first_unchosen: Slot(first_unchosen),
    };
    store.append(NewRecord::Promise(checkpoint), context, number.into());
}

/// A log of one segment that rested behind its first promise.
fn at_rest() -> MemoryDisk {
    let (mut store, mut kernel) = new_roomy();
    promise(&mut store, 1, 0);
    rest(&mut store, &mut kernel, 1);
    kernel.disk
}

/// Starts, and tells whether the start went on in the last segment.
fn start_as(config: StoreConfig, disk: &mut MemoryDisk, first_unchosen: u64) -> (Store, bool) {
    let (mut store, report) = Store::recover(config, disk, &mut |_| {}).unwrap();
    let mut checkpoint = first_checkpoint();
    checkpoint.promised = report.promised;
    let context = RecordContext {
        promised: report.promised,
        first_unchosen: Slot(first_unchosen),
    };
    let found = store.last_number();
    store.go_on(&checkpoint, context);
    let goes_on = store.last_number() == found;
    (store, goes_on)
}

fn start(disk: &mut MemoryDisk) -> (Store, bool) {
    start_as(roomy(2), disk, 0)
}

fn goes_on(mut disk: MemoryDisk) -> bool {
    start(&mut disk).1
}

#[test]
fn a_log_that_rested_goes_on_as_if_its_process_had_never_ended() {
    // The bytes are the same for one process, and for one start for each promise, killed or stopped.
    let (mut store, mut kernel) = new_roomy();
    let mut disk = at_rest();
    for number in 1..=3 {
        promise(&mut store, number, 0);
        rest(&mut store, &mut kernel, number);
        if number == 1 {
            continue;
        }
        // A start that finds nothing to do leaves no trace.
        for _ in 0..2 {
            let before = disk.clone();
            let (mut idle, goes_on) = start(&mut disk);
            assert!(goes_on);
            let mut kernel = Kernel::new(disk);
            rest(&mut idle, &mut kernel, number);
            idle.close();
            while !idle.is_closed() {
                settle(&mut idle, &mut kernel, Time::ZERO);
            }
            disk = kernel.disk;
            assert!(disk.files == before.files, "a start wrote something");
        }
        let (mut again, goes_on) = start(&mut disk);
        assert!(goes_on);
        let mut kernel = Kernel::new(disk);
        promise(&mut again, number, 0);
        rest(&mut again, &mut kernel, number);
        disk = kernel.disk;
    }
    assert!(
        disk.files == kernel.disk.files,
        "other bytes than those of one process"
    );
}

#[test]
fn a_log_goes_on_in_its_last_segment_only_if_it_rested_there() {
    let rested = at_rest();
    assert!(goes_on(rested.clone()));
    let first = segment(1);
    let mut zeros = rested.clone();
    zeros.files.get_mut(&first).unwrap().extend([0; 4 * BLOCK]);
    assert!(goes_on(zeros));

    let (mut store, mut kernel) = new_roomy();
    promise(&mut store, 1, 0);
    settle(&mut store, &mut kernel, Time::ZERO);
    assert!(!goes_on(kernel.disk), "no idle record came");

    let end = rested.files[&first].iter().rposition(|byte| *byte != 0);
    let end = end.unwrap().next_multiple_of(BLOCK);
    for behind in [0, BLOCK, 3 * BLOCK] {
        let mut torn = rested.clone();
        let contents = torn.files.get_mut(&first).unwrap();
        contents.resize(contents.len().max(end + 4 * BLOCK), 0);
        contents[end + behind + 100] = 1;
        assert!(
            !goes_on(torn),
            "something stands {behind} bytes behind the end"
        );
    }

    let mut rotten = rested.clone();
    rotten.files.get_mut(&first).unwrap()[2 * BLOCK + 100] ^= 1;
    assert!(!goes_on(rotten), "the promise is lost");

    let mut made = rested.clone();
    made.files.insert(segment(2), Vec::new());
    assert!(!goes_on(made), "the next file was made");

    let mut late = rested.clone();
    late.late.push(LateWrite {
        path: first.clone(),
        offset: end as u64,
        bytes: vec![1; BLOCK],
    });
    assert!(!goes_on(late), "a write can still come");

    let newer = StoreConfig {
        version: version::FIRST + 1,
        ..roomy(2)
    };
    assert!(
        !start_as(newer, &mut rested.clone(), 0).1,
        "another version is due"
    );

    let small = StoreConfig {
        segment_bytes_first: end as u64,
        ..roomy(2)
    };
    assert!(!start_as(small, &mut rested.clone(), 0).1, "it is full");
}

#[test]
fn a_log_in_which_something_was_chosen_begins_a_segment_that_says_when() {
    let (mut store, mut kernel) = new_roomy();
    promise(&mut store, 1, 5);
    rest(&mut store, &mut kernel, 1);
    let mut disk = kernel.disk;
    let (mut store, goes_on) = start_as(roomy(2), &mut disk, 5);
    assert!(!goes_on);
    let mut kernel = Kernel::new(disk);
    rest(&mut store, &mut kernel, 1);
    let (store, goes_on) = start_as(roomy(3), &mut kernel.disk, 5);
    assert!(goes_on, "it is said now");
    let births: Vec<_> = store.births().iter().map(|b| b.first_unchosen).collect();
    assert_eq!(births, [Slot(0), Slot(5)]);
}

#[test]
fn a_log_does_not_go_on_in_a_file_that_was_another_segments() {
    let mut disk = at_rest();
    let spare = config(0, 1).directory.join(spare_name(1));
    disk.files.insert(spare, vec![0; 1 << 20]);
    let (mut store, _) = Store::recover(roomy(2), &mut disk, &mut |_| {}).unwrap();
    let mut checkpoint = first_checkpoint();
    checkpoint.promised.0.number = 1;
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: Slot(0),
    };
    store.roll(&checkpoint, context);
    let mut kernel = Kernel::new(disk);
    rest(&mut store, &mut kernel, 1);
    assert_eq!(store.files_reused(), 1);
    assert!(!goes_on(kernel.disk));
}

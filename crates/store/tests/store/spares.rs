//! Files of trimmed segments become those of new ones: at every step of that a crash leaves a
//! directory that starts, and no record of an earlier use is ever taken for one of this.

use std::path::PathBuf;

use formats::record::{RecordHeader, RecordKind, ValueKind};
use ops::{BLOCK, Time};
use paxos::{Slot, SlotRange, StreamName, StreamPosition};
use store::{RecordContext, Store};

use crate::kernel::script::{Truth, new_store, read, recover, settle, stream};
use crate::kernel::{Kernel, MemoryDisk, Random};

/// All bytes of the first stream below `at`, and all of the others.
fn below(at: u64) -> impl Fn(StreamName) -> StreamPosition {
    move |stream| match stream.sequence.counter {
        1 => StreamPosition(at),
        _ => StreamPosition(u64::MAX),
    }
}

/// Appends until the store has rolled `rolls` times, trimming all but the newest bytes.
fn fill(
    store: &mut Store,
    kernel: &mut Kernel,
    truth: &mut Truth,
    random: &mut Random,
    rolls: u64,
) {
    fill_between_trims(store, kernel, truth, random, rolls, 1);
}

/// As `fill`, with a trim after every so many rolls.
fn fill_between_trims(
    store: &mut Store,
    kernel: &mut Kernel,
    truth: &mut Truth,
    random: &mut Random,
    rolls: u64,
    every: u64,
) {
    let mut rolled = 0;
    while rolled < rolls {
        if store.wants_roll() {
            store.roll(&truth.checkpoint(), truth.context());
            rolled += 1;
        }
        truth.append(store, random);
        settle(store, kernel, Time::ZERO);
        truth.watch(store);
        if rolled % every == 0 {
            store.trim(Slot(0), &below(truth.length.saturating_sub(1000)));
        }
    }
    settle(store, kernel, Time::ZERO);
    truth.watch(store);
}

fn files(disk: &MemoryDisk, extension: &str) -> Vec<PathBuf> {
    let of_kind = |path: &&PathBuf| path.extension().is_some_and(|e| e == extension);
    disk.files.keys().filter(of_kind).cloned().collect()
}

#[test]
fn a_log_that_is_trimmed_as_it_grows_writes_the_same_files_again() {
    let (mut store, mut kernel) = new_store(3);
    let mut truth = Truth::default();
    fill(&mut store, &mut kernel, &mut truth, &mut Random(3), 30);
    assert!(kernel.reused > 20, "{} files were reused", kernel.reused);
    assert!(files(&kernel.disk, "free").len() <= 2);
    assert!(files(&kernel.disk, "seg").len() <= 3);
    let held: Vec<_> = store.holdings().iter().collect();
    assert!(!held.is_empty());
    for (stream, range) in held {
        let mut at = range.start.0;
        while at < range.end.0 {
            at += read(&mut store, &mut kernel, stream, at).unwrap();
        }
    }
}

#[test]
fn as_many_files_wait_as_segments_begin_from_one_trim_to_the_next() {
    let (mut store, mut kernel) = new_store(3);
    let (mut truth, mut random) = (Truth::default(), Random(3));
    let mut fill = |rolls, every| {
        let before = kernel.reused;
        let (store, kernel) = (&mut store, &mut kernel);
        fill_between_trims(store, kernel, &mut truth, &mut random, rolls, every);
        (kernel.reused - before, files(&kernel.disk, "free").len())
    };
    fill(16, 4);
    let (reused, _) = fill(20, 4);
    assert_eq!(reused, 20, "no file had to grow");
    let (_, waiting) = fill(12, 1);
    assert!(
        waiting <= 2,
        "{waiting} wait where one segment begins at a time"
    );
    let (_, waiting) = fill(40, 20);
    assert!(
        waiting <= 2,
        "{waiting} wait, which is next to nothing of twenty"
    );
}

/// Pauses are for others; a log that is trimmed faster than its files are let go with pauses would fill the
/// disk with trimmed files.
#[test]
fn files_that_many_others_wait_behind_are_removed_without_pauses() {
    let (mut store, mut kernel) = new_store(3);
    let (mut truth, mut random) = (Truth::default(), Random(3));
    fill_between_trims(&mut store, &mut kernel, &mut truth, &mut random, 16, 1);
    assert!(kernel.removed_urgently.iter().all(|urgent| !urgent));
    let before = kernel.removed_urgently.len();
    fill_between_trims(&mut store, &mut kernel, &mut truth, &mut random, 21, 20);
    let removed = &kernel.removed_urgently[before..];
    let urgent = removed.iter().filter(|urgent| **urgent).count();
    assert!(urgent > 8, "{urgent} of {}", removed.len());
    assert!(removed.ends_with(&[false; 2]), "the last are paced again");
}

/// A trim because of a full disk must give the space, and nothing begins that could use a spare.
#[test]
fn spares_that_are_not_to_be_kept_go_at_once() {
    let (mut store, mut kernel) = new_store(3);
    let (mut truth, mut random) = (Truth::default(), Random(3));
    fill_between_trims(&mut store, &mut kernel, &mut truth, &mut random, 16, 4);
    assert!(files(&kernel.disk, "free").len() > 2);
    store.keep_spares(false);
    settle(&mut store, &mut kernel, Time::ZERO);
    assert_eq!(files(&kernel.disk, "free").len(), 0);
    let reused = kernel.reused;
    fill(&mut store, &mut kernel, &mut truth, &mut random, 6);
    assert_eq!(kernel.reused, reused, "nor are there new ones");
    store.keep_spares(true);
    fill(&mut store, &mut kernel, &mut truth, &mut random, 6);
    assert!(kernel.reused > reused);
}

#[test]
fn what_could_not_be_read_and_is_trimmed_meanwhile_does_not_count_as_held_again() {
    let (mut store, mut kernel) = new_store(5);
    let mut truth = Truth::default();
    fill(&mut store, &mut kernel, &mut truth, &mut Random(5), 3);
    let end = StreamPosition(truth.length);
    let start = StreamPosition(truth.length - 1000);
    let trimmed = StreamPosition(truth.length - 400);
    let holds = |store: &Store, from, to| store.holdings().holds(stream(1), from..to);
    assert!(holds(&store, start, end));
    store.distrust(stream(1), start..end);
    assert!(!holds(&store, trimmed, end));
    store.trim(Slot(0), &below(trimmed.0));
    store.set_time(Time::from_micros(60_000_000));
    assert!(store.trust_again());
    assert!(holds(&store, trimmed, end), "the device may give it now");
    assert!(!holds(&store, start, trimmed), "its file may be gone");
}

#[test]
fn a_start_takes_over_the_spares_and_removes_those_that_are_too_many() {
    let (mut store, mut kernel) = new_store(4);
    let mut truth = Truth::default();
    fill(&mut store, &mut kernel, &mut truth, &mut Random(4), 12);
    let mut disk = kernel.disk;
    for number in 1..=9 {
        let path = format!("/data/log-7/{number:016}.free");
        disk.files
            .entry(path.into())
            .or_insert(vec![0xaa; 128 << 10]);
    }
    let many = files(&disk, "free").len();
    let (mut store, report, _) = recover(&mut disk, 9).unwrap();
    assert_eq!((report.spares, report.unknown), (many, vec![]));
    store.roll(&truth.checkpoint(), truth.context());
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    assert_eq!(kernel.reused, 1, "the first segment of this life takes one");
    assert_eq!(
        files(&kernel.disk, "free").len(),
        7,
        "of the eight that are kept"
    );
}

#[test]
fn a_file_that_cannot_be_removed_leaves_no_hole_behind_it() {
    let (mut store, mut kernel) = new_store(6);
    let mut truth = Truth::default();
    let mut random = Random(6);
    fill(&mut store, &mut kernel, &mut truth, &mut random, 1);
    for _ in 0..10 {
        kernel.fail_forgetting = 1;
        fill(&mut store, &mut kernel, &mut truth, &mut random, 2);
        let mut disk = kernel.disk.clone();
        recover(&mut disk, 9).expect("the segments that are left follow each other");
    }
    assert!(
        kernel.reused > 5,
        "it goes on: {} files were reused",
        kernel.reused
    );
}

/// The directory starts, whatever was being forgotten, taken or written when the power went.
#[test]
fn a_crash_at_any_step_of_a_files_way_leaves_a_directory_that_starts() {
    let mut reused = 0;
    let mut taken_and_not_written = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let (mut store, mut kernel) = new_store(seed);
        let mut truth = Truth::default();
        fill(&mut store, &mut kernel, &mut truth, &mut random, 6);
        let mut trimmed = truth.length.saturating_sub(1000);
        for _ in 0..random.below(300) {
            match random.below(4) {
                0 => {
                    if store.wants_roll() {
                        store.roll(&truth.checkpoint(), truth.context());
                    }
                    truth.append(&mut store, &mut random);
                }
                1 => {
                    trimmed = truth
                        .length
                        .saturating_sub(random.below(60_000))
                        .max(trimmed);
                    store.trim(Slot(0), &below(trimmed));
                }
                2 => {
                    if let Some(op) = store.poll_op() {
                        kernel.submit(op);
                    }
                }
                _ => {
                    if let Some(completion) = kernel.complete_any(&mut random) {
                        store.on_completion(Time::ZERO, completion);
                    }
                }
            }
            truth.watch(&mut store);
        }
        reused += kernel.reused;
        let mut disk = kernel.crash(&mut random);
        let spares = files(&disk, "free").len();
        let (accepted, _, bytes) = truth.durable();
        let (store, report, recovered) = recover(&mut disk, 1).unwrap();
        taken_and_not_written += files(&disk, "free").len() - spares;
        assert_eq!(report.corruptions, [], "seed {seed}");
        assert_eq!(report.unknown, Vec::<PathBuf>::new(), "seed {seed}");
        assert!(recovered.accepted.len() >= accepted, "seed {seed}");
        let found = &truth.accepted[..recovered.accepted.len()];
        assert_eq!(recovered.accepted, found, "seed {seed}");
        for (stream, range) in &truth.bytes[..bytes] {
            let start = range.start.max(below(trimmed)(*stream).0).min(range.end);
            let range = StreamPosition(start)..StreamPosition(range.end);
            assert!(store.holdings().holds(*stream, range), "seed {seed}");
        }
    }
    assert!(reused > 400, "{reused}");
    assert!(taken_and_not_written > 5, "{taken_and_not_written}");
}

/// The last record of the disk's last segment: its path, its salt, its header, its checksum and its end.
fn last_record(disk: &MemoryDisk) -> (PathBuf, u64, RecordHeader, u32, usize) {
    let path = files(disk, "seg").pop().unwrap();
    let contents = &disk.files[&path];
    let mut at = BLOCK;
    let mut last = None;
    let mut number = None;
    while let Ok((header, checksum, salt)) = RecordHeader::decode(&contents[at..], None) {
        if number.is_some_and(|number| header.number != number + 1) {
            break;
        }
        number = Some(header.number);
        at += header.total_length();
        last = Some((path.clone(), salt, header, checksum, at));
    }
    last.unwrap()
}

/// A record of an earlier use that would fit behind the last one in everything: its number, its
/// chain, its log, its payload. Only its salt is another's.
#[test]
fn a_record_of_an_earlier_use_is_none_of_this_one_though_it_fits() {
    let (mut store, mut kernel) = new_store(5);
    let mut truth = Truth::default();
    fill(&mut store, &mut kernel, &mut truth, &mut Random(5), 8);
    let (path, salt, last, checksum, end) = last_record(&kernel.disk);
    let slots = SlotRange::new(Slot(truth.next_slot), Slot(truth.next_slot + 100));
    let mut forged = RecordHeader {
        kind: RecordKind::Accept,
        value: ValueKind::NoOp,
        number: last.number + 1,
        chain: checksum,
        // The imitation looks acknowledged, too.
        watermark: last.number,
        term: last.promised.0,
        slots,
        ..last
    };
    forged.payload_length = 0;
    forged.digest = formats::digest(&[]);
    let recovered_with = |salt: u64| {
        let mut record = vec![0; BLOCK];
        forged.encode(salt, &mut record);
        let mut disk = kernel.disk.clone();
        let contents = disk.files.get_mut(&path).unwrap();
        let length = contents.len().max(end + BLOCK);
        contents.resize(length, 0);
        contents[end..end + BLOCK].copy_from_slice(&record);
        let (_, report, recovered) = recover(&mut disk, 9).unwrap();
        assert_eq!((report.corruptions, report.learn_past), (vec![], None));
        (
            report.last_record,
            recovered.accepted.last().unwrap().slots == slots,
        )
    };
    assert_eq!(recovered_with(salt ^ 1), (last.number, false));
    assert_eq!(
        recovered_with(salt),
        (last.number + 1, true),
        "nothing else is wrong with it"
    );
}

/// The first write of a new use was torn so that its first block is bad: behind it stand the records
/// of the use before, whole.
#[test]
fn a_torn_birth_in_a_used_file_is_no_segment_of_before() {
    let (mut store, mut kernel) = new_store(6);
    let mut truth = Truth::default();
    fill(&mut store, &mut kernel, &mut truth, &mut Random(6), 12);
    let (_, report, recovered) = recover(&mut kernel.disk.clone(), 9).unwrap();
    let spare = files(&kernel.disk, "free").pop().expect("there is a spare");
    let last = files(&kernel.disk, "seg").pop().unwrap();
    let number: u64 = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let mut disk = kernel.disk.clone();
    let mut contents = disk.files.remove(&spare).unwrap();
    assert!(RecordHeader::decode(&contents[BLOCK..], None).is_ok());
    contents[..BLOCK].fill(0x5a);
    let next = last.with_file_name(format!("{:016}.seg", number + 1));
    disk.files.insert(next.clone(), contents);
    let (_, again, found) = recover(&mut disk, 9).unwrap();
    assert_eq!(again.last_record, report.last_record);
    assert_eq!(found, recovered);
    assert_eq!((again.corruptions, again.quarantined.len()), (vec![], 1));
    assert!(!disk.files.contains_key(&next));
}

/// The next start has to know what is trimmed before its bytes may go.
#[test]
fn nothing_goes_before_a_durable_record_says_that_it_is_chosen() {
    let (mut store, mut kernel) = new_store(7);
    let mut truth = Truth::default();
    let mut random = Random(7);
    for _ in 0..3 {
        while !store.wants_roll() {
            truth.append(&mut store, &mut random);
            settle(&mut store, &mut kernel, Time::ZERO);
        }
        store.roll(&truth.checkpoint(), truth.context());
    }
    settle(&mut store, &mut kernel, Time::ZERO);
    truth.watch(&mut store);
    let segments = files(&kernel.disk, "seg").len();
    let as_of = Slot(truth.next_slot);
    store.trim(as_of, &below(u64::MAX));
    settle(&mut store, &mut kernel, Time::ZERO);
    assert_eq!(files(&kernel.disk, "seg").len(), segments);
    assert!(store.is_trim_held_back() && !store.may_trim());
    store.bear_out(RecordContext {
        promised: truth.promised,
        first_unchosen: as_of,
    });
    store.on_time(Time::from_micros(1_000_000));
    settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
    assert!(store.may_trim());
    store.trim(as_of, &below(u64::MAX));
    settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
    assert!(files(&kernel.disk, "seg").len() < segments);
    assert!(!store.may_trim(), "only the open segment is left");
    let (_, report, _) = recover(&mut kernel.disk, 9).unwrap();
    assert_eq!(report.first_unchosen, as_of);
}

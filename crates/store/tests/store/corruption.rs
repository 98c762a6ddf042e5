//! Rot: acknowledged bytes that cannot be read are said to be so, and never read as something else.

use std::path::{Path, PathBuf};

use formats::record::{RECORD_HEADER, RecordHeader, RecordKind};
use formats::{BATCH_BUFFER, ClusterId, DiskId, LogId, digest};
use ops::{BLOCK, Buffer, Time};
use paxos::{Checkpoint, Offset, PromisedTerm, Slot, SlotRange, StreamName, StreamPosition, Value};
use store::recovery::Refusal;
use store::{NewRecord, ReadFailure, RecordContext, RecoverError, Store, StoreEvent};

use crate::kernel::damage::{check_damaged, log, read_all, segments};
use crate::kernel::script::{
    Truth, config, content, first_checkpoint, new_store, reach, recover, settle, state, stream,
};
use crate::kernel::{EIO, EMFILE, Kernel, MemoryDisk, Random};

#[test]
fn one_bad_block_anywhere_is_found_and_costs_no_more_than_its_record() {
    let (disk, truth) = log(3, 120);
    assert!(segments(&disk).len() > 4);
    let mut random = Random(1);
    let mut corrupt = 0;
    let mut given_up = 0;
    for path in segments(&disk) {
        for block in 0..disk.files[&path].len() / BLOCK {
            let mut disk = disk.clone();
            let at = block * BLOCK + random.below(BLOCK as u64) as usize;
            disk.files.get_mut(&path).unwrap()[at] ^= 1 << random.below(8);
            let mut recovery = recover(&mut disk, 1).unwrap();
            check_damaged(&recovery, &truth);
            corrupt += u64::from(!recovery.1.corruptions.is_empty());
            let gone = read_all(&mut recovery.0, &disk, &truth);
            given_up += gone;
            assert!(gone <= 2 * 30_000, "{gone} bytes are gone by one bad block");
        }
    }
    assert!(corrupt > 3 && given_up > 10_000, "{corrupt} {given_up}");
}

/// An unreadable block costs what rot would where a later record tells that its record was acknowledged.
/// Where none does, the record may have been acknowledged, and the node must not start without it.
#[test]
fn one_block_anywhere_that_the_device_does_not_give_costs_its_record_or_stops_the_start() {
    let (disk, truth) = log(3, 120);
    let paths = segments(&disk);
    let mut refused = Vec::new();
    let mut given_up = 0;
    for path in &paths {
        for block in 0..disk.files[path].len() / BLOCK {
            let mut disk = disk.clone();
            disk.unreadable
                .insert((path.clone(), (block * BLOCK) as u64));
            match recover(&mut disk, 1) {
                Ok(mut recovery) => {
                    check_damaged(&recovery, &truth);
                    disk.unreadable.clear();
                    given_up += read_all(&mut recovery.0, &disk, &truth);
                }
                Err(RecoverError::Undecided {
                    path: named,
                    refusal: Refusal::Unreadable { .. },
                }) => {
                    assert_eq!(&named, path);
                    refused.push((path, block));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    let newest = paths.last().expect("there are some");
    assert!(
        refused.iter().all(|(path, _)| *path == newest),
        "{refused:?}"
    );
    assert!(given_up > 0, "nothing of the newest segment was touched");
}

#[test]
fn rot_of_any_length_is_not_taken_for_the_end() {
    let (disk, truth) = log(4, 150);
    let mut random = Random(2);
    let paths = segments(&disk);
    for _ in 0..300 {
        let mut disk = disk.clone();
        let path = &paths[random.below(paths.len() as u64) as usize];
        let contents = disk.files.get_mut(path).unwrap();
        let blocks = contents.len() / BLOCK;
        // The watermark in the last record tells rot from a torn tail.
        let used = contents
            .chunks(BLOCK)
            .rposition(|block| block.iter().any(|b| *b != 0))
            .unwrap();
        let from = random.below(used as u64) as usize;
        let to = (from + 1 + random.below(8) as usize).min(used).min(blocks);
        let fill = random.below(2) as u8 * 0xff;
        contents[from * BLOCK..to * BLOCK].fill(fill);
        let mut recovery = recover(&mut disk, 1).unwrap();
        check_damaged(&recovery, &truth);
        read_all(&mut recovery.0, &disk, &truth);
    }
}

#[test]
fn a_cut_file_is_a_torn_tail_or_corruption_and_never_a_panic() {
    let (disk, truth) = log(5, 60);
    let paths = segments(&disk);
    let (last, sealed) = paths.split_last().unwrap();
    for path in sealed {
        for block in 0..disk.files[path].len() / BLOCK {
            let mut disk = disk.clone();
            disk.files.get_mut(path).unwrap().truncate(block * BLOCK);
            let mut recovery = recover(&mut disk, 1).unwrap();
            check_damaged(&recovery, &truth);
            read_all(&mut recovery.0, &disk, &truth);
        }
    }
    for block in 0..disk.files[last].len() / BLOCK {
        let mut disk = disk.clone();
        disk.files.get_mut(last).unwrap().truncate(block * BLOCK);
        let mut recovery = recover(&mut disk, 1).unwrap();
        let accepted = &recovery.2.accepted;
        assert_eq!(accepted[..], truth.accepted[..accepted.len()]);
        read_all(&mut recovery.0, &disk, &truth);
    }
}

/// A bad record in the last segment, with no promise after it.
fn with_a_lost_acceptance() -> (MemoryDisk, Truth, Slot) {
    for seed in 0.. {
        let (disk, truth) = log(seed, 60);
        let last = segments(&disk).pop().unwrap();
        for block in 2..disk.files[&last].len() / BLOCK {
            let mut disk = disk.clone();
            disk.files.get_mut(&last).unwrap()[block * BLOCK] ^= 1;
            let (_, report, _) = recover(&mut disk.clone(), 1).unwrap();
            if let Some(learn_past) = report.learn_past {
                return (disk, truth, learn_past);
            }
        }
    }
    unreachable!()
}

#[test]
fn a_doubt_survives_restarts_until_the_replica_has_learned_past_it() {
    let (mut disk, _, learn_past) = with_a_lost_acceptance();
    for life in 0..3 {
        let (mut store, report, recovered) = recover(&mut disk, life).unwrap();
        assert_eq!(report.learn_past, Some(learn_past));
        // The replica learns a little, and not enough.
        let mut checkpoint = Checkpoint {
            promised: report.promised,
            finishing: None,
            state: state(),
            accepted: recovered.accepted,
        };
        checkpoint.state.next = Slot(life);
        let context = RecordContext {
            promised: report.promised,
            first_unchosen: Slot(life),
        };
        store.roll(&checkpoint, context);
        let mut kernel = Kernel::new(disk);
        settle(&mut store, &mut kernel, Time::ZERO);
        disk = kernel.disk;
    }
    let (mut store, report, _) = recover(&mut disk, 10).unwrap();
    let mut checkpoint = Checkpoint {
        promised: report.promised,
        finishing: None,
        state: state(),
        accepted: Vec::new(),
    };
    checkpoint.state.next = learn_past;
    let context = RecordContext {
        promised: report.promised,
        first_unchosen: learn_past,
    };
    store.roll(&checkpoint, context);
    assert_eq!(store.learn_past(), None);
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    let (_, report, _) = recover(&mut kernel.disk, 11).unwrap();
    assert_eq!(report.learn_past, None);
}

#[test]
fn a_corrupt_record_leaves_the_holdings_for_good() {
    let (mut disk, truth) = log(6, 100);
    let (stream, range) = truth.bytes[0].clone();
    let (mut store, report, recovered) = recover(&mut disk, 1).unwrap();
    // The first content of the first segment is somewhere behind its checkpoint.
    let first = segments(&disk)[0].clone();
    for block in 2..8 {
        disk.files.get_mut(&first).unwrap()[block * BLOCK + 3000] ^= 4;
        disk.files.get_mut(&first).unwrap()[block * BLOCK + 200] ^= 4;
    }
    let context = RecordContext {
        promised: report.promised,
        first_unchosen: Slot(0),
    };
    let checkpoint = Checkpoint {
        promised: report.promised,
        finishing: None,
        state: state(),
        accepted: recovered.accepted,
    };
    store.roll(&checkpoint, context);
    let mut kernel = Kernel::new(disk);
    store.read(
        1,
        stream,
        StreamPosition(range.start),
        Buffer::new(BATCH_BUFFER),
        reach(u64::MAX),
    );
    settle(&mut store, &mut kernel, Time::ZERO);
    let mut lost = Vec::new();
    while let Some(event) = store.poll_event() {
        match event {
            StoreEvent::Lost { stream, range } => lost.push((stream, range)),
            StoreEvent::Read { result, .. } => {
                assert!(
                    matches!(result, Err(ReadFailure::Corrupt { .. })),
                    "{result:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!lost.is_empty());
    let (again, _, _) = recover(&mut kernel.disk, 2).unwrap();
    for (stream, range) in lost {
        assert!(!store.holdings().holds(stream, range.clone()));
        let missing: Vec<_> = again.holdings().missing(stream, range.clone()).collect();
        assert_eq!(missing, [range]);
    }
    assert_eq!(again.holdings(), store.holdings());
}

#[test]
fn a_missing_segment_between_two_is_an_error_that_names_it() {
    let (mut disk, _) = log(7, 100);
    let second = segments(&disk)[1].clone();
    disk.files.remove(&second);
    match recover(&mut disk, 1) {
        Err(RecoverError::Undecided {
            refusal: Refusal::MissingSegments { first: 2, last: 2 },
            ..
        }) => {}
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn unknown_files_are_left_and_reported() {
    let (mut disk, truth) = log(8, 40);
    let note = PathBuf::from("/data/log-7/note.txt");
    disk.files.insert(note.clone(), b"keep me".to_vec());
    let (_, report, recovered) = recover(&mut disk, 1).unwrap();
    assert_eq!(report.unknown, std::slice::from_ref(&note));
    assert_eq!(disk.files[&note], b"keep me");
    assert_eq!(recovered.accepted, truth.accepted);
}

#[test]
fn a_directory_of_somebody_else_is_refused_with_a_sentence() {
    let (mut disk, _) = log(9, 40);
    let mut refused = |change: &dyn Fn(&mut store::StoreConfig)| {
        let mut config = config(1, 1);
        change(&mut config);
        match Store::recover(config, &mut disk, &mut |_| {}) {
            Err(error @ RecoverError::Refused { .. }) => error.to_string(),
            other => panic!("{:?}", other.err()),
        }
    };
    assert!(refused(&|c| c.identity.cluster = ClusterId([9; 16])).contains("another cluster"));
    assert!(refused(&|c| c.identity.node = paxos::NodeId(9)).contains("belongs to node 3"));
    assert!(refused(&|c| c.identity.disk = DiskId([9; 16])).contains("another disk"));
    assert!(refused(&|c| c.log = LogId(9)).contains("belongs to log 7"));
}

#[test]
fn a_directory_without_a_segment_is_empty_and_not_nothing() {
    let mut disk = MemoryDisk::default();
    let is_empty = |disk: &mut MemoryDisk| {
        let found = recover(disk, 1).err();
        matches!(
            found,
            Some(RecoverError::Undecided {
                refusal: Refusal::Empty,
                ..
            })
        )
    };
    assert!(is_empty(&mut disk));
    let torn = PathBuf::from("/data/log-7/0000000000000001.seg");
    disk.directories.insert("/data/log-7".into());
    disk.files.insert(torn.clone(), vec![0; 8192]);
    assert!(is_empty(&mut disk));
    assert!(
        disk.files.contains_key(&torn),
        "a start that is refused changes nothing"
    );
}

#[test]
fn client_bytes_that_imitate_records_are_not_taken_for_records() {
    // A client appends a copy of a whole segment of this very log, aligned with blocks.
    let (disk, _) = log(10, 40);
    let copy = disk.files[&segments(&disk)[0]].clone();
    let mut kernel = Kernel::new(MemoryDisk::default());
    kernel.disk.directories.insert("/data".into());
    let mut store = Store::create(config(77, 1), &first_checkpoint());
    let length = copy.len();
    let mut buffer = Buffer::new(BATCH_BUFFER);
    buffer[BLOCK..length].copy_from_slice(&copy[BLOCK..length]);
    let payload = &buffer[formats::RECORD_HEADER..][..length];
    let digest = formats::digest(payload);
    let record = store::NewRecord::Bytes {
        stream: StreamName::default(),
        position: StreamPosition(0),
        length,
        digest,
        buffer,
    };
    store.append(record, RecordContext::default(), 1);
    // The write is torn: its header is gone, and the imitation is there.
    while let Some(op) = store.poll_op() {
        kernel.submit(op);
    }
    settle(&mut store, &mut kernel, Time::ZERO);
    let path = segments(&kernel.disk)[0].clone();
    let contents = kernel.disk.files.get_mut(&path).unwrap();
    contents[2 * BLOCK..3 * BLOCK].fill(0);
    let (_, report, _) = recover(&mut kernel.disk, 1).unwrap();
    assert_eq!(report.torn, Some((path, 2 * BLOCK as u64)));
    assert_eq!(report.corruptions, []);
}

/// The first record of that kind.
fn place_of(disk: &MemoryDisk, path: &Path, kind: RecordKind) -> usize {
    let contents = &disk.files[path];
    let is_one = |at: &usize| {
        let header = RecordHeader::decode(&contents[*at..], None);
        header.is_ok_and(|(header, _, _)| header.kind == kind)
    };
    let mut blocks = (0..contents.len()).step_by(BLOCK);
    blocks.find(is_one).expect("there is one")
}

/// Damages the index of the first segment, which stands in the second.
fn damage_first_index(disk: &mut MemoryDisk) {
    let second = segments(disk)[1].clone();
    let at = place_of(disk, &second, RecordKind::Index);
    disk.files.get_mut(&second).unwrap()[at + RECORD_HEADER + 1] ^= 4;
}

type Ranges = Vec<(StreamName, std::ops::Range<StreamPosition>)>;

/// Reads the first byte of the oldest stream, whose index does not come. Returns the bytes said to be
/// unreadable, and those said to be lost.
fn read_in_vain(store: &mut Store, kernel: &mut Kernel) -> (Ranges, Ranges) {
    let buffer = Buffer::new(BATCH_BUFFER);
    store.read(9, stream(1), StreamPosition(0), buffer, reach(u64::MAX));
    settle(store, kernel, Time::ZERO);
    let (mut unreadable, mut lost) = (Vec::new(), Vec::new());
    let mut failed = false;
    while let Some(event) = store.poll_event() {
        match event {
            StoreEvent::Unreadable { stream, range } => unreadable.push((stream, range)),
            StoreEvent::Lost { stream, range } => lost.push((stream, range)),
            StoreEvent::Read { result, .. } => failed = result.is_err(),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(failed);
    (unreadable, lost)
}

fn begin_with_the_oldest(ranges: &Ranges) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|(name, range)| *name == stream(1) && range.start == StreamPosition(0))
}

#[test]
fn a_segment_whose_index_the_device_does_not_give_is_said_to_be_unreadable() {
    for errno in [EIO, EMFILE] {
        let (mut disk, _) = log(3, 400);
        assert!(segments(&disk).len() > 8);
        let (mut store, _, _) = recover(&mut disk, 5).unwrap();
        let mut kernel = Kernel::new(disk);
        kernel.fail_reads = Some(errno);
        let (unreadable, lost) = read_in_vain(&mut store, &mut kernel);
        for (stream, range) in &unreadable {
            assert!(store.holdings().holds(*stream, range.clone()));
        }
        let said = begin_with_the_oldest(&unreadable);
        assert_eq!(
            said,
            errno == EIO,
            "a peer has it, if the device is at fault"
        );
        assert_eq!(lost, []);
    }
}

/// The records that the index leads to may be sound, and the only copy.
#[test]
fn a_corrupt_index_costs_what_the_segment_holds_until_the_next_start() {
    let (mut disk, truth) = log(3, 400);
    let (mut store, _, _) = recover(&mut disk, 5).unwrap();
    let held = store.holdings().clone();
    damage_first_index(&mut disk);
    let mut kernel = Kernel::new(disk);
    let (unreadable, lost) = read_in_vain(&mut store, &mut kernel);
    assert!(begin_with_the_oldest(&lost));
    assert_eq!(unreadable, []);
    for (stream, range) in lost {
        assert!(!store.holdings().holds(stream, range));
    }
    // The start is not to find that the segment's files were trimmed meanwhile.
    store.trim(Slot(0), &|_| StreamPosition(0));
    settle(&mut store, &mut kernel, Time::ZERO);
    let (mut again, _, _) = recover(&mut kernel.disk, 6).unwrap();
    assert_eq!(again.holdings(), &held);
    assert_eq!(
        read_all(&mut again, &kernel.disk, &truth),
        0,
        "bytes are gone"
    );
}

/// A trim must not keep, for ever, a segment that a start had to read without an index.
#[test]
fn a_segment_whose_index_was_corrupt_at_a_start_can_be_trimmed() {
    let (mut disk, _) = log(3, 400);
    damage_first_index(&mut disk);
    let (mut store, _, _) = recover(&mut disk, 5).unwrap();
    let before = store.segments();
    store.roll(&first_checkpoint(), RecordContext::default());
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    store.trim(Slot(0), &|_| StreamPosition(u64::MAX));
    assert!(before > 8 && store.segments() <= 2, "{}", store.segments());
}

/// The power goes while a record is written. If the record before it rots, its header's word of that record
/// is all that is left of it.
#[test]
fn a_torn_record_tells_what_the_lost_one_before_it_promised() {
    for is_given in [true, false] {
        let (mut store, mut kernel) = new_store(5);
        let mut promised = PromisedTerm::default();
        promised.0.number = 7;
        let context = RecordContext {
            promised,
            first_unchosen: Slot(0),
        };
        let checkpoint = Checkpoint {
            promised,
            ..first_checkpoint()
        };
        store.append(NewRecord::Promise(checkpoint), context, 1);
        settle(&mut store, &mut kernel, Time::ZERO);
        let payload = content(stream(1), 0..9_000);
        let accept = NewRecord::Accept {
            term: promised.0,
            slots: SlotRange::new(Slot(0), Slot(9_000)),
            value: Value::Content {
                stream: stream(1),
                offset: Offset(0),
            },
            digest: digest(&payload[RECORD_HEADER..][..9_000]),
            payload: Some(payload),
        };
        store.append(accept, context, 2);
        settle(&mut store, &mut kernel, Time::ZERO);
        let mut disk = kernel.disk;
        let path = segments(&disk)[0].clone();
        let promise = place_of(&disk, &path, RecordKind::Promise);
        let accept = place_of(&disk, &path, RecordKind::Accept);
        let contents = disk.files.get_mut(&path).unwrap();
        contents[accept + BLOCK..accept + 2 * BLOCK].fill(0);
        match is_given {
            true => contents[promise + 9] ^= 1,
            false => _ = disk.unreadable.insert((path, promise as u64)),
        }
        let (store, report, recovered) = recover(&mut disk, 6).unwrap();
        assert!(recovered.gap);
        assert_eq!(report.promised, promised);
        assert!(store.learn_past() >= Some(Slot(9_000)), "{report:?}");
    }
}

/// The segment's records may have been acknowledged, though no record of it says so of another.
#[test]
fn a_new_segment_whose_first_block_is_not_given_is_not_taken_for_unborn() {
    let (mut store, mut kernel) = new_store(5);
    settle(&mut store, &mut kernel, Time::ZERO);
    store.roll(&first_checkpoint(), RecordContext::default());
    settle(&mut store, &mut kernel, Time::ZERO);
    let mut disk = kernel.disk;
    let newest = segments(&disk)[1].clone();
    disk.unreadable.insert((newest.clone(), 0));
    match recover(&mut disk, 6) {
        Err(RecoverError::Undecided { path, .. }) => assert_eq!(path, newest),
        other => panic!("{:?}", other.err()),
    }
    assert!(disk.files.contains_key(&newest), "it was put aside");
}

/// Nothing tells that the record was durable, and it was.
#[test]
fn a_last_record_that_is_not_given_is_not_taken_for_a_torn_one() {
    let (mut store, mut kernel) = new_store(5);
    let record = NewRecord::Promise(first_checkpoint());
    store.append(record, RecordContext::default(), 1);
    settle(&mut store, &mut kernel, Time::ZERO);
    let mut disk = kernel.disk;
    let path = segments(&disk)[0].clone();
    let promise = place_of(&disk, &path, RecordKind::Promise);
    disk.unreadable.insert((path.clone(), promise as u64));
    match recover(&mut disk, 6) {
        Err(error @ RecoverError::Undecided { .. }) => {
            let said = error.to_string();
            assert!(said.contains("join as a new one"), "{said}");
        }
        other => panic!("{:?}", other.err()),
    }
}

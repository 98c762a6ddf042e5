//! Crashes at every point: what was reported durable is there afterwards, and nothing else is.

use formats::{RECORD_HEADER, digest};
use ops::Time;
use paxos::{Checkpoint, Slot, StreamName, StreamPosition};
use store::recovery::Refusal;
use store::{NewRecord, RecordContext, RecoverError, Store};

use crate::kernel::script::{
    Truth, config, content, first_checkpoint, new_disk, read, recover, settle, stream,
};
use crate::kernel::{Kernel, MemoryDisk, Random};

/// Runs a drawn script of `steps` steps and pulls the plug.
fn run_until(seed: u64, steps: usize, in_flight: usize) -> (MemoryDisk, Truth) {
    let mut random = Random(seed);
    let mut kernel = Kernel::new(new_disk());
    let mut truth = Truth::default();
    let mut store = Store::create(config(seed, in_flight), &first_checkpoint());
    go_on(&mut store, &mut kernel, &mut truth, &mut random, steps);
    let disk = kernel.crash(&mut random);
    (disk, truth)
}

fn go_on(
    store: &mut Store,
    kernel: &mut Kernel,
    truth: &mut Truth,
    random: &mut Random,
    steps: usize,
) {
    let mut now = 0;
    for _ in 0..steps {
        now += random.below(3_000);
        match random.below(3) {
            0 => {
                if store.wants_roll() {
                    store.roll(&truth.checkpoint(), truth.context());
                }
                truth.append(store, random);
            }
            1 => {
                if let Some(op) = store.poll_op() {
                    kernel.submit(op);
                }
            }
            _ => {
                if let Some(completion) = kernel.complete_any(random) {
                    store.on_completion(Time::from_micros(now), completion);
                }
                store.on_time(Time::from_micros(now));
            }
        }
        truth.watch(store);
    }
}

/// Checks what must hold of a disk that was not corrupted.
fn check(disk: &mut MemoryDisk, truth: &Truth) -> Option<Store> {
    let (accepted, promised, bytes) = truth.durable();
    let (store, report, recovered) = match recover(disk, 99) {
        Ok(found) => found,
        Err(
            RecoverError::Undecided {
                refusal: Refusal::Empty,
                ..
            }
            | RecoverError::Io { .. },
        ) => {
            assert_eq!(truth.durable_tag, 0, "something acknowledged is gone");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(report.corruptions, []);
    assert_eq!(report.learn_past, None);
    assert!(!recovered.gap);
    assert!(
        recovered.accepted.len() >= accepted,
        "an acceptance is gone"
    );
    assert_eq!(
        recovered.accepted[..],
        truth.accepted[..recovered.accepted.len()]
    );
    assert!(recovered.promised >= promised && recovered.promised <= truth.promised);
    assert!(report.promised >= recovered.promised && report.promised <= truth.promised);
    for (stream, range) in &truth.bytes[..bytes] {
        let range = paxos::StreamPosition(range.start)..paxos::StreamPosition(range.end);
        assert!(store.holdings().holds(*stream, range), "bytes are gone");
    }
    Some(store)
}

/// Everything the store says it holds can be read.
fn check_reads(store: &mut Store, disk: &MemoryDisk) {
    let mut kernel = Kernel::new(disk.clone());
    let held: Vec<_> = store.holdings().iter().collect();
    for (stream, range) in held {
        let mut at = range.start.0;
        while at < range.end.0 {
            at += read(store, &mut kernel, stream, at).unwrap();
        }
    }
}

#[test]
fn what_was_reported_durable_survives_a_crash_at_every_step() {
    for seed in 0..4 {
        for steps in 0..200 {
            let (mut disk, truth) = run_until(seed, steps * 4, 1 + seed as usize % 3);
            if let Some(mut store) = check(&mut disk, &truth) {
                check_reads(&mut store, &disk);
            }
        }
    }
}

#[test]
fn recovery_finds_the_same_twice() {
    for seed in 100..200 {
        let (mut disk, truth) = run_until(seed, 50 + 7 * (seed as usize - 100), 1);
        if check(&mut disk, &truth).is_none() {
            continue;
        }
        let (first, first_report, first_recovered) = recover(&mut disk, 1).unwrap();
        let (second, second_report, second_recovered) = recover(&mut disk, 1).unwrap();
        assert_eq!(first_recovered, second_recovered);
        assert_eq!(first_report.last_record, second_report.last_record);
        assert_eq!(first.holdings(), second.holdings());
    }
}

#[test]
fn a_node_may_crash_again_at_every_step_of_its_return() {
    let mut continued = 0;
    for seed in 0..60 {
        let (mut disk, mut truth) = run_until(seed, 400, 1 + seed as usize % 2);
        let mut random = Random(seed);
        for life in 0..12 {
            let Some(mut store) = check(&mut disk, &truth) else {
                break;
            };
            // The writer knows what recovery found.
            let (again, _, recovered) = recover(&mut disk, seed * 100 + life).unwrap();
            store = drop_and_take(store, again);
            truth.accepted = recovered.accepted;
            truth.promised = recovered.promised;
            truth.next_slot = truth.accepted.last().map_or(0, |run| run.slots.end.0);
            let is_held = |(stream, range): &(paxos::StreamName, std::ops::Range<u64>)| {
                let range = paxos::StreamPosition(range.start)..paxos::StreamPosition(range.end);
                store.holdings().holds(*stream, range)
            };
            truth.bytes.retain(is_held);
            let mine = truth
                .bytes
                .iter()
                .filter(|(stream, _)| stream.sequence.counter == 1);
            truth.length = mine.map(|(_, range)| range.end).max().unwrap_or(0);
            truth.tags = vec![(truth.accepted.len(), truth.promised, truth.bytes.len())];
            truth.durable_tag = 1;
            let mut kernel = Kernel::new(disk);
            let found = store.last_number();
            store.go_on(&truth.checkpoint(), truth.context());
            continued += usize::from(store.last_number() == found);
            let steps = random.below(40) as usize * (1 + life as usize % 3);
            go_on(&mut store, &mut kernel, &mut truth, &mut random, steps);
            if random.below(2) == 0 {
                // Nothing more comes for a while, but perhaps when it has rested.
                settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
                store.on_time(Time::from_micros(2_000_000));
                settle(&mut store, &mut kernel, Time::from_micros(2_000_000));
                truth.watch(&mut store);
                let steps = random.below(4) as usize;
                go_on(&mut store, &mut kernel, &mut truth, &mut random, steps);
            }
            disk = kernel.crash(&mut random);
        }
        if let Some(mut store) = check(&mut disk, &truth) {
            check_reads(&mut store, &disk);
        }
    }
    assert!(continued > 30, "{continued} starts went on in a segment");
}

fn drop_and_take(_: Store, again: Store) -> Store {
    again
}

#[test]
fn a_failed_write_stops_the_store_and_acknowledges_nothing_more() {
    for fail_write in 0..20 {
        let mut random = Random(fail_write as u64);
        let mut kernel = Kernel::new(new_disk());
        kernel.fail_write = Some(fail_write);
        let mut truth = Truth::default();
        let mut store = Store::create(config(5, 1), &first_checkpoint());
        go_on(&mut store, &mut kernel, &mut truth, &mut random, 600);
        settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
        assert!(store.has_failed());
        let acknowledged = truth.durable_tag;
        go_on(&mut store, &mut kernel, &mut truth, &mut random, 100);
        assert_eq!(truth.durable_tag, acknowledged);
        check(&mut kernel.crash(&mut random), &truth);
    }
}

#[test]
fn a_clean_stop_leaves_no_doubt_about_the_last_record() {
    let mut random = Random(1);
    let mut kernel = Kernel::new(new_disk());
    let mut truth = Truth::default();
    let mut store = Store::create(config(5, 1), &first_checkpoint());
    go_on(&mut store, &mut kernel, &mut truth, &mut random, 100);
    settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::from_micros(1_000_000));
    }
    truth.watch(&mut store);
    assert_eq!(truth.durable_tag, truth.tags.len() as u64);
    assert!(check(&mut kernel.disk, &truth).is_some());
}

#[test]
fn trimmed_segments_go_oldest_first_and_the_rest_stays() {
    let mut removed = 0;
    for seed in 0..150 {
        let mut random = Random(seed);
        let mut kernel = Kernel::new(new_disk());
        let mut truth = Truth::default();
        let mut store = Store::create(config(seed, 1), &first_checkpoint());
        let mut trimmed = 0;
        let trim = |at: u64| {
            move |stream: StreamName| match stream.sequence.counter {
                1 => StreamPosition(at),
                _ => StreamPosition(u64::MAX),
            }
        };
        for _ in 0..12 {
            go_on(&mut store, &mut kernel, &mut truth, &mut random, 60);
            trimmed += random.below(1 + truth.length - trimmed);
            store.trim(Slot(0), &trim(trimmed));
        }
        let mut disk = kernel.crash(&mut random);
        let (accepted, _, bytes) = truth.durable();
        let Ok((mut store, report, recovered)) = recover(&mut disk, 1) else {
            assert_eq!(truth.durable_tag, 0);
            continue;
        };
        assert_eq!(report.corruptions, []);
        assert!(recovered.accepted.len() >= accepted);
        for (stream, range) in &truth.bytes[..bytes] {
            let start = match stream.sequence.counter {
                1 => range.start.max(trimmed).min(range.end),
                _ => range.end,
            };
            let range = StreamPosition(start)..StreamPosition(range.end);
            assert!(
                store.holdings().holds(*stream, range),
                "untrimmed bytes are gone"
            );
        }
        let first = disk.files.keys().next().unwrap();
        removed += u64::from(!first.ends_with("0000000000000001.seg"));
        check_reads(&mut store, &disk);
        let (mut store, _, _) = recover(&mut disk, 1).unwrap();
        let checkpoint = Checkpoint {
            promised: report.promised,
            finishing: None,
            accepted: recovered.accepted,
            ..first_checkpoint()
        };
        let context = RecordContext {
            promised: report.promised,
            ..RecordContext::default()
        };
        store.roll(&checkpoint, context);
        let mut kernel = Kernel::new(disk);
        settle(&mut store, &mut kernel, Time::ZERO);
        store.trim(Slot(0), &trim(u64::MAX));
        settle(&mut store, &mut kernel, Time::ZERO);
        assert_eq!(store.holdings().bytes(), 0);
        let segments = kernel
            .disk
            .files
            .keys()
            .filter(|path| path.extension().unwrap() == "seg");
        assert_eq!(segments.count(), 1, "only the open segment stays");
        assert!(recover(&mut kernel.disk, 2).is_ok());
    }
    assert!(removed > 50, "{removed}");
}

#[test]
fn a_segment_is_born_only_after_the_one_before_is_whole() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut kernel = Kernel::new(new_disk());
        let mut truth = Truth::default();
        let mut store = Store::create(config(seed, 3), &first_checkpoint());
        settle(&mut store, &mut kernel, Time::ZERO);
        while !store.wants_roll() {
            truth.append(&mut store, &mut random);
            if random.below(3) == 0 {
                settle(&mut store, &mut kernel, Time::ZERO);
            }
            while let Some(op) = store.poll_op() {
                kernel.submit(op);
            }
        }
        // The next segment's file was made when this one was half full.
        store.roll(&truth.checkpoint(), truth.context());
        truth.append(&mut store, &mut random);
        for _ in 0..random.below(4) {
            while let Some(op) = store.poll_op() {
                kernel.submit(op);
            }
            if let Some(completion) = kernel.complete_one() {
                store.on_completion(Time::ZERO, completion);
            }
        }
        while let Some(op) = store.poll_op() {
            kernel.submit(op);
        }
        truth.watch(&mut store);
        let mut disk = kernel.crash(&mut random);
        // An index that came too early speaks of records that are not there.
        if let Some(mut store) = check(&mut disk, &truth) {
            check_reads(&mut store, &disk);
        }
    }
}

#[test]
fn bytes_beyond_four_gib_of_a_stream_are_held_and_read() {
    const BORDER: u64 = 1 << 32;
    let mut kernel = Kernel::new(new_disk());
    let mut store = Store::create(config(5, 1), &first_checkpoint());
    let (stream, start, length) = (stream(1), BORDER - 7_000, 5_000);
    for part in 0..3 {
        let from = start + part * length;
        let buffer = content(stream, from..from + length);
        let record = NewRecord::Bytes {
            stream,
            position: StreamPosition(from),
            length: length as usize,
            digest: digest(&buffer[RECORD_HEADER..][..length as usize]),
            buffer,
        };
        store.append(record, RecordContext::default(), 1 + part);
    }
    settle(&mut store, &mut kernel, Time::ZERO);
    let end = start + 3 * length;
    let check = |store: &mut Store, kernel: &mut Kernel| {
        let range = StreamPosition(start)..StreamPosition(end);
        assert!(store.holdings().holds(stream, range));
        assert!(
            !store
                .holdings()
                .holds(stream, StreamPosition(0)..StreamPosition(1))
        );
        for position in [start, BORDER - 1, BORDER, BORDER + 1, end - 1] {
            assert!(read(store, kernel, stream, position).is_ok());
        }
        assert!(read(store, kernel, stream, end).is_err());
    };
    check(&mut store, &mut kernel);
    let mut disk = kernel.disk;
    let (mut store, _, _) = recover(&mut disk, 1).unwrap();
    check(&mut store, &mut Kernel::new(disk));
}

//! Records that stand one behind the other are read at once.

use std::ops::Range;
use std::path::PathBuf;

use formats::{BATCH_BUFFER, RECORD_HEADER, digest};
use ops::{BLOCK, Buffer, Time};
use paxos::StreamPosition;
use store::{NewRecord, ReadFailure, Store, StoreEvent};

use crate::kernel::Kernel;
use crate::kernel::script::{Truth, byte, content, new_store, reach, settle, stream};

const PIECE: u64 = 100;

struct Desk {
    store: Store,
    kernel: Kernel,
    truth: Truth,
    tag: u64,
}

impl Desk {
    /// A store with so many records of a hundred bytes.
    fn with(records: u64) -> Desk {
        let (store, kernel) = new_store(5);
        let truth = Truth::default();
        let mut desk = Desk {
            store,
            kernel,
            truth,
            tag: 0,
        };
        for number in 0..records {
            desk.write(number * PIECE..(number + 1) * PIECE);
        }
        desk
    }

    fn write(&mut self, bytes: Range<u64>) {
        let buffer = content(stream(1), bytes.clone());
        self.put(bytes, buffer);
    }

    fn put(&mut self, bytes: Range<u64>, buffer: Buffer) {
        let length = (bytes.end - bytes.start) as usize;
        self.tag += 1;
        let record = NewRecord::Bytes {
            stream: stream(1),
            position: StreamPosition(bytes.start),
            length,
            digest: digest(&buffer[RECORD_HEADER..][..length]),
            buffer,
        };
        self.store.append(record, self.truth.context(), self.tag);
        settle(&mut self.store, &mut self.kernel, Time::ZERO);
    }

    fn roll(&mut self) {
        let checkpoint = self.truth.checkpoint();
        self.store.roll(&checkpoint, self.truth.context());
        settle(&mut self.store, &mut self.kernel, Time::ZERO);
    }

    /// The place of the bytes from 200 on.
    fn place_of_the_third(&self) -> (PathBuf, usize) {
        let third = &content(stream(1), 200..300)[RECORD_HEADER..][..100];
        let mut files = self.kernel.disk.files.iter();
        let found = files.find_map(|(path, file)| {
            let at = file.windows(100).position(|bytes| bytes == third);
            at.map(|at| (path.clone(), at))
        });
        found.expect("it was written")
    }

    /// The bytes that a read brings, and how often the disk was asked. Every one is as it was written.
    fn read(&mut self, from: u64, bytes: u64) -> (Result<u64, ReadFailure>, usize) {
        self.kernel.reads = 0;
        let buffer = Buffer::new(BATCH_BUFFER);
        let at = StreamPosition(from);
        self.store.read(1, stream(1), at, buffer, reach(bytes));
        settle(&mut self.store, &mut self.kernel, Time::ZERO);
        let mut answer = None;
        while let Some(event) = self.store.poll_event() {
            if let StoreEvent::Read { buffer, result, .. } = event {
                answer = Some(result.map(|read| buffer[read.payload].to_vec()));
            }
        }
        let answer = answer.expect("every read is answered");
        let count = answer.map(|bytes| {
            let right = (from..).map(|position| byte(stream(1), position));
            assert!(bytes.iter().copied().eq(right.take(bytes.len())));
            bytes.len() as u64
        });
        (count, self.kernel.reads)
    }
}

#[test]
fn small_records_are_read_at_once_and_as_many_as_are_of_use() {
    let mut desk = Desk::with(7);
    // The bytes from the first on, in the middle of a record, and all but what one record has.
    for (from, bytes, brought) in [
        (0, 1, 100),
        (0, 100, 100),
        (0, 101, 200),
        (50, 50, 50),
        (50, 51, 150),
        (0, u64::MAX, 700),
        (650, u64::MAX, 50),
    ] {
        let (count, reads) = desk.read(from, bytes);
        assert_eq!((count.unwrap(), reads), (brought, 1), "{bytes} from {from}");
    }
}

#[test]
fn no_more_is_read_than_the_buffer_holds() {
    let room = (BATCH_BUFFER / BLOCK) as u64;
    let mut desk = Desk::with(room / 4);
    let all = room / 4 * PIECE;
    let (count, reads) = desk.read(0, u64::MAX);
    // A segment of this store is shorter than the buffer: each has its own run.
    let count = count.unwrap();
    assert!(
        count <= all && count > PIECE && reads == 1,
        "{count} of {all}"
    );
}

#[test]
fn a_damaged_record_costs_those_around_it_nothing() {
    let mut desk = Desk::with(5);
    let (path, at) = desk.place_of_the_third();
    desk.kernel.disk.files.get_mut(&path).expect("it is there")[at] ^= 1;
    assert_eq!(desk.read(0, u64::MAX).0.unwrap(), 200);
    let refused = desk.read(200, u64::MAX).0;
    assert!(
        matches!(refused, Err(ReadFailure::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(desk.read(0, u64::MAX).0.unwrap(), 200);
    assert_eq!(desk.read(300, u64::MAX).0.unwrap(), 200);
}

/// The device gives no block of the third record: an error is that of the whole read.
#[test]
fn a_record_that_the_device_does_not_give_costs_those_before_it_nothing() {
    let mut desk = Desk::with(5);
    let (path, at) = desk.place_of_the_third();
    let block = at / BLOCK * BLOCK;
    desk.kernel.disk.unreadable.insert((path, block as u64));
    let (count, reads) = desk.read(0, u64::MAX);
    assert_eq!((count.unwrap(), reads), (100, 2));
    let refused = desk.read(200, u64::MAX).0;
    assert!(matches!(refused, Err(ReadFailure::Io(_))), "{refused:?}");
}

/// Two records of a segment hold other bytes than they should, though their checksums are right. That was found out, and the
/// bytes came anew from a peer.
#[test]
fn what_was_replaced_in_a_newer_segment_is_not_read_from_an_older_one() {
    let mut desk = Desk::with(2);
    for number in [2, 3] {
        let wrong = content(stream(2), 0..PIECE);
        desk.put(number * PIECE..(number + 1) * PIECE, wrong);
    }
    desk.write(400..500);
    desk.roll();
    let bytes = StreamPosition(200)..StreamPosition(400);
    desk.store.distrust(stream(1), bytes);
    assert_eq!(desk.read(0, u64::MAX).0.unwrap(), 200, "they are not held");
    desk.write(200..400);
    let mut at = 0;
    while at < 500 {
        at += desk.read(at, u64::MAX).0.unwrap();
    }
    assert_eq!(at, 500);
}

//! The same tests where files are written through the page cache, for sockets to fill; and what comes of
//! that: buffers that are a part of a file (`ops`).

#![allow(
    clippy::duplicate_mod,
    reason = "each of the others has the harness as a module of its own"
)]

#[path = "files.rs"]
mod files;
mod harness;
#[path = "idle.rs"]
mod idle;
#[path = "sockets.rs"]
mod sockets;
#[path = "stress.rs"]
mod stress;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use harness::{Harness, pattern};
use linux::{Ink, Kernel, KernelConfig, Mover};
use ops::{
    BLOCK, Buffer, Completion, ConnId, FileId, Op, OpenMode, Place, Received, Reservation, Slice,
};

const CREATE: OpenMode = OpenMode::Create { size_hint: 1 << 20 };
const HEADER: usize = 192;

/// As the store does: a header in front, zeros behind.
fn dress(buffer: &mut Buffer, payload: usize) -> usize {
    let total = (HEADER + payload).next_multiple_of(BLOCK);
    buffer.part_mut(0..HEADER).fill(0xAB);
    buffer.part_mut(HEADER + payload..total).fill(0);
    total
}

fn dressed(payload: &[u8]) -> Vec<u8> {
    let mut record = vec![0xAB; HEADER];
    record.extend_from_slice(payload);
    record.resize(record.len().next_multiple_of(BLOCK), 0);
    record
}

struct Landing {
    h: Harness,
    near: ConnId,
    far: ConnId,
}

impl Landing {
    fn new(path: &Path) -> Landing {
        let mut h = Harness::with(KernelConfig {
            mover: Mover::Splice,
            signals: false,
            ..KernelConfig::default()
        });
        h.open(1, path, CREATE).unwrap();
        let (near, far) = h.pair();
        Landing { h, near, far }
    }

    fn reserve(&self, offset: u64, length: usize) -> (Buffer, Arc<dyn Reservation>) {
        let place = Place {
            file: FileId(1),
            offset,
        };
        let landing = self.h.kernel.disk().landing().expect("what splice offers");
        landing.reserve(place, length).expect("the file is open")
    }

    fn start_receive(&mut self, buffer: Buffer, range: Range<usize>) {
        self.h.kernel.submit(Op::Receive {
            conn: self.far,
            buffer,
            range,
            whole: true,
        });
    }

    /// A part of it has come, at the beginning of the file, and the kernel has the buffer, when its place
    /// becomes another's. Returns what is still to be sent.
    fn receive_in_part_and_give_up<'p>(&mut self, payload: &'p [u8]) -> &'p [u8] {
        let (first, rest) = payload.split_at(payload.len() / 2);
        let (buffer, reservation) = self.reserve(0, 64 * BLOCK);
        let near = self.near;
        self.h.send(near, first);
        self.start_receive(buffer, HEADER..HEADER + payload.len());
        self.h.sent(near).unwrap();
        self.h.idle(50);
        reservation.give_up();
        rest
    }

    fn received(&mut self) -> (Buffer, io::Result<Received>) {
        self.h.wait_for(
            |c| matches!(c, Completion::Received { .. }),
            |c| match c {
                Completion::Received { buffer, result, .. } => (buffer, result),
                other => panic!("{other:?}"),
            },
        )
    }

    fn write(&mut self, offset: u64, slices: Vec<Slice>) {
        let token = self.h.token();
        self.h.kernel.submit(Op::Write {
            token,
            file: FileId(1),
            offset,
            slices,
        });
        self.h.done(token).unwrap();
    }
}

#[test]
fn what_is_received_is_a_record_where_it_stands_and_goes_out_from_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut l = Landing::new(&path);
    let mut written = vec![7; BLOCK];
    l.h.write(1, 0, &written).unwrap();
    for (seed, length) in [5000, 200_000, 1, BLOCK - HEADER, 3 * BLOCK, 260_000]
        .into_iter()
        .enumerate()
    {
        let offset = written.len() as u64;
        let payload = pattern(seed as u64, length);
        let (buffer, reservation) = l.reserve(offset, 64 * BLOCK);
        let near = l.near;
        l.h.send(near, &payload);
        l.start_receive(buffer, HEADER..HEADER + length);
        let (mut buffer, result) = l.received();
        assert_eq!(result.unwrap().count, length);
        assert!(buffer[HEADER..HEADER + length] == payload, "as memory");
        let on_disk = std::fs::read(&path).unwrap();
        assert!(
            on_disk[offset as usize + HEADER..][..length] == payload,
            "in the file, before anybody wrote it"
        );
        assert!(reservation.is_held());
        let total = dress(&mut buffer, length);
        let shared = buffer.freeze();
        l.write(offset, vec![shared.slice(0..total)]);
        written.extend(dressed(&payload));
        assert!(std::fs::read(&path).unwrap()[..written.len()] == written);

        // To a follower: a header of its own from memory, the payload from the file.
        l.h.kernel.submit(Op::Send {
            conn: l.far,
            slices: vec![
                Slice::copied_from(b"header"),
                shared.slice(HEADER..HEADER + length),
                Slice::copied_from(b"next"),
            ],
        });
        let (back, result) = l.h.receive(near, 6 + length + 4, true);
        result.unwrap();
        assert!(back == [b"header", &payload[..], b"next"].concat());
        let far = l.far;
        l.h.sent(near).unwrap();
        l.h.sent(far).unwrap();
        drop(shared);
        assert!(!reservation.is_held());
    }
    // Read back: in memory from the device, and as a part of the file, which goes out by reference.
    l.h.close_file(1).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), written, "cut to its end");
    l.h.open(2, &path, OpenMode::Read).unwrap();
    let length = written.len();
    assert!(l.h.read(2, 0, length).unwrap() == written);
    let place = Place {
        file: FileId(2),
        offset: 0,
    };
    let landing = l.h.kernel.disk().landing().unwrap();
    let view = landing.view(place, length).unwrap();
    let token = l.h.token();
    l.h.kernel.submit(Op::Read {
        token,
        file: FileId(2),
        offset: 0,
        buffer: view,
        range: 0..length,
    });
    let view = l.h.wait_for(
        |c| matches!(c, Completion::Read { .. }),
        |c| match c {
            Completion::Read { buffer, result, .. } => {
                assert_eq!(result.unwrap(), length);
                buffer
            }
            other => panic!("{other:?}"),
        },
    );
    assert!(view[..] == written);
    l.h.kernel.submit(Op::Send {
        conn: l.far,
        slices: vec![view.freeze().slice(0..length)],
    });
    let near = l.near;
    let (back, _) = l.h.receive(near, length, true);
    assert!(back == written);
}

#[test]
fn a_place_that_is_given_up_keeps_its_bytes_and_belongs_to_another_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut l = Landing::new(&path);
    let payload = pattern(3, 100_000);
    let rest = l.receive_in_part_and_give_up(&payload);
    let near = l.near;
    let other = pattern(9, 2 * BLOCK);
    l.h.write(1, 0, &other).unwrap();
    l.h.send(near, rest);
    let (mut buffer, result) = l.received();
    assert_eq!(result.unwrap().count, payload.len());
    assert!(
        buffer[HEADER..HEADER + payload.len()] == payload,
        "before and after"
    );
    assert_eq!(buffer.place(), None);
    let on_disk = std::fs::read(&path).unwrap();
    assert!(on_disk[..other.len()] == other, "nobody wrote over it");

    // Its record stands behind the other one, all of it written there; and goes out from memory.
    let total = dress(&mut buffer, payload.len());
    let shared = buffer.freeze();
    l.write(other.len() as u64, vec![shared.slice(0..total)]);
    let on_disk = std::fs::read(&path).unwrap();
    assert!(on_disk[other.len()..][..total] == dressed(&payload));
    l.h.kernel.submit(Op::Send {
        conn: l.far,
        slices: vec![shared.slice(HEADER..HEADER + payload.len())],
    });
    let (back, _) = l.h.receive(near, payload.len(), true);
    assert!(back == payload);
}

#[test]
fn a_file_that_is_closed_is_not_cut_below_a_place_that_is_still_received_into() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut l = Landing::new(&path);
    let payload = pattern(3, 100_000);
    let rest = l.receive_in_part_and_give_up(&payload);
    let near = l.near;
    // Its place is another's, with which the segment ends.
    l.h.write(1, 0, &pattern(9, BLOCK)).unwrap();
    l.h.close_file(1).unwrap();
    l.h.send(near, rest);
    let (mut buffer, result) = l.received();
    assert_eq!(result.unwrap().count, payload.len());
    buffer[..HEADER].fill(0);
    assert!(buffer[HEADER..HEADER + payload.len()] == payload);
}

#[test]
fn a_buffer_written_elsewhere_is_written_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut l = Landing::new(&path);
    let payload = pattern(4, 50_000);
    let (buffer, _reservation) = l.reserve(0, 64 * BLOCK);
    let near = l.near;
    l.h.send(near, &payload);
    l.start_receive(buffer, HEADER..HEADER + payload.len());
    let (mut buffer, _) = l.received();
    let total = dress(&mut buffer, payload.len());
    let offset = 100 * BLOCK as u64;
    l.write(offset, vec![buffer.freeze().slice(0..total)]);
    assert!(std::fs::read(&path).unwrap()[offset as usize..][..total] == dressed(&payload));
}

#[test]
fn bytes_that_come_one_by_one_fill_no_pipe_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let mut l = Landing::new(&directory.path().join("segment"));
    let payload = pattern(5, 3000);
    let (buffer, _reservation) = l.reserve(0, 64 * BLOCK);
    let near = l.near;
    // Each is a segment of its own, and takes a place of the pipe's.
    for byte in &payload {
        l.h.send(near, &[*byte]);
        l.h.sent(near).unwrap();
    }
    l.start_receive(buffer, HEADER..HEADER + payload.len());
    let (buffer, result) = l.received();
    assert_eq!(result.unwrap().count, payload.len());
    assert!(buffer[HEADER..HEADER + payload.len()] == payload);
}

#[test]
fn the_end_of_a_stream_comes_with_what_there_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut l = Landing::new(&directory.path().join("segment"));
    let payload = pattern(6, 30_000);
    let (buffer, _reservation) = l.reserve(0, 64 * BLOCK);
    let near = l.near;
    l.h.send(near, &payload);
    l.h.kernel.submit(Op::ShutdownWrite { conn: near });
    l.start_receive(buffer, HEADER..HEADER + 200_000);
    let (buffer, result) = l.received();
    let result = result.unwrap();
    assert!(result.end && result.count == payload.len(), "{result:?}");
    assert!(buffer[HEADER..HEADER + payload.len()] == payload);
}

#[test]
fn files_that_are_only_read_or_not_open_offer_no_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    std::fs::write(&path, pattern(1, BLOCK)).unwrap();
    let mut l = Landing::new(&directory.path().join("other"));
    l.h.open(2, &path, OpenMode::Read).unwrap();
    let landing = l.h.kernel.disk().landing().unwrap();
    for file in [2, 3] {
        let place = Place {
            file: FileId(file),
            offset: 0,
        };
        assert!(landing.reserve(place, BLOCK).is_none());
    }
}

#[test]
fn memory_is_no_place_for_sockets_to_fill_and_the_error_says_what_is() {
    for ink in [Ink::Ram, Ink::Pmem] {
        let config = KernelConfig {
            mover: Mover::Splice,
            ink,
            signals: false,
            ..KernelConfig::default()
        };
        let error = Kernel::new(config).err().unwrap();
        assert!(error.to_string().contains("--ink disk"), "{error}");
    }
    for mover in [Mover::Direct, Mover::Auto] {
        let config = KernelConfig {
            mover,
            signals: false,
            ..KernelConfig::default()
        };
        let kernel = Kernel::new(config).unwrap();
        assert!(kernel.disk().landing().is_none());
    }
}

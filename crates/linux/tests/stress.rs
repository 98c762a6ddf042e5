//! Random ops on 64 connections and 4 files at once, compared with a model: bytes arrive once and in
//! order, every op is answered exactly once and in its order, and files hold what was said durable.

mod harness;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use harness::{Harness, quiet};
use linux::KernelConfig;
use ops::{BLOCK, Buffer, Completion, ConnId, FileId, LENT_BYTES_MAX, Op, OpenMode, Slice, Token};

const PAIRS: usize = 32;
const FILES: u64 = 4;

/// xorshift64: a seed is a test case.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Mostly small, sometimes large.
    fn length(&mut self) -> usize {
        let bits = self.below(19);
        self.below(1 << bits) as usize
    }
}

/// One end of a connection, as the model sees it.
struct End {
    conn: ConnId,
    peer: ConnId,
    /// Bytes given to sends, and taken out of receives, so far.
    given: u64,
    taken: u64,
    sends: usize,
    receives: VecDeque<Asked>,
    shut: bool,
    ended: bool,
    closed: bool,
    failed: bool,
}

/// A receive that is outstanding.
enum Asked {
    Into { length: usize, whole: bool },
    WhenThere { bytes_max: usize },
}

struct FileModel {
    id: FileId,
    written: Vec<u8>,
    /// Acknowledged length.
    durable: usize,
    /// Lengths of the writes outstanding.
    writes: VecDeque<(Token, usize)>,
}

/// What a stream holds at a position.
fn byte_at(conn: ConnId, position: u64) -> u8 {
    ((position ^ conn.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8
}

struct World {
    h: Harness,
    random: Random,
    ends: HashMap<ConnId, End>,
    ids: Vec<ConnId>,
    files: Vec<FileModel>,
    reads: HashMap<Token, (usize, u64)>,
    moved: u64,
}

#[test]
fn random_ops_agree_with_a_model() {
    let started = Instant::now();
    for seed in 1..=6 {
        run(seed, 3000);
        assert!(started.elapsed() < Duration::from_secs(120));
    }
}

fn run(seed: u64, steps: usize) {
    let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let config = KernelConfig {
        round_bytes_max: 1 << (12 + random.below(9)),
        merged_bytes_max: 1 << (14 + random.below(8)),
        ..quiet()
    };
    let directory = tempfile::tempdir().unwrap();
    let mut h = Harness::with(config);
    let mut ends = HashMap::new();
    for _ in 0..PAIRS {
        let (near, far) = h.pair();
        for (conn, peer) in [(near, far), (far, near)] {
            ends.insert(conn, End::new(conn, peer));
        }
    }
    let files = (1..=FILES)
        .map(|id| {
            let path = directory.path().join(id.to_string());
            h.open(id, &path, OpenMode::Create { size_hint: 0 })
                .unwrap();
            FileModel {
                id: FileId(id),
                written: Vec::new(),
                durable: 0,
                writes: VecDeque::new(),
            }
        })
        .collect();
    let mut ids: Vec<ConnId> = ends.keys().copied().collect();
    ids.sort();
    let mut world = World {
        h,
        random,
        ends,
        ids,
        files,
        reads: HashMap::new(),
        moved: 0,
    };
    for step in 0..steps {
        world.act();
        if step % 4 == 0 {
            world.h.round(0);
        }
        world.check();
    }
    world.finish();
    for file in &world.files {
        let path = directory.path().join(file.id.0.to_string());
        assert!(std::fs::read(path).unwrap() == file.written, "seed {seed}");
    }
    assert!(world.moved > 1 << 20, "seed {seed} moved {}", world.moved);
}

impl End {
    fn new(conn: ConnId, peer: ConnId) -> End {
        End {
            conn,
            peer,
            given: 0,
            taken: 0,
            sends: 0,
            receives: VecDeque::new(),
            shut: false,
            ended: false,
            closed: false,
            failed: false,
        }
    }
}

impl World {
    fn act(&mut self) {
        let at = self.random.below(self.ids.len() as u64) as usize;
        let conn = self.ids[at];
        match self.random.below(1000) {
            0..400 => self.send(conn),
            400..850 => self.receive(conn),
            850..853 => {
                if let Some(end) = self.ends.get_mut(&conn) {
                    end.shut = true;
                    self.h.kernel.submit(Op::ShutdownWrite { conn });
                }
            }
            853..856 => {
                let flush = self.random.below(2) == 0;
                self.close(conn, flush);
            }
            856..930 => self.write(),
            _ => self.read(),
        }
    }

    fn send(&mut self, conn: ConnId) {
        let Some(end) = self.ends.get_mut(&conn) else {
            return;
        };
        let length = self.random.length();
        let bytes: Vec<u8> = (0..length as u64)
            .map(|at| byte_at(conn, end.given + at))
            .collect();
        let mut slices = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let cut = 1 + self.random.below(rest.len() as u64) as usize;
            slices.push(Slice::copied_from(&rest[..cut]));
            rest = &rest[cut..];
        }
        if !end.shut && !end.closed {
            end.given += length as u64;
        }
        end.sends += 1;
        self.h.kernel.submit(Op::Send { conn, slices });
    }

    fn receive(&mut self, conn: ConnId) {
        let Some(end) = self.ends.get_mut(&conn) else {
            return;
        };
        let length = self.random.length();
        if self.random.below(3) == 0 {
            let bytes_max = length.max(1);
            end.receives.push_back(Asked::WhenThere { bytes_max });
            self.h.start_receive_when_there(conn, bytes_max);
            return;
        }
        let whole = self.random.below(3) == 0;
        end.receives.push_back(Asked::Into { length, whole });
        self.h.start_receive(conn, length, whole);
    }

    fn close(&mut self, conn: ConnId, flush: bool) {
        let Some(end) = self.ends.get_mut(&conn) else {
            return;
        };
        end.closed = true;
        let peer = end.peer;
        // What was not flushed, or was sent to a closed end, may be lost; not what is left of order.
        end.failed = true;
        if let Some(peer) = self.ends.get_mut(&peer) {
            peer.failed = true;
        }
        self.h.kernel.submit(Op::Close { conn, flush });
    }

    fn write(&mut self) {
        let at = self.random.below(FILES) as usize;
        let blocks = 1 + self.random.below(16) as usize;
        let token = self.h.token();
        let file = &mut self.files[at];
        let mut buffer = Buffer::new(blocks * BLOCK);
        for (n, byte) in buffer.iter_mut().enumerate() {
            *byte = byte_at(
                ConnId(file.id.0 + 1_000_000),
                (file.written.len() + n) as u64,
            );
        }
        let offset = file.written.len() as u64;
        file.written.extend_from_slice(&buffer);
        file.writes.push_back((token, blocks * BLOCK));
        let shared = buffer.freeze();
        let cut = self.random.below(blocks as u64) as usize * BLOCK;
        self.h.kernel.submit(Op::Write {
            token,
            file: file.id,
            offset,
            slices: vec![shared.slice(0..cut), shared.slice(cut..blocks * BLOCK)],
        });
    }

    fn read(&mut self) {
        let at = self.random.below(FILES) as usize;
        let file = &self.files[at];
        // Of what is durable, and so must be there.
        let blocks = file.durable / BLOCK;
        if blocks == 0 {
            return;
        }
        let first = self.random.below(blocks as u64) as usize;
        let count = 1 + self.random.below((blocks - first) as u64).min(31) as usize;
        let token = self
            .h
            .start_read(file.id.0, (first * BLOCK) as u64, count * BLOCK);
        self.reads.insert(token, (at, (first * BLOCK) as u64));
    }

    fn check(&mut self) {
        for completion in self.h.rest() {
            match completion {
                Completion::Sent { conn, result } => {
                    let end = self.ends.get_mut(&conn).unwrap();
                    assert!(end.sends > 0, "one answer for each send");
                    end.sends -= 1;
                    if let Err(error) = result {
                        assert!(end.failed || end.shut, "{error}");
                    }
                }
                Completion::Received {
                    conn,
                    buffer,
                    range,
                    result,
                } => {
                    let end = self.ends.get_mut(&conn).unwrap();
                    let asked = end.receives.pop_front().expect("one answer for each");
                    let (length, whole) = match asked {
                        Asked::Into { length, whole } => {
                            assert_eq!(range, 0..length, "in the order of the ops");
                            (length, whole)
                        }
                        Asked::WhenThere { bytes_max } => {
                            let count = result.as_ref().map_or(0, |received| received.count);
                            assert_eq!(range, 0..count, "in the order of the ops");
                            (bytes_max.min(LENT_BYTES_MAX), false)
                        }
                    };
                    assert!(range.len() <= length);
                    let received = match result {
                        Ok(received) => received,
                        Err(error) => {
                            assert!(end.failed, "{error}");
                            continue;
                        }
                    };
                    for (n, byte) in buffer[..received.count].iter().enumerate() {
                        let position = end.taken + n as u64;
                        assert_eq!(*byte, byte_at(end.peer, position), "{conn:?} at {position}");
                    }
                    assert!(!end.ended || (received.count == 0 && (received.end || length == 0)));
                    if !received.end && length > 0 {
                        assert!(received.count > 0);
                        assert!(!whole || received.count == length);
                    }
                    end.taken += received.count as u64;
                    end.ended |= received.end;
                    self.moved += received.count as u64;
                    let (taken, ended, peer) = (end.taken, end.ended, end.peer);
                    let peer = &self.ends[&peer];
                    assert!(taken <= peer.given);
                    if ended {
                        assert!(peer.shut || peer.closed);
                        assert!(
                            taken == peer.given || peer.failed,
                            "nothing is lost before an end"
                        );
                    }
                }
                Completion::Done { token, result } => {
                    result.unwrap();
                    let file = self
                        .files
                        .iter_mut()
                        .find(|file| {
                            file.writes
                                .front()
                                .is_some_and(|(first, _)| *first == token)
                        })
                        .expect("writes of a file complete in order");
                    file.durable += file.writes.pop_front().unwrap().1;
                }
                Completion::Read {
                    token,
                    buffer,
                    range,
                    result,
                } => {
                    let (at, offset) = self.reads.remove(&token).expect("one answer");
                    assert_eq!(result.unwrap(), range.len());
                    assert!(
                        buffer[range.clone()]
                            == self.files[at].written[offset as usize..][..range.len()]
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Takes what is still on the way, closes everything, and waits for the last answer.
    fn finish(&mut self) {
        for conn in self.ids.clone() {
            self.h.kernel.submit(Op::ShutdownWrite { conn });
            self.ends.get_mut(&conn).unwrap().shut = true;
        }
        let give_up = Instant::now() + Duration::from_secs(20);
        while self.ends.values().any(|end| !end.ended && !end.failed) {
            for conn in self.ids.clone() {
                let end = &self.ends[&conn];
                if !end.ended && !end.failed && end.receives.len() < 2 {
                    self.receive(conn);
                }
            }
            self.h.round(5);
            self.check();
            assert!(Instant::now() < give_up);
        }
        for conn in self.ids.clone() {
            let flush = self.random.below(2) == 0;
            self.close(conn, flush);
        }
        let unanswered = |world: &World| {
            world
                .ends
                .values()
                .any(|end| end.sends > 0 || !end.receives.is_empty())
                || world.files.iter().any(|file| !file.writes.is_empty())
                || !world.reads.is_empty()
        };
        while unanswered(self) {
            self.h.round(5);
            self.check();
            assert!(Instant::now() < give_up, "some op was never answered");
        }
        // And none twice, which `check` would find.
        self.h.idle(20);
        self.check();
        assert_eq!(self.h.kernel.lent_buffers(), 0, "all came back");
        for end in self.ends.values() {
            let peer = &self.ends[&end.peer];
            assert!(
                end.failed || end.taken == peer.given,
                "{:?} lost bytes",
                end.conn
            );
        }
    }
}

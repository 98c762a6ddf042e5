//! A lane's segments: a node's records and its way of writing and rolling them, without the facts.
//!
//! ```text
//!  append ──▶ pending ──▶ one write in flight (up to 4 MiB) ──▶ durable position
//! ```

use std::collections::{BTreeMap, VecDeque};

use formats::record::{RecordHeader, RecordKind, ValueKind, total_length};
use formats::segment::{Birth, Predecessor, SegmentHeader, file_name};
use formats::{Identity, LogId, RECORD_HEADER};
use ops::{BLOCK, Buffer, FileId, Op, OpenMode, Pool, Slice, Token};
use paxos::{Digest, Slot, SlotRange};

use super::{Env, LaneId};

const SALT: u64 = 0x666c_6f6f_7221;
/// As much as a checkpoint of one stream takes, more or less: one block.
const CHECKPOINT_BYTES: usize = 300;

pub struct Segments {
    lane: LaneId,
    segment: u64,
    size_target: u64,
    /// The end of the open segment, with all that is queued.
    end: u64,
    last_number: u64,
    last_checksum: u32,
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    in_flight: Option<InFlight>,
    writing: Option<Writing>,
    new_files: BTreeMap<u64, NewFile>,
    waiting: BTreeMap<Token, Waiting>,
    directory_ready: bool,
    /// The stream's bytes below this are on disk.
    durable: u64,
    next_token: u32,
    next_file: u64,
    blocks: Pool,
}

struct Pending {
    segment: u64,
    slice: Slice,
    /// The stream's position at its end, if it has content.
    position: Option<u64>,
}

struct InFlight {
    bytes: u64,
    position: Option<u64>,
}

struct Writing {
    segment: u64,
    file: FileId,
    offset: u64,
}

struct NewFile {
    file: FileId,
    asked: bool,
    ready: bool,
}

enum Waiting {
    Directory,
    File(u64),
    Write,
    Closed,
}

impl Segments {
    pub fn new(env: &mut Env, lane: LaneId) -> Segments {
        let mut segments = Segments {
            lane,
            segment: 0,
            size_target: 0,
            end: 0,
            last_number: 0,
            last_checksum: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            in_flight: None,
            writing: None,
            new_files: BTreeMap::new(),
            waiting: BTreeMap::new(),
            directory_ready: false,
            durable: 0,
            next_token: 0,
            next_file: 0,
            blocks: Pool::new(BLOCK, 64),
        };
        let token = segments.token(Waiting::Directory);
        let path = env.directory.join(format!("log-{lane}"));
        env.ops.push_back(Op::CreateDirectory { token, path });
        segments.roll(env);
        segments
    }

    /// The stream's bytes below this are on disk.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Appended and not durable.
    pub fn queued_bytes(&self) -> u64 {
        self.pending_bytes + self.in_flight.as_ref().map_or(0, |write| write.bytes)
    }

    /// Queues one batch, which stands in `buffer[RECORD_HEADER..][..count]`; returns its payload.
    pub fn append(
        &mut self,
        env: &mut Env,
        buffer: Buffer,
        count: usize,
        position: u64,
        digest: Digest,
    ) -> Slice {
        let mut header = RecordHeader {
            kind: RecordKind::Accept,
            value: ValueKind::Content,
            digest,
            slots: SlotRange::new(Slot(position), Slot(position + count as u64)),
            ..RecordHeader::default()
        };
        header.position.0 = position;
        let end = position + count as u64;
        let shared = self.push(env, header, buffer, count, Some(end));
        if self.end >= self.size_target {
            self.roll(env);
        }
        self.pump(env);
        shared.within(RECORD_HEADER..RECORD_HEADER + count)
    }

    fn push(
        &mut self,
        env: &mut Env,
        mut header: RecordHeader,
        mut buffer: Buffer,
        count: usize,
        position: Option<u64>,
    ) -> Slice {
        let total = total_length(count);
        header.log = LogId(self.lane);
        header.number = self.last_number + 1;
        header.chain = self.last_checksum;
        header.payload_length = count as u32;
        buffer[RECORD_HEADER + count..total].fill(0);
        self.last_checksum = header.encode(SALT, &mut buffer);
        self.last_number = header.number;
        self.end += total as u64;
        if self.end >= self.size_target / 2 {
            self.ask_for_file(env, self.segment + 1);
        }
        let slice = buffer.freeze().slice(0..total);
        self.queue(slice.clone(), position);
        slice
    }

    fn queue(&mut self, slice: Slice, position: Option<u64>) {
        self.pending_bytes += slice.len() as u64;
        self.pending.push_back(Pending {
            segment: self.segment,
            slice,
            position,
        });
    }

    fn roll(&mut self, env: &mut Env) {
        let predecessor = Predecessor {
            last_record: self.last_number,
            end: self.end,
            checksum: self.last_checksum,
        };
        self.segment += 1;
        self.size_target = size_of(env, self.segment);
        self.end = BLOCK as u64;
        self.ask_for_file(env, self.segment);
        let header = SegmentHeader {
            version: formats::version::FIRST,
            identity: Identity::default(),
            log: LogId(self.lane),
            number: self.segment,
            salt: SALT,
            predecessor,
            birth: Birth::default(),
        };
        let block = Buffer::holding(&header.encode());
        self.queue(block.freeze().slice(0..BLOCK), None);
        self.push_block(env, RecordKind::Checkpoint);
        if self.segment > 1 {
            self.push_block(env, RecordKind::Index);
        }
        self.pump(env);
    }

    fn push_block(&mut self, env: &mut Env, kind: RecordKind) {
        let buffer = self.blocks.take();
        let payload = &buffer[RECORD_HEADER..RECORD_HEADER + CHECKPOINT_BYTES];
        let digest = formats::digest(payload);
        let header = RecordHeader {
            kind,
            digest,
            ..RecordHeader::default()
        };
        self.push(env, header, buffer, CHECKPOINT_BYTES, None);
    }

    fn ask_for_file(&mut self, env: &mut Env, segment: u64) {
        let writing = self.writing.as_ref().is_some_and(|w| w.segment == segment);
        if writing || self.new_files.contains_key(&segment) {
            return;
        }
        self.next_file += 1;
        let file = FileId(u64::from(self.lane) << 40 | self.next_file);
        let new = NewFile {
            file,
            asked: false,
            ready: false,
        };
        self.new_files.insert(segment, new);
        self.make_files(env);
    }

    fn make_files(&mut self, env: &mut Env) {
        if !self.directory_ready {
            return;
        }
        let unasked: Vec<(u64, FileId)> = self
            .new_files
            .iter_mut()
            .filter_map(|(segment, new)| {
                (!std::mem::replace(&mut new.asked, true)).then_some((*segment, new.file))
            })
            .collect();
        for (segment, file) in unasked {
            let token = self.token(Waiting::File(segment));
            let directory = env.directory.join(format!("log-{}", self.lane));
            let size_hint = size_of(env, segment);
            let (number, mode) = match env.written {
                0 => (segment, OpenMode::Create { size_hint }),
                count => (1 + (segment - 1) % count, OpenMode::ReadWrite),
            };
            env.ops.push_back(Op::Open {
                token,
                file,
                path: directory.join(file_name(number)),
                mode,
            });
        }
    }

    fn pump(&mut self, env: &mut Env) {
        if self.in_flight.is_some() {
            return;
        }
        let Some(segment) = self.pending.front().map(|first| first.segment) else {
            return;
        };
        if self.writing.as_ref().is_none_or(|w| w.segment != segment) {
            if !self.new_files.get(&segment).is_some_and(|new| new.ready) {
                return;
            }
            let Some(new) = self.new_files.remove(&segment) else {
                return;
            };
            let writing = Writing {
                segment,
                file: new.file,
                offset: 0,
            };
            if let Some(before) = self.writing.replace(writing) {
                let token = self.token(Waiting::Closed);
                env.ops.push_back(Op::CloseFile {
                    token,
                    file: before.file,
                });
            }
        }
        let mut slices = Vec::new();
        let mut write = InFlight {
            bytes: 0,
            position: None,
        };
        while let Some(next) = self.pending.front() {
            let bytes = write.bytes + next.slice.len() as u64;
            let fits = bytes <= env.limits.write_bytes_max as u64 && slices.len() < 1_000;
            if next.segment != segment || !(slices.is_empty() || fits) {
                break;
            }
            let Some(next) = self.pending.pop_front() else {
                break;
            };
            write.bytes = bytes;
            write.position = next.position.or(write.position);
            slices.push(next.slice);
        }
        let token = self.token(Waiting::Write);
        let Some(writing) = &mut self.writing else {
            return;
        };
        let (file, offset) = (writing.file, writing.offset);
        writing.offset += write.bytes;
        self.pending_bytes -= write.bytes;
        self.in_flight = Some(write);
        env.ops.push_back(Op::Write {
            token,
            file,
            offset,
            slices,
        });
    }

    /// Something the disk was asked for is done. Returns whether more is durable.
    pub fn on_done(&mut self, env: &mut Env, token: Token) -> bool {
        let before = self.durable;
        match self.waiting.remove(&token) {
            Some(Waiting::Directory) => {
                self.directory_ready = true;
                self.make_files(env);
            }
            Some(Waiting::File(segment)) => {
                if let Some(new) = self.new_files.get_mut(&segment) {
                    new.ready = true;
                }
            }
            Some(Waiting::Write) => {
                let position = self.in_flight.take().and_then(|write| write.position);
                self.durable = position.unwrap_or(self.durable);
            }
            Some(Waiting::Closed) | None => {}
        }
        self.pump(env);
        self.durable > before
    }

    fn token(&mut self, waiting: Waiting) -> Token {
        self.next_token = self.next_token.wrapping_add(1);
        let token = Token(u64::from(self.lane) << 32 | u64::from(self.next_token));
        self.waiting.insert(token, waiting);
        token
    }
}

fn size_of(env: &Env, segment: u64) -> u64 {
    let doublings = (segment - 1).min(30) as u32;
    (env.limits.segment_bytes_first << doublings).min(env.limits.segment_bytes_max)
}

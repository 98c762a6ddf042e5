//! From one segment to the next.

use std::io;
use std::time::Duration;

use formats::codec;
use formats::record::{RecordHeader, RecordKind, total_length};
use formats::segment::{Birth, Predecessor, SegmentHeader};
use ops::{BLOCK, FileId, Op, OpenMode};
use paxos::Checkpoint;
use paxos::mutation::{self, Mutation};

use super::super::extents::Extents;
use super::super::index::{RecordPlace, SegmentIndex};
use super::super::read::is_want_of_descriptors;
use super::super::trim::Spare;
use super::super::{Awaiting, IndexStands, RecordContext, Segment, Store};
use super::Open;
use super::files::NewFile;

/// The time before a file is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Store {
    /// Whether to roll at the next quiet point: the open segment has reached its size, or its head has
    /// rotted, or there is no segment yet.
    pub fn wants_roll(&self) -> bool {
        match &self.writer.open {
            None => !self.writer.failed,
            Some(open) => {
                let is_full = self.segments[&open.segment].end >= open.size_target;
                let is_old = open.version < self.config.version;
                is_full || is_old || self.reader.head.is_damaged(open.segment)
            }
        }
    }

    /// Writes in this version from the next segment on, which then begins soon.
    pub fn write_in(&mut self, version: u8) {
        self.config.version = self.config.version.max(version);
    }

    pub(super) fn open_version(&self) -> u8 {
        let open = self.writer.open.as_ref();
        open.expect("recovery is followed by a roll").version
    }

    /// Starts a new segment. `checkpoint` must contain the effect of every record appended so far.
    ///
    /// Its first block is written only after every earlier write completed: a segment that can be
    /// read proves that the one before is complete.
    pub fn roll(&mut self, checkpoint: &Checkpoint, context: RecordContext) {
        let previous = self.segments.last_key_value().map(|(number, _)| *number);
        let number = previous.unwrap_or(0) + 1;
        let salt = salt(self.config.salt_seed, number);
        let predecessor = Predecessor {
            last_record: self.writer.tail.number(),
            end: previous.map_or(0, |previous| self.segments[&previous].end),
            checksum: self.writer.tail.checksum(),
        };
        self.ask_for_file(number);
        let new = self.writer.files.wanted(number);
        let birth = Birth {
            in_used_file: new.is_some_and(|new| new.spare.is_some()),
            second: self.config.calendar.second(self.now).unwrap_or(0),
            first_unchosen: context.first_unchosen,
        };
        let version = self.config.version;
        let header = SegmentHeader {
            version,
            identity: self.config.identity,
            log: self.config.log,
            number,
            salt,
            predecessor,
            birth,
        };
        let index = previous.map(|previous| self.whole_index(previous));
        self.segments.insert(
            number,
            Segment {
                salt: Some(salt),
                end: BLOCK as u64,
                extents: Extents::default(),
                index: Some(SegmentIndex::default()),
                index_stands: None,
                unsearchable: false,
                last_used: 0,
            },
        );
        self.writer.open = Some(Open {
            segment: number,
            version,
            salt,
            size_target: self.size_target(number),
        });
        let mut block = self.blocks.take();
        let encoded = header.encode();
        block[..encoded.len()].copy_from_slice(&encoded);
        block[encoded.len()..].fill(0);
        self.queue(block.freeze().slice(0..BLOCK), number, 0, None);

        let accepted = checkpoint.accepted.iter().map(|run| run.slots.end).max();
        self.writer.tail.accept(accepted.unwrap_or_default());
        let record = RecordHeader {
            kind: RecordKind::Checkpoint,
            ..RecordHeader::default()
        };
        let encoded = match mutation::is(Mutation::CheckpointWithoutAcceptances) {
            false => codec::encode(version, checkpoint),
            true => codec::encode(
                version,
                &Checkpoint {
                    accepted: Vec::new(),
                    ..checkpoint.clone()
                },
            ),
        };
        self.push_encoded(record, &encoded, context, None);
        if let (Some(previous), Some(index)) = (previous, index) {
            let encoded = index.encode(version);
            let place = RecordPlace::new(
                self.segments[&number].end,
                total_length(encoded.len()) as u64,
            );
            let record = RecordHeader {
                kind: RecordKind::Index,
                ..RecordHeader::default()
            };
            self.push_encoded(record, &encoded, context, None);
            let number = self.writer.tail.number();
            let sealed = self.segments.get_mut(&previous).expect("it was just read");
            sealed.index_stands = Some(IndexStands { number, place });
        }
        for (stream, bytes) in std::mem::take(&mut self.writer.lost_early) {
            self.append_lost(stream, bytes);
        }
        // Without this the indexes of a log that nobody reads would pile up.
        self.drop_indexes();
    }

    /// The segment's index with what is still on its way to the disk.
    fn whole_index(&self, segment: u64) -> SegmentIndex {
        let loaded = self.segments[&segment].index.clone();
        let mut index = loaded.expect("the index of a segment without successor stays in memory");
        for fact in self.writer.durable.waiting() {
            if fact.segment == segment {
                index.apply(fact.stream, fact.bytes.clone(), fact.place);
            }
        }
        index
    }

    /// Asks for the file of the next segment, off the hot path: when the present one is half full.
    pub(super) fn ask_for_file(&mut self, segment: u64) {
        let files = &self.writer.files;
        if files.wanted(segment).is_some() || files.writing_to(segment).is_some() {
            return;
        }
        let spare = self.take_spare();
        self.want_file(segment, spare, None);
    }

    /// Wants a file to write to; with an offset one that is there, from there on.
    pub(super) fn want_file(
        &mut self,
        segment: u64,
        spare: Option<Spare>,
        goes_on_at: Option<u64>,
    ) {
        let file = self.file();
        let new = NewFile::new(file, spare, goes_on_at);
        self.writer.files.want(segment, new);
    }

    pub(super) fn make_file(&mut self) {
        let Some((segment, new)) = self.writer.files.next_to_make() else {
            return;
        };
        if new.again_at.is_some_and(|at| self.now < at) || new.asked {
            return;
        }
        new.asked = true;
        new.again_at = None;
        let (file, spare, exists) = (new.file, new.spare, new.exists);
        let path = self.path(segment);
        if let Some(spare) = spare
            && !exists
        {
            let token = self.token(Awaiting::SpareTaken { segment });
            let from = self.spare_path(spare.number);
            self.ops.push_back(Op::Rename {
                token,
                from,
                to: path,
            });
            return;
        }
        let size_hint = self.size_target(segment);
        let token = self.token(Awaiting::FileForWriting { segment, file });
        self.ops.push_back(Op::Open {
            token,
            file,
            path,
            mode: match exists {
                true => OpenMode::ReadWrite,
                false => OpenMode::Create { size_hint },
            },
        });
    }

    /// Asks again when nothing was done, and nothing is wrong with the disk: the process has too many open
    /// files, or the disk no room for a file, for now.
    fn asks_again(&mut self, segment: u64, error: &io::Error) -> bool {
        let helps = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on the disk",
            _ if is_want_of_descriptors(error) => "raise the limit of open files (ulimit -n)",
            _ => return false,
        };
        let Some(new) = self.writer.files.wanted_mut(segment) else {
            return false;
        };
        if !std::mem::replace(&mut new.told, true) {
            let log = self.config.log.0;
            tracing::warn!(log, %error, "a new segment waits; {helps}");
        }
        new.asked = false;
        new.again_at = Some(self.now + ASK_AGAIN_AFTER);
        true
    }

    pub(crate) fn on_file_for_writing(
        &mut self,
        segment: u64,
        file: FileId,
        result: io::Result<()>,
    ) {
        if let Err(error) = result {
            if self.asks_again(segment, &error) {
                return;
            }
            self.writer.files.give_up(segment);
            let path = self.path(segment);
            let sentence = format!("{} cannot be opened: {error}", path.display());
            self.fail(io::Error::new(error.kind(), sentence));
        } else if let Some(new) = self.writer.files.wanted_mut(segment) {
            new.ready = true;
        } else {
            self.close_file(file); // The store was closed meanwhile.
        }
    }

    /// Goes on once the spare has the segment's name, durably. It is written from its beginning, and never
    /// cut: bytes behind the records of this use have the salt of another.
    pub(crate) fn on_spare_taken(&mut self, segment: u64, result: io::Result<()>) {
        let Some(new) = self.writer.files.wanted(segment) else {
            return;
        };
        let file = new.file;
        if let Err(error) = result {
            if !self.asks_again(segment, &error) {
                self.writer.files.give_up(segment);
                self.fail(error);
            }
            return;
        }
        // A file that cannot be opened now is not renamed again.
        if let Some(new) = self.writer.files.wanted_mut(segment) {
            new.exists = true;
        }
        let token = self.token(Awaiting::FileForWriting { segment, file });
        self.ops.push_back(Op::Open {
            token,
            file,
            path: self.path(segment),
            mode: OpenMode::ReadWrite,
        });
    }

    /// The size at which a segment ends, about.
    pub(crate) fn size_target(&self, segment: u64) -> u64 {
        let doublings = (segment - 1).min(30) as u32;
        let size = self.config.segment_bytes_first << doublings;
        size.min(self.config.segment_bytes_max)
    }

    /// Whether writes may go to that segment now: its file is there, and every write to the one
    /// before is durable.
    pub(super) fn begin_segment(&mut self, segment: u64) -> bool {
        let writer = &mut self.writer;
        if writer.queue.writes_in_flight() > 0 || !writer.files.is_ready(segment) {
            return false;
        }
        if let Some(before) = writer.files.begin(segment) {
            self.close_file(before);
        }
        true
    }
}

/// The salt: another one for each use of a file (splitmix64).
fn salt(seed: u64, segment: u64) -> u64 {
    let mut z = seed.wrapping_add(segment.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

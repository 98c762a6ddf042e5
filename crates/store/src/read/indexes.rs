//! Indexes of sealed segments: read when a search needs one, and the ones used last are kept.

use std::collections::VecDeque;
use std::io;

use formats::LogId;
use formats::record::{RECORD_HEADER, RecordHeader, RecordKind};
use formats::version::Speaks;
use ops::{Buffer, Op};

use super::super::index::SegmentIndex;
use super::super::{Awaiting, Store};
use super::{READS_MAX, Step, again};

/// The most indexes of sealed segments in memory: each read needs one at a time.
const INDEXES_MAX: usize = READS_MAX;

impl Store {
    /// Loads an index. Every read that waits for it goes on, or fails, when it was read.
    pub(super) fn load_index(&mut self, segment: u64) {
        if self.reader.loading.insert(segment) {
            self.use_file(segment + 1);
            self.read_index(segment);
        }
    }

    pub(super) fn read_index(&mut self, segment: u64) {
        let Some(file) = self.reader.file(segment + 1) else {
            return;
        };
        let sealed = self.segments.get(&segment);
        let stands = sealed.and_then(|sealed| sealed.index_stands);
        let stands = stands.expect("an index is dropped from memory only once it is on disk");
        let token = self.token(Awaiting::Index { segment });
        let length = stands.place.length() as usize;
        self.ops.push_back(Op::Read {
            token,
            file,
            offset: stands.place.offset(),
            buffer: Buffer::new(length),
            range: 0..length,
        });
    }

    pub(crate) fn on_index(&mut self, segment: u64, buffer: &Buffer, result: io::Result<usize>) {
        self.reader.loading.remove(&segment);
        self.stop_using(segment + 1);
        let salt = self.segments.get(&(segment + 1)).and_then(|next| next.salt);
        let index = result.and_then(|count| {
            let record = &buffer[..count.min(buffer.len())];
            let index = parse_index(self.config.speaks, record, salt, self.config.log);
            index.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))
        });
        match index {
            Ok(index) => {
                if let Some(sealed) = self.segments.get_mut(&segment) {
                    sealed.index = Some(index);
                }
                let waits = |step: &Step| matches!(step, Step::NeedsIndex(s) if *s == segment);
                for job in self.reader.jobs_that(waits) {
                    self.advance(job);
                }
                self.drop_indexes();
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::InvalidData => self.give_up_segment(segment),
                    _ => self.on_unreadable_segment(segment, &error),
                }
                self.fail_search(segment, &error);
            }
        }
        self.admit();
    }

    /// Fails every read that waits for this index.
    pub(super) fn fail_search(&mut self, sealed: u64, error: &io::Error) {
        let waits = |step: &Step| matches!(step, Step::NeedsIndex(segment) if *segment == sealed);
        for job in self.reader.jobs_that(waits) {
            self.answer(job, Err(again(error).into()));
        }
    }

    /// Keeps the indexes used last, and those that are not on disk yet.
    pub(crate) fn drop_indexes(&mut self) {
        let durable = self.writer.durable.number();
        let mut loaded: VecDeque<_> = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.index.is_some())
            .filter(|(_, segment)| segment.index_stands.is_some_and(|s| s.number <= durable))
            .map(|(number, segment)| (segment.last_used, *number))
            .collect();
        loaded.make_contiguous().sort_unstable();
        while loaded.len() > INDEXES_MAX {
            let Some((_, number)) = loaded.pop_front() else {
                return;
            };
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.index = None;
            }
        }
    }
}

pub(crate) fn parse_index(
    speaks: Speaks,
    record: &[u8],
    salt: Option<u64>,
    log: LogId,
) -> Result<SegmentIndex, String> {
    let salt = salt.ok_or("the segment's first block is lost")?;
    let (header, _, _) =
        RecordHeader::decode(record, Some(salt)).map_err(|error| error.to_string())?;
    let end = RECORD_HEADER + header.payload_length as usize;
    let payload = record.get(RECORD_HEADER..end).unwrap_or_default();
    if header.kind != RecordKind::Index || header.log != log || !header.payload_is_right(payload) {
        return Err("the index is corrupt".to_owned());
    }
    SegmentIndex::decode(speaks, payload).map_err(|error| error.to_string())
}

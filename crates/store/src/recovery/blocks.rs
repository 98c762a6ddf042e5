//! The questions that the decision asks of a log's files.

use formats::record::{RecordError, RecordHeader};
use formats::segment::{SegmentError, SegmentHeader};

/// A log's segment files, oldest first; `at` counts them from 0. Offsets are those of blocks.
///
/// A record that stands in a file of another log, or is of no log, is [`Said::Nothing`].
pub trait Blocks {
    /// The reason why a block cannot be asked at all: no fact about it.
    type Error;

    /// The word of the file's first block.
    fn first(&mut self, at: usize) -> Result<First, Self::Error>;

    /// The word of a block; `None` behind the file's end.
    fn block(&mut self, at: usize, offset: u64) -> Result<Option<Said>, Self::Error>;

    /// Whether the record whose header stands there has its payload.
    fn is_whole(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
    ) -> Result<bool, Self::Error>;

    /// Takes a record of the segment, in order, whole or at least all of it but its bytes. `counts` if the
    /// engine is to know it too: it stands in the segment of the newest whole checkpoint, or behind. `chosen`
    /// if all slots below its first unchosen one hold the values accepted here before.
    fn take(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        taken: Taken,
    ) -> Result<(), Self::Error>;

    /// Takes a gap: durable records cannot be read, and acceptances may have been among them.
    fn take_gap(&mut self, at: usize);

    /// Takes a whole index of the segment `of`, which its successor holds. Returns whether it could be
    /// understood. If it `vouches`, the segment is not read; else all of it was.
    fn take_index(
        &mut self,
        of: usize,
        offset: u64,
        header: &RecordHeader,
        vouches: bool,
    ) -> Result<bool, Self::Error>;
}

/// The treatment of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub counts: bool,
    pub chosen: bool,
    /// Whether the record is whole: else its bytes are lost, and its header stands alone.
    pub is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The first block is this segment's.
    Own(SegmentHeader),
    /// The first block is that of a segment of this log and disk, of another number and salt.
    OtherNumber { number: u64, salt: u64 },
    /// The first block is another directory's, or a later program's.
    Foreign(SegmentError),
    /// The first block cannot be read.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A record of this log begins here, by its header: its use of the file, and its checksum.
    Record {
        header: RecordHeader,
        checksum: u32,
        salt: u64,
    },
    /// No record begins here.
    Nothing { why: RecordError, is_written: bool },
    /// The device does not give the block.
    Unreadable,
}

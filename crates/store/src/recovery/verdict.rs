//! The verdict on a directory.

use std::ops::Range;

use formats::record::RecordHeader;
use formats::segment::Birth;
use paxos::mutation::{self, Mutation};
use paxos::{PromisedTerm, Slot, StreamName};

/// The record that is expected, and its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub offset: u64,
    pub number: u64,
    /// The checksum of the record before.
    pub chain: u32,
}

impl Expected {
    /// The record that is expected behind that one.
    pub fn after(&self, header: &RecordHeader, checksum: u32) -> Expected {
        Expected {
            offset: self.offset + header.total_length() as u64,
            number: header.number + 1,
            chain: checksum,
        }
    }
}

/// The replica may start from this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The segments that stay, oldest first: as many of the files, from the first on.
    pub segments: Vec<Segment>,
    /// The segments that were being born, newest first: they are the last of the files.
    pub aside: Vec<Aside>,
    /// The promise: not below any that was told.
    pub promised: PromisedTerm,
    /// The first unchosen slot, by the newest record.
    pub first_unchosen: Slot,
    /// The slot beyond which no acceptance reaches.
    pub accepted_up_to: Slot,
    /// Acceptances below this slot may be forgotten: no prepare is answered until all below is known
    /// chosen. 0: none.
    pub learn_past: Slot,
    /// The point where the log goes on: the first record of the next segment follows this one.
    pub next: Expected,
    /// Acknowledged records that are not readable.
    pub lost: Vec<Lost>,
    /// Whether bytes that nobody was told of stand behind the end.
    pub torn: bool,
    /// Whether the last sound record says that all before it was durable, and nothing stands behind it: so
    /// ends a log that rested or was closed.
    pub rested: bool,
    pub records: u64,
}

impl Verdict {
    /// The last segment, if the log may go on in it as if its process had never ended: it rested, and nothing
    /// is wrong with it or behind it.
    ///
    /// ‡ Where a file was used before, nobody can tell which bytes stand behind the end. And where a slot was
    /// chosen since the segment's birth, the next birth is to say how old that is.
    pub fn resting(&self) -> Option<&Segment> {
        let last = self.segments.last()?;
        let is_whole = last.version > 0 && self.lost.is_empty() && self.learn_past == Slot(0);
        let is_last = self.aside.is_empty() && self.next.offset == last.end;
        let is_young = last.birth.first_unchosen == self.first_unchosen;
        let rests = self.rested && is_whole && is_last && is_young && !last.birth.in_used_file;
        (rests || mutation::is(Mutation::ContinuedWithoutRest)).then_some(last)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Unknown if its first block was lost and no record could be read.
    pub salt: Option<u64>,
    pub birth: Birth,
    /// The version of all in the segment; 0 if its first block does not say.
    pub version: u8,
    /// Its records end here.
    pub end: u64,
    /// The place of its successor's index of it, and the header of that record.
    pub index: Option<(u64, RecordHeader)>,
}

/// A segment that was being born, and of which nothing was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// Its first block is still that of the segment which the file was before.
    Spare(u64),
    Torn {
        is_written: bool,
    },
}

/// Acknowledged records that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub at: usize,
    /// The place in the file where it begins.
    pub from: u64,
    pub to: u64,
    pub first_record: u64,
    pub last_record: u64,
    /// The bytes of a stream, if nothing else is lost.
    pub bytes: Option<(StreamName, Range<u64>)>,
    pub reason: String,
}

//! What a directory comes to.

use std::ops::Range;

use formats::record::RecordHeader;
use formats::segment::Birth;
use paxos::mutation::{self, Mutation};
use paxos::{PromisedTerm, Slot, StreamName};

/// Where a record is expected, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub offset: u64,
    pub number: u64,
    /// The checksum of the record before.
    pub chain: u32,
}

impl Expected {
    /// What comes after that record.
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
    /// Those that stay, oldest first: as many of the files, from the first on.
    pub segments: Vec<Segment>,
    /// Those that were being born, newest first: they are the last of the files.
    pub aside: Vec<Aside>,
    /// Not below any promise that was told.
    pub promised: PromisedTerm,
    /// As the newest record says.
    pub first_unchosen: Slot,
    /// No acceptance reaches beyond it.
    pub accepted_up_to: Slot,
    /// Acceptances below this slot may be forgotten: no prepare is answered until all below is known
    /// chosen. 0: none.
    pub learn_past: Slot,
    /// Where the log goes on: the first record of the next segment follows this one.
    pub next: Expected,
    /// Acknowledged, and not readable.
    pub lost: Vec<Lost>,
    /// Something that nobody was told of stands behind the end.
    pub torn: bool,
    /// The last sound record says that all before it was durable, and nothing stands behind it: so ends
    /// a log that rested or was closed.
    pub rested: bool,
    pub records: u64,
}

impl Verdict {
    /// The last segment, if the log may go on in it as if its process had never ended: it rested, and nothing
    /// is wrong with it or behind it.
    ///
    /// ‡ Where a file was used before, nobody can tell what stands behind the end. And where something was chosen
    /// since the segment's birth, the next birth is to say how old that is.
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
    /// Of all in it; 0 if its first block does not say.
    pub version: u8,
    /// Its records end here.
    pub end: u64,
    /// Where its successor's word of it stands, and the number of that record.
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
    /// Where in the file it begins.
    pub from: u64,
    pub to: u64,
    pub first_record: u64,
    pub last_record: u64,
    /// Nothing but these bytes of a stream is lost.
    pub bytes: Option<(StreamName, Range<u64>)>,
    pub reason: String,
}

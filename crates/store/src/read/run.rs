//! Runs: records that stand one behind the other and hold one stretch of a stream, read at once.
//!
//! ```text
//! file     │header 0123 ░░│header 456 ░░░│header 789 ░░░│      one read
//! buffer   │header 0123456789 ░░░…                             each record checked, its bytes moved to those before
//! ```
//!
//! A small record takes a block of the disk, and reading it takes as long as reading many.

use std::ops::Range;

use ops::BLOCK;
use paxos::{StreamName, StreamPosition};

use super::super::Store;
use super::super::index::{RecordPlace, Whereabouts};

/// A record that is longer is better sent from where it lies in memory, alone, than moved.
const SENT_ALONE_BYTES: u64 = 4 * BLOCK as u64;

/// How much a read is to bring.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// So many bytes are of use. Whole records are read, and none that begins behind these bytes.
    pub bytes: u64,
    /// The bytes are to be sent, and need not be in memory for that.
    pub to_send: bool,
}

impl Reach {
    /// Whether more records than this one are of no use.
    fn is_met_by(self, first: RecordPlace) -> bool {
        self.to_send && first.length() > SENT_ALONE_BYTES
    }
}

/// One of the records, and the piece of the stream that the index says is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub place: RecordPlace,
    pub piece: Range<u64>,
}

impl Store {
    /// The records right behind the first one, of its segment, that go on with its bytes and fit into `room` with it.
    ///
    /// ‡ A record counts only where the newest word about its bytes is its own: no newer segment may speak of them, the index
    /// of this one names this record for them, and this replica holds them.
    pub(super) fn run_behind(
        &self,
        number: u64,
        stream: StreamName,
        position: u64,
        first: &Part,
        reach: Reach,
        room: u64,
    ) -> Vec<Part> {
        let index = self.segments.get(&number).and_then(|s| s.index.as_ref());
        let Some(index) = index.filter(|_| !reach.is_met_by(first.place)) else {
            return Vec::new();
        };
        let wanted = position.saturating_add(reach.bytes);
        let held = self.holdings.held_up_to(stream, StreamPosition(position)).0;
        let mut run: Vec<Part> = Vec::new();
        let mut length = first.place.length();
        loop {
            let last = run.last().unwrap_or(first);
            let from = last.piece.end;
            let Some((piece, Whereabouts::Record(place))) = index.find(stream, from) else {
                break;
            };
            length += place.length();
            let goes_on =
                piece.start == from && place.block == last.place.block + last.place.blocks;
            if from >= wanted || !goes_on || piece.end > held || length > room {
                break;
            }
            run.push(Part { place, piece });
        }
        let all = first.piece.end..run.last().map_or(0, |last| last.piece.end);
        let mut newer = self.segments.range(number + 1..);
        match newer.any(|(_, segment)| segment.extents.may_touch(stream, &all)) {
            true => Vec::new(),
            false => run,
        }
    }
}

/// Moves the bytes of the records behind the first one to those before them, which end at `end`. Returns where they end then.
///
/// `check` gives the place in a record of the bytes from a position on. What is not as the index says is left to the read that
/// asks for it.
pub(super) fn gather(
    records: &mut [u8],
    mut end: usize,
    first: &Part,
    run: &[Part],
    check: impl Fn(&[u8], u64) -> Result<Range<usize>, String>,
) -> usize {
    let mut at = first.place.length() as usize;
    for Part { place, piece } in run {
        let next = at + place.length() as usize;
        let Some(record) = records.get(at..next) else {
            break;
        };
        let bytes = check(record, piece.start);
        let is_all = |bytes: &Range<usize>| bytes.len() as u64 == piece.end - piece.start;
        let Some(bytes) = bytes.ok().filter(is_all) else {
            break;
        };
        let length = bytes.len();
        records.copy_within(at + bytes.start..at + bytes.end, end);
        end += length;
        at = next;
    }
    end
}

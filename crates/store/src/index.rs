//! The index of one segment: the places of its bytes.
//!
//! The newest record of the segment that speaks of a byte decides: it holds it, or it says that it
//! is lost. The index of a segment is a record of the *next* one, so a segment whose writer was
//! killed gets its index in the same way as one that was filled.

use std::collections::BTreeMap;
use std::ops::Range;

use formats::DecodeError;
use formats::codec::{Encode, Reader};
use formats::version::Speaks;
use ops::BLOCK;
use paxos::{StreamName, StreamPosition};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentIndex {
    /// Per stream disjoint pieces by their first position.
    streams: BTreeMap<StreamName, BTreeMap<u64, Piece>>,
    pieces: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    end: u64,
    place: Whereabouts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The bytes are in the record that starts here.
    Record(RecordPlace),
    /// The bytes are not held any more: older records are not to be trusted either.
    Lost,
}

/// A record's place, both numbers in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPlace {
    pub block: u32,
    pub blocks: u32,
}

impl RecordPlace {
    pub fn new(offset: u64, length: u64) -> RecordPlace {
        RecordPlace {
            block: (offset / BLOCK as u64) as u32,
            blocks: (length / BLOCK as u64) as u32,
        }
    }

    pub fn offset(&self) -> u64 {
        self.block as u64 * BLOCK as u64
    }

    pub fn length(&self) -> u64 {
        self.blocks as u64 * BLOCK as u64
    }
}

impl SegmentIndex {
    /// Applies a newer record that speaks of these bytes.
    pub fn apply(&mut self, stream: StreamName, bytes: Range<u64>, place: Whereabouts) {
        if bytes.is_empty() {
            return;
        }
        let pieces = self.streams.entry(stream).or_default();
        let before = pieces.len();
        while let Some((&from, &piece)) = pieces.range(..bytes.end).next_back() {
            if piece.end <= bytes.start {
                break;
            }
            pieces.remove(&from);
            if bytes.end < piece.end {
                pieces.insert(bytes.end, piece);
            }
            if from < bytes.start {
                let end = bytes.start;
                pieces.insert(from, Piece { end, ..piece });
                break;
            }
        }
        let end = bytes.end;
        pieces.insert(bytes.start, Piece { end, place });
        self.pieces = self.pieces + pieces.len() - before;
    }

    /// The piece around this byte.
    pub fn find(&self, stream: StreamName, position: u64) -> Option<(Range<u64>, Whereabouts)> {
        let pieces = self.streams.get(&stream)?;
        let (start, piece) = pieces.range(..=position).next_back()?;
        (position < piece.end).then_some((*start..piece.end, piece.place))
    }

    /// The beginning of the next piece behind this byte.
    pub fn next_piece(&self, stream: StreamName, position: u64) -> Option<u64> {
        let pieces = self.streams.get(&stream)?;
        let (start, _) = pieces.range(position..).next()?;
        Some(*start)
    }

    /// Every piece that is kept in that record.
    pub fn pieces_in(&self, place: RecordPlace) -> Vec<(StreamName, Range<u64>)> {
        self.iter()
            .filter(|(_, _, other)| *other == Whereabouts::Record(place))
            .map(|(stream, range, _)| (stream, range))
            .collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (StreamName, Range<u64>, Whereabouts)> + '_ {
        self.streams.iter().flat_map(|(stream, pieces)| {
            let pieces = pieces.iter();
            pieces.map(|(start, piece)| (*stream, *start..piece.end, piece.place))
        })
    }

    pub fn encode(&self, version: u8) -> Vec<u8> {
        formats::codec::encode(version, self)
    }

    pub fn decode(speaks: Speaks, bytes: &[u8]) -> Result<SegmentIndex, DecodeError> {
        formats::codec::decode(speaks, bytes)
    }
}

/// A list of streams, each with a list of pieces: start, end, block, blocks (0: lost).
impl Encode for SegmentIndex {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        (self.streams.len() as u32).put(out);
        for (stream, pieces) in &self.streams {
            stream.put(out);
            (pieces.len() as u32).put(out);
            for (start, piece) in pieces {
                let place = match piece.place {
                    Whereabouts::Record(place) => place,
                    Whereabouts::Lost => RecordPlace {
                        block: 0,
                        blocks: 0,
                    },
                };
                start.put(out);
                piece.end.put(out);
                place.block.put(out);
                place.blocks.put(out);
            }
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<SegmentIndex, DecodeError> {
        let mut index = SegmentIndex::default();
        let mut stream_before = None;
        for _ in 0..from.count(16)? {
            let stream = StreamName::parse(from)?;
            if stream_before.replace(stream) >= Some(stream) {
                return Err(DecodeError::Invalid("the order of streams"));
            }
            let mut pieces = BTreeMap::new();
            let mut end_before = 0;
            for _ in 0..from.count(24)? {
                let start = StreamPosition::parse(from)?.0;
                let end = u64::parse(from)?;
                let block = u32::parse(from)?;
                let blocks = u32::parse(from)?;
                if start < end_before || end <= start {
                    return Err(DecodeError::Invalid("the order of pieces"));
                }
                end_before = end;
                let place = match (block, blocks) {
                    (0, 0) => Whereabouts::Lost,
                    (_, 0) => return Err(DecodeError::Invalid("a record of no blocks")),
                    _ => Whereabouts::Record(RecordPlace { block, blocks }),
                };
                pieces.insert(start, Piece { end, place });
            }
            index.pieces += pieces.len();
            index.streams.insert(stream, pieces);
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use formats::record::{RECORD_HEADER, RecordHeader, RecordKind};
    use formats::version::FIRST;
    use formats::{DecodeError, LogId};
    use paxos::{Era, NodeId, PromisedTerm, Slot, Term};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_newest_record_that_speaks_of_a_byte_decides(
            steps in prop::collection::vec((0u32..5, 0u64..60, 1u64..20), 0..30),
        ) {
            let stream = StreamName::default();
            let mut index = SegmentIndex::default();
            let mut naive = [None; 100];
            for (kind, start, length) in steps {
                let place = match kind {
                    0 => Whereabouts::Lost,
                    block => Whereabouts::Record(RecordPlace { block, blocks: 1 }),
                };
                naive[start as usize..(start + length) as usize].fill(Some(place));
                index.apply(stream, start..start + length, place);
            }
            for (at, expected) in naive.iter().enumerate() {
                let found = index.find(stream, at as u64);
                prop_assert_eq!(found.as_ref().map(|(_, place)| *place), *expected);
                prop_assert!(found.is_none_or(|(range, _)| range.contains(&(at as u64))));
            }
            prop_assert_eq!(index.iter().count(), index.pieces);
            prop_assert_eq!(SegmentIndex::decode(Speaks::THIS, &index.encode(1)), Ok(index));
        }
    }

    proptest! {
        #[test]
        fn drawn_bytes_are_refused_or_have_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(index) = SegmentIndex::decode(Speaks::THIS, &bytes) {
                prop_assert_eq!(index.encode(bytes[0]), bytes);
            }
        }
    }

    #[test]
    fn a_count_that_cannot_be_right_allocates_nothing() {
        let bytes = [FIRST, 255, 255, 255, 255];
        let decoded = SegmentIndex::decode(Speaks::THIS, &bytes);
        assert_eq!(decoded, Err(DecodeError::Short));
    }

    #[test]
    fn golden_index_record() {
        let mut index = SegmentIndex::default();
        let place = RecordPlace {
            block: 4,
            blocks: 2,
        };
        index.apply(StreamName::default(), 10..30, Whereabouts::Record(place));
        index.apply(StreamName::default(), 15..20, Whereabouts::Lost);
        let payload = index.encode(FIRST);
        let owned = Term {
            era: Era(1),
            number: 7,
            owner: NodeId(2),
        };
        let header = RecordHeader {
            kind: RecordKind::Index,
            log: LogId(7),
            number: 42,
            watermark: 40,
            chain: 0x0102_0304,
            promised: PromisedTerm(owned),
            first_unchosen: Slot(1000),
            accepted_up_to: Slot(1005),
            learn_past: Slot(3),
            payload_length: payload.len() as u32,
            digest: formats::digest(&payload),
            ..RecordHeader::default()
        };
        let mut bytes = vec![0; RECORD_HEADER];
        header.encode(0x1122_3344_5566_7788, &mut bytes);
        bytes.extend_from_slice(&payload);
        let golden = include_str!("../testdata/index.hex").split_whitespace();
        let golden = golden.map(|byte| u8::from_str_radix(byte, 16).unwrap());
        assert_eq!(bytes, golden.collect::<Vec<u8>>());
    }
}

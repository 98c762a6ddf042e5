//! The bytes that a segment speaks of, roughly: what stays in memory when its index does not.
//!
//! A search loads the index of every newer segment that may hold the byte. While a node catches up, each
//! of its segments holds old bytes of a stream and its newest ones, and little between them: without
//! the gap between, all of them would seem to hold everything that was written meanwhile.
//!
//! ```text
//! pieces   ██ ███                    █ ████ █
//! extent   ███████░░░░░░░░░░░░░░░░░░░████████      one range but its greatest gaps
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use paxos::StreamName;

use super::holdings::without;
use super::index::SegmentIndex;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents {
    streams: BTreeMap<StreamName, Extent>,
}

/// A range but its greatest gaps. No piece lies outside of `hull`, or in one of the gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    hull: Range<u64>,
    gaps: Vec<Range<u64>>,
}

/// The most gaps of one stream in one segment.
const GAPS_MAX: usize = 3;

impl Extents {
    pub fn of(index: &SegmentIndex) -> Extents {
        let mut extents = Extents::default();
        for (stream, bytes, _) in index.iter() {
            extents.add(stream, bytes);
        }
        extents
    }

    pub fn add(&mut self, stream: StreamName, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        match self.streams.get_mut(&stream) {
            Some(extent) => extent.add(bytes),
            None => {
                let (hull, gaps) = (bytes, Vec::new());
                self.streams.insert(stream, Extent { hull, gaps });
            }
        }
    }

    pub fn may_hold(&self, stream: StreamName, position: u64) -> bool {
        let extent = self.streams.get(&stream);
        extent.is_some_and(|extent| extent.contains(position))
    }

    /// Whether some of these bytes may be spoken of.
    pub fn may_touch(&self, stream: StreamName, bytes: &Range<u64>) -> bool {
        let extent = self.streams.get(&stream);
        extent.is_some_and(|extent| extent.touches(bytes))
    }

    pub fn get(&self, stream: StreamName) -> Option<&Extent> {
        self.streams.get(&stream)
    }

    pub fn iter(&self) -> impl Iterator<Item = (StreamName, &Extent)> {
        self.streams
            .iter()
            .map(|(stream, extent)| (*stream, extent))
    }
}

impl Extent {
    pub fn start(&self) -> u64 {
        self.hull.start
    }

    pub fn end(&self) -> u64 {
        self.hull.end
    }

    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges = vec![self.hull.clone()];
        for gap in &self.gaps {
            ranges = ranges
                .iter()
                .flat_map(|range| without(range, gap))
                .collect();
        }
        ranges
    }

    /// The beginning of the next of these ranges.
    pub fn next_range(&self, behind: u64) -> Option<u64> {
        let starts = self.gaps.iter().map(|gap| gap.end);
        let starts = starts.chain([self.hull.start]);
        starts.filter(|start| *start > behind).min()
    }

    fn contains(&self, position: u64) -> bool {
        self.hull.contains(&position) && !self.gaps.iter().any(|gap| gap.contains(&position))
    }

    fn touches(&self, bytes: &Range<u64>) -> bool {
        let ranges = self.ranges().into_iter();
        let mut common = ranges.map(|own| own.start.max(bytes.start)..own.end.min(bytes.end));
        common.any(|common| !common.is_empty())
    }

    fn add(&mut self, bytes: Range<u64>) {
        // The common case, a stream that grows at its end, costs nothing.
        if !self.gaps.is_empty() {
            let gaps = self.gaps.iter().flat_map(|gap| without(gap, &bytes));
            self.gaps = gaps.collect();
        }
        let before = bytes.end..self.hull.start;
        let behind = self.hull.end..bytes.start;
        let new_gaps = [before, behind].into_iter().filter(|gap| !gap.is_empty());
        self.gaps.extend(new_gaps);
        self.hull.start = self.hull.start.min(bytes.start);
        self.hull.end = self.hull.end.max(bytes.end);
        while self.gaps.len() > GAPS_MAX {
            let lengths = self.gaps.iter().map(|gap| gap.end - gap.start);
            let smallest = lengths.zip(0..).min().map_or(0, |(_, at)| at);
            self.gaps.swap_remove(smallest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn old_and_new_bytes_of_a_stream_leave_the_gap_between_them() {
        let stream = StreamName::default();
        let mut extents = Extents::default();
        for step in 0..100 {
            extents.add(stream, 10 * step..10 * step + 10);
            extents.add(stream, 50_000 + 20 * step..50_000 + 20 * step + 15);
        }
        for (position, expected) in [(0, true), (999, true), (1_000, false), (49_999, false)] {
            assert_eq!(extents.may_hold(stream, position), expected, "{position}");
        }
        let extent = extents.get(stream).expect("it was added");
        assert_eq!((extent.start(), extent.end()), (0, 51_995));
        assert_eq!(extent.next_range(1_000), Some(50_000));
    }

    proptest! {
        #[test]
        fn no_piece_is_left_out(
            pieces in prop::collection::vec((0u64..100, 1u64..10), 1..30),
        ) {
            let stream = StreamName::default();
            let mut extents = Extents::default();
            let mut added = [false; 110];
            for (start, length) in pieces {
                extents.add(stream, start..start + length);
                added[start as usize..(start + length) as usize].fill(true);
            }
            let extent = extents.get(stream).expect("it was added");
            let ranges = extent.ranges();
            prop_assert!(ranges.len() <= GAPS_MAX + 1, "{:?}", ranges);
            for (at, added) in (0..).zip(added) {
                let may_hold = extents.may_hold(stream, at);
                prop_assert!(may_hold || !added, "{} of {:?}", at, ranges);
                prop_assert_eq!(may_hold, ranges.iter().any(|range| range.contains(&at)));
                let next = ranges.iter().map(|range| range.start).filter(|start| *start > at).min();
                prop_assert_eq!(extent.next_range(at), next);
            }
            // With few gaps nothing else is covered.
            let gaps = added[extent.start() as usize..extent.end() as usize]
                .chunk_by(|a, b| a == b)
                .filter(|run| !run[0]);
            if gaps.count() == 0 {
                prop_assert_eq!(ranges, vec![extent.start()..extent.end()]);
            }
        }
    }
}

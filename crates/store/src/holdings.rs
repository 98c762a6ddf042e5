//! The bytes of streams that are durably held.
//!
//! A set of intervals per stream: it grows with the number of holes, not with the data.

use std::collections::BTreeMap;
use std::ops::Range;

use paxos::{StreamName, StreamPosition};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    streams: BTreeMap<StreamName, Intervals>,
}

/// Disjoint ranges that do not touch: start to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Intervals {
    ranges: BTreeMap<u64, u64>,
}

impl Holdings {
    /// Whether every byte of the range is held (an empty range is).
    pub fn holds(&self, stream: StreamName, bytes: Range<StreamPosition>) -> bool {
        self.missing(stream, bytes).next().is_none()
    }

    /// The parts of the range that are not held, in order.
    pub fn missing(
        &self,
        stream: StreamName,
        bytes: Range<StreamPosition>,
    ) -> impl Iterator<Item = Range<StreamPosition>> + '_ {
        let held = self.streams.get(&stream).map(|i| &i.ranges);
        let end = bytes.end.0;
        let mut at = bytes.start.0;
        std::iter::from_fn(move || {
            while at < end {
                let containing = held
                    .and_then(|ranges| ranges.range(..=at).next_back())
                    .filter(|(_, held_to)| **held_to > at);
                if let Some((_, held_to)) = containing {
                    at = *held_to;
                    continue;
                }
                let next = held
                    .and_then(|ranges| ranges.range(at..).next())
                    .map_or(end, |(start, _)| *start);
                let hole = StreamPosition(at)..StreamPosition(next.min(end));
                at = next;
                return Some(hole);
            }
            None
        })
    }

    /// The parts of the range that are held, in order.
    pub fn held(
        &self,
        stream: StreamName,
        bytes: Range<StreamPosition>,
    ) -> impl Iterator<Item = Range<StreamPosition>> + '_ {
        let (mut at, end) = (bytes.start, bytes.end);
        let mut holes = self.missing(stream, bytes);
        std::iter::from_fn(move || {
            while at < end {
                let hole = holes.next().unwrap_or(end..end);
                let held = at..hole.start;
                at = hole.end;
                if !held.is_empty() {
                    return Some(held);
                }
            }
            None
        })
    }

    /// The position up to which the stream is held without a hole from `from` on.
    pub fn held_up_to(&self, stream: StreamName, from: StreamPosition) -> StreamPosition {
        let held = self
            .streams
            .get(&stream)
            .and_then(|intervals| intervals.ranges.range(..=from.0).next_back())
            .map_or(from.0, |(_, end)| (*end).max(from.0));
        StreamPosition(held)
    }

    /// Every held range, by stream.
    pub fn iter(&self) -> impl Iterator<Item = (StreamName, Range<StreamPosition>)> + '_ {
        self.streams.iter().flat_map(|(stream, intervals)| {
            let ranges = intervals.ranges.iter();
            ranges.map(|(start, end)| (*stream, StreamPosition(*start)..StreamPosition(*end)))
        })
    }

    pub fn bytes(&self) -> u64 {
        self.iter()
            .map(|(_, range)| range.end.0 - range.start.0)
            .sum()
    }

    pub(super) fn add(&mut self, stream: StreamName, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        self.streams.entry(stream).or_default().add(bytes);
    }

    pub(super) fn remove(&mut self, stream: StreamName, bytes: Range<u64>) {
        let Some(intervals) = self.streams.get_mut(&stream) else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        intervals.remove(bytes);
        if intervals.ranges.is_empty() {
            self.streams.remove(&stream);
        }
    }
}

/// The parts of `range` that are not in `taken`; none of them is empty.
pub fn without(range: &Range<u64>, taken: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let before = range.start..range.end.min(taken.start);
    let behind = range.start.max(taken.end)..range.end;
    let parts = match taken.is_empty() {
        true => [range.clone(), 0..0],
        false => [before, behind],
    };
    parts.into_iter().filter(|part| !part.is_empty())
}

impl Intervals {
    fn add(&mut self, bytes: Range<u64>) {
        let Range { mut start, mut end } = bytes;
        // The common case, a stream that grows at its end, touches one entry.
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start, end);
    }

    fn remove(&mut self, bytes: Range<u64>) {
        while let Some((&from, &to)) = self.ranges.range(..bytes.end).next_back() {
            if to <= bytes.start {
                break;
            }
            self.ranges.remove(&from);
            if bytes.end < to {
                self.ranges.insert(bytes.end, to);
            }
            if from < bytes.start {
                self.ranges.insert(from, bytes.start);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positions(range: Range<u64>) -> Range<StreamPosition> {
        StreamPosition(range.start)..StreamPosition(range.end)
    }

    #[test]
    fn removing_nothing_cuts_nothing() {
        let stream = StreamName::default();
        let mut holdings = Holdings::default();
        holdings.add(stream, 0..6);
        holdings.remove(stream, 3..3);
        let up_to = holdings.held_up_to(stream, StreamPosition(0));
        assert_eq!(up_to, StreamPosition(6));
    }

    proptest! {
        #[test]
        fn holdings_are_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..30),
            asked in (0u64..70, 0u64..30),
        ) {
            let stream = StreamName::default();
            let mut holdings = Holdings::default();
            let mut naive = [false; 100];
            for (add, start, length) in steps {
                let range = start..start + length;
                naive[start as usize..(start + length) as usize].fill(add);
                match add {
                    true => holdings.add(stream, range),
                    false => holdings.remove(stream, range),
                }
            }
            let mut missing = [false; 100];
            let asked = asked.0..asked.0 + asked.1;
            for hole in holdings.missing(stream, positions(asked.clone())) {
                prop_assert!(hole.start < hole.end);
                missing[hole.start.0 as usize..hole.end.0 as usize].fill(true);
            }
            let mut held = [false; 100];
            for part in holdings.held(stream, positions(asked.clone())) {
                prop_assert!(part.start < part.end);
                held[part.start.0 as usize..part.end.0 as usize].fill(true);
            }
            for at in 0..100 {
                prop_assert_eq!(held[at], asked.contains(&(at as u64)) && naive[at]);
            }
            for at in 0..100 {
                let expected = asked.contains(&at) && !naive[at as usize];
                prop_assert_eq!(missing[at as usize], expected, "at {}", at);
            }
            prop_assert_eq!(holdings.bytes(), naive.iter().filter(|held| **held).count() as u64);
            let up_to = holdings.held_up_to(stream, StreamPosition(asked.start));
            let run = naive[asked.start as usize..].iter().take_while(|held| **held).count();
            prop_assert_eq!(up_to.0 - asked.start, run as u64);
        }
    }
}

//! Facts about ranges of slots or positions: neighbours with the same fact are one entry.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Ranges<V> {
    /// By start; never empty, never overlapping.
    entries: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Ranges<V> {
    fn default() -> Ranges<V> {
        Ranges {
            entries: BTreeMap::new(),
        }
    }
}

impl<V: Clone + PartialEq> Ranges<V> {
    /// The entries that overlap `range`, cut to it.
    pub fn over(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &V)> {
        let before = self.entries.range(..range.start).next_back();
        let first = before.filter(|(_, (end, _))| *end > range.start);
        let from = first.map_or(range.start, |(start, _)| *start);
        let end = range.end.max(from);
        // An empty range overlaps nothing.
        let end = if range.is_empty() { from } else { end };
        let overlapping = self.entries.range(from..end);
        overlapping.map(move |(start, (stop, value))| {
            ((*start).max(range.start)..(*stop).min(range.end), value)
        })
    }

    pub fn get(&self, at: u64) -> Option<&V> {
        self.over(at..at + 1).next().map(|(_, value)| value)
    }

    /// Replaces whatever was said of the range.
    pub fn assign(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, (stop, same))) = self.entries.range(..start).next_back()
            && *stop == start
            && *same == value
        {
            start = *before;
        }
        if let Some((after, same)) = self.entries.get(&end)
            && *same == value
        {
            let after = *after;
            self.entries.remove(&end);
            end = after;
        }
        self.entries.insert(start, (end, value));
    }

    pub fn remove(&mut self, range: Range<u64>) {
        while !range.is_empty()
            && let Some((start, (end, value))) = self.entries.range(..range.end).next_back()
            && *end > range.start
        {
            let (start, end, value) = (*start, *end, value.clone());
            self.entries.remove(&start);
            if end > range.end {
                self.entries.insert(range.end, (end, value.clone()));
            }
            if start < range.start {
                self.entries.insert(start, (range.start, value));
            }
        }
    }

    /// The first end of the values from `from` on, or the place where they stop passing.
    pub fn prefix_end(&self, from: u64, mut passes: impl FnMut(&V) -> bool) -> u64 {
        let mut end = from;
        for (range, value) in self.over(from..u64::MAX) {
            if range.start != end || !passes(value) {
                break;
            }
            end = range.end;
        }
        end
    }

    pub fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.prefix_end(range.start, |_| true) >= range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_a_list_of_all_would_be() {
        let mut random = crate::Random::new(11);
        let mut ranges = Ranges::default();
        let mut list = [None; 60];
        for _ in 0..3000 {
            let start = random.below(60);
            let end = start + random.below(61 - start);
            let value = random.below(3);
            match random.below(3) {
                0 => {
                    ranges.remove(start..end);
                    list[start as usize..end as usize].fill(None);
                }
                _ => {
                    ranges.assign(start..end, value);
                    list[start as usize..end as usize].fill(Some(value));
                }
            }
            for (at, expected) in list.iter().enumerate() {
                assert_eq!(ranges.get(at as u64).copied(), *expected);
            }
            let mut seen = [None; 60];
            for (range, value) in ranges.over(start..end) {
                assert!(!range.is_empty());
                seen[range.start as usize..range.end as usize].fill(Some(*value));
            }
            let within = start as usize..end as usize;
            assert_eq!(seen[within.clone()], list[within.clone()]);
            let covered = list[within].iter().all(Option::is_some);
            assert_eq!(ranges.covers(start..end), covered);
            let starts: Vec<_> = ranges.entries.iter().collect();
            for pair in starts.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                assert!(a.1.0 < *b.0 || (a.1.0 == *b.0 && a.1.1 != b.1.1));
            }
        }
    }
}

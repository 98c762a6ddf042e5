//! An ordered map from slots to values, kept as runs.
//!
//! ```text
//!   slots   0         100        150   151              900
//!           ├─ content ┤  (hole)  ├ open ┤── content ────┤
//! ```
//!
//! A writer's bytes are one run however many batches brought them, so the maps stay a few entries
//! long. Steady state touches the last entry (growing) and the first one (shrinking), and neither
//! allocates.

use alloc::collections::VecDeque;

use crate::{Slot, SlotRange};

/// The value of a run: `extends` says whether two adjacent runs are one.
pub(crate) trait RunValue: Clone {
    fn extends(&self, before: &Self) -> bool;
}

impl RunValue for () {
    fn extends(&self, _: &()) -> bool {
        true
    }
}

/// Runs in the order of their slots; none is empty, none overlap, no two adjacent ones could be one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs<V> {
    runs: VecDeque<(SlotRange, V)>,
}

impl<V: RunValue> Runs<V> {
    pub(crate) fn new() -> Runs<V> {
        Runs {
            runs: VecDeque::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotRange, &V)> {
        self.runs.iter().map(|(slots, value)| (*slots, value))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The end of the last run; the first slot if there is none.
    pub(crate) fn end(&self) -> Slot {
        self.runs.back().map_or(Slot(0), |(slots, _)| slots.end)
    }

    /// The index of the first run that ends after `slot`.
    fn first_ending_after(&self, slot: Slot) -> usize {
        match self.runs.front() {
            None => 0,
            Some((first, _)) if slot < first.end => 0,
            Some(_) => self.runs.partition_point(|(slots, _)| slots.end <= slot),
        }
    }

    /// The run that holds `slot`.
    #[cfg(test)]
    pub(crate) fn get(&self, slot: Slot) -> Option<(SlotRange, &V)> {
        let (slots, value) = self.runs.get(self.first_ending_after(slot))?;
        (slots.start <= slot).then_some((*slots, value))
    }

    /// The parts of runs within `range`, in order.
    pub(crate) fn over(&self, range: SlotRange) -> impl Iterator<Item = (SlotRange, &V)> {
        let first = self.first_ending_after(range.start);
        self.runs
            .range(first..)
            .take_while(move |(slots, _)| slots.start < range.end)
            .map(move |(slots, value)| {
                let start = slots.start.max(range.start);
                let end = slots.end.min(range.end);
                (SlotRange { start, end }, value)
            })
    }

    /// The end of the unbroken sequence of slots from `from` whose values satisfy `holds`.
    pub(crate) fn prefix_end(&self, from: Slot, mut holds: impl FnMut(&V) -> bool) -> Slot {
        let mut end = from;
        for (slots, value) in self.runs.range(self.first_ending_after(from)..) {
            if slots.start > end || !holds(value) {
                break;
            }
            end = slots.end;
        }
        end
    }

    /// Whether every slot of `range` has a value that satisfies `holds`.
    pub(crate) fn covers(&self, range: SlotRange, holds: impl FnMut(&V) -> bool) -> bool {
        self.prefix_end(range.start, holds) >= range.end
    }

    /// Gives every slot of `range` this value, whatever it had.
    pub(crate) fn assign(&mut self, range: SlotRange, value: V) {
        if range.is_empty() {
            return;
        }
        match self.runs.back_mut() {
            Some((last, before)) if last.end == range.start && value.extends(before) => {
                last.end = range.end;
                return;
            }
            Some((last, _)) if last.end > range.start => {}
            _ => {
                self.runs.push_back((range, value));
                return;
            }
        }
        let mut at = self.first_ending_after(range.start);
        if self.runs[at].0.start < range.start {
            let (slots, before) = self.runs[at].clone();
            self.runs[at].0.end = range.start;
            at += 1;
            if range.end < slots.end {
                let rest = SlotRange::new(range.end, slots.end);
                self.runs.insert(at, (rest, before));
            }
        }
        while let Some((slots, _)) = self.runs.get_mut(at)
            && slots.start < range.end
        {
            if slots.end > range.end {
                slots.start = range.end;
                break;
            }
            self.runs.remove(at);
        }
        self.runs.insert(at, (range, value));
        self.join(at + 1);
        self.join(at);
    }

    /// Makes one run of the one at `at` and its predecessor, if they are one.
    fn join(&mut self, at: usize) {
        if at == 0 || at >= self.runs.len() {
            return;
        }
        let (slots, value) = &self.runs[at];
        let (before, value_before) = &self.runs[at - 1];
        if before.end == slots.start && value.extends(value_before) {
            let end = slots.end;
            self.runs[at - 1].0.end = end;
            self.runs.remove(at);
        }
    }

    /// Forgets every slot below `slot`.
    pub(crate) fn remove_below(&mut self, slot: Slot) {
        while let Some((first, _)) = self.runs.front_mut() {
            if first.end <= slot {
                self.runs.pop_front();
            } else {
                first.start = first.start.max(slot);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// 0 and 1 join with their like; 2 never does, as actions never do.
    impl RunValue for u8 {
        fn extends(&self, before: &u8) -> bool {
            self == before && *self != 2
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Assign(u64, u64, u8),
        RemoveBelow(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..40, 1u64..12, 0u8..2).prop_map(|(s, n, v)| Step::Assign(s, n, v)),
            2 => (0u64..40).prop_map(|s| Step::Assign(s, 1, 2)),
            1 => (0u64..20).prop_map(Step::RemoveBelow),
        ]
    }

    fn range(start: u64, end: u64) -> SlotRange {
        SlotRange::new(Slot(start), Slot(end))
    }

    proptest! {
        #[test]
        fn runs_agree_with_one_value_per_slot(steps in proptest::collection::vec(step(), 1..40)) {
            let mut runs = Runs::new();
            let mut model: BTreeMap<u64, u8> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Assign(start, len, value) => {
                        runs.assign(range(start, start + len), value);
                        for slot in start..start + len {
                            model.insert(slot, value);
                        }
                    }
                    Step::RemoveBelow(slot) => {
                        runs.remove_below(Slot(slot));
                        model = model.split_off(&slot);
                    }
                }
                let mut before: Option<(SlotRange, u8)> = None;
                for (slots, value) in runs.iter() {
                    prop_assert!(!slots.is_empty());
                    if let Some((b, v)) = before {
                        prop_assert!(b.end <= slots.start);
                        prop_assert!(b.end < slots.start || !value.extends(&v));
                    }
                    before = Some((slots, *value));
                }
                for slot in 0..60 {
                    let got = runs.get(Slot(slot)).map(|(slots, v)| {
                        assert!(slots.contains(Slot(slot)));
                        *v
                    });
                    prop_assert_eq!(got, model.get(&slot).copied());
                    let end = (slot..).find(|s| model.get(s) != Some(&1)).unwrap();
                    prop_assert_eq!(runs.prefix_end(Slot(slot), |v| *v == 1), Slot(end));
                    let over: Vec<(u64, u8)> = runs
                        .over(range(slot, slot + 7))
                        .flat_map(|(r, v)| (r.start.0..r.end.0).map(move |s| (s, *v)))
                        .collect();
                    let naive: Vec<(u64, u8)> =
                        model.range(slot..slot + 7).map(|(s, v)| (*s, *v)).collect();
                    prop_assert_eq!(over, naive);
                    prop_assert_eq!(
                        runs.covers(range(slot, slot + 3), |_| true),
                        (slot..slot + 3).all(|s| model.contains_key(&s))
                    );
                }
                prop_assert_eq!(
                    runs.end(),
                    model.keys().next_back().map_or(Slot(0), |s| Slot(s + 1))
                );
            }
        }
    }

    #[test]
    fn consecutive_batches_are_one_run() {
        let mut runs = Runs::new();
        for batch in 0..1000u64 {
            runs.assign(range(batch * 10, batch * 10 + 10), 0u8);
        }
        assert_eq!(runs.len(), 1);
        runs.clear();
        assert_eq!(runs.len(), 0);
    }
}

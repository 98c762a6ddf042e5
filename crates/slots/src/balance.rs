//! Evenly, with the fewest moves.
//!
//! Quotas differ by one at most. The larger ones go to the groups that have most already, ties to the lower number. Who has more than its quota gives its
//! highest slots; these, and those of groups that left, go in ascending order to those that have too few, in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

/// Whose each slot is to be, from whose each is. Without groups nothing changes.
pub fn balanced(slots: &[Option<u32>], groups: &BTreeSet<u32>) -> Vec<Option<u32>> {
    let mut after = slots.to_vec();
    if groups.is_empty() {
        return after;
    }
    let mut has: BTreeMap<u32, usize> = groups.iter().map(|group| (*group, 0)).collect();
    for group in slots.iter().flatten() {
        if let Some(count) = has.get_mut(group) {
            *count += 1;
        }
    }
    let (least, larger) = (slots.len() / groups.len(), slots.len() % groups.len());
    let mut by_count: Vec<(usize, u32)> = has.iter().map(|(group, has)| (*has, *group)).collect();
    // The most first; of equal ones the lower number.
    by_count.sort_by_key(|(has, group)| (usize::MAX - has, *group));
    let quotas: BTreeMap<u32, usize> = by_count
        .iter()
        .enumerate()
        .map(|(place, (_, group))| (*group, least + usize::from(place < larger)))
        .collect();
    let quota = |group: u32| quotas.get(&group).copied().unwrap_or(0);
    for slot in after.iter_mut().rev() {
        let Some(group) = *slot else { continue };
        match has.get_mut(&group) {
            Some(count) if *count > quota(group) => {
                *count -= 1;
                *slot = None;
            }
            Some(_) => {}
            // It left.
            None => *slot = None,
        }
    }
    let mut takers = groups.iter().flat_map(|group| {
        let lacks = quota(*group).saturating_sub(has.get(group).copied().unwrap_or(0));
        std::iter::repeat_n(*group, lacks)
    });
    for slot in &mut after {
        if slot.is_none() {
            *slot = takers.next();
        }
    }
    after
}

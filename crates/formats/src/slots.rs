//! The names of the first logs of kind `kv`, which are made together: which part of the slots one begins with. Slots move since.

/// How many slots there are.
const SLOTS: u32 = 16_384;

/// The most groups of a cluster.
const GROUPS_MAX: u16 = 1_024;

/// The name of the log of one group, counted from 1.
pub fn name_of(group: u16, groups: u16) -> String {
    format!("kv-{group}-of-{groups}")
}

/// The group that has this log, counted from 1, and the number of groups that there are. `None`: it is no group's.
pub fn group_of(name: &str) -> Option<(u16, u16)> {
    let (group, groups) = name.strip_prefix("kv-")?.split_once("-of-")?;
    let (group, groups): (u16, u16) = (group.parse().ok()?, groups.parse().ok()?);
    let is_group = group > 0 && group <= groups && groups <= GROUPS_MAX;
    (is_group && name == name_of(group, groups)).then_some((group, groups))
}

/// The first and the last slot that the group of this log begins with. `None`: it is none of the first groups.
pub fn range_of(name: &str) -> Option<(u16, u16)> {
    let (group, groups) = group_of(name)?;
    let begin = |group: u16| (u32::from(group) * SLOTS / u32::from(groups)) as u16;
    Some((begin(group - 1), begin(group) - 1))
}

#[cfg(test)]
mod tests {
    use super::{SLOTS, group_of, name_of, range_of};

    #[test]
    fn groups_share_all_slots_evenly() {
        for groups in [1, 2, 3, 5, 7, 1_024] {
            let ranges = (1..=groups).map(|group| range_of(&name_of(group, groups)));
            let ranges: Vec<(u16, u16)> = ranges.collect::<Option<_>>().expect("they are groups");
            let mut next = 0;
            for (first, last) in ranges {
                assert_eq!(first, next);
                let slots = u32::from(last - first) + 1;
                assert!(slots.abs_diff(SLOTS / u32::from(groups)) <= 1);
                next = last + 1;
            }
            assert_eq!(u32::from(next), SLOTS);
        }
        assert_eq!(range_of("kv-0-of-3"), None);
    }

    #[test]
    fn a_group_has_one_name() {
        for (group, groups) in [(1, 1), (2, 3), (1_024, 1_024)] {
            assert_eq!(group_of(&name_of(group, groups)), Some((group, groups)));
        }
        for name in [
            "kv-0-of-3",
            "kv-4-of-3",
            "kv-01-of-3",
            "kv-+1-of-3",
            "kv-1-of-0",
            "kv-1-of-2000",
            "kv-1",
            "main",
        ] {
            assert_eq!(group_of(name), None, "{name}");
        }
    }
}

//! The names of the logs of kind `kv`: which part of the slots one serves.

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

#[cfg(test)]
mod tests {
    use super::{group_of, name_of};

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

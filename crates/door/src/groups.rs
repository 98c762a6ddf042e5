//! The groups that this node has replicas of: which slots each serves, and who leads it.
//!
//! Slots stay where they are. The name of a group's log says which ones it serves: `kv-2-of-3` is the second of three equal parts.

use std::collections::BTreeMap;

use host::{Group, Host};
use kv::SLOTS;

/// The most groups of a cluster.
const GROUPS_MAX: u16 = 1_024;

/// The name of the log of one group, counted from 1.
pub fn name_of(group: u16, groups: u16) -> String {
    format!("kv-{group}-of-{groups}")
}

/// The first and the last slot of the group that has this log. `None`: it is no group's.
pub fn range_of(name: &str) -> Option<(u16, u16)> {
    let (group, groups) = name.strip_prefix("kv-")?.split_once("-of-")?;
    let (group, groups): (u16, u16) = (group.parse().ok()?, groups.parse().ok()?);
    if group == 0 || group > groups || groups > GROUPS_MAX || name != name_of(group, groups) {
        return None;
    }
    let begin = |group: u16| (u32::from(group) * u32::from(SLOTS) / u32::from(groups)) as u16;
    Some((begin(group - 1), begin(group) - 1))
}

/// A node that answers clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub node: u32,
    /// HOST:PORT, as clients reach it.
    pub address: String,
}

/// The leader of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    Here,
    /// Another node. The last one that did, if nobody is known to.
    There(Place),
    Nobody,
}

struct Known {
    range: (u16, u16),
    last: Option<Place>,
}

/// One group, for clients.
pub struct Served<'a> {
    pub name: &'a str,
    pub range: (u16, u16),
    pub leads: Leads,
}

pub struct Groups {
    own: Place,
    cluster: [u8; 16],
    known: BTreeMap<String, Known>,
}

impl Groups {
    pub fn new(address: String) -> Groups {
        Groups {
            // A node learns its number when it joins, and no group is here before.
            own: Place { node: 0, address },
            cluster: [0; 16],
            known: BTreeMap::new(),
        }
    }

    pub fn own(&self) -> &Place {
        &self.own
    }

    pub fn cluster(&self) -> [u8; 16] {
        self.cluster
    }

    /// The log of the group that serves this slot.
    pub fn of_slot(&self, slot: u16) -> Option<&str> {
        let mut known = self.known.iter();
        known
            .find(|(_, known)| (known.range.0..=known.range.1).contains(&slot))
            .map(|(name, _)| name.as_str())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Takes note of the host's groups.
    pub fn look(&mut self, host: &Host) {
        let is_here = |name: &str| host.groups().any(|group| group.name() == name);
        self.known.retain(|name, _| is_here(name));
        for group in host.groups() {
            self.own.node = group.own().0;
            self.cluster = group.cluster();
            let Some(range) = range_of(group.name()) else {
                continue;
            };
            if !self.known.contains_key(group.name()) {
                let known = Known { range, last: None };
                self.known.insert(group.name().to_owned(), known);
            }
            if let Some(known) = self.known.get_mut(group.name()) {
                known.last = place_of(group).or(known.last.take());
            }
        }
    }

    /// Its leader now, as far as this node knows.
    pub fn leads_now(&self, host: &Host, name: &str) -> Leads {
        let group = host.groups().find(|group| group.name() == name);
        match group.map(|group| (group.is_leading(), place_of(group))) {
            Some((true, _)) => Leads::Here,
            Some((false, Some(place))) => Leads::There(place),
            _ => Leads::Nobody,
        }
    }

    /// Its leader now, or the last one: ranges never vanish from clients' tables.
    fn leads(&self, host: &Host, name: &str) -> Leads {
        let last = self.known.get(name).and_then(|known| known.last.clone());
        match (self.leads_now(host, name), last) {
            (Leads::Nobody, Some(place)) => Leads::There(place),
            (leads, _) => leads,
        }
    }

    /// The groups that serve slots, in the order of these.
    pub fn served<'a>(&'a self, host: &Host) -> Vec<Served<'a>> {
        let known = self.known.iter();
        let mut served: Vec<Served<'a>> = known
            .map(|(name, known)| Served {
                name,
                range: known.range,
                leads: self.leads(host, name),
            })
            .collect();
        served.sort_by_key(|served| served.range);
        served
    }

    /// Whether each slot is served by some group.
    pub fn is_complete(&self) -> bool {
        let ranges = self.known.values().map(|known| known.range);
        let slots: u32 = ranges
            .map(|(first, last)| u32::from(last - first) + 1)
            .sum();
        slots == u32::from(SLOTS)
    }
}

fn place_of(group: &Group) -> Option<Place> {
    let leader = group.leader()?;
    Some(Place {
        node: leader.node.0,
        address: leader.door.clone()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_all_slots_evenly() {
        for groups in [1, 2, 3, 5, 7, 1_024] {
            let ranges = (1..=groups).map(|group| range_of(&name_of(group, groups)));
            let ranges: Vec<(u16, u16)> = ranges.collect::<Option<_>>().expect("they are groups");
            let mut next = 0;
            for (first, last) in ranges {
                assert_eq!(first, next);
                let slots = u32::from(last - first) + 1;
                assert!(slots.abs_diff(u32::from(SLOTS) / u32::from(groups)) <= 1);
                next = last + 1;
            }
            assert_eq!(next, SLOTS);
        }
        for name in [
            "kv",
            "kv-0-of-3",
            "kv-4-of-3",
            "kv-01-of-3",
            "kv-1-of-0",
            "kv-1-of-2000",
        ] {
            assert_eq!(range_of(name), None, "{name}");
        }
    }
}

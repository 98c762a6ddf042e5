//! The groups that this node has replicas of: which slots each serves, and who leads it.
//!
//! Slots stay where they are. The name of a group's log says which ones it serves: `kv-2-of-3` is the second of three equal parts.

use std::collections::BTreeMap;

use formats::slots::group_of;
use host::{Group, Host};
use kv::SLOTS;
use paxos::mutation::{self, Mutation};

/// The first and the last slot of the group that has this log. `None`: it is no group's.
pub fn range_of(name: &str) -> Option<(u16, u16)> {
    let (group, groups) = group_of(name)?;
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
    name: String,
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
    /// In the order of their slots.
    known: Vec<Known>,
    /// The host's changes that are taken note of.
    seen: Option<u64>,
}

impl Groups {
    pub fn new(address: String) -> Groups {
        Groups {
            // A node learns its number when it joins, and no group is here before.
            own: Place { node: 0, address },
            cluster: [0; 16],
            known: Vec::new(),
            seen: None,
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
        if mutation::is(Mutation::SlotOfAnotherGroup) {
            return self.names().next();
        }
        let behind = self.known.partition_point(|known| known.range.0 <= slot);
        let known = self.known.get(behind.checked_sub(1)?)?;
        (slot <= known.range.1).then_some(&*known.name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|known| &*known.name)
    }

    /// Takes note of the host's groups, if something has changed.
    pub fn look(&mut self, host: &Host) {
        if self.seen.replace(host.changes()) == Some(host.changes()) {
            return;
        }
        let before = std::mem::take(&mut self.known);
        let mut before: BTreeMap<String, Known> = before
            .into_iter()
            .map(|known| (known.name.clone(), known))
            .collect();
        for group in host.groups() {
            self.own.node = group.own().0;
            self.cluster = group.cluster();
            let name = group.name().to_owned();
            let Some(range) = range_of(&name) else {
                continue;
            };
            let last = before.remove(&name).and_then(|known| known.last);
            let last = place_of(group).or(last);
            self.known.push(Known { name, range, last });
        }
        self.known.sort_by_key(|known| known.range);
    }

    /// Its leader now, as far as this node knows.
    pub fn leads_now(&self, host: &Host, name: &str) -> Leads {
        match host
            .group(name)
            .map(|group| (group.is_leading(), place_of(group)))
        {
            Some((true, _)) => Leads::Here,
            Some((false, Some(place))) => Leads::There(place),
            _ => Leads::Nobody,
        }
    }

    /// Its leader now, or the last one: ranges never vanish from clients' tables.
    fn leads(&self, host: &Host, known: &Known) -> Leads {
        match (self.leads_now(host, &known.name), &known.last) {
            (Leads::Nobody, Some(place)) => Leads::There(place.clone()),
            (leads, _) => leads,
        }
    }

    /// The groups that serve slots, in the order of these.
    pub fn served<'a>(&'a self, host: &Host) -> Vec<Served<'a>> {
        let known = self.known.iter();
        let served = known.map(|known| Served {
            name: &known.name,
            range: known.range,
            leads: self.leads(host, known),
        });
        served.collect()
    }

    /// Whether each slot is served by some group.
    pub fn is_complete(&self) -> bool {
        let ranges = self.known.iter().map(|known| known.range);
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
    use formats::slots::name_of;

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
        assert_eq!(range_of("kv-0-of-3"), None);
    }
}

//! The groups that this node has replicas of: which slots each serves, and who leads it.
//!
//! The map in log 0 says who serves which slots. It may be a moment behind: a group that is to have a slot, and is led here, is asked while the one that
//! the map names is led elsewhere, and each group says by what stands in its own log where a slot is that it does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::slots::{Map, Part};
use host::{Group, Host};
use kv::SLOTS;
use paxos::mutation::{self, Mutation};

use crate::order::ByMap;

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
    last: Option<Place>,
    /// This node has no replica of it: a place where somebody knows who leads, and whether that is the leader by its own word.
    elsewhere: Option<(Place, bool)>,
}

/// Slots beside each other that one group serves, for clients.
pub struct Served<'a> {
    pub name: &'a str,
    pub range: (u16, u16),
    pub leads: Leads,
}

pub struct Groups {
    own: Place,
    cluster: [u8; 16],
    /// By the numbers of their logs.
    known: BTreeMap<u32, Known>,
    /// Those that are led here.
    here: BTreeSet<u32>,
    map: Arc<Map>,
    /// Where groups that are led here said that slots are, since the map changed.
    hints: BTreeMap<u16, u32>,
    /// The host's changes that are taken note of.
    seen: Option<u64>,
}

impl Groups {
    pub fn new(address: String) -> Groups {
        Groups {
            // A node learns its number when it joins, and no group is here before.
            own: Place { node: 0, address },
            cluster: [0; 16],
            known: BTreeMap::new(),
            here: BTreeSet::new(),
            map: Arc::default(),
            hints: BTreeMap::new(),
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
        let group = self.group_of(slot)?;
        self.name_of(group)
    }

    fn group_of(&self, slot: u16) -> Option<u32> {
        if let Some(hint) = self.hints.get(&slot)
            && self.here.contains(hint)
        {
            return Some(*hint);
        }
        let wanted = self.map.wanted_at(slot).map(|part| part.group);
        let Some(served) = self.map.served_at(slot).map(|part| part.group) else {
            return wanted;
        };
        // It may have the slot already: it says so, or where that is.
        let comes = wanted.filter(|group| self.here.contains(group));
        match self.here.contains(&served) {
            true => Some(served),
            false => comes.or(Some(served)),
        }
    }

    /// What the map says of the slot, and of this group.
    pub fn by_map(&self, slot: u16, name: &str) -> ByMap {
        let is_its = |group: u32| self.name_of(group) == Some(name);
        let served = self.map.served_at(slot).map(|part| part.group);
        ByMap {
            founds: self.map.founder_of(slot).is_some_and(is_its),
            is_elsewhere: served.is_some_and(|group| !is_its(group)),
        }
    }

    pub fn name_of(&self, group: u32) -> Option<&str> {
        self.known.get(&group).map(|known| &*known.name)
    }

    /// The group that serves the slot, as far as the directory was told.
    pub fn served_at(&self, slot: u16) -> Option<u32> {
        self.map.served_at(slot).map(|part| part.group)
    }

    /// A group that is led here says that another has the slot.
    pub fn hint(&mut self, slot: u16, group: u32) {
        self.hints.insert(slot, group);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.values().map(|known| &*known.name)
    }

    /// Takes note of the host's groups, if something has changed.
    pub fn look(&mut self, host: &Host) {
        let led = host.groups().filter(|group| group.is_leading());
        let led: BTreeSet<u32> = led.map(|group| group.log().0).collect();
        if led != self.here {
            self.here = led;
            self.hints.clear();
        }
        if self.seen.replace(host.changes()) == Some(host.changes()) {
            return;
        }
        if !Arc::ptr_eq(&self.map, host.map()) {
            self.map = host.map().clone();
            self.hints.clear();
        }
        let mut before = std::mem::take(&mut self.known);
        for group in host.groups() {
            self.own.node = group.own().0;
            self.cluster = group.cluster();
            let log = group.log().0;
            let name = group.name().to_owned();
            let last = before.remove(&log).and_then(|known| known.last);
            let last = place_of(group).or(last);
            let elsewhere = None;
            self.known.insert(
                log,
                Known {
                    name,
                    last,
                    elsewhere,
                },
            );
        }
        for (log, there) in host.elsewhere() {
            let place = Place {
                node: there.node.0,
                address: there.door.clone(),
            };
            self.known.entry(*log).or_insert_with(|| Known {
                name: there.name.clone(),
                last: Some(place.clone()),
                elsewhere: Some((place, there.is_leading)),
            });
        }
    }

    /// Where somebody knows who leads a group of which this node has no replica.
    pub fn place_elsewhere(&self, name: &str) -> Option<Place> {
        let mut known = self.known.values();
        let known = known.find(|known| known.name == name)?;
        Some(known.elsewhere.as_ref()?.0.clone())
    }

    /// Its leader now, as far as this node knows.
    pub fn leads_now(&self, host: &Host, name: &str) -> Leads {
        match host
            .group(name)
            .map(|group| (group.is_leading(), place_of(group)))
        {
            Some((true, _)) => Leads::Here,
            Some((false, Some(place))) => Leads::There(place),
            Some(_) => Leads::Nobody,
            None => self
                .place_elsewhere(name)
                .map_or(Leads::Nobody, Leads::There),
        }
    }

    /// Whether each group of which this node has a replica is led, as far as it knows.
    pub fn are_led(&self, host: &Host) -> bool {
        let here = self.known.values();
        let mut here = here.filter(|known| known.elsewhere.is_none());
        here.all(|known| self.leads_now(host, &known.name) != Leads::Nobody)
    }

    /// Its leader now, or the last one: ranges never vanish from clients' tables.
    fn leads(&self, host: &Host, known: &Known) -> Leads {
        match (self.leads_now(host, &known.name), &known.last) {
            (Leads::Nobody, Some(place)) => Leads::There(place.clone()),
            (leads, _) => leads,
        }
    }

    /// Slots, and the group that serves them: or is to, if nobody does yet.
    fn parts(&self) -> impl Iterator<Item = (u16, u16, u32)> {
        let parts = match self.map.served().is_empty() {
            true => self.map.wanted(),
            false => self.map.served(),
        };
        let part = |part: &Part| (part.span.first(), part.span.last(), part.group);
        parts.iter().map(part)
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    /// All groups of which it is known who leads them.
    pub fn all(&self, host: &Host) -> Vec<(u32, Leads)> {
        let here = self.known.iter();
        let here =
            here.filter(|(_, known)| known.elsewhere.as_ref().is_none_or(|(_, leads)| *leads));
        here.map(|(group, known)| (*group, self.leads(host, known)))
            .collect()
    }

    /// The groups that serve slots, in the order of these.
    pub fn served<'a>(&'a self, host: &Host) -> Vec<Served<'a>> {
        let mut all: Vec<Served<'a>> = Vec::new();
        for (first, last, group) in self.parts() {
            let Some(known) = self.known.get(&group) else {
                continue;
            };
            match all.last_mut() {
                // Of one group, by different wishes.
                Some(before) if before.name == known.name && before.range.1 + 1 == first => {
                    before.range.1 = last;
                }
                _ => all.push(Served {
                    name: &known.name,
                    range: (first, last),
                    leads: self.leads(host, known),
                }),
            }
        }
        all
    }

    /// Whether each slot is served by some group.
    pub fn is_complete(&self) -> bool {
        let slots = self
            .parts()
            .map(|(first, last, _)| u32::from(last - first) + 1);
        slots.sum::<u32>() == u32::from(SLOTS)
    }
}

fn place_of(group: &Group) -> Option<Place> {
    let leader = group.leader()?;
    Some(Place {
        node: leader.node.0,
        address: leader.door.clone()?,
    })
}

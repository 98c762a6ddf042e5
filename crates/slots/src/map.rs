//! The map: what is wanted, and what is so.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::balance::balanced;
use crate::change::{Change, GROUPS_MAX, Refused};
use crate::part::{self, Part, Whose, at, gathered, spread};
use crate::past::Past;
use crate::span::{SLOTS, Span};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Map {
    version: u32,
    groups: BTreeSet<u32>,
    wanted: Vec<Part>,
    served: Vec<Part>,
    founders: Vec<Part>,
    past: Past,
}

/// Slots that are on their way, or whose owner has not taken note that it keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    pub span: Span,
    /// `None`: nobody serves them yet.
    pub from: Option<u32>,
    pub to: u32,
    pub since: u32,
}

impl Map {
    /// Counts changes. 0: no group ever joined.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The groups that are to have slots.
    pub fn groups(&self) -> &BTreeSet<u32> {
        &self.groups
    }

    /// All slots, in their order, and since which version each is to be its group's.
    pub fn wanted(&self) -> &[Part] {
        &self.wanted
    }

    /// The slots that some group said it serves, and which version's wish it had noted then.
    pub fn served(&self) -> &[Part] {
        &self.served
    }

    /// The groups that the first version gave slots to. Nobody else begins with them.
    pub fn founders(&self) -> &[Part] {
        &self.founders
    }

    pub fn founder_of(&self, slot: u16) -> Option<u32> {
        at(&self.founders, slot).map(|part| part.group)
    }

    pub fn wanted_at(&self, slot: u16) -> Option<&Part> {
        at(&self.wanted, slot)
    }

    pub fn served_at(&self, slot: u16) -> Option<&Part> {
        at(&self.served, slot)
    }

    /// How many slots a group is to have.
    pub fn slots_of(&self, group: u32) -> u32 {
        let parts = self.wanted.iter().filter(|part| part.group == group);
        parts.map(|part| part.span.count()).sum()
    }

    /// How many slots a group serves.
    pub fn served_by(&self, group: u32) -> u32 {
        let parts = self.served.iter().filter(|part| part.group == group);
        parts.map(|part| part.span.count()).sum()
    }

    /// All slots, given out evenly to these groups, in the order in which they are named: they begin with them.
    fn begin(&mut self, groups: &[u32]) {
        let count = groups.len().max(1) as u32;
        let group_at = |slot: u16| {
            let behind = |place: u32| place * u32::from(SLOTS) / count > u32::from(slot);
            (1..=count)
                .find(|place| behind(*place))
                .map(|place| place - 1)
        };
        let slots = (0..SLOTS).map(|slot| group_at(slot).and_then(|at| groups.get(at as usize)));
        let slots: Vec<Option<u32>> = slots.map(|group| group.copied()).collect();
        self.want(slots.into_iter());
        self.founders.clone_from(&self.wanted);
        // Nobody else can have them.
        self.served.clone_from(&self.wanted);
    }

    fn adopt(&self, version: u32, parts: &[Part]) -> Result<Map, Refused> {
        if self.version > 0 {
            let is_it = self.version == version && self.past.at(version) == Some(parts);
            return if is_it {
                Ok(self.clone())
            } else {
                Err(Refused::Begun)
            };
        }
        let slots = spread(parts);
        let counted = parts.iter().map(|part| part.span.count()).sum::<u32>();
        let is_whole = counted == u32::from(SLOTS) && slots.iter().all(Option::is_some);
        let is_known = parts.iter().all(|part| (1..=version).contains(&part.since));
        if !is_whole || !is_known {
            return Err(Refused::Unsound);
        }
        let mut map = Map {
            version,
            groups: parts.iter().map(|part| part.group).collect(),
            wanted: gathered(&slots),
            ..Map::default()
        };
        map.founders.clone_from(&map.wanted);
        map.served.clone_from(&map.wanted);
        map.past.add(version, map.wanted.clone());
        Ok(map)
    }

    /// Sets whose each slot is to be: a new version, if that is another than before.
    fn want(&mut self, groups: impl Iterator<Item = Option<u32>>) {
        let before = spread(&self.wanted);
        let version = self.version + 1;
        let after = before.iter().zip(groups).map(|(before, group)| {
            let since = match *before {
                Some((was, since)) if Some(was) == group => since,
                _ => version,
            };
            group.map(|group| (group, since))
        });
        self.version = version;
        self.wanted = gathered(&after.collect::<Vec<Whose>>());
        self.past.add(version, self.wanted.clone());
    }

    fn wanted_groups(&self) -> Vec<Option<u32>> {
        let slots = spread(&self.wanted).into_iter();
        slots.map(|whose| whose.map(|(group, _)| group)).collect()
    }

    /// The map after a change. One that changes nothing gives the same map.
    pub fn changed(&self, change: &Change) -> Result<Map, Refused> {
        let mut map = self.clone();
        let after = match change {
            Change::Join { groups } => {
                map.groups.extend(groups);
                if map.groups.len() > GROUPS_MAX {
                    return Err(Refused::TooMany);
                }
                if map.groups == self.groups {
                    return Ok(map);
                }
                if self.version == 0 {
                    let mut named = BTreeSet::new();
                    let once = groups.iter().copied().filter(|group| named.insert(*group));
                    map.begin(&once.collect::<Vec<u32>>());
                    return Ok(map);
                }
                balanced(&self.wanted_groups(), &map.groups)
            }
            Change::Leave { group } => {
                if !map.groups.remove(group) {
                    return Ok(map);
                }
                if map.groups.is_empty() {
                    return Err(Refused::Last);
                }
                balanced(&self.wanted_groups(), &map.groups)
            }
            Change::Move { spans, group } => {
                if !map.groups.contains(group) {
                    return Err(Refused::NotIn(*group));
                }
                if spans.is_empty() {
                    return Err(Refused::NoSlots);
                }
                let mut named = BTreeSet::new();
                let mut slots = self.wanted_groups();
                for slot in spans.iter().flat_map(|span| span.slots()) {
                    if !named.insert(slot) {
                        return Err(Refused::Twice(slot));
                    }
                    if let Some(whose) = slots.get_mut(usize::from(slot)) {
                        *whose = Some(*group);
                    }
                }
                slots
            }
            Change::Balance => balanced(&self.wanted_groups(), &map.groups),
            Change::Adopt { version, parts } => return self.adopt(*version, parts),
        };
        if after == self.wanted_groups() && map.groups == self.groups {
            return Ok(map);
        }
        if self.version == 0 && map.groups.is_empty() {
            return Ok(map);
        }
        map.want(after.into_iter());
        Ok(map)
    }

    /// Whether [`Map::serve`] would change something.
    pub fn is_news(&self, span: Span, since: u32, group: u32) -> bool {
        span.slots().any(|slot| self.is_news_of(slot, since, group))
    }

    /// ‡ Only a newer word changes anything, and none is newer than what is wanted.
    /// Of the last wish none but the group that it names can say that it serves the slot by it.
    fn is_news_of(&self, slot: u16, since: u32, group: u32) -> bool {
        let is_newer = self.served_at(slot).is_none_or(|part| part.since < since);
        let is_known = self
            .wanted_at(slot)
            .is_some_and(|part| since < part.since || (since, group) == (part.since, part.group));
        is_newer && is_known && since > 0
    }

    /// An owner's word: it serves these slots, and has taken note of the wish of that version. True if something changed.
    pub fn serve(&mut self, span: Span, since: u32, group: u32) -> bool {
        let news: Vec<u16> = span
            .slots()
            .filter(|slot| self.is_news_of(*slot, since, group))
            .collect();
        if news.is_empty() {
            return false;
        }
        let mut slots = spread(&self.served);
        for slot in news {
            if let Some(whose) = slots.get_mut(usize::from(slot)) {
                *whose = Some((group, since));
            }
        }
        self.served = gathered(&slots);
        true
    }

    /// The slots that are on their way. It costs by the parts there are, and not by the slots: clients' questions about the cluster ask for it.
    pub fn moving(&self) -> Vec<Moving> {
        let mut moving: Vec<Moving> = Vec::new();
        for part in &self.wanted {
            let mut next = Some(part.span.first());
            while let Some(first) = next {
                let (last, served) = self.served_alike(first, part.span.last());
                next = last.checked_add(1).filter(|slot| *slot <= part.span.last());
                let is_there = served
                    .is_some_and(|served| (served.group, served.since) == (part.group, part.since));
                if let Some(span) = Span::new(first, last).filter(|_| !is_there) {
                    let from = served.map(|served| served.group);
                    let (to, since) = (part.group, part.since);
                    add(
                        &mut moving,
                        Moving {
                            span,
                            from,
                            to,
                            since,
                        },
                    );
                }
            }
        }
        moving
    }

    /// The last slot, from this one to that, of which the same is served as of this one; and what that is.
    fn served_alike(&self, first: u16, last: u16) -> (u16, Option<&Part>) {
        let behind = self.served.partition_point(|part| part.span.last() < first);
        match self.served.get(behind) {
            Some(part) if part.span.contains(first) => (part.span.last().min(last), Some(part)),
            // Nobody serves what lies before it.
            Some(part) => (part.span.first().saturating_sub(1).clamp(first, last), None),
            None => (last, None),
        }
    }

    /// Whether each slot is where it is wanted, and its group has taken note of that.
    pub fn is_settled(&self) -> bool {
        self.wanted == self.served
    }

    /// Whether the log of this group may be deleted.
    ///
    /// ‡ Not while any slot is on its way: it may be on its way there, by an earlier wish.
    pub fn may_go(&self, group: u32) -> Result<(), Refused> {
        let parts = self.wanted.iter().chain(&self.served);
        let is_part = parts.chain(&self.founders).any(|part| part.group == group);
        match () {
            () if self.groups.contains(&group) => Err(Refused::HasSlots(group)),
            () if is_part && !self.is_settled() => Err(Refused::Moving),
            () if !is_part && !self.is_settled() && self.knew(group) => Err(Refused::Moving),
            () => Ok(()),
        }
    }

    /// Whether some version wanted this group to have slots.
    fn knew(&self, group: u32) -> bool {
        let versions = self.past.versions();
        let parts = versions
            .filter_map(|version| self.past.at(version))
            .flatten();
        parts.into_iter().any(|part| part.group == group)
    }

    /// The parts that version wanted, if that is still known.
    pub fn at(&self, version: u32) -> Option<&[Part]> {
        self.past.at(version)
    }

    /// The versions that are still known.
    pub fn versions(&self) -> impl Iterator<Item = u32> {
        self.past.versions()
    }

    /// Only these logs are left: groups that are lost have no slots any more, and those that are left share theirs.
    pub fn keep_only(&mut self, logs: &BTreeSet<u32>) {
        let left: BTreeSet<u32> = self.groups.intersection(logs).copied().collect();
        if left == self.groups {
            return;
        }
        self.groups = left;
        self.served.retain(|part| logs.contains(&part.group));
        if !self.groups.is_empty() {
            let after = balanced(&self.wanted_groups(), &self.groups);
            self.want(after.into_iter());
        }
        debug_assert!(part::spread(&self.wanted).len() == usize::from(SLOTS));
    }
}

/// Neighbours of which the same is said are one.
fn add(moving: &mut Vec<Moving>, next: Moving) {
    if let Some(last) = moving.last_mut()
        && last.span.last() + 1 == next.span.first()
        && (last.from, last.to, last.since) == (next.from, next.to, next.since)
        && let Some(span) = Span::new(last.span.first(), next.span.last())
    {
        last.span = span;
    } else {
        moving.push(next);
    }
}

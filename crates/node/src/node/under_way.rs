//! The things that a node knows of slots beside their map: how many are on their way and for how long, for people; and where clients find groups of which it has
//! no replica.

use std::collections::{BTreeMap, BTreeSet};

use formats::{Frame, LogId};
use letters::{Elsewhere, GroupElsewhere};
use ops::Time;
use paxos::NodeId;
use slots::{Map, Moving};
use wire::told::SlotsUnderWay;

use super::Node;
use crate::directory::Directory;

/// When this node heard first of each version of the map by which slots are on their way.
#[derive(Default)]
pub struct UnderWay(BTreeMap<u32, Time>);

impl UnderWay {
    pub fn look(&mut self, map: &Map, now: Time) {
        if map.is_settled() {
            return self.0.clear();
        }
        let moving = map.moving();
        self.0
            .retain(|version, _| moving.iter().any(|moving| moving.since == *version));
        for Moving { since, .. } in moving {
            self.0.entry(since).or_insert(now);
        }
    }

    pub fn told(&self, directory: &Directory, now: Time) -> Vec<SlotsUnderWay> {
        let map = &directory.slots;
        let mut left: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for moving in map.moving() {
            *left.entry((moving.since, moving.to)).or_default() += moving.span.count();
        }
        let told = left.into_iter().map(|((since, to), left)| {
            let its = map.wanted().iter();
            let its = its.filter(|part| (part.since, part.group) == (since, to));
            let known = self.0.get(&since).copied().unwrap_or(now);
            SlotsUnderWay {
                to: directory.name_of_group(to),
                since,
                slots: its.map(|part| part.span.count()).sum(),
                left,
                for_ms: (now - known).as_millis() as u64,
            }
        });
        told.collect()
    }
}

impl Node {
    pub(super) fn look_at_slots(&mut self) {
        let map = &self.cluster.directory.slots;
        self.under_way.look(map, self.env.now);
        // Only while slots are on their way others serve some, and a map may have thousands of parts.
        let serving = map.served().iter().filter(|_| !self.under_way.0.is_empty());
        let groups: BTreeSet<u32> = serving.map(|part| part.group).collect();
        let groups: BTreeSet<u32> = groups.union(map.groups()).copied().collect();
        let away = groups.iter();
        let away = away.filter_map(|group| Some((*group, self.elsewhere(LogId(*group))?)));
        let away: Elsewhere = away.collect();
        self.hosted.note_elsewhere(away);
        self.tell_leads(&groups);
    }

    /// Where clients find a group of which this node has no replica.
    fn elsewhere(&self, log: LogId) -> Option<GroupElsewhere> {
        let directory = &self.cluster.directory;
        let entry = directory.logs.get(&log);
        let entry = entry.filter(|_| self.logs.get(&log).is_none())?;
        let hosts = entry.hosts.iter().map(|host| NodeId(*host));
        let door = |node: NodeId| Some((node, self.env.peers.doors.get(&node)?));
        let doors: Vec<(NodeId, &String)> = hosts.filter_map(door).collect();
        let leader = self.leader_elsewhere(log);
        let leader = doors.iter().find(|(node, _)| Some(*node) == leader);
        let alive = doors.iter().find(|(node, _)| self.peers.is_alive(*node));
        let (node, door) = leader.or(alive).or(doors.first())?;
        Some(GroupElsewhere {
            name: entry.name.clone(),
            node: *node,
            is_leading: leader.is_some(),
            door: (*door).clone(),
        })
    }

    /// The live node that said last that it leads a group of keys of which this node has no replica. It may be deposed by now.
    pub(super) fn leader_elsewhere(&self, group: LogId) -> Option<NodeId> {
        let live = self.peers.live();
        let said = live.filter_map(|(node, peer)| Some((peer.said.leads_since(group)?, *node)));
        said.max().map(|(_, node)| node)
    }

    /// Takes a peer's word on the groups that it leads. It leads none of which it has no replica.
    pub(super) fn on_leads_told(&mut self, peer: NodeId, groups: Vec<LogId>) {
        let directory = &self.cluster.directory;
        let listed = |group: &LogId| {
            let entry = directory.logs.get(group);
            entry.is_some_and(|entry| entry.hosts.contains(&peer.0))
        };
        let groups: Vec<LogId> = groups.into_iter().filter(listed).collect();
        let said = &mut self.peers.get_or_add(peer).said;
        said.on_leads(self.env.now, groups.into_iter());
    }

    /// Tells each peer which groups are led here of those that it has no replica of, where that is news.
    fn tell_leads(&mut self, groups: &BTreeSet<u32>) {
        let groups = groups.iter().map(|group| LogId(*group));
        let is_led = |group: &LogId| {
            let log = self.logs.get(group);
            log.is_some_and(|log| log.is_leading())
        };
        let led: Vec<LogId> = groups.filter(is_led).collect();
        let peers: Vec<NodeId> = self.env.peers.addresses.keys().copied().collect();
        for peer in peers {
            let not_there = |group: &&LogId| !self.cluster.directory.hosts(**group, peer);
            let told: Vec<LogId> = led.iter().filter(not_there).copied().collect();
            if self.peers.get_or_add(peer).told.on_leads(&told) {
                let frame = Frame::Leads(told);
                self.peers.send(&mut self.env, peer, &frame);
            }
        }
    }

    /// How long any slots are on their way.
    pub(super) fn slots_under_way_ms(&self) -> u64 {
        let now = self.env.now;
        let longest = self.under_way.0.values().map(|heard| now - *heard).max();
        longest.unwrap_or_default().as_millis() as u64
    }

    pub(super) fn slots_under_way(&self) -> Vec<SlotsUnderWay> {
        self.under_way.told(&self.cluster.directory, self.env.now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use slots::{Change, Span};

    use super::*;

    #[test]
    fn slots_that_are_left_are_counted_since_their_version_was_heard_of() {
        let groups = vec![2, 3];
        let map = Map::default().changed(&Change::Join { groups });
        let spans = vec![Span::new(0, 99).expect("a span")];
        let group = 3;
        let move_to = Change::Move { spans, group };
        let mut map = map
            .and_then(|map| map.changed(&move_to))
            .expect("both are there");
        let mut under_way = UnderWay::default();
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        under_way.look(&map, at(1_000));
        map.serve(Span::new(0, 29).expect("a span"), 2, 3);
        under_way.look(&map, at(2_000));
        let directory = Directory {
            slots: map.clone().into(),
            ..Directory::default()
        };
        let expected = SlotsUnderWay {
            to: "log 3".to_owned(),
            since: 2,
            slots: 100,
            left: 70,
            for_ms: 2_500,
        };
        assert_eq!(under_way.told(&directory, at(3_500)), [expected]);
        map.serve(Span::new(30, 99).expect("a span"), 2, 3);
        under_way.look(&map, at(4_000));
        assert_eq!(under_way.0, BTreeMap::new(), "nothing is on its way");
    }
}

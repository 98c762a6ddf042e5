//! The directory's entries of members: wanted weights, zones, leaving nodes and nodes that are gone for ever.
//!
//! A wanted weight is not had yet: each log's leader moves its configuration there, step by step. An
//! operator's request survives terminals and leaders, because it stands here.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use serde::{Deserialize, Serialize};

use super::DIRECTORY;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Members {
    /// The count of changes. A change that was planned with another count is void: somebody else was faster.
    pub version: u64,
    /// The wanted weights of every log, the directory's own too.
    pub wanted: BTreeMap<u32, Wanted>,
    /// The zones of nodes for which one was declared.
    pub zones: BTreeMap<u32, String>,
    /// The nodes that are removed once they have weight nowhere.
    pub leaving: BTreeSet<u32>,
    /// The removed nodes, whose ids never come back.
    pub removed: BTreeSet<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Every weight is positive.
    pub weights: BTreeMap<u32, u32>,
    /// Somebody chose the weights: nodes that join get no weight by themselves any more.
    pub by_hand: bool,
}

/// A change that an operator asked for, of all logs that it concerns at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The version that the change was planned with.
    pub was: u64,
    /// ⟨log, its wanted ⟨node, weight⟩⟩
    pub wanted: Vec<(u32, Vec<(u32, u32)>)>,
    /// The nodes to be removed once they have weight nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<u32>,
}

impl Default for Members {
    /// The directory begins with the cluster's first node alone.
    fn default() -> Members {
        let first = Wanted {
            weights: BTreeMap::from([(1, 1)]),
            by_hand: false,
        };
        Members {
            version: 0,
            wanted: BTreeMap::from([(DIRECTORY.0, first)]),
            zones: BTreeMap::new(),
            leaving: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }
}

impl Members {
    pub fn has_weight(&self, node: u32) -> bool {
        let mut logs = self.wanted.values();
        logs.any(|wanted| wanted.weights.contains_key(&node))
    }

    pub fn on_log_created(&mut self, log: LogId, members: &[(u32, u32)], by_hand: bool) {
        let weights = members.iter().copied();
        let wanted = Wanted {
            weights: weights.filter(|(_, weight)| *weight > 0).collect(),
            by_hand,
        };
        self.wanted.insert(log.0, wanted);
        self.version += 1;
    }

    /// Goes on with this node alone: all others are lost for good, and all logs but these.
    pub fn go_on_alone(&mut self, survivor: u32, nodes: impl Iterator<Item = u32>, logs: &[u32]) {
        let alone = Wanted {
            weights: BTreeMap::from([(survivor, 1)]),
            by_hand: false,
        };
        let logs = logs.iter().copied().chain([DIRECTORY.0]);
        self.wanted = logs.map(|log| (log, alone.clone())).collect();
        self.zones.retain(|node, _| *node == survivor);
        self.leaving.clear();
        self.removed.extend(nodes);
        self.removed.remove(&survivor);
        self.version += 1;
    }

    /// Gives nodes weight as they join, until there are as many voters as wanted; the first that came is the first.
    pub fn grow(&mut self, nodes: impl Iterator<Item = u32> + Clone, voters: u32) {
        let Members { leaving, .. } = self;
        for wanted in self.wanted.values_mut().filter(|wanted| !wanted.by_hand) {
            let lacking = (voters as usize).saturating_sub(wanted.weights.len());
            let weights = &mut wanted.weights;
            let new = nodes.clone().filter(|node| !leaving.contains(node));
            let new = new.filter(|node| !weights.contains_key(node));
            let new: Vec<u32> = new.take(lacking).collect();
            self.version += u64::from(!new.is_empty());
            weights.extend(new.into_iter().map(|node| (node, 1)));
        }
    }

    pub fn change(&mut self, change: &Change, nodes: &BTreeSet<u32>) {
        let known = |(node, weight): &(u32, u32)| *weight > 0 && nodes.contains(node);
        let all_known = change
            .wanted
            .iter()
            .all(|(_, weights)| weights.iter().all(known));
        if change.was != self.version || !all_known {
            return;
        }
        self.version += 1;
        for (log, weights) in &change.wanted {
            if let Some(wanted) = self.wanted.get_mut(log)
                && !weights.is_empty()
            {
                wanted.weights = weights.iter().copied().collect();
                wanted.by_hand = true;
            }
        }
        let leaving = change.leaving.iter().copied();
        self.leaving
            .extend(leaving.filter(|node| nodes.contains(node)));
        // A node that is wanted again stays.
        let Members {
            leaving, wanted, ..
        } = self;
        leaving.retain(|node| !wanted.values().any(|w| w.weights.contains_key(node)));
    }

    pub fn set_zone(&mut self, node: u32, zone: &str) {
        let before = match zone {
            "" => self.zones.remove(&node),
            _ => self.zones.insert(node, zone.to_string()),
        };
        self.version += u64::from(before.unwrap_or_default() != zone);
    }

    /// Whether the node leaves for ever: it is on its way out, or gone.
    pub fn leaves(&self, node: u32) -> bool {
        self.leaving.contains(&node) || self.removed.contains(&node)
    }

    /// Removes a node. Returns whether it is gone: only a node that leaves and is wanted nowhere goes.
    pub fn remove(&mut self, node: u32) -> bool {
        if self.has_weight(node) || !self.leaving.remove(&node) {
            return false;
        }
        self.zones.remove(&node);
        self.removed.insert(node);
        self.version += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: LogId = LogId(1);

    fn nodes(count: u32) -> BTreeSet<u32> {
        (1..=count).collect()
    }

    fn grown(voters: u32, count: u32) -> Members {
        let mut members = Members::default();
        members.on_log_created(MAIN, &[(1, 1)], false);
        for known in 1..=count {
            members.grow(1..=known, voters);
        }
        members
    }

    fn weights(members: &Members, log: LogId) -> Vec<(u32, u32)> {
        let weights = members.wanted[&log.0].weights.iter();
        weights.map(|(node, weight)| (*node, *weight)).collect()
    }

    fn change(members: &Members, weights: &[(u32, u32)], leaving: &[u32]) -> Change {
        Change {
            was: members.version,
            wanted: vec![(MAIN.0, weights.to_vec())],
            leaving: leaving.to_vec(),
        }
    }

    #[test]
    fn nodes_get_weight_as_they_join_until_there_are_enough_voters() {
        let members = grown(3, 5);
        for log in [DIRECTORY, MAIN] {
            assert_eq!(weights(&members, log), [(1, 1), (2, 1), (3, 1)]);
        }
    }

    #[test]
    fn where_somebody_chose_the_members_nobody_joins_by_himself() {
        let mut members = grown(3, 3);
        members.change(&change(&members, &[(1, 1)], &[]), &nodes(3));
        members.grow(1..=4, 3);
        assert_eq!(weights(&members, MAIN), [(1, 1)]);
    }

    #[test]
    fn of_two_changes_planned_at_once_one_is_made() {
        let mut members = grown(3, 4);
        let first = change(&members, &[(1, 2), (2, 1)], &[]);
        let second = change(&members, &[(1, 1), (4, 1)], &[3]);
        members.change(&first, &nodes(4));
        let after = members.clone();
        members.change(&second, &nodes(4));
        members.change(&first, &nodes(4));
        assert_eq!(members, after);
        assert_eq!(weights(&members, MAIN), [(1, 2), (2, 1)]);
    }

    #[test]
    fn who_leaves_is_removed_once_it_is_wanted_nowhere_and_never_comes_back() {
        let mut members = grown(3, 3);
        assert!(!members.remove(3), "nobody asked for it");
        members.change(&change(&members, &[(1, 1), (2, 1)], &[3]), &nodes(3));
        assert!(
            !members.leaving.contains(&3),
            "the directory still wants it"
        );
        let both = Change {
            was: members.version,
            wanted: vec![(0, vec![(1, 1), (2, 1)]), (1, vec![(1, 1), (2, 1)])],
            leaving: vec![3],
        };
        members.change(&both, &nodes(3));
        assert!(members.remove(3));
        assert!(members.removed.contains(&3));
        assert!(!members.remove(3));
    }

    #[test]
    fn nodes_that_nobody_knows_get_no_weight() {
        let mut members = grown(3, 3);
        let before = members.clone();
        members.change(&change(&members, &[(1, 1), (9, 1)], &[]), &nodes(3));
        assert_eq!(members, before);
    }
}

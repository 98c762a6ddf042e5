//! Choosing the leaders to move so that each node leads its share.
//!
//! ```text
//!  load of a node = sum over the logs it leads of  1 / its weight there
//!  while some chain of moves  fullest ─▶ … ─▶ another  lessens the sum of the squared loads: do it
//! ```
//!
//! A chain, because not every node can lead every log: what the fullest node has may only go to one
//! that passes another log on. The sum only falls, so it ends, and what it ends at is left alone the
//! next time. The directory, whose leader has next to nothing to do, comes last.

use std::collections::{BTreeMap, VecDeque};

use client::leader::Leader;
use serde::Serialize;

/// The load of a log at a node of weight 1.
const COST: u64 = 1 << 32;
const DIRECTORY: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    pub log: String,
    pub from: u64,
    pub to: u64,
}

/// The cost of leading this log to that node; none if it cannot lead it.
fn cost(log: &Leader, node: u64) -> Option<u64> {
    let candidate = log.candidates.iter().find(|c| c.node == node)?;
    Some(COST / candidate.weight.max(1))
}

struct Balance<'a> {
    logs: &'a [Leader],
    /// The leader of each log, as planned.
    leader: Vec<u64>,
    load: BTreeMap<u64, u64>,
}

pub fn plan(all: &[Leader]) -> Vec<Move> {
    // A log that nobody leads, or that a node silent to others leads, has nobody to hand it over.
    let led = |log: &&Leader| log.leader.is_some_and(|node| cost(log, node).is_some());
    let led = all.iter().filter(led).cloned();
    let (directory, logs): (Vec<_>, Vec<_>) = led.partition(|log| log.id == DIRECTORY);
    let mut balance = Balance {
        leader: logs.iter().filter_map(|log| log.leader).collect(),
        logs: &logs,
        load: BTreeMap::new(),
    };
    for log in directory.iter().chain(&logs) {
        for candidate in &log.candidates {
            balance.load.entry(candidate.node).or_insert(0);
        }
    }
    for (log, node) in logs.iter().zip(&balance.leader) {
        *balance.load.entry(*node).or_insert(0) += cost(log, *node).unwrap_or(0);
    }
    while balance.step() {}
    let directory = directory.iter().filter_map(|log| {
        let load = |node: &u64| balance.load.get(node);
        let nodes = log.candidates.iter().map(|candidate| candidate.node);
        let emptiest = nodes.min_by_key(|node| (load(node), *node))?;
        let from = log.leader.filter(|from| load(&emptiest) < load(from))?;
        Some((log, from, emptiest))
    });
    let pairs = logs.iter().zip(&balance.leader);
    let moved = pairs.filter_map(|(log, to)| {
        let from = log.leader.filter(|from| from != to)?;
        Some((log, from, *to))
    });
    let moves = directory.chain(moved).map(|(log, from, to)| Move {
        log: log.log.clone(),
        from,
        to,
    });
    moves.collect()
}

impl Balance<'_> {
    /// From the fullest node that has such a chain, the chain to the emptiest node.
    fn step(&mut self) -> bool {
        let mut nodes: Vec<u64> = self.load.keys().copied().collect();
        nodes.sort_by_key(|node| (std::cmp::Reverse(self.load[node]), *node));
        let uneven = self.unevenness();
        for from in nodes {
            let Some(chain) = self.chain(from) else {
                continue;
            };
            let before = (self.leader.clone(), self.load.clone());
            for (log, to) in chain {
                self.carry_out(log, to);
            }
            if self.unevenness() < uneven {
                return true;
            }
            (self.leader, self.load) = before;
        }
        false
    }

    fn unevenness(&self) -> u128 {
        let loads = self.load.values().map(|load| u128::from(*load));
        loads.map(|load| load * load).sum()
    }

    fn carry_out(&mut self, log: usize, to: u64) {
        let from = std::mem::replace(&mut self.leader[log], to);
        for (node, gains) in [(from, false), (to, true)] {
            let cost = cost(&self.logs[log], node).unwrap_or(0);
            let load = self.load.entry(node).or_insert(0);
            *load = if gains { *load + cost } else { *load - cost };
        }
    }

    /// Moves of logs at whose end `from` leads one less, and another node one more and yet has less
    /// load than `from` had: the shortest to the emptiest node.
    fn chain(&self, from: u64) -> Option<Vec<(usize, u64)>> {
        let mut reached: BTreeMap<u64, Option<(u64, usize)>> = BTreeMap::from([(from, None)]);
        let mut queue = VecDeque::from([from]);
        let mut best: Option<(u64, u64)> = None;
        while let Some(node) = queue.pop_front() {
            let led = (0..self.logs.len()).filter(|log| self.leader[*log] == node);
            for log in led {
                for candidate in &self.logs[log].candidates {
                    let to = candidate.node;
                    if reached.contains_key(&to) {
                        continue;
                    }
                    let gained = cost(&self.logs[log], to).unwrap_or(u64::MAX);
                    let load = self.load[&to].saturating_add(gained);
                    reached.insert(to, Some((node, log)));
                    queue.push_back(to);
                    if load < self.load[&from] && best.is_none_or(|(least, _)| load < least) {
                        best = Some((load, to));
                    }
                }
            }
        }
        let (_, mut at) = best?;
        let mut chain = Vec::new();
        while let Some((before, log)) = reached[&at] {
            chain.push((log, at));
            at = before;
        }
        Some(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::leader::Candidate;

    fn log(id: u64, leader: u64, candidates: &[(u64, u64)]) -> Leader {
        let candidates = candidates.iter().map(|(node, weight)| Candidate {
            node: *node,
            weight: *weight,
        });
        Leader {
            log: format!("log{id}"),
            id,
            leader: Some(leader),
            term: "1.1.1".to_owned(),
            weight: 1,
            candidates: candidates.collect(),
        }
    }

    fn carried_out(logs: &[Leader]) -> (Vec<Leader>, usize) {
        let moves = plan(logs);
        let mut after = logs.to_vec();
        for Move { log, from, to } in &moves {
            let log = after.iter_mut().find(|l| l.log == *log).unwrap();
            assert_eq!(log.leader, Some(*from));
            assert!(log.candidates.iter().any(|c| c.node == *to), "it can lead");
            log.leader = Some(*to);
        }
        assert_eq!(plan(&after), [], "a second time nothing moves");
        (after, moves.len())
    }

    fn led_by(logs: &[Leader], node: u64) -> usize {
        logs.iter().filter(|log| log.leader == Some(node)).count()
    }

    const THREE: &[(u64, u64)] = &[(1, 1), (2, 1), (3, 1)];

    #[test]
    fn each_node_leads_its_share_after_as_few_moves_as_possible() {
        let logs: Vec<Leader> = (1..=6).map(|id| log(id, 1, THREE)).collect();
        let (after, moves) = carried_out(&logs);
        assert_eq!([1, 2, 3].map(|node| led_by(&after, node)), [2, 2, 2]);
        assert_eq!(moves, 4);
    }

    #[test]
    fn the_directory_goes_where_least_is() {
        let logs = [log(0, 1, THREE), log(1, 1, THREE), log(2, 1, THREE)];
        let (after, moves) = carried_out(&logs);
        assert_eq!([1, 2, 3].map(|node| led_by(&after, node)), [1, 1, 1]);
        assert_eq!(moves, 2);
        let logs = [log(0, 1, THREE), log(1, 2, THREE), log(2, 1, THREE)];
        assert_eq!(carried_out(&logs).1, 1);
    }

    #[test]
    fn more_weight_is_a_greater_share() {
        let weights = &[(1, 1), (2, 3)];
        let logs: Vec<Leader> = (1..=4).map(|id| log(id, 1, weights)).collect();
        let (after, _) = carried_out(&logs);
        assert_eq!([1, 2].map(|node| led_by(&after, node)), [1, 3]);
    }

    #[test]
    fn a_log_makes_room_for_one_that_cannot_go_elsewhere() {
        let (a, b) = (&[(1, 1), (2, 1)], &[(2, 1), (3, 1)]);
        let logs = [log(1, 1, a), log(2, 1, a), log(3, 2, b)];
        let (after, moves) = carried_out(&logs);
        assert_eq!([1, 2, 3].map(|node| led_by(&after, node)), [1, 1, 1]);
        assert_eq!(moves, 2);
    }

    #[test]
    fn what_nobody_leads_is_left_alone() {
        let mut lost = log(1, 1, THREE);
        lost.leader = None;
        assert_eq!(plan(&[lost]), []);
        assert_eq!(plan(&[log(1, 9, THREE), log(2, 9, THREE)]), []);
        assert_eq!(plan(&[]), []);
    }

    #[test]
    fn logs_with_weights_of_their_own_come_to_an_end_too() {
        let logs: Vec<Leader> = (1..=20)
            .map(|id| log(id, 1 + id % 3, &[(1, 1 + id % 4), (2, 1 + id % 5), (3, 1)]))
            .collect();
        plan(&logs);
    }
}

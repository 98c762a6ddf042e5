//! Finding the leader of each log, and moving it.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Client;
use crate::admin::{LogStatus, Status};
use crate::answer::Code;
use crate::asked::{AdminError, Json};
use crate::request::Request;

pub use wire::told::Moved;

/// One log's leader, by its own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The name of the log.
    #[serde(rename = "name")]
    pub log: String,
    /// Its id.
    pub id: u64,
    /// `None` while nobody says that it leads.
    pub leader: Option<u64>,
    /// era.number.owner
    pub term: String,
    /// The leader's.
    pub weight: u64,
    /// The nodes that could lead: alive, with a replica that runs, and voters that are not auxiliary.
    pub candidates: Vec<Candidate>,
}

/// A node that could lead a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: u64,
    /// What its vote counts there.
    pub weight: u64,
}

impl Client {
    /// Hands the leadership of a log to a node, or to the most suitable one. Returns once it leads.
    ///
    /// Errors: [`AdminError::Refused`] if that node is unknown, cannot lead, or leads already; then
    /// nothing is changed.
    pub fn move_leader(&self, log: &str, to: Option<u64>) -> Result<Moved, AdminError> {
        let request = Request::Lead {
            log: log.to_owned(),
            to,
        };
        let deadline = Instant::now() + self.cluster.timeouts.total;
        let asked = self.cluster.ask(&request, deadline)?;
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog => Err(AdminError::UnknownLog {
                log: log.to_owned(),
            }),
            // It leads already: the attempt whose answer was lost came to its end.
            Err(refusal) if refusal.code == Code::CannotLead && asked.answer_lost => {
                let leads = self.leaders()?.into_iter().find(|leads| leads.log == log);
                match leads.filter(|leads| to.is_some() && leads.leader == to) {
                    Some(leads) => Ok(Moved {
                        log: leads.log,
                        from: 0,
                        to: leads.leader.unwrap_or_default(),
                        term: leads.term,
                        pause_ms: None,
                    }),
                    None => asked.json(),
                }
            }
            _ => asked.json(),
        }
    }

    /// The leader of each log. Every node that is alive is asked, since each knows best what it leads.
    pub fn leaders(&self) -> Result<Vec<Leader>, AdminError> {
        Ok(leaders_by(&self.statuses()?))
    }

    /// The cluster as each node that is alive sees it: the last is the one that answered first, and has told who the others are. These are
    /// asked all at once.
    ///
    /// Errors: [`AdminError::Unreachable`] when no server answers within `timeouts.total`.
    pub fn statuses(&self) -> Result<Vec<Status>, AdminError> {
        let first = self.status()?;
        let others = first.nodes.iter();
        let others = others.filter(|node| node.alive && !node.is_self);
        let deadline = Instant::now() + self.cluster.timeouts.silence;
        let mut all: Vec<Status> = std::thread::scope(|scope| {
            let asked = others.map(|node| {
                let ask = || self.cluster.ask_for_status(&node.address, deadline);
                scope.spawn(ask)
            });
            // All are asked before the first is waited for.
            let asked: Vec<_> = asked.collect();
            let answered = asked.into_iter().filter_map(|asked| asked.join().ok());
            answered.flatten().collect()
        });
        all.push(first);
        Ok(all)
    }
}

/// The leaders by all answers. If several nodes say they lead a log, the one of the latest term is right.
pub fn leaders_by(all: &[Status]) -> Vec<Leader> {
    let mut latest: BTreeMap<u64, (bool, Vec<u64>, Leader)> = BTreeMap::new();
    for status in all {
        for log in &status.logs {
            let leads = log.role == "leader";
            let term = log.term.split('.').filter_map(|n| n.parse().ok()).collect();
            let known = latest.get(&log.id);
            if known.is_none_or(|(led, before, _)| (*led, before) < (leads, &term)) {
                let leader = leader_by(status, log, all);
                latest.insert(log.id, (leads, term, leader));
            }
        }
    }
    latest.into_values().map(|(.., leader)| leader).collect()
}

fn leader_by(status: &Status, log: &LogStatus, all: &[Status]) -> Leader {
    let leads = log.role == "leader";
    let alive = |id: u64| status.nodes.iter().any(|node| node.id == id && node.alive);
    let has_stopped = |id: u64| {
        let own = all.iter().filter(|said| said.node == id);
        let mut logs = own.flat_map(|said| &said.logs);
        logs.any(|own| own.id == log.id && own.role == "stopped")
    };
    let voters = log.weights.iter().filter(|w| w.weight > 0);
    let weight = voters.clone().find(|w| leads && w.node == status.node);
    let candidates = voters.filter(|w| !w.auxiliary && alive(w.node) && !has_stopped(w.node));
    let candidates = candidates.map(|w| Candidate {
        node: w.node,
        weight: w.weight,
    });
    Leader {
        log: log.name.clone(),
        id: log.id,
        leader: leads.then_some(status.node),
        term: log.term.clone(),
        weight: weight.map_or(0, |w| w.weight),
        candidates: candidates.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{NodeStatus, Weight};

    fn status(node: u64, role: &str, term: &str) -> Status {
        let nodes = (1..=3).map(|id| NodeStatus {
            id,
            alive: id != 3,
            ..NodeStatus::default()
        });
        let weights = (1..=3).map(|node| Weight {
            node,
            weight: node,
            auxiliary: false,
        });
        Status {
            node,
            nodes: nodes.collect(),
            logs: vec![LogStatus {
                id: 1,
                name: "main".to_owned(),
                role: role.to_owned(),
                term: term.to_owned(),
                weights: weights.collect(),
                ..LogStatus::default()
            }],
            ..Status::default()
        }
    }

    #[test]
    fn the_latest_who_says_that_it_leads_is_believed() {
        let all = [
            status(1, "leader", "3.9.1"),
            status(2, "leader", "3.10.2"),
            status(3, "follower", "3.11.3"),
        ];
        let leaders = leaders_by(&all);
        assert_eq!(leaders.len(), 1);
        assert_eq!((leaders[0].leader, leaders[0].weight), (Some(2), 2));
        let candidates: Vec<u64> = leaders[0].candidates.iter().map(|c| c.node).collect();
        assert_eq!(candidates, [1, 2], "3 is silent");
    }

    #[test]
    fn who_stopped_may_not_lead() {
        let all = [status(1, "leader", "3.9.1"), status(2, "stopped", "3.9.1")];
        let candidates: Vec<u64> = leaders_by(&all)[0]
            .candidates
            .iter()
            .map(|c| c.node)
            .collect();
        assert_eq!(candidates, [1]);
    }

    #[test]
    fn a_log_that_nobody_leads_is_listed_too() {
        let leaders = leaders_by(&[status(1, "candidate", "3.9.1")]);
        assert_eq!(leaders[0].leader, None);
    }
}

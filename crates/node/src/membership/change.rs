//! An operator's request about members, worked out against the directory: refused with a reason, or the
//! command that makes it wanted and the steps that will follow.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use paxos::{Change, Configuration, NodeId, WEIGHT_TOTAL_MAX};
use serde::Serialize;
use wire::told::weights;
use wire::{Refusal, Request};

use super::naming;
use super::plan::{self, Goal, STEPS_MAX};
use crate::directory::members as registry;
use crate::directory::{Command, DIRECTORY, DIRECTORY_NAME, Directory, configuration};

/// `change-members ACTION …` of docs/wire.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    action: Action,
    /// The logs by name; none means all that there are.
    logs: Vec<String>,
    /// The risks are told, and taken.
    force: bool,
    /// Nothing is changed.
    pub plan: bool,
    /// The version since which nobody may have changed anything; else the request is refused.
    version: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Add { node: u32, weight: u32 },
    Remove { node: u32 },
    Replace { old: u32, new: u32 },
    Weight { node: u32, weight: u32 },
    Address { node: u32, address: String },
    Zone { node: u32, zone: String },
    Bind,
    Name { node: u32, name: String },
}

/// The outcome that is to come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worked {
    /// The members' version with which it was worked out.
    pub version: u64,
    pub logs: Vec<LogChange>,
    /// Nodes that are removed when they have weight nowhere.
    pub leaves: Vec<u32>,
    /// The risks taken because of `force`, each a sentence.
    pub risks: Vec<String>,
    /// How little redundancy the logs would have, each a sentence: nothing that is refused.
    pub notes: Vec<String>,
    /// The names of nodes' certificates, as they are to be bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NodeName>,
    /// The whole request is so already, or is on its way.
    pub nothing: bool,
    #[serde(skip)]
    pub command: Option<Command>,
}

/// The name in a node's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeName {
    pub node: u32,
    /// None: it shows no certificate now, and none is bound.
    pub certificate: Option<String>,
    /// It is bound already.
    pub bound: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogChange {
    pub id: u32,
    pub name: String,
    #[serde(serialize_with = "weights::serialize")]
    pub from: BTreeMap<u32, u32>,
    #[serde(serialize_with = "weights::serialize")]
    pub to: BTreeMap<u32, u32>,
    /// Each a sentence.
    pub steps: Vec<String>,
}

/// The view of the directory's leader.
pub struct View<'a> {
    pub directory: &'a Directory,
    pub alive: &'a BTreeSet<u32>,
    pub configurations: &'a BTreeMap<u32, Configuration>,
    /// The nodes that are known to lack bytes of each log.
    pub lacks: &'a BTreeMap<u32, BTreeSet<u32>>,
    /// The names in the certificates that nodes show now.
    pub names: &'a BTreeMap<u32, String>,
}

pub(super) fn refused(sentence: impl Into<String>) -> Refusal {
    Refusal::new("refused", sentence)
}

impl Action {
    fn of(asked: wire::change::Action) -> Result<Action, Refusal> {
        use wire::change::Action as Asked;
        let id = |number: u64| {
            let bad = |_| Refusal::new("bad-request", format!("{number} is too large"));
            u32::try_from(number).map_err(bad)
        };
        Ok(match asked {
            Asked::Add { node, weight } => Action::Add {
                node: id(node)?,
                weight: id(weight)?,
            },
            Asked::Remove { node } => Action::Remove { node: id(node)? },
            Asked::Replace { old, new } => Action::Replace {
                old: id(old)?,
                new: id(new)?,
            },
            Asked::Weight { node, weight } => Action::Weight {
                node: id(node)?,
                weight: id(weight)?,
            },
            Asked::Address { node, address } => Action::Address {
                node: id(node)?,
                address,
            },
            Asked::Bind => Action::Bind,
            Asked::Name { node, name } => Action::Name {
                node: id(node)?,
                name,
            },
            Asked::Zone { node, zone } => {
                let zone = if zone == "-" { String::new() } else { zone };
                wire::check_zone(&zone)?;
                Action::Zone {
                    node: id(node)?,
                    zone,
                }
            }
        })
    }
}

impl Ask {
    /// Whether it changes weights, so that logs have to hear of it.
    pub fn changes_weights(&self) -> bool {
        !matches!(
            self.action,
            Action::Address { .. } | Action::Zone { .. } | Action::Bind | Action::Name { .. }
        )
    }

    pub fn parse(request: &Request) -> Result<Ask, Refusal> {
        let asked = wire::change::Change::read(request)?;
        let action = Action::of(asked.action)?;
        Ok(Ask {
            action,
            logs: asked.logs,
            force: asked.force,
            plan: asked.plan,
            version: asked.version,
        })
    }

    pub fn work_out(&self, view: &View) -> Result<Worked, Refusal> {
        let directory = view.directory;
        let members = &directory.members;
        let mut worked = Worked {
            version: members.version,
            logs: Vec::new(),
            leaves: Vec::new(),
            risks: Vec::new(),
            notes: Vec::new(),
            names: Vec::new(),
            nothing: true,
            command: None,
        };
        match &self.action {
            Action::Address { node, address } => {
                let entry = view.entry(*node)?;
                let nodes = directory.nodes.iter();
                let mut others = nodes.filter(|(id, _)| id.0 != *node);
                let other = others.find(|(_, other)| other.address == *address);
                if let Some((other, _)) = other.filter(|_| !self.force) {
                    return Err(refused(format!(
                        "node {other} is at {address}, and clients of node {node} would be sent to it: say first where node {other} \
                         is now, or take that risk with --force"
                    )));
                }
                worked.nothing = entry.address == *address;
                worked.command = Some(Command::AddNode {
                    id: *node,
                    address: address.clone(),
                    disk: entry.disk.clone(),
                    newest: entry.newest,
                    by_hand: true,
                    token: None,
                    certificate: None,
                    replaces: None,
                });
            }
            Action::Zone { node, zone } => {
                view.entry(*node)?;
                let before = members.zones.get(node).map_or("", String::as_str);
                worked.nothing = before == zone;
                worked.command = Some(Command::SetZone {
                    node: *node,
                    zone: zone.clone(),
                });
            }
            Action::Bind => naming::bind(view, &mut worked)?,
            Action::Name { node, name } => naming::rename(view, &mut worked, *node, name)?,
            _ => self.change_weights(view, &mut worked)?,
        }
        // An operator who lost the answer asks again with the same version.
        if worked.nothing {
            worked.command = None;
        } else if self
            .version
            .is_some_and(|version| version != members.version)
        {
            return Err(refused(
                "the members were changed since this was planned: look at the new plan, and ask again",
            ));
        }
        Ok(worked)
    }

    fn change_weights(&self, view: &View, worked: &mut Worked) -> Result<(), Refusal> {
        let members = &view.directory.members;
        if self.is_over(view)? {
            return Ok(());
        }
        let chosen = self.chosen_logs(view)?;
        worked.leaves = self.leaves(view, &chosen)?;
        let mut wanted = Vec::new();
        for (log, name) in &chosen {
            let Some(before) = members.wanted.get(log) else {
                continue;
            };
            let mut weights = before.weights.clone();
            self.alter(&mut weights, name)?;
            let mut risks = view.risks(name, &before.weights, &weights)?;
            let new = |node: &&u32| !members.leaving.contains(node);
            let leaves = worked.leaves.iter().filter(new);
            let gone = before.weights.keys().filter(|n| !weights.contains_key(n));
            let going: BTreeSet<u32> = gone.chain(leaves).copied().collect();
            risks.extend(view.bytes_risked(*log, name, &going, &worked.leaves));
            risks.extend(view.copies_risked(*log, name, &before.weights, &weights));
            if !risks.is_empty() && !self.force {
                return Err(refused(format!(
                    "{} (--force does it all the same)",
                    risks.join("; ")
                )));
            }
            worked.risks.extend(risks);
            let change = view.changes(*log, name, weights)?;
            if change.to != before.weights {
                worked.nothing = false;
                worked.notes.extend(view.notes(name, &change.to));
                let weights = change.to.iter().map(|(node, weight)| (*node, *weight));
                wanted.push((*log, weights.collect()));
            }
            if !change.steps.is_empty() || change.to != before.weights {
                worked.logs.push(change);
            }
        }
        let leaving = worked.leaves.iter().copied();
        let leaving: Vec<u32> = leaving
            .filter(|node| !members.leaving.contains(node))
            .collect();
        worked.nothing &= leaving.is_empty();
        worked.command = Some(Command::ChangeMembers(registry::Change {
            was: members.version,
            wanted,
            leaving,
        }));
        Ok(())
    }

    /// Whether this request was fulfilled before: the node that was to leave is gone. Asking again then succeeds.
    fn is_over(&self, view: &View) -> Result<bool, Refusal> {
        let removed = &view.directory.members.removed;
        match self.action {
            Action::Remove { node } => Ok(removed.contains(&node)),
            Action::Replace { old, new } if removed.contains(&old) => {
                view.entry(new)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Alters the weights of one log.
    fn alter(&self, weights: &mut BTreeMap<u32, u32>, log: &str) -> Result<(), Refusal> {
        match self.action {
            Action::Add { node, weight } => match weights.insert(node, weight) {
                Some(before) if before != weight => {
                    return Err(refused(format!(
                        "node {node} is a member of {log} with weight {before}; `logberg members weight {node} {weight}` changes that"
                    )));
                }
                _ => {}
            },
            Action::Remove { node } => {
                weights.remove(&node);
            }
            Action::Replace { old, new } => {
                if let Some(weight) = weights.remove(&old)
                    && weights.insert(new, weight).is_some()
                {
                    return Err(refused(format!(
                        "node {new} is a member of {log} already: add another node to replace {old}, or remove {old}"
                    )));
                }
            }
            Action::Weight { node, weight } => {
                weights.insert(node, weight);
            }
            Action::Address { .. } | Action::Zone { .. } | Action::Bind | Action::Name { .. } => {}
        }
        weights.retain(|_, weight| *weight > 0);
        Ok(())
    }

    /// The nodes that are to go for good. All the others that are named must be known.
    fn leaves(&self, view: &View, logs: &[(u32, String)]) -> Result<Vec<u32>, Refusal> {
        match self.action {
            Action::Add { node, weight: 0 } => Err(refused(format!(
                "node {node} has weight 0 wherever it is not added: say --weight 1 or more"
            ))),
            Action::Add { node, .. } | Action::Weight { node, .. } => {
                view.entry(node)?;
                Ok(Vec::new())
            }
            Action::Remove { node } => {
                view.entry(node)?;
                Ok(vec![node])
            }
            Action::Replace { old, new } => {
                view.entry(old)?;
                view.entry(new)?;
                let members = &view.directory.members;
                let wanted = |log: &u32| members.wanted.get(log);
                let has = |(log, _): &(u32, String)| {
                    wanted(log).is_some_and(|w| w.weights.contains_key(&old))
                };
                // The request is repeated while the old node still leaves.
                if old == new || !logs.iter().any(has) && !members.leaving.contains(&old) {
                    return Err(refused(format!(
                        "node {old} has no weight that node {new} could take over: `logberg members remove {old}` takes it out, \
                         and `logberg members add {new}` gives node {new} weight"
                    )));
                }
                Ok(vec![old])
            }
            Action::Address { .. } | Action::Zone { .. } | Action::Bind | Action::Name { .. } => {
                Ok(Vec::new())
            }
        }
    }

    fn chosen_logs(&self, view: &View) -> Result<Vec<(u32, String)>, Refusal> {
        let all = names(view.directory).map(|(id, name)| (id.0, name.to_string()));
        let all: Vec<(u32, String)> = all.collect();
        let known = |name: &&String| !all.iter().any(|(_, known)| known == *name);
        if let Some(unknown) = self.logs.iter().find(known) {
            return Err(Refusal::new(
                "unknown-log",
                format!("there is no log named {unknown}; `logberg log list` lists them"),
            ));
        }
        let asked = |(_, name): &(u32, String)| self.logs.is_empty() || self.logs.contains(name);
        Ok(all.into_iter().filter(asked).collect())
    }
}

impl View<'_> {
    pub(super) fn entry(&self, node: u32) -> Result<&crate::directory::NodeEntry, Refusal> {
        let directory = self.directory;
        directory.nodes.get(&NodeId(node)).ok_or_else(|| {
            let sentence = match directory.members.removed.contains(&node) {
                true => format!(
                    "node {node} was removed, and its id is never used again: `logberg members` lists those there are"
                ),
                false => format!(
                    "there is no node {node}: `logberg members` lists those that joined; start it with --join first"
                ),
            };
            Refusal::new("unknown-node", sentence)
        })
    }

    /// Refuses, or with `force` tells as a risk, a change that leaves no quorum or half of the weight in one zone.
    fn risks(
        &self,
        name: &str,
        before: &BTreeMap<u32, u32>,
        after: &BTreeMap<u32, u32>,
    ) -> Result<Vec<String>, Refusal> {
        let total: u64 = after.values().map(|weight| u64::from(*weight)).sum();
        if total == 0 {
            return Err(refused(format!(
                "{name} would have no member left: add another node first"
            )));
        }
        if total > u64::from(WEIGHT_TOTAL_MAX) {
            return Err(refused(format!(
                "the weights of {name} would be {total} together, and {WEIGHT_TOTAL_MAX} is the most: choose smaller ones"
            )));
        }
        if before == after {
            return Ok(Vec::new());
        }
        let mut risks = Vec::new();
        let alive = after.iter().filter(|(node, _)| self.alive.contains(node));
        let alive: u64 = alive.map(|(_, weight)| u64::from(*weight)).sum();
        if 2 * alive <= total {
            let silent = after.keys().filter(|node| !self.alive.contains(node));
            risks.push(format!(
                "of the {total} votes of {name} only {alive} would be alive, which is no quorum, as long as node {} is silent",
                listed(silent)
            ));
        }
        if let Some((zone, part)) = self.heaviest_zone(after)
            && 2 * part >= total
            && self.heavier_than(zone, part, total, before)
        {
            risks.push(format!(
                "zone {zone} would have {part} of the {total} votes of {name}: when it fails, there is no quorum"
            ));
        }
        Ok(risks)
    }

    /// A log that would want more copies than it has voters that hold all bytes.
    fn copies_risked(
        &self,
        log: u32,
        name: &str,
        before: &BTreeMap<u32, u32>,
        after: &BTreeMap<u32, u32>,
    ) -> Option<String> {
        let log = LogId(log);
        let wanted = self.directory.logs.get(&log)?.min_copies as usize;
        let full = self.directory.full_voters_of(log, after);
        // A log that lacks voters already hinders no change that takes none.
        let takes = full < self.directory.full_voters_of(log, before);
        (takes && full < wanted).then(|| {
            format!(
                "{name} wants {wanted} copies of what it acknowledges, and {full} of its voters would hold all of it: its appends would be refused (logberg log set {name} --min-copies N)"
            )
        })
    }

    /// The losses that a log would not outlive with these weights.
    fn notes(&self, name: &str, after: &BTreeMap<u32, u32>) -> Vec<String> {
        let mut notes = Vec::new();
        let voters: Vec<&u32> = after
            .iter()
            .filter(|(_, w)| **w > 0)
            .map(|(n, _)| n)
            .collect();
        match voters[..] {
            [only] => notes.push(format!(
                "{name} would have one voter, node {only}: while it is away nothing is appended, and if its disk is lost, so is the log"
            )),
            [_, _] => notes.push(format!(
                "{name} would have two voters: losing one stops appends"
            )),
            _ => {}
        }
        let zones = &self.directory.members.zones;
        let named: BTreeSet<Option<&String>> = voters.iter().map(|node| zones.get(node)).collect();
        let named: Vec<Option<&String>> = named.into_iter().collect();
        match named[..] {
            _ if voters.len() < 2 => {}
            [None] => notes.push(format!(
                "no zones are declared for the voters of {name}: nothing keeps them from failing together (logberg members zone ID NAME)"
            )),
            [Some(zone)] => notes.push(format!(
                "all voters of {name} would be in zone {zone}: when it fails, so does the log"
            )),
            _ => {}
        }
        notes
    }

    /// The heaviest zone, where two zones or more are declared among these nodes.
    fn heaviest_zone(&self, weights: &BTreeMap<u32, u32>) -> Option<(&str, u64)> {
        let zones = &self.directory.members.zones;
        let declared: BTreeSet<&String> = zones.values().collect();
        let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
        for (node, weight) in weights {
            if let Some(zone) = zones.get(node) {
                *parts.entry(zone).or_default() += u64::from(*weight);
            }
        }
        let heaviest = parts.into_iter().max_by_key(|(_, part)| *part);
        heaviest.filter(|_| declared.len() > 1)
    }

    /// Whether the zone's share grows by the change: a share that was as large before is no reason to refuse it.
    fn heavier_than(&self, zone: &str, part: u64, total: u64, before: &BTreeMap<u32, u32>) -> bool {
        let zones = &self.directory.members.zones;
        let within = before
            .iter()
            .filter(|(node, _)| zones.get(node).is_some_and(|z| z == zone));
        let within: u64 = within.map(|(_, weight)| u64::from(*weight)).sum();
        let all: u64 = before.values().map(|weight| u64::from(*weight)).sum();
        u128::from(part) * u128::from(all) > u128::from(within) * u128::from(total)
    }

    /// The configuration of a log. If this node does not host it, the wanted one, as if all of it had been done.
    pub(super) fn configuration(&self, log: u32) -> Option<Configuration> {
        let known = self.configurations.get(&log).cloned();
        known.or_else(|| {
            let wanted = self.directory.members.wanted.get(&log)?;
            let weights: Vec<(u32, u32)> = wanted.weights.iter().map(|(n, w)| (*n, *w)).collect();
            configuration(&weights, &[]).ok()
        })
    }

    fn changes(&self, log: u32, name: &str, to: BTreeMap<u32, u32>) -> Result<LogChange, Refusal> {
        let configuration = self.configuration(log);
        let configuration = configuration.as_ref();
        let known = self.directory.nodes.keys().map(|node| node.0);
        let silent = known.filter(|node| !self.alive.contains(node)).collect();
        let goal = Goal {
            weights: &to,
            zones: &self.directory.members.zones,
            silent: &silent,
        };
        let members = configuration.map_or(&[][..], Configuration::members);
        let from = members.iter().map(|m| (m.node.0, m.weight)).collect();
        let steps = match configuration {
            Some(configuration) => plan::plan(configuration, goal).ok_or_else(|| {
                refused(format!(
                    "it takes more than {STEPS_MAX} steps to get there for {name}: choose smaller weights in the same proportions"
                ))
            })?,
            None => Vec::new(),
        };
        Ok(LogChange {
            id: log,
            name: name.to_string(),
            from,
            steps: sentences(configuration, &steps),
            to,
        })
    }
}

/// Each step, and the weights after it.
pub fn sentences(from: Option<&Configuration>, steps: &[Change]) -> Vec<String> {
    let mut at = from.cloned().unwrap_or_default();
    let mut sentences = Vec::new();
    for step in steps {
        let before = at.clone();
        if let Ok(next) = at.apply(*step) {
            at = next;
        }
        let what = match step {
            Change::Increment(node) if before.contains(*node) => {
                format!("one more to node {node}")
            }
            Change::Increment(node) => {
                format!("fill node {node} with bytes, then give it weight 1")
            }
            Change::Decrement(node) if at.contains(*node) => format!("one less from node {node}"),
            Change::Decrement(node) => format!("take the last weight from node {node}"),
            Change::Multiply(factor) => format!("multiply all by {factor}"),
            Change::Divide(factor) => format!("divide all by {factor}"),
            Change::MarkAuxiliary(node) => format!("make node {node} auxiliary"),
            Change::UnmarkAuxiliary(node) => format!("make node {node} active"),
        };
        let weights = at
            .members()
            .iter()
            .map(|m| format!("{}:{}", m.node, m.weight));
        let weights: Vec<String> = weights.collect();
        sentences.push(format!("{what}  → {}", weights.join(" ")));
    }
    sentences
}

pub(super) fn listed<'a>(nodes: impl Iterator<Item = &'a u32>) -> String {
    let nodes: Vec<String> = nodes.map(ToString::to_string).collect();
    nodes.join(" and ")
}

/// The logs of the directory with their names, its own first.
pub fn names(directory: &Directory) -> impl Iterator<Item = (LogId, &str)> {
    let logs = directory
        .logs
        .iter()
        .map(|(id, entry)| (*id, entry.name.as_str()));
    [(DIRECTORY, DIRECTORY_NAME)].into_iter().chain(logs)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;

//! Who is a member of which log, and changes of that.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Client;
use crate::admin::{AdminError, Part};
use crate::cluster::Cluster;
use crate::line::{LineError, LineWriter, Words};
use crate::request::Request;

/// As the node says that leads the directory; of each log, as its leader says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// That answered.
    pub node: u64,
    /// Counts changes.
    pub version: u64,
    /// What the cluster's logs are written in.
    #[serde(default)]
    pub cluster_version: u64,
    pub nodes: Vec<Node>,
    pub logs: Vec<Log>,
    /// Ids that never come back.
    #[serde(default)]
    pub removed: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: u64,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub zone: Option<String>,
    /// full or auxiliary.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub alive: bool,
    /// It is removed once it has weight nowhere.
    #[serde(default)]
    pub leaving: bool,
    /// That it speaks.
    #[serde(default)]
    pub newest_version: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub id: u64,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub leader: Option<u64>,
    /// Whether who said this leads the log, and knows who holds how much.
    #[serde(default)]
    pub leads: bool,
    #[serde(default)]
    pub era: u64,
    #[serde(default)]
    pub output_bytes: u64,
    #[serde(default)]
    pub members: Vec<Member>,
    /// What is left to do, each a sentence.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Why it is not done yet.
    #[serde(default)]
    pub waits_for: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub node: u64,
    pub weight: u64,
    #[serde(default)]
    pub wanted: u64,
    /// leader, voter, auxiliary, learner or unknown.
    #[serde(default)]
    pub role: String,
    /// Of `output_bytes`, where that is known.
    #[serde(default)]
    pub held_bytes: Option<u64>,
}

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Add {
        node: u64,
        weight: u64,
    },
    Remove {
        node: u64,
    },
    Replace {
        old: u64,
        new: u64,
    },
    Weight {
        node: u64,
        weight: u64,
    },
    Address {
        node: u64,
        address: String,
    },
    /// `-` is none.
    Zone {
        node: u64,
        zone: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub action: Action,
    /// Of an addition or a weight; none are all.
    pub logs: Vec<String>,
    /// Takes the risks that it is refused for otherwise.
    pub force: bool,
    /// Only says what it would come to.
    pub plan: bool,
    /// Refused if the members were changed since.
    pub version: Option<u64>,
}

/// What comes of a change, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub version: u64,
    pub logs: Vec<PlannedLog>,
    /// Nodes that are removed for ever once they have weight nowhere.
    #[serde(default)]
    pub leaves: Vec<u64>,
    #[serde(default)]
    pub risks: Vec<String>,
    /// All that was asked for is wanted already. Steps may be left to do.
    #[serde(default)]
    pub nothing: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLog {
    pub id: u64,
    pub name: String,
    /// ⟨node, weight⟩
    pub from: BTreeMap<u64, u64>,
    pub to: BTreeMap<u64, u64>,
    pub steps: Vec<String>,
}

impl Change {
    pub fn new(action: Action) -> Change {
        Change {
            action,
            logs: Vec::new(),
            force: false,
            plan: false,
            version: None,
        }
    }

    pub(crate) fn write(&self, line: LineWriter) -> LineWriter {
        let line = match &self.action {
            Action::Add { node, weight } => line.word("add").word(node).key("weight", weight),
            Action::Remove { node } => line.word("remove").word(node),
            Action::Replace { old, new } => line.word("replace").word(old).word(new),
            Action::Weight { node, weight } => line.word("weight").word(node).word(weight),
            Action::Address { node, address } => line.word("address").word(node).word(address),
            Action::Zone { node, zone } => line.word("zone").word(node).word(zone),
        };
        let logs = (!self.logs.is_empty()).then(|| self.logs.join(","));
        line.key_if("log", logs)
            .flag("force", self.force)
            .flag("plan", self.plan)
            .key_if("version", self.version)
    }

    pub(crate) fn parse(words: &mut Words) -> Result<Change, LineError> {
        let action = match words.word("ACTION")?.as_str() {
            "add" => Action::Add {
                node: words.word_as("ID")?,
                weight: words.key_as("weight")?.unwrap_or(1),
            },
            "remove" => Action::Remove {
                node: words.word_as("ID")?,
            },
            "replace" => Action::Replace {
                old: words.word_as("OLD")?,
                new: words.word_as("NEW")?,
            },
            "weight" => Action::Weight {
                node: words.word_as("ID")?,
                weight: words.word_as("WEIGHT")?,
            },
            "address" => Action::Address {
                node: words.word_as("ID")?,
                address: words.word("HOST:PORT")?,
            },
            "zone" => Action::Zone {
                node: words.word_as("ID")?,
                zone: words.word("ZONE")?,
            },
            other => {
                return Err(LineError::Value {
                    key: "ACTION",
                    found: other.to_owned(),
                });
            }
        };
        let logs = words.key("log").unwrap_or_default();
        let logs = logs.split(',').filter(|log| !log.is_empty());
        Ok(Change {
            action,
            logs: logs.map(str::to_owned).collect(),
            force: words.flag("force")?,
            plan: words.flag("plan")?,
            version: words.key_as("version")?,
        })
    }
}

impl Client {
    /// Nodes, weights, and what is under way. Of each log its leader is asked, if it can be found.
    pub fn members(&self) -> Result<Members, AdminError> {
        self.members_part(Part::default())
    }

    /// As [`Client::members`], of the logs with an id above `after`, the first of these, or both.
    pub fn members_part(&self, part: Part<u64>) -> Result<Members, AdminError> {
        let request = Request::Members {
            local: false,
            after: part.after,
            limit: part.limit,
        };
        let mut members: Members = self.cluster.ask(&request, self.deadline())?.json()?;
        let mut asked: BTreeMap<u64, Option<Members>> = BTreeMap::new();
        let Members { nodes, logs, .. } = &mut members;
        for log in logs.iter_mut().filter(|log| !log.leads) {
            // Who does not host a log does not know who leads it.
            let able = |node: &&Node| node.alive && log.leader.is_none_or(|id| id == node.id);
            let mut said = nodes.iter().filter(able).filter_map(|node| {
                let said = asked.entry(node.id);
                let said = said.or_insert_with(|| self.members_of(&node.address, part).ok());
                let mut logs = said.iter().flat_map(|said| &said.logs);
                logs.find(|said| said.leads && said.id == log.id).cloned()
            });
            if let Some(better) = said.next() {
                *log = better;
            }
        }
        Ok(members)
    }

    /// As one server sees them; no other is asked.
    fn members_of(&self, server: &str, part: Part<u64>) -> Result<Members, AdminError> {
        let only = Cluster::new(vec![server.to_owned()], self.cluster.timeouts).alone();
        let request = Request::Members {
            local: true,
            after: part.after,
            limit: part.limit,
        };
        Arc::new(only).ask(&request, self.deadline())?.json()
    }

    /// Makes a change wanted, after which the cluster goes there by itself, step by step; or plans it.
    /// What is asked for again is no second change.
    ///
    /// Errors: [`AdminError::Refused`] with the reason.
    pub fn change_members(&self, change: &Change) -> Result<Planned, AdminError> {
        let request = Request::ChangeMembers(change.clone());
        self.cluster.ask(&request, self.deadline())?.json()
    }
}

//! Log 0: the cluster's directory of nodes and logs, a state machine on the layer of `commands`.

mod applying;
mod entries;
pub mod issuers;
mod keys;
mod machine;
pub mod members;
mod names;
mod standing;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod wishes;
mod worded;

use std::collections::BTreeMap;
use std::sync::Arc;

use formats::version::{self, Speaks};
use formats::{LogId, LogKind};
use paxos::mutation::{self, Mutation};
use paxos::{ChangeRefused, Configuration, Member, NodeId};
use serde::{Deserialize, Serialize};
use slots::{Change, Map};
use wire::{NodeKind, Retention};

use issuers::IssuerEntry;
use members::Members;
use tokens::{By, Rights, TokenEntry};

pub use entries::LogEntries;
pub use names::Misnamed;

pub const DIRECTORY: LogId = LogId(0);
pub const DIRECTORY_NAME: &str = "directory";

/// A command of the directory. Applying one twice is the same as once: its asker may ask again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "command")]
pub enum Command {
    /// The number of nodes that are given weight, as they join.
    SetVoters {
        voters: u32,
    },
    /// A node, or its new address. `disk` tells a node that lost its directory from itself.
    AddNode {
        id: u32,
        address: String,
        disk: String,
        /// The newest version that the node speaks.
        #[serde(default = "first_version")]
        newest: u8,
        /// An operator says where the node is, and not the node itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
        /// It joins by this token, which is good once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        /// The name in the certificate that it showed when it joined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
        /// The node whose name it gets: that one lost its disk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<u32>,
    },
    /// The names in the certificates of nodes, bound to their ids.
    NameNodes {
        names: Vec<(u32, String)>,
    },
    /// The newest version of a node, by its own word. It may have been another program before.
    SetNewest {
        node: u32,
        newest: u8,
    },
    /// Every disk is to be written in this version.
    PrepareVersion {
        version: u8,
    },
    /// Every disk is written in this version: it may stand in the logs.
    AgreeOnVersion {
        version: u8,
    },
    CreateLog {
        name: String,
        members: Vec<(u32, u32)>,
        /// The auxiliaries among the members.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        auxiliary: Vec<u32>,
        /// The nodes that host it; empty for all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<u32>,
        #[serde(default)]
        retention: Retention,
        #[serde(default, skip_serializing_if = "is_zero")]
        min_copies: u32,
        #[serde(default, skip_serializing_if = "LogKind::is_bytes")]
        kind: LogKind,
    },
    /// The log is to end: requests by its name find no log, and once it has chosen to be sealed it is deleted.
    SealLog {
        id: u32,
    },
    /// The log is deleted for ever: no other log gets its id.
    DeleteLog {
        id: u32,
    },
    SetRetention {
        log: String,
        retention: Retention,
    },
    SetMinCopies {
        log: String,
        min_copies: u32,
    },
    ChangeMembers(members::Change),
    /// The zone; an empty name means no zone.
    SetZone {
        node: u32,
        zone: String,
    },
    /// A node's word of itself when it starts.
    DescribeNode {
        node: u32,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        zone: String,
        #[serde(default)]
        kind: NodeKind,
    },
    /// The removal of a node that is to leave, once it has weight nowhere.
    RemoveNode {
        node: u32,
    },
    /// The map of slots is to change so. `expects`: only if that is the map's version still.
    ChangeSlots {
        #[serde(flatten)]
        change: Change,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expects: Option<u32>,
    },
    /// All groups of keys end, and nobody is to have slots.
    DropSlots {
        /// Only if that is the map's version still.
        expects: u32,
    },
    /// A group serves these slots, first to last, and has taken note of that version of the map.
    ServeSlots {
        group: u32,
        parts: Vec<(u16, u16, u32)>,
    },
    /// A token, the first time or anew. ‡ It must lie within the grants of who asks, then.
    PutToken {
        name: String,
        #[serde(flatten)]
        entry: TokenEntry,
        /// The address from which its asker came.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
    },
    RevokeToken {
        name: String,
        by: By,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
        at_ms: u64,
    },
    /// An issuer of tickets, the first time or anew. ‡ As of a token.
    PutIssuer {
        name: String,
        #[serde(flatten)]
        entry: IssuerEntry,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
    },
    RemoveIssuer {
        name: String,
        by: By,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
        at_ms: u64,
    },
    /// Tokens are asked for from now on, or not any more.
    SetAuth {
        on: bool,
        by: By,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
        at_ms: u64,
    },
    /// A change that somebody asked for: it stands beside this command, or is none of log 0.
    Note {
        by: By,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        from: String,
        at_ms: u64,
        what: String,
    },
    /// A majority was lost for good (`rescue`). This node goes on alone, on a new disk, with these logs; all
    /// others are forgotten.
    GoOnAlone {
        id: u32,
        address: String,
        disk: String,
        logs: Vec<u32>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    pub voters: u32,
    pub nodes: BTreeMap<NodeId, NodeEntry>,
    pub logs: LogEntries,
    /// The highest id that a log ever had. An id that is not above it and not in `logs` was deleted.
    pub last_log: LogId,
    pub members: Members,
    pub versions: Versions,
    /// The number of times that one node went on alone.
    pub rescues: u32,
    /// Counts what was wanted of logs.
    pub wishes: u64,
    /// Which group is to serve which slots, and which one does.
    pub slots: Arc<Map>,
    /// Who may do what.
    pub rights: Arc<Rights>,
    /// This replica's program.
    pub speaks: Speaks,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeEntry {
    pub address: String,
    /// The disk id, in hexadecimal.
    pub disk: String,
    pub kind: NodeKind,
    /// The last zone that the node said itself; an operator may have said another since.
    pub said_zone: String,
    /// The last address that the node said itself; empty if nobody has kept it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub said_address: String,
    /// The newest version that it speaks.
    pub newest: u8,
    /// The name in its certificate, by which alone it is believed; empty if none is bound.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate: String,
    /// It lost its disk, and that node has its name by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<u32>,
}

/// The versions of the cluster: agreed <= prepared
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The version of logs and of the directory itself.
    pub agreed: u8,
    /// The version in which every node's disk is to be written. A node that joins speaks it.
    pub prepared: u8,
}

fn first_version() -> u8 {
    version::FIRST
}

impl Default for Versions {
    fn default() -> Versions {
        Versions {
            agreed: version::FIRST,
            prepared: version::FIRST,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogEntry {
    pub name: String,
    pub kind: LogKind,
    /// The configuration it began with.
    pub members: Vec<(u32, u32)>,
    /// The members that are to hold bytes only while others cannot.
    pub auxiliary: Vec<u32>,
    /// The nodes that host it; empty for all.
    pub hosts: Vec<u32>,
    pub retention: Retention,
    /// The number of full members that are to hold what is acknowledged; 0 if a majority decides.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_copies: u32,
    /// The count in the number of the present wish; 0 while the cluster speaks no wishes.
    #[serde(skip_serializing_if = "is_none")]
    pub wish: u64,
    /// The wish that the log began with, if that is all that was wanted of it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_wish: Option<FirstWish>,
    /// The log is to end, and keeps its name until it has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sealing: bool,
}

/// The wish for a log when it was created, besides its first configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWish {
    /// The count in its number.
    pub count: u64,
    #[serde(default)]
    pub retention: Retention,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_copies: u32,
}

fn is_zero(copies: &u32) -> bool {
    *copies == 0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl NodeEntry {
    /// Whether it is news that the node says this of its address. A repetition of its last word is no news,
    /// though an operator has said another address since.
    pub fn is_elsewhere(&self, address: &str) -> bool {
        let said = match self.said_address.as_str() {
            "" => self.address.as_str(),
            said => said,
        };
        !address.is_empty() && said != address
    }
}

impl Command {
    /// The command as it stands in the log.
    pub fn encode(&self, version: u8) -> Vec<u8> {
        let mut command = self.clone();
        if let Command::AddNode { by_hand, .. } = &mut command {
            *by_hand &= version >= version::SAID_ADDRESSES;
        }
        let marked = Marked {
            written_in: version,
            command,
        };
        serde_json::to_vec(&marked).expect("numbers and text are always JSON")
    }
}

/// A command and the version that it is written in.
#[derive(Serialize, Deserialize)]
struct Marked<C> {
    #[serde(default = "first_version", skip_serializing_if = "is_first")]
    written_in: u8,
    #[serde(flatten)]
    command: C,
}

fn is_first(version: &u8) -> bool {
    *version == version::FIRST
}

impl Directory {
    /// Whether all nodes speak this version, by their last word.
    pub fn all_speak(&self, version: u8) -> bool {
        let all = self.nodes.values().all(|entry| entry.newest >= version);
        all || mutation::is(Mutation::VersionRaisedTooEarly)
    }

    /// Whether this node is to host that log. If a log is not listed nobody knows better.
    pub fn hosts(&self, log: LogId, node: NodeId) -> bool {
        let entry = self.logs.get(&log);
        entry.is_none_or(|entry| entry.hosts.is_empty() || entry.hosts.contains(&node.0))
    }

    /// Whether the log was created, and is no more.
    pub fn is_deleted(&self, log: LogId) -> bool {
        log != DIRECTORY && log <= self.last_log && !self.logs.contains_key(&log)
    }

    /// The log that requests by this name find.
    pub fn log_by_name(&self, name: &str) -> Option<LogId> {
        let found = self.logs.named(name).filter(|(_, entry)| !entry.sealing);
        found.map(|(id, _)| id)
    }

    /// The log that had this name and is to end, and has not yet.
    pub fn sealing_by_name(&self, name: &str) -> Option<LogId> {
        let found = self.logs.named(name).filter(|(_, entry)| entry.sealing);
        found.map(|(id, _)| id)
    }

    pub fn node_by_disk(&self, disk: &str) -> Option<NodeId> {
        self.nodes
            .iter()
            .find(|(_, entry)| entry.disk == disk)
            .map(|(id, _)| *id)
    }
}

/// The configuration with which a log of these members begins.
pub fn configuration(
    members: &[(u32, u32)],
    auxiliary: &[u32],
) -> Result<Configuration, ChangeRefused> {
    let is_member = |node: &&u32| members.iter().any(|(member, _)| member == *node);
    if let Some(stranger) = auxiliary.iter().find(|node| !is_member(node)) {
        return Err(ChangeRefused::UnknownNode(NodeId(*stranger)));
    }
    Configuration::new(members.iter().map(|(node, weight)| Member {
        node: NodeId(*node),
        weight: *weight,
        auxiliary: auxiliary.contains(node),
    }))
}

/// Checks the name of a log: it stands in lines, tables and file names.
pub fn check_log_name(name: &str) -> Result<(), String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(ok) || name.starts_with('.') {
        return Err(
            "a log's name is 1 to 64 letters, digits, '-', '_' or '.', and does not begin with '.'"
                .into(),
        );
    }
    Ok(())
}

//! Log 0: the cluster's directory of nodes and logs, a state machine on the layer of `commands`.

mod entries;
pub mod issuers;
mod keys;
mod machine;
pub mod members;
mod names;
mod standing;
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

use wishes::Touched;

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
    pub fn apply(&mut self, command: &Command) {
        let touched = self.touched_by(command);
        let before = self.wanted_of(&touched);
        let rescues = self.rescues;
        self.act(command);
        self.number_wishes(&touched, &before, rescues);
        if let (Command::CreateLog { .. }, Touched::One(log)) = (command, touched) {
            self.begin_with_wish(log);
        }
    }

    fn act(&mut self, command: &Command) {
        match command {
            Command::SetVoters { voters } => {
                self.voters = *voters;
                self.grow();
            }
            Command::AddNode {
                id,
                address,
                disk,
                newest,
                by_hand,
                token,
                certificate,
                replaces,
            } => {
                // An older program does not keep the address.
                let keeps = self.versions.agreed >= version::SAID_ADDRESSES && !by_hand;
                let said = if keeps { address.as_str() } else { "" };
                let entry = NodeEntry {
                    address: address.clone(),
                    disk: disk.clone(),
                    newest: *newest,
                    said_address: said.to_owned(),
                    certificate: certificate.clone().unwrap_or_default(),
                    ..NodeEntry::default()
                };
                let may_be_named = self.may_be_named(&entry.certificate, *replaces);
                let has_id = self.node_by_disk(disk).is_some();
                match self.nodes.get_mut(&NodeId(*id)) {
                    Some(known) if known.disk != *disk => {}
                    Some(known) => {
                        known.address = entry.address;
                        known.newest = entry.newest;
                        if keeps {
                            known.said_address = entry.said_address;
                        }
                    }
                    // The node asked twice, and has its id already.
                    None if has_id || self.members.removed.contains(id) => {}
                    // The node's disk would not be as the others' are.
                    None if *newest < self.versions.prepared => {}
                    // Another node has its certificate.
                    None if !may_be_named => {}
                    // Another node was let in by it meanwhile.
                    None if token
                        .as_ref()
                        .is_some_and(|t| !self.rights.lets_in(t, disk)) => {}
                    None => {
                        if let Some(old) = replaces {
                            self.move_name(*old, *id);
                        }
                        self.nodes.insert(NodeId(*id), entry);
                        self.grow();
                        if let Some(token) = token {
                            Arc::make_mut(&mut self.rights).has_let_in(token, *id, disk);
                        }
                    }
                }
            }
            Command::NameNodes { names } => self.name_nodes(names),
            Command::SetNewest { node, newest } => {
                if let Some(entry) = self.nodes.get_mut(&NodeId(*node)) {
                    entry.newest = *newest;
                }
            }
            Command::PrepareVersion { version } => {
                if self.all_speak(*version) {
                    self.versions.prepared = self.versions.prepared.max(*version);
                }
            }
            Command::AgreeOnVersion { version } => {
                let version = (*version).min(self.versions.prepared);
                self.versions.agreed = self.versions.agreed.max(version);
            }
            Command::CreateLog {
                name,
                members,
                auxiliary,
                hosts,
                retention,
                min_copies,
                kind,
            } => {
                let mut chosen = members.iter().map(|(node, _)| node).chain(hosts);
                // A member that leaves since the leader looked would leave the log without its vote.
                let all_there = chosen.all(|node| !self.members.leaves(*node));
                if !self.is_taken(name) && all_there {
                    self.last_log.0 += 1;
                    self.logs.insert(
                        self.last_log,
                        LogEntry {
                            name: name.clone(),
                            members: members.clone(),
                            auxiliary: auxiliary.clone(),
                            hosts: hosts.clone(),
                            retention: *retention,
                            min_copies: *min_copies,
                            kind: *kind,
                            ..LogEntry::default()
                        },
                    );
                    let by_hand = !hosts.is_empty();
                    self.members.on_log_created(self.last_log, members, by_hand);
                    self.grow();
                }
            }
            // ‡ A slot must not be on its way to nobody.
            Command::SealLog { id } if self.slots.may_go(*id).is_err() => {}
            Command::SealLog { id } => self.logs.seal(LogId(*id)),
            Command::DeleteLog { id } => {
                self.logs.remove(LogId(*id));
                self.members.wanted.remove(id);
            }
            Command::SetRetention { log, retention } => {
                let id = self.log_by_name(log);
                if let Some(entry) = id.and_then(|id| self.logs.get_mut(id)) {
                    entry.retention = *retention;
                }
            }
            Command::SetMinCopies { log, min_copies } => {
                let id = self.log_by_name(log);
                if let Some(entry) = id.and_then(|id| self.logs.get_mut(id)) {
                    entry.min_copies = *min_copies;
                }
            }
            Command::ChangeMembers(change) => {
                let nodes = self.nodes.keys().map(|node| node.0).collect();
                self.members.change(change, &nodes);
                self.host_members();
            }
            Command::SetZone { node, zone } => {
                if self.nodes.contains_key(&NodeId(*node)) {
                    self.members.set_zone(*node, zone);
                }
            }
            Command::DescribeNode { node, zone, kind } => {
                if let Some(entry) = self.nodes.get_mut(&NodeId(*node)) {
                    entry.kind = *kind;
                    if !zone.is_empty() && entry.said_zone != *zone {
                        entry.said_zone = zone.clone();
                        self.members.set_zone(*node, zone);
                    }
                }
            }
            Command::RemoveNode { node } => {
                if self.members.remove(*node) {
                    self.nodes.remove(&NodeId(*node));
                }
            }
            Command::ChangeSlots { change, expects } => {
                let fits = expects.is_none_or(|version| version == self.slots.version());
                if fits && self.may_change_slots(change) {
                    self.change_slots(change);
                }
            }
            Command::DropSlots { expects } => {
                if *expects == self.slots.version() {
                    self.drop_slots();
                }
            }
            Command::ServeSlots { group, parts } => self.serve_slots(*group, parts),
            Command::PutToken { name, entry, from } => {
                Arc::make_mut(&mut self.rights).put(name, entry.clone(), from);
            }
            Command::RevokeToken {
                name,
                by,
                from,
                at_ms,
            } => {
                Arc::make_mut(&mut self.rights).revoke(name, (by, from), *at_ms);
            }
            Command::PutIssuer { name, entry, from } => {
                Arc::make_mut(&mut self.rights).put_issuer(name, entry.clone(), from);
            }
            Command::RemoveIssuer {
                name,
                by,
                from,
                at_ms,
            } => {
                Arc::make_mut(&mut self.rights).remove_issuer(name, (by, from), *at_ms);
            }
            Command::SetAuth {
                on,
                by,
                from,
                at_ms,
            } => {
                Arc::make_mut(&mut self.rights).set(*on, (by, from), *at_ms);
            }
            Command::Note {
                by,
                from,
                at_ms,
                what,
            } => {
                let rights = Arc::make_mut(&mut self.rights);
                rights.tick(*at_ms);
                rights.note((by, from), *at_ms, what);
            }
            Command::GoOnAlone {
                id,
                address,
                disk,
                logs,
            } => {
                let known = self.nodes.get(&NodeId(*id)).cloned();
                let known = known.unwrap_or_else(|| NodeEntry {
                    newest: self.versions.prepared,
                    ..NodeEntry::default()
                });
                let entry = NodeEntry {
                    address: address.clone(),
                    disk: disk.clone(),
                    ..known.clone()
                };
                if known == entry {
                    return;
                }
                let lost = self.nodes.keys().map(|node| node.0);
                self.members.go_on_alone(*id, lost, logs);
                self.nodes = BTreeMap::from([(NodeId(*id), entry)]);
                self.logs.retain(|log| logs.contains(&log.0));
                for (_, log) in self.logs.iter_mut() {
                    log.members = vec![(*id, 1)];
                    log.auxiliary.clear();
                    log.hosts.clear();
                    log.first_wish = None;
                }
                Arc::make_mut(&mut self.slots).keep_only(&logs.iter().copied().collect());
                self.rescues += 1;
            }
        }
    }

    /// Whether all nodes speak this version, by their last word.
    pub fn all_speak(&self, version: u8) -> bool {
        let all = self.nodes.values().all(|entry| entry.newest >= version);
        all || mutation::is(Mutation::VersionRaisedTooEarly)
    }

    /// Lets every node that is to have weight host the log.
    fn host_members(&mut self) {
        for (id, entry) in self.logs.iter_mut().filter(|(_, e)| !e.hosts.is_empty()) {
            let wanted = self.members.wanted.get(&id.0).into_iter();
            let wanted = wanted.flat_map(|wanted| wanted.weights.keys().copied());
            let new: Vec<u32> = wanted.filter(|n| !entry.hosts.contains(n)).collect();
            entry.hosts.extend(new);
        }
    }

    fn grow(&mut self) {
        let nodes = self.nodes.keys().map(|node| node.0);
        self.members.grow(nodes, self.voters);
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

    /// ‡ A name is free once its log has ended.
    fn is_taken(&self, name: &str) -> bool {
        name == DIRECTORY_NAME || self.logs.named(name).is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_applied_twice_change_nothing_more() {
        let commands = [
            Command::SetVoters { voters: 3 },
            Command::AddNode {
                id: 1,
                address: "a:1".into(),
                disk: "d1".into(),
                newest: 1,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            },
            Command::CreateLog {
                name: "main".into(),
                members: vec![(1, 1), (2, 1), (3, 1)],
                auxiliary: vec![3],
                hosts: vec![1, 2, 3],
                retention: Retention::default(),
                min_copies: 0,
                kind: LogKind::Bytes,
            },
            Command::SetRetention {
                log: "main".into(),
                retention: "7d".parse().unwrap(),
            },
            Command::SetMinCopies {
                log: "main".into(),
                min_copies: 2,
            },
            Command::SetZone {
                node: 1,
                zone: "a".into(),
            },
            Command::RemoveNode { node: 1 },
        ];
        let mut once = Directory::default();
        commands.iter().for_each(|c| once.apply(c));
        let mut twice = once.clone();
        commands.iter().for_each(|c| twice.apply(c));
        assert_eq!(once, twice);
        assert_eq!(once.log_by_name("main"), Some(LogId(1)));
        assert!(once.hosts(LogId(1), NodeId(3)) && !once.hosts(LogId(1), NodeId(4)));
    }

    #[test]
    fn no_log_begins_with_a_member_that_leaves() {
        let mut directory = Directory::default();
        let create = |name: &str, nodes: [u32; 2]| Command::CreateLog {
            name: name.into(),
            members: nodes.map(|node| (node, 1)).into(),
            auxiliary: Vec::new(),
            hosts: nodes.into(),
            retention: Retention::default(),
            min_copies: 0,
            kind: LogKind::Bytes,
        };
        for id in [1, 2, 3] {
            directory.apply(&Command::AddNode {
                id,
                address: format!("a:{id}"),
                disk: format!("d{id}"),
                newest: 1,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            });
        }
        directory.members.leaving.insert(3);
        directory.apply(&create("a", [2, 3]));
        assert_eq!(directory.log_by_name("a"), None, "it is leaving");
        directory.apply(&Command::RemoveNode { node: 3 });
        assert!(directory.members.removed.contains(&3));
        directory.apply(&create("a", [2, 3]));
        assert_eq!(directory.log_by_name("a"), None, "it is gone");
        directory.apply(&create("a", [1, 2]));
        assert_eq!(
            directory.log_by_name("a"),
            Some(LogId(1)),
            "no id was spent"
        );
    }

    #[test]
    fn who_goes_on_alone_forgets_the_others_and_what_it_does_not_hold() {
        let mut directory = Directory::default();
        for id in [1, 2, 3] {
            directory.apply(&Command::AddNode {
                id,
                address: format!("a:{id}"),
                disk: format!("d{id}"),
                newest: 1,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            });
        }
        directory.apply(&create("a"));
        directory.apply(&create("b"));
        directory.apply(&Command::GoOnAlone {
            id: 3,
            address: "b:3".into(),
            disk: "e3".into(),
            logs: vec![2],
        });
        let nodes: Vec<_> = directory
            .nodes
            .iter()
            .map(|(id, e)| (id.0, &*e.disk))
            .collect();
        assert_eq!(nodes, [(3, "e3")]);
        assert!(directory.is_deleted(LogId(1)));
        assert_eq!(directory.logs[&LogId(2)].members, [(3, 1)]);
        assert!(
            directory.hosts(LogId(2), NodeId(4)),
            "whoever joins has it too"
        );
    }

    fn create(name: &str) -> Command {
        Command::CreateLog {
            name: name.into(),
            members: vec![(1, 1)],
            auxiliary: Vec::new(),
            hosts: Vec::new(),
            retention: Retention::default(),
            min_copies: 0,
            kind: LogKind::Bytes,
        }
    }

    #[test]
    fn slots_go_to_groups_that_are_there_and_a_group_with_slots_stays() {
        let mut directory = Directory::default();
        for name in ["kv-1-of-2", "kv-2-of-2", "main"] {
            let mut command = create(name);
            if let Command::CreateLog { kind, .. } = &mut command
                && name != "main"
            {
                *kind = LogKind::Kv;
            }
            directory.apply(&command);
        }
        let change = |change: Change| Command::ChangeSlots {
            change,
            expects: None,
        };
        let join = |groups: Vec<u32>| change(Change::Join { groups });
        directory.apply(&join(vec![1, 3]));
        assert_eq!(directory.slots.version(), 0, "log 3 is no group");
        directory.apply(&join(vec![1, 2]));
        assert_eq!(
            (directory.slots.version(), directory.slots.slots_of(2)),
            (1, 8_192)
        );
        directory.apply(&Command::SealLog { id: 2 });
        assert!(!directory.logs[&LogId(2)].sealing, "it has slots");
        directory.apply(&change(Change::Leave { group: 2 }));
        directory.apply(&Command::SealLog { id: 2 });
        assert!(!directory.logs[&LogId(2)].sealing, "they are on their way");
        let serve = |group, parts| Command::ServeSlots { group, parts };
        directory.apply(&serve(1, vec![(8_192, 16_383, 2)]));
        assert!(directory.slots.is_settled());
        directory.apply(&Command::SealLog { id: 2 });
        assert!(directory.logs[&LogId(2)].sealing);
        directory.apply(&join(vec![2]));
        assert_eq!(directory.slots.version(), 2, "it ends");
        // An older word comes late.
        directory.apply(&serve(2, vec![(8_192, 16_383, 1)]));
        assert!(directory.slots.is_settled());
        let json = |command: &Command| command.encode(2);
        let late = Command::ChangeSlots {
            change: Change::Balance,
            expects: Some(1),
        };
        let adopt = change(Change::Adopt {
            version: 7,
            parts: Vec::new(),
        });
        for command in [late, adopt] {
            let read: Command = serde_json::from_slice(&json(&command)).expect("it is a command");
            assert_eq!(read, command);
        }
    }

    #[test]
    fn a_deleted_log_gives_its_name_to_another_and_its_id_to_none() {
        let mut directory = Directory::default();
        directory.apply(&create("a"));
        assert!(!directory.is_deleted(LogId(1)) && !directory.is_deleted(LogId(2)));
        for _ in 0..2 {
            directory.apply(&Command::DeleteLog { id: 1 });
        }
        directory.apply(&Command::DeleteLog { id: 7 });
        assert!(directory.is_deleted(LogId(1)) && !directory.is_deleted(LogId(7)));
        directory.apply(&create("a"));
        assert_eq!(directory.log_by_name("a"), Some(LogId(2)));
        assert!(!directory.is_deleted(DIRECTORY));
    }

    #[test]
    fn a_node_keeps_its_disk_for_ever() {
        let mut directory = Directory::default();
        directory.apply(&Command::AddNode {
            id: 1,
            address: "a:1".into(),
            disk: "d1".into(),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        });
        directory.apply(&Command::AddNode {
            id: 1,
            address: "b:1".into(),
            disk: "d2".into(),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        });
        assert_eq!(directory.nodes[&NodeId(1)].address, "a:1");
    }

    #[test]
    fn a_version_is_prepared_when_all_speak_it_and_agreed_on_when_prepared() {
        let mut directory = Directory::default();
        let node = |id: u32, newest| Command::AddNode {
            id,
            address: format!("a:{id}"),
            disk: format!("d{id}"),
            newest,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        };
        directory.apply(&node(1, 2));
        directory.apply(&node(2, 1));
        let prepare = Command::PrepareVersion { version: 2 };
        directory.apply(&prepare);
        directory.apply(&Command::AgreeOnVersion { version: 2 });
        assert_eq!(directory.versions, Versions::default());
        directory.apply(&Command::SetNewest { node: 2, newest: 2 });
        directory.apply(&prepare);
        assert_eq!(
            (directory.versions.agreed, directory.versions.prepared),
            (1, 2)
        );
        directory.apply(&node(3, 1));
        assert!(
            !directory.nodes.contains_key(&NodeId(3)),
            "it came too late"
        );
        directory.apply(&Command::AgreeOnVersion { version: 3 });
        assert_eq!(directory.versions.agreed, 2, "3 is not prepared");
    }

    #[test]
    fn a_disk_has_one_id_however_often_it_asked() {
        let mut directory = Directory::default();
        for id in [2, 3] {
            directory.apply(&Command::AddNode {
                id,
                address: "a:1".into(),
                disk: "d1".into(),
                newest: 1,
                by_hand: false,
                token: None,
                certificate: None,
                replaces: None,
            });
        }
        let ids: Vec<NodeId> = directory.nodes.keys().copied().collect();
        assert_eq!(ids, [NodeId(2)]);
    }
}

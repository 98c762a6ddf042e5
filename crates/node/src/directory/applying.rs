//! Commands, each done as one step: the directory is seen before or after it, and never within.

use std::collections::BTreeMap;
use std::sync::Arc;

use formats::{LogId, version};
use paxos::NodeId;

use super::wishes::Touched;
use super::{Command, DIRECTORY_NAME, Directory, LogEntry, NodeEntry};

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
            } => self.go_on_alone(*id, (address, disk), logs),
        }
    }

    /// This node goes on with what it holds, and no other is there any more.
    fn go_on_alone(&mut self, id: u32, (address, disk): (&str, &str), logs: &[u32]) {
        let known = self.nodes.get(&NodeId(id)).cloned();
        let known = known.unwrap_or_else(|| NodeEntry {
            newest: self.versions.prepared,
            ..NodeEntry::default()
        });
        let entry = NodeEntry {
            address: address.to_owned(),
            disk: disk.to_owned(),
            ..known.clone()
        };
        if known == entry {
            return;
        }
        let lost = self.nodes.keys().map(|node| node.0);
        self.members.go_on_alone(id, lost, logs);
        self.nodes = BTreeMap::from([(NodeId(id), entry)]);
        self.logs.retain(|log| logs.contains(&log.0));
        for (_, log) in self.logs.iter_mut() {
            log.members = vec![(id, 1)];
            log.auxiliary.clear();
            log.hosts.clear();
            log.first_wish = None;
        }
        Arc::make_mut(&mut self.slots).keep_only(&logs.iter().copied().collect());
        self.rescues += 1;
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

    /// ‡ A name is free once its log has ended.
    fn is_taken(&self, name: &str) -> bool {
        name == DIRECTORY_NAME || self.logs.named(name).is_some()
    }
}

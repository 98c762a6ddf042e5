//! The directory as a state machine: commands and snapshots are JSON, for people to read.
//!
//! ```text
//! snapshot = {"voters":…,"last_log":…,"nodes":{ │ "1":{…},"2":{…} │ },"logs":{ │ … │ },"members":…}
//!              pieces                             some nodes each                some logs each
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use commands::{Layout, PIECE_BYTES, StateMachine, Unknown};
use formats::LogId;
use paxos::NodeId;
use serde::{Deserialize, Serialize};
use slots::Map;

use super::issuers::IssuerEntry;
use super::members::Members;
use super::tokens::{Rights, Switch, TokenEntry};
use super::wishes::Touched;
use super::{Command, Directory, LogEntry, Marked, NodeEntry, Versions};

#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct Page {
    voters: u32,
    last_log: u32,
    nodes: BTreeMap<u32, NodeEntry>,
    logs: BTreeMap<u32, LogEntry>,
    #[serde(default)]
    members: Members,
    #[serde(default)]
    versions: Versions,
    #[serde(default, skip_serializing_if = "is_zero")]
    rescues: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    wishes: u64,
    #[serde(default, skip_serializing_if = "is_new")]
    slots: Map,
    #[serde(default, skip_serializing_if = "is_default")]
    auth: Switch,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tokens: BTreeMap<String, TokenEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    issuers: BTreeMap<String, IssuerEntry>,
}

/// The part of a snapshot behind the logs, in one piece: some 100 bytes a log.
#[derive(Serialize)]
struct Rest<'a> {
    members: &'a Members,
    versions: Versions,
    #[serde(skip_serializing_if = "is_zero")]
    rescues: u64,
    #[serde(skip_serializing_if = "is_zero")]
    wishes: u64,
    #[serde(skip_serializing_if = "is_new")]
    slots: &'a Map,
    #[serde(skip_serializing_if = "is_default")]
    auth: &'a Switch,
}

fn is_default(auth: &Switch) -> bool {
    *auth == Switch::default()
}

fn is_new(slots: &Map) -> bool {
    slots.version() == 0
}

/// The next thing in a snapshot.
#[derive(Clone, Debug, Default)]
pub enum Place {
    #[default]
    Head,
    /// Nodes, after this one.
    Nodes(Option<NodeId>),
    Logs(Option<LogId>),
    Rest,
    /// Tokens, after this one.
    Tokens(Option<String>),
    Issuers(Option<String>),
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StateMachine for Directory {
    type Place = Place;
    /// The page, as far as it came.
    type Restoring = Vec<u8>;

    /// The only layout that older programs read.
    const LAYOUT: Layout = Layout::Plain;

    /// The answer names the log that the command concerns, where it concerns one alone: [`Directory::concerned_by`].
    fn apply(&mut self, command: &[u8]) -> Result<Vec<u8>, Unknown> {
        #[derive(Deserialize)]
        struct Mark {
            #[serde(default = "super::first_version")]
            written_in: u8,
        }
        // A newer version's command may be none to us, and says all the same which version it is.
        let mark: Mark = serde_json::from_slice(command).map_err(unknown)?;
        self.check(mark.written_in)?;
        let marked: Marked<Command> = serde_json::from_slice(command).map_err(unknown)?;
        let one = match (&marked.command, self.touched_by(&marked.command)) {
            (Command::DeleteLog { id }, _) => id.to_le_bytes().to_vec(),
            (_, Touched::One(log)) => log.0.to_le_bytes().to_vec(),
            _ => Vec::new(),
        };
        Directory::apply(self, &marked.command);
        Ok(one)
    }

    fn snapshot(&self, at: &mut Place, into: &mut Vec<u8>) -> bool {
        *at = match at {
            Place::Head => {
                let (voters, last_log) = (self.voters, self.last_log);
                let head = format!(r#"{{"voters":{voters},"last_log":{last_log},"nodes":{{"#);
                into.extend_from_slice(head.as_bytes());
                Place::Nodes(None)
            }
            Place::Nodes(after) => match some_entries(&self.nodes, *after, into) {
                Some(last) => Place::Nodes(Some(last)),
                None => {
                    into.extend_from_slice(br#"},"logs":{"#);
                    Place::Logs(None)
                }
            },
            Place::Logs(after) => match some_entries(&self.logs, *after, into) {
                Some(last) => Place::Logs(Some(last)),
                None => {
                    into.extend_from_slice(b"},");
                    Place::Rest
                }
            },
            Place::Rest => {
                let rest = Rest {
                    members: &self.members,
                    versions: self.versions,
                    rescues: u64::from(self.rescues),
                    wishes: self.wishes,
                    slots: &self.slots,
                    auth: &self.rights.switch,
                };
                let rest = serde_json::to_vec(&rest).expect(ALWAYS_JSON);
                into.extend_from_slice(&rest[b"{".len()..rest.len() - b"}".len()]);
                return self.go_on_behind(None, at, into);
            }
            Place::Tokens(after) => match some_named(&self.rights.tokens, after.as_ref(), into) {
                Some(last) => Place::Tokens(Some(last)),
                None => {
                    into.push(b'}');
                    return self.go_on_behind(Some(b"tokens"), at, into);
                }
            },
            Place::Issuers(after) => match some_named(&self.rights.issuers, after.as_ref(), into) {
                Some(last) => Place::Issuers(Some(last)),
                None => {
                    into.push(b'}');
                    return self.go_on_behind(Some(b"issuers"), at, into);
                }
            },
        };
        true
    }

    fn restore(into: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Unknown> {
        into.extend_from_slice(bytes);
        Ok(())
    }

    fn restored(&mut self, snapshot: Vec<u8>) -> Result<(), Unknown> {
        let page: Page = serde_json::from_slice(&snapshot).map_err(unknown)?;
        self.check(page.versions.agreed)?;
        let nodes = page
            .nodes
            .into_iter()
            .map(|(id, entry)| (NodeId(id), entry));
        let logs = page.logs.into_iter().map(|(id, entry)| (LogId(id), entry));
        *self = Directory {
            voters: page.voters,
            nodes: nodes.collect(),
            logs: logs.collect(),
            last_log: LogId(page.last_log),
            members: page.members,
            versions: page.versions,
            rescues: u32::try_from(page.rescues).map_err(|_| Unknown("too many rescues".into()))?,
            wishes: page.wishes,
            slots: Arc::new(page.slots),
            rights: Arc::new(Rights {
                tokens: page.tokens,
                issuers: page.issuers,
                switch: page.auth,
            }),
            speaks: self.speaks,
        };
        Ok(())
    }
}

impl Directory {
    /// The one log that a command concerns, by its answer. Other commands may concern all.
    pub fn concerned_by(answer: &[u8]) -> Option<LogId> {
        let id = answer.try_into().ok()?;
        Some(LogId(u32::from_le_bytes(id)))
    }

    /// Begins the next list of names that has any, behind this one, or ends the snapshot: then there is no more.
    fn go_on_behind(&self, list: Option<&[u8]>, at: &mut Place, into: &mut Vec<u8>) -> bool {
        let rights = &self.rights;
        let next = match list {
            None if !rights.tokens.is_empty() => Some((&b"tokens"[..], Place::Tokens(None))),
            None | Some(b"tokens") if !rights.issuers.is_empty() => {
                Some((&b"issuers"[..], Place::Issuers(None)))
            }
            _ => None,
        };
        let Some((name, place)) = next else {
            into.push(b'}');
            return false;
        };
        into.extend_from_slice(b",\"");
        into.extend_from_slice(name);
        into.extend_from_slice(b"\":{");
        *at = place;
        true
    }

    fn check(&self, version: u8) -> Result<u8, Unknown> {
        let checked = self.speaks.check(u32::from(version));
        checked.map_err(|unspoken| Unknown(unspoken.to_string()))
    }
}

const ALWAYS_JSON: &str = "numbers and text are always JSON";

/// Appends some entries that follow, and gives the last one; `None` if there are no more.
fn some_entries<K: Copy + Ord + Display, V: Serialize>(
    entries: &BTreeMap<K, V>,
    after: Option<K>,
    into: &mut Vec<u8>,
) -> Option<K> {
    let begin = into.len();
    let mut last = None;
    for (key, entry) in entries.range((after.map_or(Unbounded, Excluded), Unbounded)) {
        if into.len() - begin >= PIECE_BYTES {
            break;
        }
        if after.or(last).is_some() {
            into.push(b',');
        }
        into.extend_from_slice(format!(r#""{key}":"#).as_bytes());
        serde_json::to_writer(&mut *into, entry).expect(ALWAYS_JSON);
        last = Some(*key);
    }
    last
}

/// As [`some_entries`], of tokens and issuers: a name is a text of its own, and one of them may be large.
fn some_named<V: Serialize>(
    all: &BTreeMap<String, V>,
    after: Option<&String>,
    into: &mut Vec<u8>,
) -> Option<String> {
    let begin = into.len();
    let mut last: Option<&String> = None;
    let from = after.map_or(Unbounded, Excluded);
    for (name, entry) in all.range::<String, _>((from, Unbounded)) {
        if into.len() - begin >= PIECE_BYTES {
            break;
        }
        if after.or(last).is_some() {
            into.push(b',');
        }
        serde_json::to_writer(&mut *into, name).expect(ALWAYS_JSON);
        into.push(b':');
        serde_json::to_writer(&mut *into, entry).expect(ALWAYS_JSON);
        last = Some(name);
    }
    last.cloned()
}

fn unknown(error: serde_json::Error) -> Unknown {
    Unknown(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page, as one piece.
    fn page(directory: &Directory) -> Vec<u8> {
        let nodes = directory.nodes.iter().map(|(id, e)| (id.0, e.clone()));
        let logs = directory.logs.iter().map(|(id, e)| (id.0, e.clone()));
        let page = Page {
            voters: directory.voters,
            last_log: directory.last_log.0,
            nodes: nodes.collect(),
            logs: logs.collect(),
            members: directory.members.clone(),
            versions: directory.versions,
            rescues: u64::from(directory.rescues),
            wishes: directory.wishes,
            slots: (*directory.slots).clone(),
            auth: directory.rights.switch.clone(),
            tokens: directory.rights.tokens.clone(),
            issuers: directory.rights.issuers.clone(),
        };
        serde_json::to_vec(&page).unwrap()
    }

    fn snapshot(directory: &Directory) -> Vec<u8> {
        let (mut at, mut pieces, mut more) = (Place::default(), Vec::new(), true);
        while more {
            let mut piece = Vec::new();
            more = directory.snapshot(&mut at, &mut piece);
            assert!(piece.len() < 2 * PIECE_BYTES, "{} bytes", piece.len());
            pieces.push(piece);
        }
        pieces.concat()
    }

    #[test]
    fn pieces_are_the_page_of_json() {
        let mut directory = Directory::default();
        assert_eq!(snapshot(&directory), page(&directory));
        for id in 1..=700 {
            for command in [
                format!(
                    r#"{{"command":"add-node","id":{id},"address":"\"ä\":{id}","disk":"d{id}"}}"#
                ),
                format!(r#"{{"command":"create-log","name":"log-{id}","members":[[1,1]]}}"#),
            ] {
                StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
                if id < 3 {
                    assert_eq!(snapshot(&directory), page(&directory));
                }
            }
        }
        assert_eq!(snapshot(&directory), page(&directory));
        (directory.rescues, directory.wishes) = (1, 2);
        assert_eq!(snapshot(&directory), page(&directory));
        for number in 0..700 {
            let command = format!(
                r#"{{"command":"put-token","name":"t{number}","hashes":[{{"sha256":"{}"}}],"grants":["all on *","read on log/{}"],"expires_ms":9000,"by":{{"socket":1}},"at_ms":{number}}}"#,
                "a5".repeat(32),
                "a".repeat(20)
            );
            StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
            if number < 3 {
                assert_eq!(snapshot(&directory), page(&directory));
            }
        }
        for number in 0..50 {
            let command = format!(
                r#"{{"command":"put-issuer","name":"i{number}","keys":["EdDSA:{}"],"grants":["read on log/{}"],"by":{{"socket":1}},"at_ms":{number}}}"#,
                "A".repeat(43),
                "a".repeat(900)
            );
            StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
            if number < 3 {
                assert_eq!(snapshot(&directory), page(&directory));
            }
        }
        assert_eq!(directory.rights.issuers.len(), 50);
        let on = br#"{"command":"set-auth","on":true,"by":{"token":"t7"},"at_ms":800}"#;
        StateMachine::apply(&mut directory, on).unwrap();
        assert!(directory.rights.switch.on && directory.rights.switch.clock_ms == 800);
        assert_eq!(snapshot(&directory), page(&directory));
        let mut restored = Directory::default();
        restored.restored(snapshot(&directory)).unwrap();
        assert_eq!(restored, directory, "who may do what outlives a snapshot");
    }

    #[test]
    fn the_answer_names_the_log_that_a_command_concerns() {
        let mut directory = Directory::default();
        for (command, one) in [
            (r#"{"command":"set-voters","voters":3}"#, None),
            (
                r#"{"command":"create-log","name":"a","members":[[1,1]]}"#,
                Some(1),
            ),
            (
                r#"{"command":"create-log","name":"b","members":[[1,1]]}"#,
                Some(2),
            ),
            (
                r#"{"command":"set-retention","log":"a","retention":{"age":null,"bytes":7}}"#,
                Some(1),
            ),
            (r#"{"command":"seal-log","id":2}"#, Some(2)),
            (r#"{"command":"delete-log","id":2}"#, Some(2)),
            (r#"{"command":"describe-node","node":1}"#, None),
        ] {
            let answer = StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
            assert_eq!(
                Directory::concerned_by(&answer),
                one.map(LogId),
                "{command}"
            );
        }
    }

    #[test]
    fn a_snapshot_has_these_bytes() {
        let mut directory = Directory::default();
        for command in [
            r#"{"command":"set-voters","voters":3}"#,
            r#"{"command":"add-node","id":1,"address":"a:1","disk":"d1"}"#,
            r#"{"command":"create-log","name":"a","members":[[1,1]]}"#,
        ] {
            StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
        }
        let text = String::from_utf8(snapshot(&directory)).unwrap();
        let golden = r#"{"voters":3,"last_log":1,"nodes":{"1":{"address":"a:1","disk":"d1","kind":"full","said_zone":"","newest":1}},"logs":{"1":{"name":"a","kind":"bytes","members":[[1,1]],"auxiliary":[],"hosts":[],"retention":{}}},"members":{"version":1,"wanted":{"0":{"weights":{"1":1},"by_hand":false},"1":{"weights":{"1":1},"by_hand":false}},"zones":{},"leaving":[],"removed":[]},"versions":{"agreed":1,"prepared":1}}"#;
        assert_eq!(text, golden);
    }

    #[test]
    fn a_restored_directory_is_the_same() {
        let commands = [
            r#"{"command":"set-voters","voters":3}"#,
            r#"{"command":"add-node","id":1,"address":"a:1","disk":"d1"}"#,
            r#"{"command":"create-log","name":"a","members":[[1,1]]}"#,
            r#"{"command":"create-log","name":"b","members":[[1,1]],"hosts":[1],"retention":{"age":null,"bytes":9}}"#,
            r#"{"command":"delete-log","id":1}"#,
            r#"{"command":"set-zone","node":1,"zone":"a"}"#,
            r#"{"command":"describe-node","node":1,"zone":"b","kind":"auxiliary"}"#,
            r#"{"command":"describe-node","node":1}"#,
            r#"{"command":"set-retention","log":"b","retention":{"age":null,"bytes":7}}"#,
        ];
        let mut directory = Directory::default();
        for command in commands {
            StateMachine::apply(&mut directory, command.as_bytes()).unwrap();
        }
        let mut restored = Directory::default();
        restored.restored(snapshot(&directory)).unwrap();
        assert_eq!(restored, directory);
        assert!(restored.is_deleted(LogId(1)));
    }

    #[test]
    fn a_command_in_a_version_that_is_not_spoken_is_refused_with_the_remedy() {
        let command = Command::SetVoters { voters: 3 };
        let mut directory = Directory::default();
        let refused = StateMachine::apply(&mut directory, &command.encode(3)).unwrap_err();
        assert!(
            refused.to_string().contains("start a newer program"),
            "{refused}"
        );
        assert!(StateMachine::apply(&mut directory, br#"{"written_in":3,"command":"x"}"#).is_err());
        assert_eq!(directory, Directory::default());
        directory.speaks = "1-3".parse().unwrap();
        StateMachine::apply(&mut directory, &command.encode(3)).unwrap();
        StateMachine::apply(&mut directory, &command.encode(1)).unwrap();
        assert_eq!(directory.voters, 3);
        let command = Command::PrepareVersion { version: 3 };
        StateMachine::apply(&mut directory, &command.encode(3)).unwrap();
        assert_eq!(directory.versions.prepared, 3);
    }

    #[test]
    fn what_is_no_command_or_snapshot_is_refused_and_changes_nothing() {
        let mut directory = Directory::default();
        assert!(StateMachine::apply(&mut directory, b"{\"command\":\"paint\"}").is_err());
        assert!(directory.restored(b"{}".to_vec()).is_err());
        assert_eq!(directory, Directory::default());
    }
}

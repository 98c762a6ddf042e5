//! The directory as a state machine: commands and snapshots are JSON, for people to read.

use std::collections::BTreeMap;

use commands::{StateMachine, Unknown};
use formats::LogId;
use paxos::NodeId;
use serde::{Deserialize, Serialize};

use super::{Command, Directory, LogEntry, Marked, NodeEntry, Versions};
use crate::membership::registry::Members;

#[derive(Serialize, Deserialize)]
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
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StateMachine for Directory {
    /// There are no answers: who asked for something looks whether it is there.
    fn apply(&mut self, command: &[u8]) -> Result<Vec<u8>, Unknown> {
        #[derive(Deserialize)]
        struct Mark {
            #[serde(default = "super::first_version")]
            written_in: u8,
        }
        // What a newer version says may be no command to us, and says which it is all the same.
        let mark: Mark = serde_json::from_slice(command).map_err(unknown)?;
        self.check(mark.written_in)?;
        let marked: Marked<Command> = serde_json::from_slice(command).map_err(unknown)?;
        Directory::apply(self, &marked.command);
        Ok(Vec::new())
    }

    fn snapshot(&self) -> Vec<u8> {
        let nodes = self.nodes.iter().map(|(id, entry)| (id.0, entry.clone()));
        let logs = self.logs.iter().map(|(id, entry)| (id.0, entry.clone()));
        let page = Page {
            voters: self.voters,
            last_log: self.last_log.0,
            nodes: nodes.collect(),
            logs: logs.collect(),
            members: self.members.clone(),
            versions: self.versions,
            rescues: u64::from(self.rescues),
            wishes: self.wishes,
        };
        serde_json::to_vec(&page).expect("numbers and text are always JSON")
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), Unknown> {
        let page: Page = serde_json::from_slice(snapshot).map_err(unknown)?;
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
            speaks: self.speaks,
        };
        Ok(())
    }
}

impl Directory {
    fn check(&self, version: u8) -> Result<u8, Unknown> {
        let checked = self.speaks.check(u32::from(version));
        checked.map_err(|unspoken| Unknown(unspoken.to_string()))
    }
}

fn unknown(error: serde_json::Error) -> Unknown {
    Unknown(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        restored.restore(&directory.snapshot()).unwrap();
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
        assert!(directory.restore(b"{}").is_err());
        assert_eq!(directory, Directory::default());
    }
}

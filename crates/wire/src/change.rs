//! `change-members`: the changes that an operator may ask for of the members of a cluster.

use crate::Request;
use crate::line::{LineError, LineWriter};

/// Each action with the number of its words, its own included, and the keys that it has besides the
/// common ones.
const ACTIONS: [(&str, usize, &[&str]); 8] = [
    ("add", 2, &["weight", "log", "force", "plan", "version"]),
    ("remove", 2, &["force", "plan", "version"]),
    ("replace", 3, &["force", "plan", "version"]),
    ("weight", 3, &["log", "force", "plan", "version"]),
    ("address", 3, &["force", "plan", "version"]),
    ("zone", 3, &["force", "plan", "version"]),
    ("bind", 1, &["force", "plan", "version"]),
    ("name", 3, &["force", "plan", "version"]),
];

const HOW: &str = "say add ID, remove ID, replace OLD NEW, weight ID WEIGHT, address ID HOST:PORT, zone ID ZONE, bind or name ID CERTIFICATE";

pub(crate) fn shape(request: &Request) -> Result<(usize, &'static [&'static str]), LineError> {
    let action = request.words.first().map(String::as_str);
    let found = ACTIONS.iter().find(|(known, ..)| Some(*known) == action);
    match found {
        Some((_, words, keys)) if *words == request.words.len() => Ok((*words, keys)),
        _ => Err(LineError::Value(HOW.to_owned())),
    }
}

/// The change that is asked for.
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
    /// The zone; `-` means no zone.
    Zone {
        node: u64,
        zone: String,
    },
    /// Binds the names in the certificates that nodes show now to their ids.
    Bind,
    /// Binds another name than before.
    Name {
        node: u64,
        name: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub action: Action,
    /// The logs of an addition or a weight; none are all.
    pub logs: Vec<String>,
    /// Takes the risks that it is refused for otherwise.
    pub force: bool,
    /// Only says what it would come to.
    pub plan: bool,
    /// Refused if the members were changed since.
    pub version: Option<u64>,
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
            Action::Bind => line.word("bind"),
            Action::Name { node, name } => line.word("name").word(node).word(name),
        };
        let logs = (!self.logs.is_empty()).then(|| self.logs.join(","));
        line.key_if("log", logs)
            .flag("force", self.force)
            .flag("plan", self.plan)
            .key_if("version", self.version)
    }

    /// Reads the change that `change-members` asks for.
    pub fn read(request: &Request) -> Result<Change, LineError> {
        request.check()?;
        let words: Vec<&str> = request.words.iter().map(String::as_str).collect();
        let action = match words.as_slice() {
            ["add", id] => Action::Add {
                node: node(id)?,
                weight: request.get("weight").map_or(Ok(1), weight)?,
            },
            ["remove", id] => Action::Remove { node: node(id)? },
            ["replace", old, new] => Action::Replace {
                old: node(old)?,
                new: node(new)?,
            },
            ["weight", id, text] => Action::Weight {
                node: node(id)?,
                weight: weight(text)?,
            },
            ["address", id, address] if address.contains(':') => Action::Address {
                node: node(id)?,
                address: (*address).to_owned(),
            },
            ["address", ..] => {
                return Err(LineError::Value("an address is HOST:PORT".to_owned()));
            }
            ["zone", id, zone] => Action::Zone {
                node: node(id)?,
                zone: (*zone).to_owned(),
            },
            ["bind"] => Action::Bind,
            ["name", id, name] if is_certificate_name(name) => Action::Name {
                node: node(id)?,
                name: (*name).to_owned(),
            },
            ["name", ..] => {
                let sentence = "the name in a node's certificate is 1 to 64 letters, digits, '-', '_' or '.', as `logberg certs show` shows it";
                return Err(LineError::Value(sentence.to_owned()));
            }
            _ => return Err(LineError::Value(HOW.to_owned())),
        };
        let logs = request.get("log").map(|names| names.split(',').collect());
        let logs: Vec<&str> = logs.unwrap_or_default();
        if logs.iter().any(|name| name.is_empty()) {
            let sentence = "log is names of logs with commas between them";
            return Err(LineError::Value(sentence.to_owned()));
        }
        Ok(Change {
            action,
            logs: logs.into_iter().map(str::to_owned).collect(),
            force: request.flag("force")?,
            plan: request.flag("plan")?,
            version: request.parsed("version")?,
        })
    }
}

/// Whether a certificate may give a node that name.
pub fn is_certificate_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

fn node(text: &str) -> Result<u64, LineError> {
    let id = text.parse::<u32>().ok().filter(|node| *node > 0);
    let id = id.ok_or_else(|| LineError::Value(format!("{text:?} is no node's id")))?;
    Ok(id.into())
}

fn weight(text: &str) -> Result<u64, LineError> {
    let weight = text
        .parse::<u32>()
        .map_err(|_| LineError::Value(format!("{text:?} is no weight: say 0, 1, 2 …")))?;
    Ok(weight.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_of_a_certificate_is_one_that_a_certificate_may_have() {
        for name in ["n1", "cellar-2.example_7", &"n".repeat(64)] {
            assert!(is_certificate_name(name), "{name}");
        }
        for name in ["", "n 1", "n/1", "ä", "n\n1", &"n".repeat(65)] {
            assert!(!is_certificate_name(name), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn drawn_changes_are_read_or_refused(words in "(bind|name|zone|address)( [ -~]{0,20}){0,4}") {
            let line = format!("logberg/1 change-members {words}");
            if let Ok(request) = Request::parse(line.as_bytes()) {
                let read = Change::read(&request);
                if let Ok(Change { action: Action::Name { name, .. }, .. }) = read {
                    prop_assert!(is_certificate_name(&name));
                }
            }
        }
    }
}

//! A node's statements about itself at every start: which machines it fails together with, and its purpose.
//! They stand in every greeting of a peer; the directory's leader writes down what is new.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Refusal, Request};

/// The purpose of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A node that holds whatever its logs hold.
    #[default]
    Full,
    /// A node that stands in: where it votes it is to hold bytes only while others cannot.
    Auxiliary,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The zone; empty if the node says none.
    pub zone: String,
    pub kind: NodeKind,
    /// The HOST:PORT at which it answers clients of keys; empty if it does not.
    pub door: String,
    /// The HOST:PORT at which it answers over HTTP; empty if it does not.
    pub http: String,
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeKind::Full => "full",
            NodeKind::Auxiliary => "auxiliary",
        })
    }
}

impl FromStr for NodeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeKind, String> {
        match text {
            "full" => Ok(NodeKind::Full),
            "auxiliary" => Ok(NodeKind::Auxiliary),
            _ => Err("a node's kind is full or auxiliary".to_owned()),
        }
    }
}

impl Standing {
    /// The sentence says what a zone may be called.
    pub fn new(zone: &str, kind: NodeKind) -> Result<Standing, String> {
        let zone = zone.to_owned();
        check_zone(&zone).map_err(|refusal| refusal.sentence)?;
        Ok(Standing {
            zone,
            kind,
            door: String::new(),
            http: String::new(),
        })
    }

    /// Writes the statements, but for those that go without saying.
    pub fn write(&self, mut line: Request) -> Request {
        if !self.zone.is_empty() {
            line = line.key("zone", &self.zone);
        }
        if self.kind != NodeKind::Full {
            line = line.key("node-kind", self.kind);
        }
        if !self.door.is_empty() {
            line = line.key("kv", &self.door);
        }
        if !self.http.is_empty() {
            line = line.key("http", &self.http);
        }
        line
    }

    pub fn parse(line: &Request) -> Result<Standing, Refusal> {
        let bad = |sentence: String| Refusal::new("bad-request", sentence);
        let kind = line
            .get("node-kind")
            .unwrap_or("full")
            .parse()
            .map_err(bad)?;
        let mut standing =
            Standing::new(line.get("zone").unwrap_or_default(), kind).map_err(bad)?;
        standing.door = line.get("kv").unwrap_or_default().to_owned();
        standing.http = line.get("http").unwrap_or_default().to_owned();
        Ok(standing)
    }
}

/// Checks the name of a zone: it stands in lines and tables. An empty name means no zone.
pub fn check_zone(zone: &str) -> Result<(), Refusal> {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match zone.len() <= 64 && zone.chars().all(ok) {
        true => Ok(()),
        false => Err(Refusal::new(
            "bad-request",
            "a zone's name is up to 64 letters, digits, '-', '_' or '.'",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_does_not_go_without_saying() {
        let full = Standing::default();
        assert_eq!(
            full.write(Request::new("peer")).encode(),
            Request::new("peer").encode()
        );
        let said = Standing::new("cellar", NodeKind::Auxiliary).unwrap();
        let line = said.write(Request::new("peer")).encode();
        let line = Request::parse(line.trim_ascii_end()).unwrap();
        assert_eq!(Standing::parse(&line).unwrap(), said);
        let wrong = Request::new("peer").key("node-kind", "big").encode();
        let wrong = Request::parse(wrong.trim_ascii_end()).unwrap();
        assert!(Standing::parse(&wrong).is_err());
        assert!(Standing::new("a b", NodeKind::Full).is_err());
    }
}

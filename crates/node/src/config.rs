//! The settings of an operator.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use access::Token;
use formats::Speaks;
use paxos::NodeId;
use replica::Limits;
use wire::Standing;
use wire::told::Altered;

use crate::hosted::Hosts;
use crate::wires::Wires;

/// Stands in a directory that a node made which the lab alters.
pub const ALTERED_FILE: &str = "made-by-the-lab";

#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub directory: PathBuf,
    /// The HOST:PORT to bind.
    pub listen: String,
    /// The HOST:PORT that peers and clients are told.
    pub advertise: String,
    pub start: Start,
    /// Shown to the servers of which this node asks an id.
    pub token: Option<Token>,
    /// It joins in the place of that node, whose disk is lost, and with its certificate.
    pub replaces: Option<u32>,
    /// The places where other nodes may be found, besides where they were.
    pub places: Vec<Place>,
    pub standing: Standing,
    pub limits: Limits,
    /// Who speaks as a node, or joins, shows a node's certificate.
    pub nodes_show_certificates: bool,
    /// The word of the process around it.
    pub wires: Wires,
    /// The version of the program, for status.
    pub version: &'static str,
    pub speaks: Speaks,
    /// What the lab changed, for status. Nothing that is shipped is changed.
    pub altered: Option<Altered>,
    /// Guests, by the names of logs.
    pub hosts: Hosts,
}

/// A place where a node may be found, and which node, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub node: Option<NodeId>,
    /// HOST:PORT
    pub address: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let wrong = || {
            format!(
                "{text:?} is no place of a node: it is HOST:PORT, or ID@HOST:PORT such as 2@10.0.0.7:7117"
            )
        };
        let (node, address) = match text.split_once('@') {
            None => (None, text),
            Some((id, address)) => {
                let id = id.parse::<u32>().ok().filter(|id| *id > 0);
                (Some(NodeId(id.ok_or_else(wrong)?)), address)
            }
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || host.contains('@') || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        let address = address.to_owned();
        Ok(Place { node, address })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "{node}@{}", self.address),
            None => f.write_str(&self.address),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A directory that exists already.
    Again,
    /// Make a new cluster of one; it grows by itself to so many voters as nodes join.
    Bootstrap { voters: u32 },
    /// Ask these servers for an id, in turn.
    Join { servers: Vec<String> },
}

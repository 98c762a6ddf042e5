//! A variant's cluster, and where it writes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use carrier::Lag;
use client::{Client, Timeouts};
use tempfile::TempDir;
use testbed::cluster::{LocalCluster, LocalOptions};

use super::contended::{Contended, Until};
use super::together::Together;
use super::ways;
use crate::benches::kv::nodes;
use crate::carriers::Transport;
use crate::study::rounds::{Appends, Proposer};
use crate::study::run;

/// A log may have so many voters, whose timers are slower than those of the product.
pub const MACHINES_MAX: i64 = 101;
/// So many may have the pace of the product.
pub const MACHINES_AT_PACE_MAX: u32 = 31;

/// The time in which a small cluster is ready, and more for each node: votes are given one after the other.
const READY: Duration = Duration::from_secs(120);
const READY_EACH: Duration = Duration::from_secs(5);
const LOG: &str = "main";
/// The retention of a log of proposals.
const KEPT: &str = "128MiB";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Disk,
    /// The ink of the disk, on a file system in memory: written, and never on a disk.
    PageCache,
    Ram,
    /// Mapped files in memory, taken for persistent memory.
    EmulatedPmem,
}

/// The settings that tell a variant from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub ink: Ink,
    pub transport: Transport,
    pub lag: Option<Lag>,
    /// So many propose for the same decrees, and until when. `None`: one appends to a stream.
    pub proposers: Option<(u32, Until)>,
    /// All timers of its nodes take so many times as long.
    pub pace: u32,
}

impl Ink {
    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::PageCache => "page-cache",
            Ink::Ram => "ram",
            Ink::EmulatedPmem => "emulated-pmem",
        }
    }
}

impl Kind {
    pub fn plain(ink: Ink) -> Kind {
        Kind {
            ink,
            transport: Transport::Tcp,
            lag: None,
            proposers: None,
            pace: 1,
        }
    }

    pub fn by(self, transport: Transport) -> Kind {
        Kind { transport, ..self }
    }

    pub fn paced(self, pace: u32) -> Kind {
        Kind { pace, ..self }
    }

    pub fn contended(self, proposers: u32, until: Until) -> Kind {
        Kind {
            proposers: Some((proposers, until)),
            ..self
        }
    }

    pub fn later(self, lag: Lag) -> Kind {
        Kind {
            lag: Some(lag),
            ..self
        }
    }

    pub fn id(self) -> String {
        let lag = if self.lag.is_some() { "+lag" } else { "" };
        let by = match self.transport {
            Transport::Tcp => String::new(),
            other => format!("+{other}"),
        };
        let proposers = match self.proposers {
            None => String::new(),
            Some((count, Until::First)) => format!("+{count}p"),
            Some((count, Until::All)) => format!("+{count}p+all"),
        };
        let pace = match self.pace {
            1 => String::new(),
            pace => format!("+timers×{pace}"),
        };
        format!("{}{by}{lag}{proposers}{pace}", self.ink.name())
    }

    pub fn told(self, id: &str) -> run::Variant {
        run::Variant {
            id: id.to_owned(),
            ink: self.ink.name().to_owned(),
            transport: self.transport.name().to_owned(),
            lag: self.lag.map_or("none".to_owned(), |lag| lag.to_string()),
        }
    }
}

/// Ends with its nodes; its files go with it.
pub struct Variant {
    proposes: Option<Box<dyn Proposer>>,
    addresses: Vec<String>,
    _nodes: Nodes,
    _places: Vec<TempDir>,
}

/// Whatever holds the nodes.
enum Nodes {
    Processes(LocalCluster),
    Threads(Together),
    Keys(nodes::Nodes),
}

impl Variant {
    /// Must be called on a thread that lives as long as the cluster.
    pub fn start(kind: Kind, directory: PathBuf, machines: u32) -> Result<Variant> {
        let mut places = Vec::new();
        let mut at = directory;
        if matches!(kind.ink, Ink::PageCache | Ink::EmulatedPmem) {
            let place = place_in(MEMORY)
                .with_context(|| format!("{} writes to {MEMORY}, and cannot", kind.ink.name()))?;
            at = place.path().join("cluster");
            places.push(place);
        }
        let mut arguments: Vec<String> = Vec::new();
        arguments.extend(match kind.ink {
            Ink::Ram => vec!["--ink=ram".to_owned()],
            Ink::EmulatedPmem => vec!["--ink=pmem".to_owned(), "--emulate-pmem".to_owned()],
            Ink::Disk | Ink::PageCache => Vec::new(),
        });
        if kind.pace > 1 {
            arguments.push(format!("--time-scale={}", kind.pace));
        }
        arguments.extend(kind.lag.map(|lag| format!("--lag={lag}")));
        let nodes = match kind.transport {
            Transport::Memory => {
                Nodes::Threads(Together::start(&at, machines, &arguments, ready(machines))?)
            }
            transport => {
                let (said, sockets) = ways::arguments(transport)?;
                arguments.extend(said);
                places.extend(sockets);
                processes(kind, at, machines, arguments)?
            }
        };
        let addresses = nodes.addresses();
        let client = Client::new(addresses.clone(), Timeouts::default());
        let proposes: Box<dyn Proposer> = match (&nodes, kind.proposers) {
            (Nodes::Keys(keys), Some((count, until))) => {
                Box::new(Contended::new(&keys.doors, count, until))
            }
            _ => {
                client.retain(LOG, KEPT)?;
                Box::new(Appends::to(&client, LOG)?)
            }
        };
        Ok(Variant {
            proposes: Some(proposes),
            addresses,
            _nodes: nodes,
            _places: places,
        })
    }

    /// `None`: somebody has it already.
    pub fn take(&mut self) -> Option<Box<dyn Proposer>> {
        self.proposes.take()
    }

    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

impl Nodes {
    fn addresses(&self) -> Vec<String> {
        match self {
            Nodes::Processes(cluster) => cluster.addresses(),
            Nodes::Threads(together) => together.addresses(),
            Nodes::Keys(keys) => keys.cluster.addresses(),
        }
    }
}

fn ready(machines: u32) -> Duration {
    READY + READY_EACH * machines
}

fn processes(kind: Kind, at: PathBuf, machines: u32, arguments: Vec<String>) -> Result<Nodes> {
    if kind.proposers.is_some() {
        let wanted = nodes::Wanted {
            groups: 1,
            nodes: machines,
            replicas: None,
            arguments,
            log: None,
        };
        return Ok(Nodes::Keys(nodes::Nodes::start_as(&at, &wanted)?));
    }
    let mut options = LocalOptions::new(at, machines);
    options.arguments = arguments;
    let cluster = LocalCluster::start(options)?;
    cluster.wait_ready(ready(machines))?;
    Ok(Nodes::Processes(cluster))
}

fn place_in(directory: &str) -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("logberg-lab-")
        .tempdir_in(directory)
}

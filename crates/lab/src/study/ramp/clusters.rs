//! A variant's cluster, and where it writes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Client, NewLog, Timeouts};
use tempfile::TempDir;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::level;

use super::contended::Contended;
use super::kinds::{Ink, Kind};
use super::together::Together;
use super::ways;
use crate::benches::kv::nodes;
use crate::carriers::Transport;
use crate::study::rounds::{Appends, Proposer};

/// A log may have so many voters, whose timers are slower than those of the product.
pub const MACHINES_MAX: i64 = 101;
/// So many may have the pace of the product.
pub const MACHINES_AT_PACE_MAX: u32 = nodes::VOTES_BY_THEMSELVES_MAX;

/// The time in which a small cluster is ready, and more for each node: they join one after the other.
const READY: Duration = Duration::from_secs(120);
const READY_EACH: Duration = Duration::from_secs(5);
/// The log of proposals where nodes get their votes by themselves.
const LOG: &str = "main";
/// … where more nodes vote than a cluster of the product's pace has.
const LOG_OF_ALL: &str = "proposals";
/// The retention of a log of proposals.
const KEPT: &str = "128MiB";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";

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
                let log = log_of(machines);
                client.retain(log, KEPT)?;
                Box::new(Appends::to(&client, log)?)
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

fn log_of(machines: u32) -> &'static str {
    match machines > MACHINES_AT_PACE_MAX {
        true => LOG_OF_ALL,
        false => LOG,
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
    options.voters = nodes::voters_of_so_many(machines);
    let cluster = LocalCluster::start(options)?;
    cluster.wait_ready(ready(machines))?;
    if machines > MACHINES_AT_PACE_MAX {
        let addresses = cluster.addresses();
        let client = Client::new(addresses.clone(), Timeouts::default());
        client.create_new_log(&NewLog {
            name: LOG_OF_ALL.to_owned(),
            members: (1..=u64::from(machines)).collect(),
            ..NewLog::default()
        })?;
        level::wait_ready(&addresses, LOG_OF_ALL, ready(machines))?;
    }
    Ok(Nodes::Processes(cluster))
}

fn place_in(directory: &str) -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("logberg-lab-")
        .tempdir_in(directory)
}

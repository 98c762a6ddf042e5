//! A variant's cluster, and where it writes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use carrier::Lag;
use client::{Client, Timeouts};
use tempfile::TempDir;
use testbed::cluster::{LocalCluster, LocalOptions};

use super::together::Together;
use crate::carriers::Transport;
use crate::study::rounds::Appends;
use crate::study::run;

/// A log may have so many voters.
pub const MACHINES_MAX: i64 = 31;

const READY: Duration = Duration::from_secs(120);
const LOG: &str = "main";
/// The retention of a log of proposals.
const KEPT: &str = "128MiB";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";
const SHORT: &str = "/tmp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Disk,
    /// The ink of the disk, on a file system in memory: written, and never on a disk.
    PageCache,
    Ram,
}

/// What tells a variant from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub ink: Ink,
    pub transport: Transport,
    pub lag: Option<Lag>,
}

impl Ink {
    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::PageCache => "page-cache",
            Ink::Ram => "ram",
        }
    }
}

impl Kind {
    pub fn plain(ink: Ink) -> Kind {
        Kind {
            ink,
            transport: Transport::Tcp,
            lag: None,
        }
    }

    pub fn by(self, transport: Transport) -> Kind {
        Kind { transport, ..self }
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
        format!("{}{by}{lag}", self.ink.name())
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
    appends: Option<Appends>,
    addresses: Vec<String>,
    _nodes: Nodes,
    _places: Vec<TempDir>,
}

/// Whatever holds the nodes.
enum Nodes {
    Processes(LocalCluster),
    Threads(Together),
}

impl Variant {
    /// Must be called on a thread that lives as long as the cluster.
    pub fn start(kind: Kind, directory: PathBuf, machines: u32) -> Result<Variant> {
        let mut places = Vec::new();
        let mut at = directory;
        if kind.ink == Ink::PageCache {
            let place = place_in(MEMORY).with_context(|| {
                format!("the page cache's variant writes to {MEMORY}, and cannot")
            })?;
            at = place.path().join("cluster");
            places.push(place);
        }
        let mut arguments: Vec<String> = Vec::new();
        if kind.ink == Ink::Ram {
            arguments.extend(["--ink".to_owned(), "ram".to_owned()]);
        }
        arguments.extend(kind.lag.map(|lag| format!("--lag={lag}")));
        let nodes = match kind.transport {
            Transport::Memory => Nodes::Threads(Together::start(&at, machines, &arguments, READY)?),
            transport => {
                if transport != Transport::Tcp {
                    arguments.push(format!("--carry={transport}"));
                }
                if transport == Transport::Unix {
                    // The path of a socket is short.
                    let place = place_in(SHORT).context("there is no place for sockets")?;
                    arguments.push(format!("--sockets={}", place.path().display()));
                    places.push(place);
                }
                let mut options = LocalOptions::new(at, machines);
                options.arguments = arguments;
                let cluster = LocalCluster::start(options)?;
                cluster.wait_ready(READY)?;
                Nodes::Processes(cluster)
            }
        };
        let addresses = nodes.addresses();
        let client = Client::new(addresses.clone(), Timeouts::default());
        client.retain(LOG, KEPT)?;
        Ok(Variant {
            appends: Some(Appends::to(&client, LOG)?),
            addresses,
            _nodes: nodes,
            _places: places,
        })
    }

    /// `None`: somebody has it already.
    pub fn take(&mut self) -> Option<Appends> {
        self.appends.take()
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
        }
    }
}

fn place_in(directory: &str) -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("logberg-lab-")
        .tempdir_in(directory)
}

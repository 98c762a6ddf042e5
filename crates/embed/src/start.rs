//! A node that is not started yet: its directory, its addresses, its machines.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use host::{Bounds, Machine};
use node::config::{NodeConfig, Start};
use node::hosted::Hosts;
use ops::MachineId;
use replica::Limits;

use crate::running::Node;

/// The host of a process that has a node.
pub(crate) const HOST: MachineId = MachineId(1);

/// A node that is not started yet.
#[must_use = "it runs once it is started"]
pub struct Builder {
    pub(crate) directory: PathBuf,
    listen: String,
    advertise: Option<String>,
    start: Option<Start>,
    pub(crate) machines: BTreeMap<String, Arc<dyn Machine>>,
    pub(crate) bounds: Bounds,
    pub(crate) limits: Limits,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("cannot listen on {address}: {source}; choose another address")]
    Address { address: String, source: io::Error },
    #[error(
        "{0} is no node's directory yet: say .bootstrap(n) for the first node of a cluster, or .join(address)"
    )]
    NoDirectory(PathBuf),
    #[error("there is no machine: name one with .machine(name, machine)")]
    NoMachine,
    #[error("{0}")]
    Node(String),
    #[error("cannot start its threads: {0}")]
    Threads(#[from] io::Error),
}

impl Node {
    /// A node with this directory, which is made if it is not there.
    pub fn open(directory: impl Into<PathBuf>) -> Builder {
        Builder {
            directory: directory.into(),
            listen: "127.0.0.1:7117".to_owned(),
            advertise: None,
            start: None,
            machines: BTreeMap::new(),
            bounds: Bounds::default(),
            limits: Limits::default(),
        }
    }
}

impl Builder {
    /// The HOST:PORT at which others reach it. 127.0.0.1:7117 if nothing is said.
    pub fn listen(mut self, address: impl Into<String>) -> Builder {
        self.listen = address.into();
        self
    }

    /// The HOST:PORT that others are told, where that is not the one it listens on.
    pub fn advertise(mut self, address: impl Into<String>) -> Builder {
        self.advertise = Some(address.into());
        self
    }

    /// It is the first of so many nodes that vote. Means nothing once its directory is there.
    pub fn bootstrap(mut self, voters: u32) -> Builder {
        self.start = Some(Start::Bootstrap { voters });
        self
    }

    /// It joins the cluster of the node at this address. May be said several times. Means nothing once its directory is there.
    pub fn join(mut self, server: impl Into<String>) -> Builder {
        match &mut self.start {
            Some(Start::Join { servers }) => servers.push(server.into()),
            _ => {
                self.start = Some(Start::Join {
                    servers: vec![server.into()],
                });
            }
        }
        self
    }

    /// Hosts a machine, on a log of this name. All nodes of a cluster are to have the same ones.
    pub fn machine(mut self, name: impl Into<String>, machine: impl Machine) -> Builder {
        self.machines.insert(name.into(), Arc::new(machine));
        self
    }

    /// How much memory each machine takes, and when its state is flushed.
    pub fn bounds(mut self, bounds: Bounds) -> Builder {
        self.bounds = bounds;
        self
    }

    /// Starts it, and returns once it runs. It may take a while longer until it has joined, and until somebody leads.
    ///
    /// Errors: a sentence that names what to change.
    pub fn start(self) -> Result<Node, NotStarted> {
        if self.machines.is_empty() {
            return Err(NotStarted::NoMachine);
        }
        Node::run(self)
    }

    pub(crate) fn node_config(&self) -> Result<NodeConfig, NotStarted> {
        let is_there = self.directory.join("manifest").exists();
        let start = match &self.start {
            _ if is_there => Start::Again,
            Some(start) => start.clone(),
            None => return Err(NotStarted::NoDirectory(self.directory.clone())),
        };
        let names: Vec<String> = self.machines.keys().cloned().collect();
        Ok(NodeConfig {
            directory: self.directory.clone(),
            listen: self.listen.clone(),
            advertise: self
                .advertise
                .clone()
                .unwrap_or_else(|| self.listen.clone()),
            start,
            places: Vec::new(),
            token: None,
            replaces: None,
            standing: wire::Standing::default(),
            limits: self.limits.clone(),
            nodes_show_certificates: false,
            wires: Default::default(),
            version: env!("CARGO_PKG_VERSION"),
            speaks: formats::Speaks::THIS,
            altered: None,
            hosts: Hosts::in_machine(HOST, move |name| names.iter().any(|known| known == name)),
        })
    }
}

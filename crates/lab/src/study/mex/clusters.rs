//! A cluster with groups of keys, as an experiment wants it.

use std::path::PathBuf;

use anyhow::Result;

use crate::benches::kv::nodes::{Nodes, Wanted};

/// Groups, of so many replicas each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub groups: u16,
    pub replicas: u32,
    /// Each group on nodes of its own, as the paper had them.
    pub is_apart: bool,
    /// Given to every node.
    pub arguments: Vec<String>,
    /// The level at which nodes log; `info` as ever if nothing is said.
    pub log: Option<&'static str>,
}

impl Setup {
    pub fn of(groups: u16, replicas: u32) -> Setup {
        Setup {
            groups,
            replicas,
            is_apart: false,
            arguments: Vec::new(),
            log: None,
        }
    }

    pub fn name(&self) -> String {
        match self.groups {
            1 => format!("1 group x {}", self.replicas),
            groups => format!("{groups} groups x {}", self.replicas),
        }
    }

    pub fn nodes(&self) -> u32 {
        match self.is_apart {
            true => self.replicas * u32::from(self.groups),
            false => self.replicas,
        }
    }

    /// To be called on a thread that lives as long as the cluster.
    pub fn start(&self, directory: PathBuf) -> Result<Nodes> {
        Nodes::start_as(
            &directory,
            &Wanted {
                groups: self.groups,
                nodes: self.nodes(),
                replicas: self.is_apart.then_some(self.replicas),
                arguments: self.arguments.clone(),
                log: self.log,
            },
        )
    }
}

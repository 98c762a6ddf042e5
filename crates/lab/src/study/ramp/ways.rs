//! Ways between nodes that an experiment sets beside each other.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use tempfile::TempDir;

use crate::benches::kv::nodes::{Nodes, Wanted};
use crate::carriers::Transport;

/// The path of a socket is short.
const SHORT: &str = "/tmp";

#[derive(Clone, Debug, Args)]
pub struct Ways {
    /// The ways between nodes that are set beside each other [default: tcp alone]
    #[arg(
        long = "transports",
        value_name = "WAY,…",
        value_delimiter = ',',
        value_enum
    )]
    said: Vec<Transport>,
}

impl Ways {
    #[cfg(test)]
    pub fn of(said: &[Transport]) -> Ways {
        Ways {
            said: said.to_vec(),
        }
    }

    /// Whether somebody asked for more than there are by themselves.
    pub fn are_said(&self) -> bool {
        !self.said.is_empty()
    }

    pub fn has(&self, transport: Transport) -> bool {
        self.said.contains(&transport)
    }

    pub fn all(&self) -> &[Transport] {
        match self.are_said() {
            true => &self.said,
            false => &[Transport::Tcp],
        }
    }

    /// The reason why they cannot be measured, and what to do about it. `None`: they can.
    pub fn refused(&self) -> Option<&'static str> {
        let mut once = self.said.clone();
        once.sort_unstable();
        once.dedup();
        match () {
            () if once.len() < self.said.len() => {
                Some("a way is said twice: each is one variant, so say it once")
            }
            () if self.are_said() && !self.has(Transport::Tcp) => {
                Some("ways are set beside tcp, which is not among them: say tcp, too")
            }
            () if !self.said.iter().all(|way| way.is_possible()) => {
                Some("this machine has no bbr: load tcp_bbr, or leave tcp-bbr out")
            }
            () => None,
        }
    }

    /// The same, of nodes that serve keys.
    pub fn refused_for_keys(&self) -> Option<&'static str> {
        match self.has(Transport::Memory) {
            true => Some(
                "nodes of one process serve no keys, and proposers need them: leave memory out",
            ),
            false => self.refused(),
        }
    }
}

/// Nodes that serve keys of one group, and speak to each other in a way.
pub struct Spoken {
    pub nodes: Nodes,
    _sockets: Option<TempDir>,
}

impl Spoken {
    /// To be called on a thread that lives as long as they.
    pub fn start(directory: &Path, way: Transport, machines: u32) -> Result<Spoken> {
        let (arguments, sockets) = arguments(way)?;
        let wanted = Wanted {
            groups: 1,
            nodes: machines,
            replicas: None,
            arguments,
            log: None,
        };
        Ok(Spoken {
            nodes: Nodes::start_as(directory, &wanted)?,
            _sockets: sockets,
        })
    }
}

/// The arguments of every node, and the place of its sockets, which is to live as long.
pub fn arguments(way: Transport) -> Result<(Vec<String>, Option<TempDir>)> {
    let mut arguments = Vec::new();
    let mut sockets = None;
    if way != Transport::Tcp {
        arguments.push(format!("--carry={way}"));
    }
    if way == Transport::Unix {
        let place = tempfile::Builder::new()
            .prefix("logberg-lab-")
            .tempdir_in(SHORT)
            .context("there is no place for sockets")?;
        arguments.push(format!("--sockets={}", place.path().display()));
        sockets = Some(place);
    }
    Ok((arguments, sockets))
}

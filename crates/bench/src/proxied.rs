//! A local cluster whose nodes know each other, and are known, by their proxies' addresses only.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use testbed::level;
use testbed::proxy::{Proxy, Traffic};

/// Ended with SIGKILL when dropped.
pub struct ProxiedCluster {
    /// The proxies of node 1, then node 2 …
    proxies: Vec<Proxy>,
    children: Vec<Child>,
}

impl ProxiedCluster {
    /// Must be called on a thread that lives as long: the children end with it.
    pub fn start(directory: &Path, nodes: u32) -> Result<ProxiedCluster> {
        ProxiedCluster::start_late(directory, nodes, Duration::ZERO)
    }

    /// … with so much added to every way, between nodes and between clients and nodes.
    pub fn start_late(directory: &Path, nodes: u32, delay: Duration) -> Result<ProxiedCluster> {
        std::fs::create_dir_all(directory)?;
        let mut cluster = ProxiedCluster {
            proxies: Vec::new(),
            children: Vec::new(),
        };
        for id in 1..=nodes {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let listen = free.to_string();
            let proxy = Proxy::start_late(&listen, delay).context("cannot start a proxy")?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["node", "--die-with-parent", "--listen", &listen]);
            command.args(["--advertise", &proxy.address(), "--data"]);
            command.arg(directory.join(format!("node-{id}")));
            match cluster.proxies.first() {
                None => command.args(["--bootstrap", "--voters", &nodes.to_string()]),
                Some(first) => command.args(["--join", &first.address()]),
            };
            let log = File::create(directory.join(format!("node-{id}.log")))?;
            command.env("LOGBERG_LOG", "info").stderr(log);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            cluster
                .children
                .push(command.spawn().context("cannot start a node")?);
            cluster.proxies.push(proxy);
            // One after the other: ids are given out in the order of joining.
            level::wait_id(
                &cluster.addresses()[id as usize - 1],
                id,
                Duration::from_secs(20),
            )?;
        }
        level::wait_ready(&cluster.addresses(), "main", Duration::from_secs(30))?;
        Ok(cluster)
    }

    pub fn addresses(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::address).collect()
    }

    /// The node's machine vanishes without a word.
    pub fn silence(&self, id: u32) {
        self.set_around(id, Traffic::Stall);
    }

    /// It is back, and what was on its way arrives.
    pub fn heal(&self, id: u32) {
        self.set_around(id, Traffic::Pass);
    }

    fn set_around(&self, id: u32, traffic: Traffic) {
        for (other, proxy) in (1..).zip(&self.proxies) {
            match other == id {
                true => proxy.set(traffic),
                false => proxy.set_from(id, traffic),
            }
        }
    }
}

impl Drop for ProxiedCluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

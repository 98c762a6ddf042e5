//! The nodes, the proxies between them, and what is done to both.
//!
//! ```text
//!  clients and peers ══► proxy of node n ══► node n ── disk ── --faults
//!                          rules               signals
//! ```
//!
//! Where keys or streams are served each node has a second proxy, for clients of those.
//!
//! Nodes advertise their proxies' addresses and know of no others. The rack itself asks them at the
//! addresses where they listen, which no partition cuts off.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::{Client, Timeouts};

use super::schedule::{Detail, Kind, Strike};
use terminal::moving::Moving;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::level;
use testbed::proxy::{Proxy, Traffic};
use testbed::scratch::go_on;

pub struct Rack {
    pub cluster: LocalCluster,
    proxies: Vec<Proxy>,
    /// Of clients of keys, or over HTTP; empty where neither are served.
    doors: Vec<Proxy>,
    pub nodes: u32,
}

/// The folder of groups' rows in a node's directory.
const STATES: &str = "state";
const READY_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(30);

impl Rack {
    /// To be called on a thread that lives as long: the nodes end with it.
    pub fn start(directory: &Path, nodes: u32, moving: &Moving) -> Result<Rack> {
        let options = LocalOptions {
            arguments: moving.arguments(),
            ..LocalOptions::new(directory, nodes)
        };
        Self::start_with(options)
    }

    /// As [`Rack::start`], with all that can be said of a cluster.
    pub fn start_with(options: LocalOptions) -> Result<Rack> {
        let nodes = options.nodes;
        let options = LocalOptions {
            fault_files: true,
            ..options
        };
        let serves_keys = !options.kv_ports.is_empty();
        let ports = match serves_keys {
            true => options.kv_ports.clone(),
            false => options.http_ports.clone(),
        };
        let mut cluster = LocalCluster::prepare(options)?;
        let proxies: Vec<Proxy> = cluster
            .addresses()
            .iter()
            .map(|address| Proxy::start(address).context("cannot start a proxy"))
            .collect::<Result<_>>()?;
        cluster.advertise(proxies.iter().map(Proxy::address).collect());
        let doors: Vec<Proxy> = ports
            .iter()
            .map(|port| Proxy::start(&format!("127.0.0.1:{port}")).context("cannot start a proxy"))
            .collect::<Result<_>>()?;
        if serves_keys {
            cluster.advertise_kv(doors.iter().map(Proxy::address).collect());
        }
        cluster.launch()?;
        cluster.wait_ready(READY_MAX)?;
        Ok(Rack {
            cluster,
            proxies,
            doors,
            nodes,
        })
    }

    /// As nodes and clients know them.
    pub fn addresses(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::address).collect()
    }

    /// Where clients of keys, or over HTTP, find the nodes.
    pub fn doors(&self) -> Vec<String> {
        self.doors.iter().map(Proxy::address).collect()
    }

    pub fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.nodes
    }

    /// A client that asks a node in spite of all proxies.
    pub fn direct_client(&self) -> Client {
        let timeouts = Timeouts {
            total: Duration::from_secs(60),
            ..Timeouts::default()
        };
        Client::new(self.cluster.asked_at(), timeouts)
    }

    /// Begins a strike; corruption is done by [`super::corrupt`].
    pub fn begin(&self, strike: &Strike) -> Result<()> {
        let victim = strike.victim;
        let traffic = |cut| match cut {
            true => Traffic::Cut,
            false => Traffic::Stall,
        };
        match (strike.kind, strike.detail) {
            (Kind::Kill, _) => self.cluster.kill(victim),
            (Kind::Stop, Detail::All) => self.ids().try_for_each(|id| self.cluster.pause(id)),
            (Kind::Stop, _) => self.cluster.pause(victim),
            (Kind::RestartAll, _) => self.ids().try_for_each(|id| self.cluster.kill(id)),
            (Kind::SlowDisk, Detail::Delay { millis }) => {
                self.inject(victim, &format!("write-delay-ms={millis}\n"))
            }
            (Kind::LoseState, Detail::Lose { choice }) => {
                self.cluster.kill(victim)?;
                self.lose_state(victim, choice)
            }
            (Kind::IoError, _) => self.inject(victim, "write-error=EIO\n"),
            (Kind::FullDisk, Detail::Space { writes_fail }) => self.inject(
                victim,
                match writes_fail {
                    true => "free-bytes=0\nwrite-error=ENOSPC\n",
                    false => "free-bytes=0\n",
                },
            ),
            (_, Detail::FromAll { cut }) => {
                self.around(victim, traffic(cut), true);
                Ok(())
            }
            (_, Detail::FromPeers { cut }) => {
                self.around(victim, traffic(cut), false);
                Ok(())
            }
            (_, Detail::FromOne { other, cut }) => {
                self.between(victim, other, traffic(cut));
                self.between(other, victim, traffic(cut));
                Ok(())
            }
            (_, Detail::Unheard) => {
                self.others(victim)
                    .for_each(|other| self.between(victim, other, Traffic::Stall));
                Ok(())
            }
            (_, Detail::Deaf) => {
                self.others(victim)
                    .for_each(|other| self.between(other, victim, Traffic::Stall));
                Ok(())
            }
            (kind, detail) => unreachable!("{kind:?} with {detail:?} is never drawn"),
        }
    }

    /// Ends it. The node may still have to recover.
    pub fn heal(&self, strike: &Strike) -> Result<()> {
        let victim = strike.victim;
        match (strike.kind, strike.detail) {
            (Kind::Kill | Kind::LoseState, _) => self.cluster.restart(victim),
            (Kind::Stop, Detail::All) => self.ids().try_for_each(|id| self.cluster.go_on(id)),
            (Kind::Stop, _) => self.cluster.go_on(victim),
            (Kind::RestartAll, _) => self.ids().try_for_each(|id| self.cluster.restart(id)),
            (Kind::IoError, _) | (Kind::FullDisk, Detail::Space { writes_fail: true }) => {
                self.inject(victim, "")?;
                // Its replicas stopped, as they have to until somebody looked at the disk.
                self.cluster.kill(victim)?;
                self.cluster.restart(victim)
            }
            (Kind::SlowDisk | Kind::FullDisk, _) => self.inject(victim, ""),
            (Kind::Partition | Kind::OneWay, _) => {
                for proxy in self.proxies.iter().chain(&self.doors) {
                    proxy.set(Traffic::Pass);
                }
                self.around(victim, Traffic::Pass, true);
                self.others(victim).for_each(|other| {
                    self.between(other, victim, Traffic::Pass);
                });
                Ok(())
            }
            (Kind::Corrupt, _) => Ok(()),
        }
    }

    /// Removes the rows of one of the groups, which the node does not use now.
    fn lose_state(&self, id: u32, choice: u64) -> Result<()> {
        let states = self.cluster.node_directory(id).join(STATES);
        let mut places: Vec<_> = match fs::read_dir(&states) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(_) => return Ok(()),
        };
        places.sort();
        let at = choice as usize % places.len().max(1);
        let Some(place) = places.get(at) else {
            return Ok(());
        };
        fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))
    }

    fn others(&self, id: u32) -> impl Iterator<Item = u32> + use<> {
        self.ids().filter(move |other| *other != id)
    }

    /// Sets the traffic from node `from` to node `to`.
    fn between(&self, from: u32, to: u32, traffic: Traffic) {
        self.proxies[to as usize - 1].set_from(from, traffic);
    }

    fn around(&self, id: u32, traffic: Traffic, clients_too: bool) {
        for other in self.others(id) {
            self.between(id, other, traffic);
            if !clients_too {
                self.between(other, id, traffic);
            }
        }
        if clients_too {
            let at = id as usize - 1;
            let both = [self.proxies.get(at), self.doors.get(at)];
            for proxy in both.into_iter().flatten() {
                proxy.set(traffic);
            }
        }
    }

    fn inject(&self, id: u32, faults: &str) -> Result<()> {
        let path = self.cluster.fault_file(id);
        // Never half a line: the node reads it at any time.
        let aside = path.with_extension("new");
        fs::write(&aside, faults)
            .and_then(|()| fs::rename(&aside, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Waits until these nodes answer, take part in every log and know its leader.
    pub fn wait_recovered(&self, nodes: &[u32]) -> Result<()> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            let Some(why) = nodes.iter().find_map(|id| self.why_not_recovered(*id)) else {
                return Ok(());
            };
            go_on()?;
            if let Some(ended) = self.cluster.take_ended()?.into_iter().next() {
                bail!("{}", ended.sentence());
            }
            if Instant::now() >= deadline {
                bail!("{} s after a fault was healed: {why}", READY_MAX.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    fn why_not_recovered(&self, id: u32) -> Option<String> {
        let Some(status) = level::status(&self.cluster.asked_at_of(id)) else {
            return Some(format!("node {id} does not answer"));
        };
        let stopped = status.logs.iter().find(|log| log.role == "stopped");
        if let Some(log) = stopped {
            return Some(format!("node {id} takes no part in the log {}", log.name));
        }
        let leaderless = status.logs.iter().find(|log| log.leader.is_none());
        leaderless.map(|log| format!("node {id} knows no leader of the log {}", log.name))
    }

    /// Whether some replica of the node has stopped over its disk.
    pub fn has_stopped(&self, id: u32) -> bool {
        let status = level::status(&self.cluster.asked_at_of(id));
        status.is_some_and(|status| status.logs.iter().any(|log| log.role == "stopped"))
    }
}

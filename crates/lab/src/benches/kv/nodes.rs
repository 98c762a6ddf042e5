//! Our nodes: three processes that serve keys, with groups that are led by the nodes in turn.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::admin::ChangeSlots;
use client::{AdminError, Client, NewLog, Timeouts};
use formats::slots::name_of;
use wire::LogKind;

use bench::disk::Disk;
use bench::roles::{Role, Watched};
use testbed::cluster::{LocalCluster, LocalOptions, log_of};
use testbed::level;
use testbed::port;
use testbed::scratch::go_on;

use super::slots::Map;

pub const NODES: u32 = 3;
/// A log beside the groups, for raw appends.
pub const RAW: &str = "raw";

pub struct Nodes {
    pub cluster: LocalCluster,
    /// Where node 1, then node 2 … serves keys.
    pub doors: Vec<String>,
    pub groups: Vec<String>,
    /// The node that is to lead the first group, then the second …
    leaders: Vec<u32>,
    count: u32,
}

/// A cluster that is not the usual one.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub groups: u16,
    pub nodes: u32,
    /// Each group has so many nodes of its own. `None`: all groups are on all nodes.
    pub replicas: Option<u32>,
    /// Given to every node.
    pub arguments: Vec<String>,
    /// The level at which nodes log.
    pub log: Option<&'static str>,
}

/// In a larger cluster a few nodes get a vote by themselves, and a log has all from its beginning where it is made so. A vote more is a step of its
/// own in the logs that there are from the start, and each step waits for a timer, which is slower in such a cluster: it would take minutes.
pub const VOTES_BY_THEMSELVES_MAX: u32 = 31;
const VOTERS_OF_MORE: u32 = 3;

/// The time in which a small cluster is ready, and more for each node of a large one.
const READY: Duration = Duration::from_secs(60);
const READY_EACH: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

impl Nodes {
    /// To be called on a thread that lives as long as they.
    pub fn start(directory: &Path, groups: u16) -> Result<Nodes> {
        Nodes::start_so_many(directory, groups, NODES)
    }

    /// As [`Nodes::start`], so many nodes.
    pub fn start_so_many(directory: &Path, groups: u16, count: u32) -> Result<Nodes> {
        Nodes::start_as(
            directory,
            &Wanted {
                groups,
                nodes: count,
                replicas: None,
                arguments: Vec::new(),
                log: None,
            },
        )
    }

    pub fn start_as(directory: &Path, wanted: &Wanted) -> Result<Nodes> {
        let count = wanted.nodes;
        let ports = port::free(count)?;
        let cluster = LocalCluster::start(LocalOptions {
            kv_ports: ports.clone(),
            arguments: wanted.arguments.clone(),
            log: wanted.log.map(str::to_owned),
            voters: voters_of_so_many(count),
            ..LocalOptions::new(directory, count)
        })?;
        let patience = match voters_of_so_many(count) {
            None => READY,
            Some(_) => READY + READY_EACH * count,
        };
        cluster.wait_ready(patience)?;
        let all = match voters_of_so_many(count) {
            None => Vec::new(),
            Some(_) => (1..=u64::from(count)).collect(),
        };
        let leader = |group: u16| match wanted.replicas {
            Some(replicas) => u32::from(group) * replicas + 1,
            None => u32::from(group) % count + 1,
        };
        let groups = wanted.groups;
        let nodes = Nodes {
            cluster,
            doors: ports
                .iter()
                .map(|port| format!("127.0.0.1:{port}"))
                .collect(),
            groups: (1..=groups).map(|group| name_of(group, groups)).collect(),
            leaders: (0..groups).map(leader).collect(),
            count,
        };
        let client = nodes.client();
        for (name, first) in nodes.groups.iter().zip(&nodes.leaders) {
            let members = match wanted.replicas {
                Some(replicas) => (*first..first + replicas).map(u64::from).collect(),
                None => all.clone(),
            };
            let made = client.create_new_log(&NewLog {
                name: name.clone(),
                members,
                kind: LogKind::Kv,
                ..NewLog::default()
            });
            made_or_there(made.map(drop))?;
        }
        client.change_slots(&ChangeSlots::join(&nodes.groups))?;
        let made = client.create_new_log(&NewLog {
            name: RAW.to_owned(),
            members: all,
            ..NewLog::default()
        });
        made_or_there(made.map(drop))?;
        let addresses = nodes.cluster.addresses();
        for (group, first) in nodes.groups.iter().zip(&nodes.leaders) {
            let members = match wanted.replicas {
                Some(replicas) => {
                    let first = *first as usize - 1;
                    &addresses[first..first + replicas as usize]
                }
                None => &addresses[..],
            };
            level::wait_ready(members, group, patience)?;
        }
        level::wait_ready(&addresses, RAW, patience)?;
        nodes.spread()?;
        Ok(nodes)
    }

    pub fn client(&self) -> Client {
        Client::new(self.cluster.addresses(), Timeouts::default())
    }

    /// Has the groups led by different nodes, as far as there are any, and waits until all doors know it.
    pub fn spread(&self) -> Result<()> {
        let deadline = Instant::now() + READY;
        for (group, node) in self.groups.iter().zip(&self.leaders) {
            // A node that lost its disk has another id.
            let id = self.cluster.status(*node)?.node;
            while self.leader(group) != Some(*node) {
                go_on()?;
                let moved = self.client().move_leader(group, Some(id));
                if Instant::now() > deadline {
                    moved.with_context(|| format!("node {node} is to lead {group}"))?;
                    bail!("node {node} does not come to lead {group}");
                }
                thread::sleep(POLL);
            }
        }
        let door = |node: &u32| &self.doors[*node as usize - 1];
        let leaders: Vec<&String> = self.leaders.iter().map(door).collect();
        loop {
            go_on()?;
            let why = match self.doors.iter().find_map(|door| unlike(door, &leaders)) {
                None => return Ok(()),
                Some(why) => why,
            };
            if Instant::now() > deadline {
                bail!("{why}");
            }
            thread::sleep(POLL);
        }
    }

    pub fn leader(&self, group: &str) -> Option<u32> {
        level::leader(&self.cluster.addresses(), group)
    }

    pub fn door(&self, node: u32) -> &str {
        &self.doors[node as usize - 1]
    }

    pub fn pid(&self, node: u32) -> Result<u32> {
        let pid = self.cluster.pid(node);
        pid.with_context(|| format!("node {node} ended"))
    }

    /// A node that leads a group is a leader, whatever else it does.
    pub fn watched(&self) -> Result<Watched> {
        let leaders: Vec<_> = self.groups.iter().map(|group| self.leader(group)).collect();
        let role = |node| match leaders.contains(&Some(node)) {
            true => Role::Leader,
            false => Role::Follower,
        };
        let processes = (1..=self.count).map(|node| Ok((role(node), self.pid(node)?)));
        let processes = processes.collect::<Result<_>>()?;
        Ok(Watched::new(
            processes,
            Disk::below(self.cluster.directory()),
        ))
    }

    /// Waits until each node has all bytes of all groups, and what they come to.
    pub fn wait_whole(&self, patience: Duration) -> Result<()> {
        let addresses = self.cluster.addresses();
        for group in &self.groups {
            level::wait_level(&addresses, group, patience)?;
        }
        let deadline = Instant::now() + patience;
        while let Some(why) = self
            .groups
            .iter()
            .find_map(|group| self.why_not_whole(group))
        {
            go_on()?;
            if Instant::now() > deadline {
                bail!("{why} after {} s", patience.as_secs());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn why_not_whole(&self, group: &str) -> Option<String> {
        let addresses = self.cluster.addresses();
        let lacks = |address: &String| {
            let status = level::status(address)?;
            let state = log_of(&status, group)?.state.as_ref()?;
            state.whole.then_some(())
        };
        let lacking = addresses
            .iter()
            .position(|address| lacks(address).is_none());
        lacking.map(|at| format!("node {} has no whole state of {group}", at + 1))
    }
}

/// So many nodes get a vote by themselves. `None`: all.
pub fn voters_of_so_many(nodes: u32) -> Option<u32> {
    (nodes > VOTES_BY_THEMSELVES_MAX).then_some(VOTERS_OF_MORE)
}

fn made_or_there(made: Result<(), AdminError>) -> Result<()> {
    match made {
        Ok(()) | Err(AdminError::Exists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Why a door's map is another one, if it is.
fn unlike(door: &String, leaders: &[&String]) -> Option<String> {
    let map = match Map::of_cluster(std::slice::from_ref(door), 0) {
        Ok(map) => map,
        Err(error) => return Some(format!("{error:#}")),
    };
    let led = map
        .ranges
        .iter()
        .map(|range| map.servers[range.server].to_string());
    let is_so = led.eq(leaders.iter().map(|leader| (*leader).clone()));
    (!is_so).then(|| format!("{door} knows other leaders"))
}

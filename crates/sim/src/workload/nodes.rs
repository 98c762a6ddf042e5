//! Real nodes in the simulated world, small enough that everything that is bounded is reached.

use std::io;
use std::path::PathBuf;

use node::Node;
use node::config::{Limits, NodeConfig, Start};
use node::op::{Disk, Time};

use super::draw::MORE_LOGS;
use crate::client::Asker;
use crate::host::{HostId, Process};
use crate::scenario::{Cluster, Scenario};
use crate::world::World;

/// Windows, segments and memory so small that all of them fill up and roll over.
pub fn small_limits() -> Limits {
    Limits {
        unchosen_bytes_max: 256 << 10,
        ring_bytes_max: 512 << 10,
        send_bytes_max: 64 << 10,
        store_queue_bytes_max: 256 << 10,
        read_buffers_max: 4,
        fetch_bytes_max: 64 << 10,
        fetch_bytes_busy: 16 << 10,
        disk_reserve_bytes: 2 << 20,
        directory_growth_bytes: 512,
        segment_bytes_first: 64 << 10,
        segment_bytes_max: 256 << 10,
        write_bytes_max: 128 << 10,
        ..Limits::default()
    }
}

/// A cluster that bootstraps and joins by itself, with the scenario's clients.
pub(super) fn build(scenario: &Scenario, world: World) -> Cluster {
    let limits = small_limits();
    let mut cluster = scenario.build_in(world, |index, addresses| {
        let start = match index {
            0 => Start::Bootstrap {
                voters: addresses.len() as u32,
            },
            _ => Start::Join {
                servers: vec![addresses[0].clone()],
            },
        };
        let config = NodeConfig {
            directory: PathBuf::from("/data"),
            listen: addresses[index].clone(),
            advertise: addresses[index].clone(),
            start,
            limits: limits.clone(),
            version: "simulated",
        };
        Box::new(move |disk, now| start_node(&config, disk, now))
    });
    for log in MORE_LOGS {
        let host = cluster.world.add_host(&format!("creates-{log}"));
        let addresses = cluster.addresses.clone();
        let auxiliary = scenario.auxiliary;
        let asker = move |_: &mut dyn Disk, _| -> io::Result<Box<dyn Process>> {
            // Who asked twice for an id has a greater one.
            let requests: Vec<String> = match auxiliary {
                false => vec![format!("create-log {log}")],
                true => [3, 4, 5, 6, 2]
                    .map(|id| format!("create-log {log} auxiliary={id}"))
                    .into(),
            };
            let asker = Asker::new(&requests, "exists", addresses.clone());
            Ok(Box::new(asker))
        };
        cluster.world.start(host, asker).expect("it needs no disk");
        cluster.add_writer(log);
    }
    cluster
}

fn start_node(config: &NodeConfig, disk: &mut dyn Disk, now: Time) -> io::Result<Box<dyn Process>> {
    match Node::start(config.clone(), disk, now) {
        Ok(node) => Ok(Box::new(node)),
        Err(node::StartError::Recover {
            error: node::store::ReplayError::Contradiction(what),
            ..
        }) => panic!("start-up: the records contradict each other: {what:?}"),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Every replica takes part, knows all that is chosen and holds its bytes.
pub(super) fn is_whole(world: &World, nodes: &[HostId], members: usize) -> bool {
    let all: Option<Vec<&Node>> = nodes.iter().map(|n| world.machine::<Node>(*n)).collect();
    let Some(all) = all else { return false };
    // The directory, `main`, and those that clients created.
    let logs = 2 + MORE_LOGS.len();
    let nexts = |node: &Node| -> Vec<_> { node.log_views().map(|v| v.state.next).collect() };
    let first = nexts(all[0]);
    if first.len() != logs || all[1..].iter().any(|node| nexts(node) != first) {
        return false;
    }
    let whole = |view: node::LogView| {
        let voters = view.state.configuration.members();
        let all_vote = voters.len() == members && voters.iter().all(|voter| voter.weight == 1);
        view.stopped.is_none() && all_vote && view.missing().is_empty()
    };
    all.iter().all(|node| node.log_views().all(whole))
}

/// Every replica in a line, for people.
pub(super) fn picture(world: &World, nodes: &[HostId]) -> String {
    let mut lines = Vec::new();
    for host in nodes {
        let name = world.name(*host);
        let Some(node) = world.machine::<Node>(*host) else {
            lines.push(format!("{name}: {:?}", world.status(*host)));
            continue;
        };
        lines.extend(node.log_views().map(|view| {
            format!(
                "{name} log {}: next {}, era {}, {} members, {:?}, promised {}, misses {:?}, stopped {:?}",
                view.name,
                view.state.next,
                view.state.era.0,
                view.state.configuration.members().len(),
                view.role,
                view.promised.0,
                view.missing(),
                view.stopped,
            )
        }));
    }
    lines.join("\n")
}

//! Real nodes in the simulated world, small enough that everything that is bounded is reached.

use std::io;
use std::path::PathBuf;

use node::Node;
use node::config::{Limits, NodeConfig, Start};
use node::op::{Disk, Time};
use sim::client::Asker;
use sim::{Cluster, HostId, Process, Scenario, Status, World};

use crate::checks;

/// Logs created besides `main`, with a writer each.
pub const MORE_LOGS: [&str; 1] = ["b"];

pub fn scenario(seed: u64) -> Scenario {
    Scenario {
        logs: vec!["main".to_owned()],
        // Some networks carry a few KiB a second, and everybody reads everything.
        calm_us: 1_200_000_000,
        ..Scenario::draw(seed)
    }
}

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
        segment_bytes_first: 64 << 10,
        segment_bytes_max: 256 << 10,
        write_bytes_max: 128 << 10,
        ..Limits::default()
    }
}

pub fn build(scenario: &Scenario) -> Cluster {
    tell_if_asked();
    let limits = small_limits();
    let mut cluster = scenario.build(|index, addresses| {
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
        let asker = move |_: &mut dyn Disk, _| -> io::Result<Box<dyn Process>> {
            let request = format!("create-log {log}");
            let asker = Asker::new(&request, "exists", addresses.clone());
            Ok(Box::new(asker))
        };
        cluster.world.start(host, asker).expect("it needs no disk");
        cluster.add_writer(log);
    }
    checks::watch(&mut cluster);
    cluster
}

fn start_node(config: &NodeConfig, disk: &mut dyn Disk, now: Time) -> io::Result<Box<dyn Process>> {
    match Node::start(config.clone(), disk, now) {
        Ok(node) => Ok(Box::new(node)),
        Err(node::StartError::Recover {
            error: node::store::ReplayError::Contradiction(what),
            ..
        }) => panic!("I4: {what:?}"),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Harm, peace until the clients have what they came for and the nodes are whole, a clean stop of
/// all, and a start at which nothing is missing.
pub fn run(scenario: &Scenario) -> Cluster {
    let mut cluster = build(scenario);
    cluster.suffer().unwrap();
    cluster.serve().unwrap();
    wait_until_whole(&mut cluster);
    cluster.stop().unwrap();
    for node in cluster.nodes.clone() {
        let started = cluster.world.restart(node);
        started.expect("a node that stopped in peace starts again");
    }
    wait_until_whole(&mut cluster);
    cluster
}

/// As `run`, when one node's disk may lose so much that the node does not start again. It must not
/// before all are whole: until then it may be one of too few.
pub fn run_with_damage(scenario: &Scenario) {
    let mut cluster = build(scenario);
    wait_until_whole(&mut cluster);
    cluster.suffer().unwrap();
    cluster.serve().unwrap();
    let well = |world: &World, node: &HostId| world.status(*node) != Status::FailedToStart;
    let all = cluster.nodes.len();
    cluster.nodes.retain(|node| well(&cluster.world, node));
    assert!(cluster.nodes.len() + 1 >= all, "only one disk is bad");
    wait_until_whole(&mut cluster);
    cluster.stop().unwrap();
}

/// Every replica takes part, knows all that is chosen and holds its bytes.
pub fn wait_until_whole(cluster: &mut Cluster) {
    let nodes = cluster.nodes.clone();
    let members = cluster.addresses.len();
    let logs = 2 + MORE_LOGS.len();
    let waited = cluster.wait("the nodes to be whole", |world| {
        is_whole(world, &nodes, members, logs)
    });
    if let Err(failure) = waited {
        panic!("{failure:?}\n{}", checks::picture(&cluster.world, &nodes));
    }
}

fn is_whole(world: &World, nodes: &[HostId], members: usize, logs: usize) -> bool {
    let all: Option<Vec<&Node>> = nodes.iter().map(|n| world.machine::<Node>(*n)).collect();
    let Some(all) = all else { return false };
    let well = |node: &Node| {
        let whole = |view: node::LogView| {
            let all_vote = view.state.configuration.members().len() == members;
            view.stopped.is_none() && all_vote && view.missing().is_empty()
        };
        node.log_views().count() == logs && node.log_views().all(whole)
    };
    let nexts = |node: &Node| -> Vec<_> { node.log_views().map(|v| v.state.next).collect() };
    all.iter().all(|node| well(node)) && all.iter().all(|node| nexts(node) == nexts(all[0]))
}

/// `LOG=debug` shows what the nodes say of themselves; with `TRACE=1` between the trace's lines.
fn tell_if_asked() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Ok(filter) = std::env::var("LOG") {
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .without_time()
                .with_ansi(false)
                .init();
        }
    });
}

//! Real nodes in the simulated world, small enough that everything that is bounded is reached.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use formats::Speaks;
use node::Node;
use node::config::{NodeConfig, Start};
use ops::{Disk, Time};
use paxos::{NodeId, PhaseOne, Role};
use replica::Limits;
use store::{MANIFEST_FILE, ManifestError};
use wire::Standing;

use super::draw::MORE_LOGS;
use crate::client::{Asker, Ledger};
use crate::host::{HostId, Process};
use crate::scenario::{BatchTerms, Cluster, Scenario};
use crate::upgrade::{self, Programs};
use crate::world::World;

/// Created and deleted by a client all the time, in a part of the seeds.
const PASSING_LOG: &str = "passing";

/// Windows, segments and memory so small that all of them fill up and roll over.
pub fn small_limits() -> Limits {
    Limits {
        unchosen_bytes_max: 256 << 10,
        ring_bytes_max: 512 << 10,
        all_rings_bytes_max: 768 << 10,
        send_bytes_max: 64 << 10,
        store_queue_bytes_max: 256 << 10,
        read_buffers_max: 4,
        log_read_buffers_max: 3,
        fetch_bytes_max: 64 << 10,
        fetch_bytes_busy: 16 << 10,
        part_bytes: 128,
        answer_piece_bytes: 128,
        disk_reserve_bytes: 2 << 20,
        directory_growth_bytes: 512,
        state_trim_bytes: 1_000,
        state_lag_bytes_max: 1_500,
        segment_bytes_first: 64 << 10,
        segment_bytes_max: 256 << 10,
        write_bytes_max: 128 << 10,
        ..Limits::default()
    }
}

/// A cluster that bootstraps and joins by itself, with the scenario's clients.
pub(super) fn build(scenario: &Scenario, world: World, ledger: &Ledger) -> Cluster {
    let mut limits = small_limits();
    // Streams are cut in a world of seconds, too.
    limits.writer_gone_after = Duration::from_secs(3);
    limits.writer_claim = Duration::from_secs(1);
    if scenario.long_directory {
        limits.directory_growth_bytes = Limits::default().directory_growth_bytes;
    }
    if scenario.scrubs {
        // The first comes half a second after its leader.
        limits.scrub_interval = Duration::from_secs(12);
        limits.scrub_bytes_per_second = 5_000_000;
    }
    if scenario.lands {
        limits.landing_bytes_min = 1;
    }
    if scenario.seed.is_multiple_of(3) {
        // All logs but the directory stand for election one after the other, and a round settles one that is due.
        limits.standing_logs_max = 1;
        limits.due_logs_max = 1;
    }
    limits.phase_one = match scenario.batch_terms {
        None => PhaseOne::PerTerm,
        Some(BatchTerms::OnDemand) => PhaseOne::PerBatch,
        Some(BatchTerms::Ahead) => PhaseOne::PerBatchAhead,
    };
    if scenario.window_bytes > 0 {
        limits.unchosen_bytes_max = scenario.window_bytes;
    }
    let upgrade = scenario.upgrade.as_ref();
    let programs = upgrade.map(|upgrade| {
        limits.version_settle = Duration::from_micros(upgrade.settle_us);
        upgrade.programs(scenario.seed, scenario.nodes)
    });
    let mut cluster = scenario.build_in(world, ledger.clone(), |index, addresses| {
        let start = match index {
            // A run that changes members has a node to add.
            0 => Start::Bootstrap {
                voters: match scenario.member_changes {
                    0 => addresses.len() as u32,
                    _ => 3,
                },
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
            places: Vec::new(),
            token: None,
            replaces: None,
            standing: Standing::default(),
            limits: limits.clone(),
            nodes_show_certificates: false,
            wires: Default::default(),
            version: "simulated",
            speaks: Speaks::THIS,
            altered: None,
            hosts: Default::default(),
        };
        let programs = programs.clone();
        Box::new(move |disk, now| start_node(&config, index, programs.as_ref(), disk, now))
    });
    if let Some(programs) = programs.clone() {
        let (nodes, mut told) = (cluster.nodes.clone(), false);
        cluster.world.after_step(move |world| {
            let joined = |host: &HostId| {
                let node = world.machine::<Node>(*host);
                node.is_some_and(|node| node.id() != NodeId(0))
            };
            if !told && nodes.iter().all(joined) {
                told = true;
                programs.borrow_mut().on_all_joined();
            }
        });
    }
    cluster.programs = programs;
    for log in MORE_LOGS {
        let host = cluster.world.add_host(&format!("creates-{log}"));
        let addresses = cluster.addresses.clone();
        let auxiliary = scenario.auxiliary;
        let alone = scenario.member_changes > 0;
        let ledger = ledger.clone();
        let asker = move |_: &mut dyn Disk, _| -> io::Result<Box<dyn Process>> {
            // A node that asked twice for an id has a greater one.
            let mut requests: Vec<String> = match auxiliary {
                false => vec![format!("create-log {log}")],
                true => [3, 4, 5, 6, 2]
                    .map(|id| format!("create-log {log} auxiliary={id}"))
                    .into(),
            };
            if auxiliary && alone {
                requests.push(format!("create-log {log}")); // one node is left, perhaps
            }
            let asker = Asker::new(&requests, "exists", addresses.clone());
            Ok(Box::new(asker.in_ledger(&ledger)))
        };
        cluster.world.start(host, asker).expect("it needs no disk");
        cluster.add_writer(log);
    }
    if scenario.churns > 0 {
        cluster.add_churners(PASSING_LOG);
    }
    if scenario.member_changes > 0 {
        let mut logs = vec!["directory".to_owned(), "main".to_owned()];
        logs.extend(MORE_LOGS.map(str::to_owned));
        cluster.add_operator(logs);
    }
    cluster
}

fn start_node(
    config: &NodeConfig,
    index: usize,
    programs: Option<&Programs>,
    disk: &mut dyn Disk,
    now: Time,
) -> io::Result<Box<dyn Process>> {
    let mut config = config.clone();
    if let Some(programs) = programs {
        let files = disk.list(&config.directory).unwrap_or_default();
        let is_empty = !files.iter().any(|file| file.name == MANIFEST_FILE);
        config.speaks = programs.borrow_mut().next(index, is_empty);
        if is_empty && config.speaks == upgrade::older() {
            upgrade::make_directory_of_before(disk, &config.directory, &config.start)?;
        }
    }
    match Node::start(config, disk, now) {
        Ok(node) => Ok(Box::new(node)),
        Err(node::StartError::Manifest(error @ ManifestError::Version { .. })) => {
            if let Some(programs) = programs {
                programs.borrow_mut().refused(index);
            }
            Err(io::Error::other(error))
        }
        Err(node::StartError::Recover {
            error: store::ReplayError::Contradiction(what),
            ..
        }) => panic!("start-up: the records contradict each other: {what:?}"),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Every replica takes part, knows all that is chosen, holds its bytes, leads or follows, and has the
/// members that are wanted.
pub(super) fn is_whole(world: &World, nodes: &[HostId], members: Option<usize>) -> bool {
    let all: Option<Vec<&Node>> = nodes.iter().map(|n| world.machine::<Node>(*n)).collect();
    let Some(mut all) = all else { return false };
    let gone: BTreeSet<u32> = all.iter().flat_map(|node| node.removed_nodes()).collect();
    all.retain(|node| !gone.contains(&node.id().0));
    if all.is_empty() || all.iter().any(|node| !node.leaving_nodes().is_empty()) {
        return false;
    }
    // The directory, `main`, and those that clients created.
    let logs = 2 + MORE_LOGS.len();
    let nexts = |node: &Node| -> Vec<_> {
        let lasting = node.log_views().filter(|view| view.name != PASSING_LOG);
        lasting.map(|view| view.state.next).collect()
    };
    let first = nexts(all[0]);
    if first.len() != logs || all[1..].iter().any(|node| nexts(node) != first) {
        return false;
    }
    let whole = |node: &Node, view: replica::LogView| {
        if view.name == PASSING_LOG {
            return true;
        }
        let voters = view.state.configuration.members();
        let weights = voters.iter().map(|voter| (voter.node.0, voter.weight));
        let as_wanted = node
            .wanted(view.id)
            .is_some_and(|wanted| weights.eq(wanted));
        let all_vote = members.is_none_or(|members| {
            voters.len() == members && voters.iter().all(|voter| voter.weight == 1)
        });
        view.stopped.is_none() && as_wanted && all_vote && view.missing().is_empty()
    };
    let of_node = |node: &&Node| node.log_views().all(|view| whole(node, view));
    all.iter().all(of_node) && follow_one_leader(&all)
}

/// Nothing newer than the first version has to be kept from anybody any more.
pub(super) fn agree_on_the_newest(world: &World, nodes: &[HostId]) -> bool {
    let mut all = nodes.iter().map(|node| world.machine::<Node>(*node));
    all.all(|node| {
        node.is_some_and(|node| node.versions().agreed == node.versions().speaks.newest())
    })
}

/// In each log one leads, and all the others follow it in its term: nobody is left behind at a
/// later term, and gets by on what it is told is chosen.
fn follow_one_leader(nodes: &[&Node]) -> bool {
    let roles = |node: &&Node| {
        let lasting = node.log_views().filter(|view| view.name != PASSING_LOG);
        lasting.map(|view| view.role).collect()
    };
    let roles: Vec<Vec<Role>> = nodes.iter().map(roles).collect();
    (0..roles[0].len()).all(|log| {
        let mut roles = roles.iter().map(|of_node| of_node[log]);
        let leads = |role| match role {
            Role::Leader { term } => Some(term),
            _ => None,
        };
        let Some(led) = roles.clone().find_map(leads) else {
            return false;
        };
        let is_led = |role| match role {
            Role::Leader { term } => term == led,
            Role::Follower { leader, term } => leader == led.owner && term == led,
            Role::Candidate => false,
        };
        roles.all(is_led)
    })
}

/// Those that were removed from the cluster take no part any more.
pub(super) fn leave_out_the_removed(world: &World, nodes: &mut Vec<HostId>) {
    let all = nodes.iter().filter_map(|node| world.machine::<Node>(*node));
    let gone: BTreeSet<u32> = all.flat_map(Node::removed_nodes).collect();
    nodes.retain(|host| {
        let node = world.machine::<Node>(*host);
        node.is_none_or(|node| !gone.contains(&node.id().0))
    });
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
                "{name} log {}: next {}, era {}, weights {:?} of {:?}, {:?}, promised {}, misses {:?}, stopped {:?}",
                view.name,
                view.state.next,
                view.state.era.0,
                view.state.configuration.members().iter().map(|m| (m.node.0, m.weight)).collect::<Vec<_>>(),
                node.wanted(view.id).map(|wanted| wanted.collect::<Vec<_>>()),
                view.role,
                view.promised.0,
                view.missing(),
                view.stopped,
            )
        }));
    }
    lines.join("\n")
}

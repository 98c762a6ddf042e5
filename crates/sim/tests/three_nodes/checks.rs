//! The invariants, looked at after every step of every node.

use std::collections::BTreeMap;
use std::fmt::Write;

use node::format::codec;
use node::{LogId, Node};
use paxos::{Digest, PromisedTerm, Slot};
use sim::{Cluster, HostId, World};

/// What any node ever knew, so that no two may know differently.
#[derive(Default)]
struct Known {
    /// The state of each log after all slots below, by whoever was first to know it.
    states: BTreeMap<(LogId, Slot), Digest>,
    replicas: BTreeMap<(HostId, LogId), Replica>,
}

/// What one replica said last.
#[derive(Clone, Copy, Default)]
struct Replica {
    starts: u64,
    next: Slot,
    promised: PromisedTerm,
}

pub fn watch(cluster: &mut Cluster) {
    let nodes = cluster.nodes.clone();
    let mut known = Known::default();
    cluster.world.after_step(move |world| {
        for host in &nodes {
            if let Some(node) = world.machine::<Node>(*host) {
                node.check_invariants();
                known.check(world, *host, node);
            }
        }
    });
}

impl Known {
    fn check(&mut self, world: &World, host: HostId, node: &Node) {
        let starts = world.starts(host);
        for view in node.log_views() {
            let next = view.state.next;
            let before = self.replicas.entry((host, view.id)).or_default();
            let promised = view.durable_promise();
            let name = world.name(host);
            assert!(
                promised >= before.promised,
                "I4: {name} forgot that it promised {:?} in log {}: {promised:?}",
                before.promised,
                view.name
            );
            assert!(
                starts > before.starts || next >= before.next,
                "{name} forgot what it knew to be chosen: {} of {}",
                next,
                before.next
            );
            let news = starts > before.starts || next > before.next;
            *before = Replica {
                starts,
                next,
                promised,
            };
            if news {
                let digest = node::format::digest(&codec::encode(view.state));
                let first = *self.states.entry((view.id, next)).or_insert(digest);
                assert!(
                    first == digest,
                    "I1: {name} knows another history of log {} up to {next}: {:?}",
                    view.id,
                    view.state
                );
            }
        }
    }
}

/// Every replica in a line, for people.
pub fn picture(world: &World, nodes: &[HostId]) -> String {
    let mut picture = String::new();
    for host in nodes {
        let Some(node) = world.machine::<Node>(*host) else {
            let _ = writeln!(picture, "{}: {:?}", world.name(*host), world.status(*host));
            continue;
        };
        for view in node.log_views() {
            let _ = writeln!(
                picture,
                "{} log {}: next {}, era {}, {} members, {:?}, promised {}, misses {:?}, stopped {:?}",
                world.name(*host),
                view.name,
                view.state.next,
                view.state.era.0,
                view.state.configuration.members().len(),
                view.role,
                view.promised.0,
                view.missing(),
                view.stopped,
            );
        }
    }
    picture
}

//! Machines that are apart, in the simulator: the production's nodes, each with a disk and a line of its own, in virtual time.
//!
//! ```text
//!   proposer ── a hop ──► leader ── a hop, one message after the other on its line ──► N - 1 followers
//!                            ▲                                                             │ a durable write
//!                            └──────────────────────── a hop ──────────────────────────────┘
//! ```
//!
//! One box with many nodes shows how the box queues. Here nothing is shared, and no processor's time passes: what is left is what the protocol costs.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carrier::{Amount, Counts, Reading};
use formats::Speaks;
use node::Node;
use node::config::{NodeConfig, Start};
use ops::{ConnId, Op, Time};
use paxos::{PhaseOne, Role};
use replica::Limits;
use sim::client::{Asker, Proposer};
use sim::{HostId, Process, Status, World};
use testbed::scratch::go_on;
use wire::Standing;

use super::super::kinds::Ink;

/// The machines and what is between them, as they are taken to be.
#[derive(Clone, Debug)]
pub struct Assumed {
    /// One way.
    pub hop_us: u64,
    /// A message takes so much of its sender's line, beside its bytes.
    pub message_us: u64,
    pub bytes_per_us: u64,
    /// A durable write of the disk ink.
    pub durable_us: u64,
    pub phase_one: PhaseOne,
}

impl Default for Assumed {
    /// Machines of one room: the loopback's hop and the disk of the machine that docs/lab.md was measured on, and a line of 1 GB/s.
    fn default() -> Assumed {
        Assumed {
            hop_us: 50,
            message_us: 5,
            bytes_per_us: 1000,
            durable_us: 140,
            phase_one: PhaseOne::PerTerm,
        }
    }
}

impl Assumed {
    pub fn sentence(&self) -> String {
        let Assumed {
            hop_us,
            message_us,
            bytes_per_us,
            durable_us,
            phase_one: _,
        } = self;
        format!(
            "a hop of {hop_us} µs, {message_us} µs of its sender's line for each message, lines of {bytes_per_us} MB/s, a durable write of {durable_us} µs"
        )
    }
}

/// Proposals of one number of machines.
pub struct Simulated {
    pub times_ms: Vec<f64>,
    /// Frames between nodes meanwhile, by kind.
    pub frames: BTreeMap<&'static str, Amount>,
}

impl Simulated {
    /// Frames of a proposal that there would not be without it.
    pub fn frames_each(&self) -> f64 {
        let of_proposals = ["propose", "accepted"];
        let frames = of_proposals.iter().filter_map(|kind| self.frames.get(kind));
        frames.map(|amount| amount.frames).sum::<u64>() as f64 / self.times_ms.len() as f64
    }
}

const LOG: &str = "proposals";
/// Voters of the logs that there are from the start; more are not needed, and each is a step of its own.
const VOTERS_OF_OTHERS: u32 = 3;
/// Heartbeats are so many times as seldom as usual. They are what costs most to simulate, and nothing waits for one.
const PACE: u32 = 10;
/// Proposals that do not count.
const WARM_UP: usize = 5;
/// Virtual time after which a step does not come any more.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(20);
const EVENTS_MAX: u64 = 200_000_000;

/// One client proposes so many times, so many bytes each, to so many machines.
pub fn proposals(
    of: (u32, Ink),
    pieces: (usize, usize),
    assumed: &Assumed,
    seed: u64,
) -> Result<Simulated> {
    // Nodes that begin say what they wait for, and here nobody waits.
    let silent = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(silent, || measure(of, pieces, assumed, seed))
}

fn measure(
    (machines, ink): (u32, Ink),
    (bytes, count): (usize, usize),
    assumed: &Assumed,
    seed: u64,
) -> Result<Simulated> {
    let counts = Counts::default();
    let mut apart = Apart::new((machines, ink), assumed, &counts, seed)?;
    apart.until("have ids", Apart::all_joined)?;
    apart.create_log()?;
    apart.until("follow a leader of the log", Apart::follow_one_leader)?;
    let proposer = apart.world.add_host("proposer");
    let (servers, all) = (apart.addresses.clone(), WARM_UP + count);
    apart.world.start(proposer, move |_, now| {
        let of = (bytes, all);
        Ok(Box::new(Proposer::new((seed, now), &servers, LOG, of)))
    })?;
    apart.times(proposer, WARM_UP)?;
    let before = counts.so_far();
    let times = apart.times(proposer, all)?;
    let frames = counts.so_far().into_iter().map(|(kind, after)| {
        let was = before.get(kind).copied().unwrap_or_default();
        let grown = Amount {
            frames: after.frames - was.frames,
            bytes: after.bytes - was.bytes,
        };
        (kind, grown)
    });
    let counted = times.iter().skip(WARM_UP);
    Ok(Simulated {
        times_ms: counted.map(|time| time.as_secs_f64() * 1e3).collect(),
        frames: frames.collect(),
    })
}

/// A world of nodes.
struct Apart {
    world: World,
    nodes: Vec<HostId>,
    addresses: Vec<String>,
}

impl Apart {
    fn new(
        (machines, ink): (u32, Ink),
        assumed: &Assumed,
        counts: &Counts,
        seed: u64,
    ) -> Result<Apart> {
        let mut world = World::new(seed);
        let lines = &mut world.network().model;
        lines.latency_us = assumed.hop_us..assumed.hop_us + 1;
        lines.segment_us = assumed.message_us;
        lines.whole = true;
        lines.bytes_per_us = assumed.bytes_per_us;
        let names: Vec<String> = (1..=machines).map(|node| format!("node{node}")).collect();
        let nodes: Vec<HostId> = names.iter().map(|name| world.add_host(name)).collect();
        let addresses: Vec<String> = names.iter().map(|name| format!("{name}:7000")).collect();
        count_frames(&mut world, &nodes, counts);
        let usual = Limits::default();
        let limits = Limits {
            heartbeat_interval: usual.heartbeat_interval * PACE,
            peer_timeout: usual.peer_timeout * PACE,
            phase_one: assumed.phase_one,
            ..usual
        };
        for (index, host) in nodes.iter().enumerate() {
            let model = &mut world.disk_mut(*host).model;
            let durable_us = match ink {
                Ink::Disk => assumed.durable_us,
                _ => 0,
            };
            model.write_us = durable_us..durable_us + 1;
            let config = NodeConfig {
                directory: PathBuf::from("/data"),
                listen: addresses[index].clone(),
                advertise: addresses[index].clone(),
                start: match index {
                    0 => Start::Bootstrap {
                        voters: VOTERS_OF_OTHERS.min(machines),
                    },
                    _ => Start::Join {
                        servers: vec![addresses[0].clone()],
                    },
                },
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
            world.start(*host, move |disk, now| -> io::Result<Box<dyn Process>> {
                let node = Node::start(config.clone(), disk, now).map_err(io::Error::other)?;
                Ok(Box::new(node))
            })?;
        }
        Ok(Apart {
            world,
            nodes,
            addresses,
        })
    }

    fn node(&self, host: HostId) -> Option<&Node> {
        self.world.machine(host)
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Apart) -> bool) -> Result<()> {
        let end = self.world.now() + PATIENCE;
        while !is_so(self) {
            self.go_on(what, end)?;
            self.world.run_for(STEP, EVENTS_MAX);
        }
        Ok(())
    }

    fn go_on(&self, what: &str, end: Time) -> Result<()> {
        go_on()?;
        if self.world.now() >= end {
            bail!(
                "the simulated nodes do not come to {what} within {} s",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    fn all_joined(&self) -> bool {
        let joined = |host: &HostId| self.node(*host).is_some_and(|node| node.id().0 != 0);
        self.nodes.iter().all(joined)
    }

    /// All nodes vote on it from its beginning.
    fn create_log(&mut self) -> Result<()> {
        let ids = self.nodes.iter().filter_map(|host| self.node(*host));
        let ids: Vec<String> = ids.map(|node| node.id().0.to_string()).collect();
        let request = [format!("create-log {LOG} members={}", ids.join(","))];
        let asker = self.world.add_host("asker");
        let servers = self.addresses.clone();
        self.world.start(asker, move |_, _| {
            Ok(Box::new(Asker::new(&request, "exists", servers.clone())))
        })?;
        self.until("make the log", |apart| {
            apart.world.status(asker) == Status::Finished
        })
    }

    fn follow_one_leader(&self) -> bool {
        let role = |host: &HostId| {
            let view = self.node(*host)?.log_views().find(|view| view.name == LOG);
            view.map(|view| view.role)
        };
        let roles: Vec<Option<Role>> = self.nodes.iter().map(role).collect();
        let leads = |role: &&Option<Role>| matches!(role, Some(Role::Leader { .. }));
        let follows = |role: &&Option<Role>| matches!(role, Some(Role::Follower { .. }));
        let leaders = roles.iter().filter(leads).count();
        leaders == 1 && roles.iter().filter(follows).count() == roles.len() - 1
    }

    /// The times of the first so many proposals, at the moment at which the last of them is there.
    fn times(&mut self, proposer: HostId, count: usize) -> Result<Vec<Duration>> {
        let end = self.world.now() + PATIENCE;
        loop {
            self.go_on("choose what is proposed", end)?;
            let limits = sim::Limits {
                until: self.world.now() + STEP,
                events_max: EVENTS_MAX,
            };
            self.world.run_until(limits, |world| {
                let machine: Option<&Proposer> = world.machine(proposer);
                machine.is_none_or(|it| it.times().len() >= count || it.failure().is_some())
            });
            let machine: Option<&Proposer> = self.world.machine(proposer);
            let machine = machine.context("the simulated proposer is gone")?;
            if let Some(failure) = machine.failure() {
                bail!("a simulated proposal failed: {failure}");
            }
            if let Some(first) = machine.times().get(..count) {
                return Ok(first.to_vec());
            }
        }
    }
}

/// Counts all frames that a node sends to another, from now on.
fn count_frames(world: &mut World, nodes: &[HostId], counts: &Counts) {
    let (counts, nodes) = (counts.clone(), nodes.to_vec());
    let mut dialled: BTreeMap<(HostId, ConnId), Reading> = BTreeMap::new();
    // Frames go from whoever dials alone, and what is answered is a line.
    world.before_op(move |from, to, op| match op {
        Op::Connect { conn, .. } if nodes.contains(&from) => {
            dialled.insert((from, *conn), Reading::new());
        }
        Op::Send { conn, slices } if to.is_some_and(|to| nodes.contains(&to)) => {
            if let Some(reading) = dialled.get_mut(&(from, *conn)) {
                reading.read(slices, &counts);
            }
        }
        Op::Close { conn, .. } | Op::Reset { conn } => {
            dialled.remove(&(from, *conn));
        }
        _ => {}
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_takes_the_hops_the_writes_and_the_messages_that_it_is_made_of() {
        let assumed = Assumed {
            hop_us: 1000,
            message_us: 100,
            durable_us: 3000,
            ..Assumed::default()
        };
        let of = |machines, ink| {
            let found = proposals((machines, ink), (1000, 5), &assumed, 1).expect("proposals");
            let middle = crate::study::statistics::median(&found.times_ms).expect("some");
            (middle, found.frames_each())
        };
        // To the leader and back, from it to a follower and back.
        let (ram, frames) = of(3, Ink::Ram);
        assert!((4.0..5.5).contains(&ram), "{ram}");
        assert!((4.0..4.5).contains(&frames), "{frames}");
        let (disk, _) = of(3, Ink::Disk);
        assert!((6.5..9.0).contains(&disk), "{disk}");
        // The last of a majority is told four messages later.
        let (nine, frames) = of(9, Ink::Ram);
        assert!(nine > ram + 0.15 && nine < ram + 1.0, "{nine} and {ram}");
        assert!((16.0..17.0).contains(&frames), "{frames}");
        assert_eq!(of(9, Ink::Ram), (nine, frames), "an equal seed is equal");
    }

    /// A second round and a second durable write, one after the other, and nothing else.
    #[test]
    fn a_phase_1_for_each_batch_costs_one_more_round_trip_and_write() {
        let of = |phase_one, ink| {
            let assumed = Assumed {
                hop_us: 1000,
                message_us: 0,
                durable_us: 3000,
                phase_one,
                ..Assumed::default()
            };
            let found = proposals((3, ink), (1000, 50), &assumed, 1).expect("proposals");
            let promises = found.frames.get("promise").copied().unwrap_or_default();
            let middle = crate::study::statistics::median(&found.times_ms).expect("some");
            (middle, promises.bytes / promises.frames.max(1))
        };
        for (ink, one, each) in [(Ink::Ram, 4.0, 6.0), (Ink::Disk, 7.0, 12.0)] {
            let (once, _) = of(PhaseOne::PerTerm, ink);
            assert!((one..one + 0.5).contains(&once), "{once}");
            let (per_batch, promise_bytes) = of(PhaseOne::PerBatch, ink);
            assert!((each..each + 0.5).contains(&per_batch), "{per_batch}");
            assert!(promise_bytes < 200, "a promise has {promise_bytes} bytes");
        }
    }
}

//! Three nodes in a calm simulated world, and a client that sends a batch when it has the ack of the
//! one before.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use formats::Speaks;
use node::Node;
use node::config::{NodeConfig, Start};
use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use replica::Limits;
use sim::{HostId, Limits as Until, Outcome, World};
use wire::Standing;

const CONN: ConnId = ConnId(2);
const READY: Duration = Duration::from_secs(60);
/// More events than that for one batch would be a circle.
const EVENTS_MAX: u64 = 2_000_000;

pub struct Cluster {
    world: World,
    nodes: Vec<HostId>,
    addresses: Vec<String>,
}

impl Cluster {
    /// Three voters, and the log "main" is led.
    pub fn new() -> Cluster {
        let mut world = World::new(1);
        let addresses: Vec<String> = (1..=3).map(|n| format!("node{n}:7000")).collect();
        let mut nodes = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let host = world.add_host(&format!("node{}", index + 1));
            let config = NodeConfig {
                directory: PathBuf::from("/data"),
                listen: address.clone(),
                advertise: address.clone(),
                start: match index {
                    0 => Start::Bootstrap { voters: 3 },
                    _ => Start::Join {
                        servers: vec![addresses[0].clone()],
                    },
                },
                places: Vec::new(),
                token: None,
                replaces: None,
                standing: Standing::default(),
                limits: Limits::default(),
                nodes_show_certificates: false,
                wires: Default::default(),
                version: "simulated",
                speaks: Speaks::THIS,
                altered: None,
                hosts: Default::default(),
            };
            let start = move |disk: &mut dyn ops::Disk, now| {
                let node = Node::start(config.clone(), disk, now);
                let node = node.map_err(std::io::Error::other)?;
                Ok(Box::new(node) as Box<dyn sim::Process>)
            };
            world.start(host, start).expect("an empty disk is enough");
            nodes.push(host);
        }
        let mut cluster = Cluster {
            world,
            nodes,
            addresses,
        };
        cluster.wait("three voters", |world, nodes| {
            nodes.iter().all(|host| {
                let node = world.machine::<Node>(*host);
                let mut views = node.into_iter().flat_map(Node::log_views);
                views.any(|view| {
                    view.name == "main" && view.state.configuration.members().len() == 3
                })
            })
        });
        cluster
    }

    fn leader(&self) -> usize {
        let leads = |host: &HostId| {
            let node = self.world.machine::<Node>(*host);
            let mut views = node.into_iter().flat_map(Node::log_views);
            views.any(|view| view.name == "main" && matches!(view.role, paxos::Role::Leader { .. }))
        };
        let leader = self.nodes.iter().position(leads);
        leader.expect("the first node led when the others joined")
    }

    /// Appends so many batches, one after the other, each acknowledged.
    pub fn append(mut self, batches: u64, batch_bytes: u64) {
        let host = self.world.add_host("client");
        let address = self.addresses[self.leader()].clone();
        let start = move |_: &mut dyn ops::Disk, _| {
            let writer = Writer::new(address.clone(), batch_bytes as usize);
            Ok(Box::new(writer) as Box<dyn sim::Process>)
        };
        self.world.start(host, start).expect("it needs no disk");
        let all = batches * batch_bytes;
        self.wait("the last ack", |world, _| {
            let writer = world.machine::<Writer>(host);
            writer.is_some_and(|writer| writer.acknowledged >= all)
        });
    }

    fn wait(&mut self, what: &str, reached: impl Fn(&World, &[HostId]) -> bool) {
        let limits = Until {
            until: self.world.now() + READY,
            events_max: EVENTS_MAX,
        };
        let nodes = &self.nodes;
        let outcome = self.world.run_until(limits, |world| reached(world, nodes));
        assert!(outcome == Outcome::Reached, "waited in vain for {what}");
    }
}

struct Writer {
    ops: VecDeque<Op>,
    batch: Vec<u8>,
    sent: u64,
    acknowledged: u64,
    /// The beginning of a line that has not ended.
    heard: Vec<u8>,
}

impl Writer {
    fn new(address: String, batch_bytes: usize) -> Writer {
        let request = Slice::copied_from(b"logberg/1 append main\n");
        Writer {
            ops: VecDeque::from([
                Op::Connect {
                    conn: CONN,
                    address,
                },
                Op::Send {
                    conn: CONN,
                    slices: vec![request],
                },
                receive(Buffer::new(1024)),
            ]),
            batch: vec![b'x'; batch_bytes],
            sent: 0,
            acknowledged: 0,
            heard: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("stream"), _) => {}
                (Some("ack"), Some(position)) => {
                    self.acknowledged = position.parse().expect("a position");
                }
                _ => panic!("the leader said {line:?}"),
            }
        }
        if self.acknowledged == self.sent {
            self.sent += self.batch.len() as u64;
            let slices = vec![Slice::copied_from(&self.batch)];
            self.ops.push_back(Op::Send { conn: CONN, slices });
        }
    }
}

fn receive(buffer: Buffer) -> Op {
    let range = 0..buffer.len();
    Op::Receive {
        conn: CONN,
        buffer,
        range,
        whole: false,
    }
}

impl Machine for Writer {
    fn handle(&mut self, _: Time, completion: Completion) {
        if let Completion::Received { buffer, result, .. } = completion {
            let received = result.expect("the world is calm");
            self.hear(&buffer[..received.count]);
            self.ops.push_back(receive(buffer));
        }
    }

    fn on_time(&mut self, _: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}

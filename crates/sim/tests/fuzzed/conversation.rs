//! Strangers, clients and peers who say anything at all to a whole node, which goes on serving.

#[path = "../../../formats/tests/fuzzed/control_frames.rs"]
#[allow(dead_code, reason = "only the sealing is used here")]
mod control_frames;
#[path = "../../../formats/tests/fuzzed/data_frames.rs"]
#[allow(dead_code, reason = "only the sealing is used here")]
mod data_frames;
#[path = "../all/support/puppet.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod puppet;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::frame::{CONTROL_PREFIX, Frame, encode_control};
use formats::past::{Start as PastStart, Told};
use formats::{DATA_HEADER, Speaks, version};
use node::Node;
use node::config::{NodeConfig, Start};
use ops::{Completion, ConnId, Op};
use puppet::{Hand, puppet};
use sim::workload::small_limits;
use sim::{HostId, Status, World};
use store::Manifest;
use wire::Standing;

const MS: Duration = Duration::from_millis(1);
const ADDRESS: &str = "node1:7000";
const RECEIVE_BYTES: usize = 16 << 10;
const LISTED: [u32; 2] = [2, 3];
const NONCE: u64 = 7;
/// The kinds of control frames, and one that there is not.
const KINDS: u8 = 11;

/// `bytes`: acts of three bytes (which of four connections, what, how many bytes) and their bytes.
pub fn check(bytes: &[u8]) {
    let mut scene = Scene::new();
    let mut rest = bytes;
    for _ in 0..60 {
        let Some((act, after)) = rest.split_first_chunk::<3>() else {
            break;
        };
        let (said, after) = after.split_at(after.len().min(act[2] as usize));
        rest = after;
        scene.act(act[0] % 4, act[1] % 10, said);
    }
    scene.end();
}

struct Scene {
    world: World,
    node: HostId,
    hand: Hand,
    cluster: String,
    conns: u64,
    /// By the number that the input gives them.
    open: BTreeMap<u8, ConnId>,
}

impl Scene {
    /// A node that leads its logs by itself. It knows nodes 2 and 3 for members of its cluster, and no other.
    fn new() -> Scene {
        let mut world = World::new(1);
        let node = world.add_host("node1");
        let config = NodeConfig {
            directory: PathBuf::from("/data"),
            listen: ADDRESS.to_owned(),
            advertise: ADDRESS.to_owned(),
            start: Start::Bootstrap { voters: 3 },
            places: Vec::new(),
            token: None,
            replaces: None,
            standing: Standing::default(),
            limits: small_limits(),
            nodes_show_certificates: false,
            wires: Default::default(),
            version: "simulated",
            speaks: Speaks::THIS,
            altered: None,
            hosts: Default::default(),
        };
        let started = world.start(node, move |disk, now| {
            let node = Node::start(config.clone(), disk, now);
            Ok(Box::new(node.map_err(io::Error::other)?))
        });
        started.expect("an empty disk is enough");
        let hand = puppet(&mut world, "stranger");
        world.run_for(Duration::from_millis(300), 100_000);
        let manifest = world.with_disk(node, |disk| Manifest::load(disk, Path::new("/data")));
        let manifest = manifest.expect("readable").expect("it was saved");
        let mut scene = Scene {
            world,
            node,
            hand,
            cluster: manifest.identity.cluster.to_string(),
            conns: 0,
            open: BTreeMap::new(),
        };
        for id in LISTED {
            let speaks = Speaks::THIS;
            let join =
                format!("logberg/1 join address=node{id}:7000 disk={id:032x} speaks={speaks}\n");
            assert!(scene.is_granted(&join), "node {id} may not join");
        }
        scene
    }

    /// Whether a client that asks this is told ok.
    fn is_granted(&mut self, request: &str) -> bool {
        self.conns += 1;
        let conn = ConnId(2 * self.conns);
        let address = ADDRESS.to_owned();
        self.give(Op::Connect { conn, address });
        self.hand.send(&mut self.world, conn, request.as_bytes());
        let world = &mut self.world;
        self.hand.receive(world, conn, 3, true);
        world.run_for(Duration::from_secs(1), 100_000);
        let granted = self.hand.heard().into_iter().any(|completion| {
            matches!(&completion, Completion::Received { buffer, .. } if buffer[..3] == *b"ok ")
        });
        self.give(Op::Close { conn, flush: false });
        granted
    }

    fn act(&mut self, which: u8, what: u8, said: &[u8]) {
        match what {
            0 => self.say(which, said),
            1 => self.say(which, &[b"logberg/1 ", said, b"\n"].concat()),
            2 => self.greet(which, said, "control"),
            3 => self.greet(which, said, "data"),
            4 | 5 => {
                // ⟨kind, log, body⟩, with the right lengths and checksums.
                let mut frame = vec![0; CONTROL_PREFIX];
                let (head, body) = said.split_at(said.len().min(2));
                frame[5] = head.first().map_or(1, |kind| kind % KINDS);
                frame[8] = head.get(1).map_or(0, |log| log % 4);
                frame.extend_from_slice(body);
                let frame = control_frames::sealed(&frame).expect("long enough");
                self.say(which, &frame);
            }
            6 | 7 => {
                let mut frame = said.to_vec();
                frame.resize(frame.len().max(DATA_HEADER), 0);
                frame[5] %= 4;
                frame[6] %= 4;
                frame[8] %= 4;
                frame[9..12].fill(0);
                let frame = data_frames::sealed(&frame).expect("long enough");
                self.say(which, &frame);
            }
            8 => {
                if let Some(conn) = self.open.remove(&which) {
                    let flush = said.is_empty();
                    self.give(Op::Close { conn, flush });
                }
            }
            _ => self.pass(MS * (1 << (said.len() % 12))),
        }
        self.pass(MS);
    }

    /// As a peer of this cluster would, or nearly. Most say at once what their disk has been through, and that is
    /// nothing; the others leave it to what follows.
    fn greet(&mut self, which: u8, said: &[u8], kind: &str) {
        let at = |index: usize| said.get(index).copied().unwrap_or(0);
        let (from, log) = (2 + u32::from(at(0) % 3), at(1) % 4);
        let incarnation = 1 + u32::from(at(2) % 2);
        let speaks = [Speaks::THIS, Speaks::UNSAID][usize::from(at(2) / 2 % 2)];
        let line = format!(
            "logberg/1 peer kind={kind} log={log} cluster={} from={from} to=1 speaks={speaks} \
             disk={from:032x} incarnation={incarnation} nonce={NONCE} address=node{from}:7000\n",
            self.cluster,
        );
        self.say(which, line.as_bytes());
        self.pass(MS);
        if kind != "control" {
            return;
        }
        if at(2) / 4 % 2 == 0 {
            let own = PastStart {
                incarnation,
                nonce: NONCE,
            };
            let told = Told {
                starts: vec![own],
                ..Told::default()
            };
            let frame = encode_control(version::PASTS, &Frame::Past(told));
            self.say(which, &frame);
            self.pass(20 * MS); // Until that is written.
        }
        if said.len() > 3 {
            self.say(which, &said[3..]);
        }
    }

    fn say(&mut self, which: u8, bytes: &[u8]) {
        let conn = match self.open.get(&which) {
            Some(conn) => *conn,
            None => {
                self.conns += 1;
                let conn = ConnId(2 * self.conns);
                let address = ADDRESS.to_owned();
                self.give(Op::Connect { conn, address });
                let world = &mut self.world;
                self.hand.receive(world, conn, RECEIVE_BYTES, false);
                self.open.insert(which, conn);
                conn
            }
        };
        if !bytes.is_empty() {
            self.hand.send(&mut self.world, conn, bytes);
        }
    }

    fn give(&mut self, op: Op) {
        self.hand.give(&mut self.world, op);
    }

    /// Time passes, in which everything that comes is received.
    fn pass(&mut self, duration: Duration) {
        self.world.run_for(duration, 100_000);
        for completion in self.hand.heard() {
            let Completion::Received { conn, result, .. } = completion else {
                continue;
            };
            if matches!(result, Ok(received) if !received.end) {
                let world = &mut self.world;
                self.hand.receive(world, conn, RECEIVE_BYTES, false);
            }
        }
        let node = self.world.machine::<Node>(self.node);
        node.expect("nobody can stop it").check_invariants();
    }

    /// The node still answers, whatever was said.
    fn end(mut self) {
        assert_eq!(self.world.status(self.node), Status::Running);
        for (_, conn) in std::mem::take(&mut self.open) {
            self.give(Op::Close { conn, flush: false });
        }
        self.pass(MS);
        let answers = self.is_granted("logberg/1 status\n");
        assert!(answers, "it answers nothing any more");
    }
}

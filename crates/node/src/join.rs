//! A new node asks the cluster for its id.
//!
//! The directory knows nodes by their disk id, so asking again after a crash gives the same id.

use formats::{ClusterId, hex, parse_hex16};
use ops::{BLOCK, Buffer, ConnId};
use paxos::{NodeId, Time};
use replica::{Env, Purpose};
use serde::{Deserialize, Serialize};
use wire::Request;

use crate::directory::{DIRECTORY, DIRECTORY_NAME, Directory};
use crate::node::Node;

pub(crate) struct Join {
    servers: Vec<String>,
    turn: usize,
    /// Where the last answer sent us.
    hint: Option<String>,
    conn: Option<ConnId>,
    retry_at: Time,
    received: Vec<u8>,
    answer: Option<Answer>,
    deadline: Time,
}

/// What a joining node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    cluster: String,
    node: u32,
    nodes: Vec<Known>,
    /// The directory's first configuration.
    members: Vec<(u32, u32)>,
    /// What every disk is written in.
    #[serde(default = "first_version")]
    version: u8,
}

fn first_version() -> u8 {
    formats::version::FIRST
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    id: u32,
    address: String,
}

const RETRY: u64 = 300_000;
const ANSWER_TIMEOUT: u64 = 6_000_000;

pub(crate) fn answer(
    env: &Env,
    directory: &Directory,
    id: NodeId,
    members: Vec<(u32, u32)>,
) -> Vec<u8> {
    let nodes = directory
        .nodes
        .iter()
        .map(|(n, e)| Known {
            id: n.0,
            address: e.address.clone(),
        })
        .collect();
    let answer = Answer {
        cluster: env.own.identity.cluster.to_string(),
        node: id.0,
        nodes,
        members,
        version: directory.versions.prepared,
    };
    let json = serde_json::to_string(&answer).unwrap_or_default();
    format!("ok {json}\n").into_bytes()
}

impl Join {
    pub(crate) fn new(servers: Vec<String>) -> Join {
        Join {
            servers,
            turn: 0,
            hint: None,
            conn: None,
            retry_at: Time(0),
            received: Vec::new(),
            answer: None,
            deadline: Time(0),
        }
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.answer.is_none()
            && match self.conn {
                None => self.retry_at <= now,
                Some(_) => self.deadline <= now,
            }
    }
}

impl Node {
    pub(crate) fn dial_join(&mut self) {
        let Some(join) = &mut self.join else { return };
        if let Some(conn) = join.conn.take() {
            self.env.close(conn);
        }
        let address = join.hint.take().unwrap_or_else(|| {
            join.turn += 1;
            join.servers[(join.turn - 1) % join.servers.len()].clone()
        });
        join.received.clear();
        join.deadline = Time(self.env.now.0 + ANSWER_TIMEOUT);
        join.conn = Some(self.env.connect(address, Purpose::JoinOut));
    }

    pub(crate) fn on_join_connected(&mut self, conn: ConnId, result: std::io::Result<()>) {
        if let Err(error) = result {
            return self.join_failed(conn, &error.to_string());
        }
        let line = Request::new("join")
            .key("address", &self.env.own.advertise)
            .key("disk", hex(&self.env.own.identity.disk.0))
            .key("speaks", self.env.own.speaks)
            .encode();
        self.env.send_bytes(conn, &line);
        self.env
            .receive(conn, Buffer::new(16 * BLOCK), 0..16 * BLOCK, false);
    }

    pub(crate) fn on_join_received(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(join) = self.join.as_mut().filter(|j| j.conn == Some(conn)) else {
            return;
        };
        join.received.extend_from_slice(bytes);
        let Some(end) = join.received.iter().position(|b| *b == b'\n') else {
            if bytes.is_empty() || join.received.len() > 1 << 20 {
                return self.join_failed(conn, "the connection ended without an answer");
            }
            return self
                .env
                .receive(conn, Buffer::new(16 * BLOCK), 0..16 * BLOCK, false);
        };
        let line = String::from_utf8_lossy(&join.received[..end]).to_string();
        let Some(json) = line.strip_prefix("ok ") else {
            let hint = line
                .split(' ')
                .find_map(|w| w.trim_end_matches(':').strip_prefix("leader="));
            join.hint = hint.map(str::to_string);
            let quick = join.hint.is_some();
            self.join_failed(conn, &line);
            if quick {
                self.dial_join();
            }
            return;
        };
        match serde_json::from_str::<Answer>(json) {
            Ok(answer) => self.on_join_answer(conn, answer),
            Err(error) => self.join_failed(conn, &error.to_string()),
        }
    }

    fn join_failed(&mut self, conn: ConnId, why: &str) {
        self.env.close(conn);
        if let Some(join) = self.join.as_mut().filter(|j| j.conn == Some(conn)) {
            join.conn = None;
            join.retry_at = Time(self.env.now.0 + RETRY);
            tracing::warn!(why, "could not join yet; trying on");
        }
    }

    fn on_join_answer(&mut self, conn: ConnId, answer: Answer) {
        if let Err(unspoken) = self.env.own.speaks.check(u32::from(answer.version)) {
            return self.join_failed(
                conn,
                &format!("the cluster's disks are written in {unspoken}"),
            );
        }
        let Some(cluster) = parse_hex16(&answer.cluster).filter(|_| answer.node != 0) else {
            return self.join_failed(conn, "the answer names no cluster or node");
        };
        self.env.close(conn);
        tracing::info!(node = answer.node, cluster = answer.cluster, "joined");
        self.env.own.identity.cluster = ClusterId(cluster);
        self.env.own.identity.node = NodeId(answer.node);
        self.manifest.identity = self.env.own.identity;
        self.manifest.version = self.manifest.version.max(answer.version);
        for known in &answer.nodes {
            self.guests.introduced.insert(NodeId(known.id));
            self.learn_address(NodeId(known.id), &known.address);
        }
        if let Some(join) = &mut self.join {
            join.answer = Some(answer);
        }
        self.save_manifest();
    }

    /// The manifest knows our id: host the directory, and through it everything else.
    pub(crate) fn on_joined_durably(&mut self) {
        if let Some(answer) = self.join.take().and_then(|j| j.answer) {
            self.create_log(DIRECTORY, DIRECTORY_NAME, &answer.members, &[], None);
        }
    }
}

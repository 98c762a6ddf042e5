//! A new node asks the cluster for its id.
//!
//! The directory knows nodes by their disk id, so asking again after a crash gives the same id.
//!
//! ```text
//!   --join A ──► A: "ask B, who leads; B and C are there too" ──► B ──► its id
//!                A is gone, or was removed: B and C are asked in turn with it
//! ```
//!
//! Addresses that servers tell are kept while this process runs, and not on disk: a node without an id belongs to no
//! cluster yet, and whoever starts it again with another `--join` means what he says.

use std::collections::VecDeque;

use formats::{ClusterId, hex, parse_hex16};
use ops::{BLOCK, Buffer, ConnId};
use paxos::{NodeId, Time};
use replica::{Env, Purpose};
use serde::{Deserialize, Serialize};
use wire::{Refusal, Request};

use crate::directory::{DIRECTORY, DIRECTORY_NAME, Directory};
use crate::node::Node;
use crate::peers::places::ADDRESS_BYTES_MAX;
use crate::peers::said_key;

pub(crate) struct Join {
    servers: Vec<String>,
    /// Other nodes of the cluster, as those that were asked said.
    told: VecDeque<String>,
    turn: usize,
    /// Where the last answer sent us, and how many did so one after the other.
    hint: Option<String>,
    hints: u32,
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
/// Hints that are followed at once: two nodes that point at each other are asked again after a pause.
const HINTS_MAX: u32 = 3;
/// Nodes that a refusal names.
const TOLD_AT_ONCE: usize = 8;
/// Addresses that a joining node keeps in mind.
const TOLD_MAX: usize = 32;

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
            told: VecDeque::new(),
            turn: 0,
            hint: None,
            hints: 0,
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

    /// The id is given, and not yet on disk.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Where the last answer sent us, or else those that the operator named and those that were told of, in turn.
    fn next_server(&mut self) -> String {
        if let Some(hint) = self.hint.take() {
            return hint;
        }
        self.hints = 0;
        let at = self.turn % (self.servers.len() + self.told.len());
        self.turn += 1;
        let told = |at: usize| &self.told[at - self.servers.len()];
        self.servers.get(at).unwrap_or_else(|| told(at)).clone()
    }

    fn on_told(&mut self, address: &str) {
        let is_address = address.contains(':') && address.len() <= ADDRESS_BYTES_MAX;
        let mut known = self.servers.iter().chain(&self.told);
        if is_address && !known.any(|known| known == address) {
            self.told.push_back(address.to_owned());
            if self.told.len() > TOLD_MAX {
                self.told.pop_front();
            }
        }
    }

    /// The refusal names others who could be asked.
    fn heed(&mut self, refusal: &str) {
        let nodes = said_key(refusal, "nodes=").unwrap_or_default();
        let hint = said_key(refusal, "leader=");
        for address in nodes.split(',').chain(hint) {
            self.on_told(address);
        }
        self.hints += 1;
        self.hint = hint.map(str::to_owned).filter(|_| self.hints <= HINTS_MAX);
    }
}

impl Node {
    /// A refusal for who wants to join: with where else to ask. ‡ Whom he was told to ask may be gone for good, and know
    /// those who came after.
    pub(crate) fn naming_others(&self, refusal: Refusal) -> Refusal {
        let own = self.env.own.identity.node;
        let alive = |id: &NodeId| self.peers.peers.get(id).is_some_and(|peer| peer.alive);
        let known = self.env.peers.addresses.iter();
        let mut others: Vec<(&NodeId, &String)> = known
            .filter(|(id, _)| **id != own && self.directory.nodes.contains_key(id))
            .collect();
        others.sort_by_key(|(id, _)| !alive(id));
        let others = others.into_iter().take(TOLD_AT_ONCE);
        let others: Vec<&str> = others.map(|(_, address)| address.as_str()).collect();
        match others.is_empty() {
            true => refusal,
            false => refusal.key("nodes", others.join(",")),
        }
    }

    pub(crate) fn dial_join(&mut self) {
        let Some(join) = &mut self.join else { return };
        if let Some(conn) = join.conn.take() {
            self.env.close(conn);
        }
        let address = join.next_server();
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
            join.heed(line.strip_prefix("error ").unwrap_or(&line));
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
        self.save_new_id();
    }

    /// The manifest knows our id: host the directory, and through it everything else.
    pub(crate) fn on_joined_durably(&mut self) {
        if let Some(answer) = self.join.take().and_then(|j| j.answer) {
            self.create_log(DIRECTORY, DIRECTORY_NAME, &answer.members, &[], None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(join: &mut Join, times: usize) -> Vec<String> {
        (0..times).map(|_| join.next_server()).collect()
    }

    #[test]
    fn who_joins_asks_those_that_he_was_told_of_too() {
        let mut join = Join::new(vec!["a:1".into(), "b:1".into()]);
        join.heed("shutting-down nodes=b:1,c:1,d:1: this node was removed; ask nodes=e:1");
        join.heed("not-leader nodes=d:1,nowhere: ask again");
        assert_eq!(asked(&mut join, 5), ["a:1", "b:1", "c:1", "d:1", "a:1"]);
        for number in 0..100 {
            join.heed(&format!("no-quorum nodes=f:{number}: no quorum"));
        }
        assert_eq!(join.told.len(), TOLD_MAX);
    }

    #[test]
    fn two_nodes_that_point_at_each_other_are_not_followed_for_ever() {
        let mut join = Join::new(vec!["a:1".into()]);
        let mut followed = 0;
        for other in ["b:1", "a:1"].into_iter().cycle().take(20) {
            join.next_server();
            join.heed(&format!("not-leader leader={other}: ask there"));
            followed += usize::from(join.hint.is_some());
        }
        assert!(followed <= 15, "{followed} of 20");
        join.heed("not-leader: no leader");
        assert_eq!(join.hint, None);
    }
}

//! A new node asks the cluster for its id.
//!
//! The directory knows nodes by their disk id, so asking again after a crash gives the same id.
//!
//! ```text
//!   --join A ──► A: "ask B, who leads; B and C are there too" ──► B ──► its id
//!                A is gone, or was removed: B and C are asked in turn with it
//! ```
//!
//! Addresses that servers tell are kept while this process runs, and not on disk: a node without an id
//! belongs to no cluster yet, and an operator who starts it again with another `--join` means what he says.

use std::collections::VecDeque;
use std::time::Duration;

use access::Token;
use formats::{ClusterId, hex, parse_hex16};
use ops::{BLOCK, Buffer, ConnId};
use paxos::{NodeId, Time};
use replica::{Env, Purpose};
use serde::{Deserialize, Serialize};
use wire::{Refusal, Request, auth};

use crate::directory::Directory;
use crate::peers::Peers;
use crate::peers::places::ADDRESS_BYTES_MAX;
use crate::peers::said_key;

pub(crate) struct Join {
    servers: Vec<String>,
    /// Shown to each of them.
    token: Option<Token>,
    /// The node in whose place it comes.
    replaces: Option<u32>,
    /// The other nodes of the cluster, as the servers that were asked named them.
    told: VecDeque<String>,
    turn: usize,
    /// The server to which the last answer sent us, and the number of such answers one after the other.
    hint: Option<String>,
    hints: u32,
    conn: Option<ConnId>,
    retry_at: Time,
    received: Vec<u8>,
    given: Option<Given>,
    deadline: Time,
}

/// A node's id, and the state that it begins with.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub nodes: Vec<(NodeId, String)>,
    /// The directory's first configuration.
    pub members: Vec<(u32, u32)>,
    /// The version in which every disk is written.
    pub version: u8,
}

/// The answer for a joining node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    cluster: String,
    node: u32,
    nodes: Vec<Known>,
    /// The directory's first configuration.
    members: Vec<(u32, u32)>,
    /// The version in which every disk is written.
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

const RETRY: Duration = Duration::from_millis(300);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// The most hints that are followed at once: two nodes that point at each other are asked again after a pause.
const HINTS_MAX: u32 = 3;
/// The most nodes that a refusal names.
const TOLD_AT_ONCE: usize = 8;
/// The most addresses that a joining node keeps in mind.
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
    pub(crate) fn new(servers: Vec<String>, token: Option<Token>, replaces: Option<u32>) -> Join {
        Join {
            servers,
            token,
            replaces,
            told: VecDeque::new(),
            turn: 0,
            hint: None,
            hints: 0,
            conn: None,
            retry_at: Time::ZERO,
            received: Vec::new(),
            given: None,
            deadline: Time::ZERO,
        }
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.given.is_none()
            && match self.conn {
                None => self.retry_at <= now,
                Some(_) => self.deadline <= now,
            }
    }

    /// The given id, while it is not yet on disk.
    pub(crate) fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    /// The next server: the one to which the last answer sent us, or else those that the operator or a server
    /// named, in turn.
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

    /// Remembers the others that the refusal names.
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

impl Join {
    pub fn dial(&mut self, env: &mut Env) {
        if let Some(conn) = self.conn.take() {
            env.close(conn);
        }
        let address = self.next_server();
        self.received.clear();
        self.deadline = env.now + ANSWER_TIMEOUT;
        self.conn = Some(env.connect(address, Purpose::JoinOut));
    }

    pub fn on_connected(&mut self, env: &mut Env, conn: ConnId, result: std::io::Result<()>) {
        if let Err(error) = result {
            return self.fail(env, conn, &error.to_string());
        }
        let line = Request::new("join")
            .key("address", &env.own.advertise)
            .key("disk", hex(&env.own.identity.disk.0))
            .key("speaks", env.own.speaks);
        let line = match self.replaces {
            Some(old) => line.key("replaces", old).encode(),
            None => line.encode(),
        };
        let shown = self.token.as_ref().map(|token| auth::line(&token.reveal()));
        let shown = shown.unwrap_or_default();
        env.send_bytes(conn, &[shown.as_bytes(), &line].concat());
        env.receive(conn, Buffer::new(16 * BLOCK), 0..16 * BLOCK, false);
    }

    /// Takes an answer. True once the id is given.
    pub fn on_received(&mut self, env: &mut Env, conn: ConnId, bytes: &[u8]) -> bool {
        if self.conn != Some(conn) {
            return false;
        }
        self.received.extend_from_slice(bytes);
        let Some(end) = self.received.iter().position(|b| *b == b'\n') else {
            if bytes.is_empty() || self.received.len() > 1 << 20 {
                self.fail(env, conn, "the connection ended without an answer");
            } else {
                env.receive(conn, Buffer::new(16 * BLOCK), 0..16 * BLOCK, false);
            }
            return false;
        };
        let line = String::from_utf8_lossy(&self.received[..end]).to_string();
        let Some(json) = line.strip_prefix("ok ") else {
            self.heed(line.strip_prefix("error ").unwrap_or(&line));
            let quick = self.hint.is_some();
            self.fail(env, conn, &line);
            if quick {
                self.dial(env);
            }
            return false;
        };
        let answer = serde_json::from_str::<Answer>(json).map_err(|error| error.to_string());
        match answer.and_then(|answer| Given::check(env, answer)) {
            Ok(given) => {
                env.close(conn);
                self.given = Some(given);
                true
            }
            Err(why) => {
                self.fail(env, conn, &why);
                false
            }
        }
    }

    fn fail(&mut self, env: &mut Env, conn: ConnId, why: &str) {
        env.close(conn);
        if self.conn == Some(conn) {
            self.conn = None;
            self.retry_at = env.now + RETRY;
            tracing::warn!(why, "could not join yet; trying on");
        }
    }
}

impl Given {
    fn check(env: &Env, answer: Answer) -> Result<Given, String> {
        if let Err(unspoken) = env.own.speaks.check(u32::from(answer.version)) {
            return Err(format!("the cluster's disks are written in {unspoken}"));
        }
        let cluster = parse_hex16(&answer.cluster).filter(|_| answer.node != 0);
        let cluster = cluster.ok_or("the answer names no cluster or node")?;
        tracing::info!(node = answer.node, cluster = answer.cluster, "joined");
        let nodes = answer.nodes.into_iter();
        Ok(Given {
            cluster: ClusterId(cluster),
            node: NodeId(answer.node),
            nodes: nodes
                .map(|known| (NodeId(known.id), known.address))
                .collect(),
            members: answer.members,
            version: answer.version,
        })
    }
}

/// A refusal for a node that wants to join, with others to ask. ‡ Nodes that it was told to ask may be gone
/// for good, and know those that came after.
pub(crate) fn naming_others(
    refusal: Refusal,
    env: &Env,
    peers: &Peers,
    directory: &Directory,
) -> Refusal {
    let own = env.own.identity.node;
    let known = env.peers.addresses.iter();
    let mut others: Vec<(&NodeId, &String)> = known
        .filter(|(id, _)| **id != own && directory.nodes.contains_key(id))
        .collect();
    others.sort_by_key(|(id, _)| !peers.is_alive(**id));
    let others = others.into_iter().take(TOLD_AT_ONCE);
    let others: Vec<&str> = others.map(|(_, address)| address.as_str()).collect();
    match others.is_empty() {
        true => refusal,
        false => refusal.key("nodes", others.join(",")),
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
        let mut join = Join::new(vec!["a:1".into(), "b:1".into()], None, None);
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
        let mut join = Join::new(vec!["a:1".into()], None, None);
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

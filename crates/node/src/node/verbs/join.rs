//! `join`: a node's id, and its address in the directory.

use paxos::mutation::{self, Mutation};
use paxos::{Action, NodeId, Slot};

use formats::parse_hex16;
use formats::version::Speaks;
use wire::Refusal;

use super::awaiting::{Answer, Commands, Want};
use crate::cluster::directory_members;
use crate::directory::tokens::By;
use crate::directory::{Command, DIRECTORY};
use crate::greeting::Caller;
use crate::node::Node;
use crate::peers::places::check_address;

pub(super) struct JoinCluster {
    pub address: String,
    pub disk: String,
    pub newest: u8,
    /// It asks with this token, which is good once.
    pub token: Option<String>,
    /// The slot of the id that was asked for.
    pub slot: Option<Slot>,
    pub proposed: bool,
}

impl Want for JoinCluster {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_join(self, commands)
    }

    fn on_node_id(&mut self, slot: Slot, id: NodeId) -> Option<Command> {
        if self.slot != Some(slot) {
            return None;
        }
        self.proposed = true;
        Some(self.entry(id))
    }

    fn on_late(&self, node: &Node, refusal: Refusal) -> Refusal {
        node.naming_others(refusal)
    }

    fn on_deposed(&self, node: &Node, refusal: Refusal) -> Refusal {
        node.naming_others(refusal)
    }
}

impl Node {
    /// `join address=HOST:PORT disk=… [speaks=…]`, and the additional words of a newer node.
    pub(super) fn join_cluster(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        let address = request.require("address")?.to_string();
        check_address(&address)?;
        let disk = request.require("disk")?;
        if parse_hex16(disk).is_none() || !address.contains(':') {
            return Err(Refusal::new(
                "bad-request",
                "join needs address=HOST:PORT and disk=32 hex digits",
            ));
        }
        let speaks = request.parsed("speaks")?.unwrap_or(Speaks::UNSAID);
        let needed = self.cluster.directory.versions.prepared;
        self.cluster
            .check_speaks(&self.env, "the node that joins", speaks, needed)?;
        let join = JoinCluster {
            address,
            disk: disk.to_string(),
            newest: speaks.newest(),
            token: self.token_for_one(caller),
            slot: None,
            proposed: false,
        };
        if let Some(refusal) = self.has_let_in_another(&join) {
            let who = self.gate.who(caller.conn).principal().to_string();
            self.on_refused(&who, caller, &refusal);
            return Err(refusal);
        }
        let awaited = self.await_directory(caller, join);
        awaited.map_err(|refusal| self.naming_others(refusal))
    }

    /// The token of whoever asks, if it is good once.
    fn token_for_one(&self, caller: &Caller) -> Option<String> {
        let By::Token(name) = self.gate.who(caller.conn).by() else {
            return None;
        };
        let entry = self.cluster.directory.rights.tokens.get(&name)?;
        entry.once.then_some(name)
    }

    fn has_let_in_another(&self, join: &JoinCluster) -> Option<Refusal> {
        let name = join.token.as_ref()?;
        // Of one that is gone the connection is, too.
        let entry = self.cluster.directory.rights.tokens.get(name)?;
        let joined = entry.joined.as_ref();
        let joined = joined.filter(|joined| joined.disk != join.disk)?;
        let node = joined.node;
        let sentence = format!(
            "token `{name}` is good for one node, and node {node} has joined with it: make another one (logberg token create NAME --allow 'join on cluster' --once)"
        );
        Some(Refusal::new("forbidden", sentence)).filter(|_| !mutation::is(Mutation::OnceLetsInTwo))
    }

    fn answer_join(&mut self, join: &mut JoinCluster, commands: &mut Commands) -> Answer {
        if let Some(refusal) = self.has_let_in_another(join) {
            return Answer::Line(refusal.encode());
        }
        let known = self.cluster.directory.node_by_disk(&join.disk).or_else(|| {
            let keeps = mutation::is(Mutation::EmptyDiskKeepsItsId);
            let mut nodes = self.cluster.directory.nodes.iter().filter(|_| keeps);
            nodes.find_map(|(id, e)| (e.address == join.address).then_some(*id))
        });
        let Some(id) = known else {
            if join.slot.is_none() && self.logs.can_direct() {
                let Some(log) = self.logs.get_mut(&DIRECTORY) else {
                    return Answer::Wait;
                };
                join.slot = log.propose(&mut self.env, Action::GenerateNodeId).ok();
                self.due.touch(DIRECTORY);
            }
            return Answer::Wait;
        };
        // ‡ A node says itself where it is, once it runs, and proves it. A line that names its disk may be
        // anybody's.
        let is_known = self.cluster.directory.nodes[&id].disk == join.disk;
        if is_known || self.cluster.directory.nodes[&id].address == join.address {
            let members = directory_members();
            let answer = crate::join::answer(&self.env, &self.cluster.directory, id, members);
            return Answer::Line(answer);
        }
        if !join.proposed && self.logs.can_direct() {
            join.proposed = true;
            commands.push(join.entry(id));
        }
        Answer::Wait
    }
}

impl JoinCluster {
    fn entry(&self, id: NodeId) -> Command {
        Command::AddNode {
            id: id.0,
            address: self.address.clone(),
            disk: self.disk.clone(),
            newest: self.newest,
            by_hand: false,
            token: self.token.clone(),
        }
    }
}

//! `join`: a node's id, and its address in the directory.

use paxos::mutation::{self, Mutation};
use paxos::{Action, NodeId, Slot};

use formats::parse_hex16;
use formats::version::Speaks;
use wire::Refusal;

use super::awaiting::{Answer, Commands, Want};
use crate::cluster::directory_members;
use crate::directory::{Command, DIRECTORY};
use crate::greeting::Caller;
use crate::node::Node;
use crate::peers::places::check_address;

pub(super) struct JoinCluster {
    pub address: String,
    pub disk: String,
    pub newest: u8,
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
            slot: None,
            proposed: false,
        };
        let awaited = self.await_directory(caller, join);
        awaited.map_err(|refusal| self.naming_others(refusal))
    }

    fn answer_join(&mut self, join: &mut JoinCluster, commands: &mut Commands) -> Answer {
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
        }
    }
}

//! `join`: a node's id, and its address in the directory.

use paxos::mutation::{self, Mutation};
use paxos::{Action, NodeId, Slot};

use super::{Answer, Commands, directory_members};
use crate::directory::{Command, DIRECTORY};
use crate::node::{Node, Wants};

pub(crate) struct JoinCluster {
    pub address: String,
    pub disk: String,
    pub newest: u8,
    /// Of the id that was asked for.
    pub slot: Option<Slot>,
    pub proposed: bool,
}

impl Node {
    pub(super) fn answer_join(
        &mut self,
        join: &mut JoinCluster,
        commands: &mut Commands,
    ) -> Answer {
        let known = self.directory.node_by_disk(&join.disk).or_else(|| {
            let keeps = mutation::is(Mutation::EmptyDiskKeepsItsId);
            let mut nodes = self.directory.nodes.iter().filter(|_| keeps);
            nodes.find_map(|(id, e)| (e.address == join.address).then_some(*id))
        });
        let Some(id) = known else {
            if join.slot.is_none() && self.can_direct() {
                let Some(log) = self.logs.get_mut(&DIRECTORY) else {
                    return Answer::Wait;
                };
                join.slot = log.propose(&mut self.env, Action::GenerateNodeId).ok();
                self.due.touch(DIRECTORY);
            }
            return Answer::Wait;
        };
        // ‡ Where a node is it says itself, once it runs, and proves it. A line that names its disk is anybody's.
        let is_known = self.directory.nodes[&id].disk == join.disk;
        if is_known || self.directory.nodes[&id].address == join.address {
            let members = directory_members();
            let answer = crate::join::answer(&self.env, &self.directory, id, members);
            return Answer::Line(answer);
        }
        if !join.proposed && self.can_direct() {
            join.proposed = true;
            commands.push(join.entry(id));
        }
        Answer::Wait
    }

    pub(super) fn on_node_id(&mut self, slot: Slot, id: NodeId) {
        let command = self.requests.iter_mut().find_map(|r| match &mut r.wants {
            Wants::Join(join) if join.slot == Some(slot) => {
                join.proposed = true;
                Some(join.entry(id))
            }
            _ => None,
        });
        if let Some(command) = command {
            self.propose_command(&command);
        }
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

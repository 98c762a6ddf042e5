//! `create-log`.

use paxos::ChangeRefused;

use crate::directory::{self, Command, DIRECTORY};
use crate::line::Refusal;
use crate::node::Node;
use crate::retention::Retention;

#[derive(Default)]
pub(crate) struct CreateLog {
    pub name: String,
    /// The nodes that host it; empty for all.
    pub hosts: Vec<u32>,
    pub auxiliary: Vec<u32>,
    pub retention: Retention,
    pub proposed: bool,
}

impl Node {
    pub(super) fn answer_create_log(
        &mut self,
        create: &mut CreateLog,
        commands: &mut Vec<Command>,
    ) -> Option<Vec<u8>> {
        let name = &create.name;
        let own = self.env.identity.node;
        match self.directory.log_by_name(name) {
            // Whoever asks next finds it here; that it has no leader yet is no error to them.
            Some(id)
                if create.proposed
                    && self.directory.hosts(id, own)
                    && !self.logs.contains_key(&id) =>
            {
                None
            }
            Some(id) if create.proposed => {
                Some(format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0).into_bytes())
            }
            Some(_) => {
                Some(Refusal::new("exists", format!("a log named {name} exists already")).encode())
            }
            // A member that leaves since made nothing of it.
            None if create.proposed => self.check_members(create).err().map(|why| why.encode()),
            None if !self.can_direct() => None,
            None => {
                create.proposed = true;
                match self.check_members(create) {
                    Ok(members) => commands.push(Command::CreateLog {
                        name: name.clone(),
                        auxiliary: match create.auxiliary.is_empty() {
                            true => self.directory.auxiliaries_of(&members),
                            false => create.auxiliary.clone(),
                        },
                        members,
                        hosts: create.hosts.clone(),
                        retention: create.retention,
                    }),
                    Err(refusal) => return Some(refusal.encode()),
                }
                None
            }
        }
    }

    /// What the log's configuration begins with.
    fn check_members(&self, create: &CreateLog) -> Result<Vec<(u32, u32)>, Refusal> {
        let members = &self.directory.members;
        let nodes = self.directory.nodes.keys().map(|node| node.0);
        let known: Vec<u32> = nodes.filter(|node| !members.leaves(*node)).collect();
        let stranger = create.hosts.iter();
        if let Some(stranger) = stranger.copied().find(|node| !known.contains(node)) {
            let known = listed(&mut known.into_iter());
            return Err(Refusal::new(
                "bad-request",
                format!("there is no node {stranger}, or it leaves: choose members among {known}"),
            ));
        }
        let members: Vec<(u32, u32)> = match create.hosts.is_empty() {
            true => {
                // A log that begins holds nothing that they would have to be filled with first.
                let wanted = self.directory.members.wanted.get(&DIRECTORY.0);
                let weights = wanted.into_iter().flat_map(|wanted| &wanted.weights);
                weights.map(|(node, weight)| (*node, *weight)).collect()
            }
            false => create.hosts.iter().map(|node| (*node, 1)).collect(),
        };
        directory::configuration(&members, &create.auxiliary)
            .map_err(|why| refuse_auxiliaries(why, &create.auxiliary, &members))?;
        Ok(members)
    }
}

/// Why a log cannot have these auxiliaries, and what would be possible.
fn refuse_auxiliaries(why: ChangeRefused, auxiliary: &[u32], members: &[(u32, u32)]) -> Refusal {
    let all = listed(&mut members.iter().map(|(node, _)| *node));
    let sentence = match why {
        ChangeRefused::UnknownNode(node) => {
            format!("node {node} is no member: choose auxiliaries among {all}")
        }
        _ => format!(
            "auxiliaries {} of {all} could decide by themselves: choose fewer",
            listed(&mut auxiliary.iter().copied())
        ),
    };
    Refusal::new("bad-request", sentence)
}

fn listed(nodes: &mut dyn Iterator<Item = u32>) -> String {
    let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
    nodes.join(", ")
}

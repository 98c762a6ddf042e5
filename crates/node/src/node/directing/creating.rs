//! `create-log`.

use paxos::ChangeRefused;

use crate::directory::{self, Command, DIRECTORY};
use crate::line::Refusal;
use crate::node::Node;

pub(crate) struct CreateLog {
    pub name: String,
    pub auxiliary: Vec<u32>,
    pub proposed: bool,
}

impl Node {
    pub(super) fn answer_create_log(
        &mut self,
        create: &mut CreateLog,
        commands: &mut Vec<Command>,
    ) -> Option<Vec<u8>> {
        let name = &create.name;
        match self.directory.log_by_name(name) {
            // Whoever asks next finds it here; that it has no leader yet is no error to them.
            Some(id) if create.proposed && !self.logs.contains_key(&id) => None,
            Some(id) if create.proposed => {
                Some(format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0).into_bytes())
            }
            Some(_) => {
                Some(Refusal::new("exists", format!("a log named {name} exists already")).encode())
            }
            None if create.proposed || !self.can_direct() => None,
            None => {
                create.proposed = true;
                let log = self.logs.get(&DIRECTORY)?;
                let members = log.engine.state().configuration.members();
                let members: Vec<(u32, u32)> =
                    members.iter().map(|m| (m.node.0, m.weight)).collect();
                if let Err(why) = directory::configuration(&members, &create.auxiliary) {
                    return Some(refuse_auxiliaries(why, &create.auxiliary, &members).encode());
                }
                commands.push(Command::CreateLog {
                    name: name.clone(),
                    members,
                    auxiliary: create.auxiliary.clone(),
                });
                None
            }
        }
    }
}

/// Why a log cannot have these auxiliaries, and what would be possible.
fn refuse_auxiliaries(why: ChangeRefused, auxiliary: &[u32], members: &[(u32, u32)]) -> Refusal {
    let listed = |nodes: &mut dyn Iterator<Item = u32>| {
        let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
        nodes.join(", ")
    };
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

//! `change-members`.

use std::collections::{BTreeMap, BTreeSet};

use paxos::Configuration;

use crate::directory::Command;
use crate::line::Refusal;
use crate::membership::change::{Ask, View, Worked};
use crate::node::Node;

pub(crate) struct ChangeMembers {
    pub ask: Ask,
    /// Worked out, and proposed.
    pub proposed: Option<Worked>,
}

impl Node {
    pub(super) fn answer_change(
        &mut self,
        change: &mut ChangeMembers,
        commands: &mut Vec<Command>,
    ) -> Option<Vec<u8>> {
        if !self.can_direct() {
            return None;
        }
        let worked = self.work_out(&change.ask);
        if let Some(before) = &change.proposed {
            let version = self.directory.members.version;
            return match worked {
                Ok(now) if now.nothing => Some(answer(before)),
                _ if version == before.version => None,
                _ => Some(overtaken()),
            };
        }
        match worked {
            Err(refusal) => Some(refusal.encode()),
            Ok(worked) if change.ask.plan || worked.nothing => Some(answer(&worked)),
            Ok(mut worked) => {
                commands.extend(worked.command.take());
                change.proposed = Some(worked);
                None
            }
        }
    }

    fn work_out(&self, ask: &Ask) -> Result<Worked, Refusal> {
        let own = self.env.identity.node.0;
        let peers = self.peers.peers.iter().filter(|(_, peer)| peer.alive);
        let alive: BTreeSet<u32> = peers.map(|(node, _)| node.0).chain([own]).collect();
        let logs = self.logs.values();
        let configurations: BTreeMap<u32, Configuration> = logs
            .map(|log| (log.id.0, log.engine.state().configuration.clone()))
            .collect();
        ask.work_out(&View {
            directory: &self.directory,
            alive: &alive,
            configurations: &configurations,
        })
    }
}

fn answer(worked: &Worked) -> Vec<u8> {
    crate::status::line(worked).into_bytes()
}

fn overtaken() -> Vec<u8> {
    let sentence =
        "somebody else changed the members at the same time: look at the new plan, and ask again";
    Refusal::new("refused", sentence).encode()
}

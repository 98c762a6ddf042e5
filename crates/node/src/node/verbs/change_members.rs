//! `change-members`.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use paxos::Configuration;
use wire::Refusal;

use super::awaiting::{Answer, Commands, Wants};
use crate::greeting::Caller;
use crate::membership::change::{Ask, View, Worked};
use crate::node::Node;

pub(crate) struct ChangeMembers {
    pub ask: Ask,
    /// Worked out, and proposed.
    pub proposed: Option<Worked>,
}

impl Node {
    /// `change-members …`
    pub(super) fn change_members(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        let ask = Ask::parse(request)?;
        let proposed = None;
        self.await_directory(*conn, Wants::ChangeMembers(ChangeMembers { ask, proposed }))
    }

    /// Answered once the directory has chosen it, and each log that it concerns too.
    pub(super) fn answer_change(
        &mut self,
        change: &mut ChangeMembers,
        commands: &mut Commands,
    ) -> Answer {
        if !self.can_direct() {
            return Answer::Wait;
        }
        let worked = self.work_out(&change.ask);
        if let Some(before) = &change.proposed {
            let version = self.directory.members.version;
            return match worked {
                Ok(now) if now.nothing => self.once_in_force(before),
                _ if version == before.version => Answer::Wait,
                _ => Answer::Line(overtaken()),
            };
        }
        match worked {
            Err(refusal) => Answer::Line(refusal.encode()),
            Ok(worked) if change.ask.plan => Answer::Line(answer(&worked)),
            Ok(worked) if worked.nothing && !change.ask.changes_weights() => {
                Answer::Line(answer(&worked))
            }
            Ok(worked) if worked.nothing => self.once_in_force(&worked),
            Ok(mut worked) => {
                commands.extend(worked.command.take());
                change.proposed = Some(worked);
                Answer::Wait
            }
        }
    }

    fn once_in_force(&self, worked: &Worked) -> Answer {
        let mut waiting = self.unheard();
        if !worked.logs.is_empty() {
            let concerned = |id: &LogId| worked.logs.iter().any(|log| log.id == id.0);
            waiting.retain(concerned);
        }
        match waiting.is_empty() {
            true => Answer::Line(answer(worked)),
            false => Answer::Until(self.agreed_only(&waiting)),
        }
    }

    fn work_out(&self, ask: &Ask) -> Result<Worked, Refusal> {
        self.with_view(|view| ask.work_out(view))
    }

    /// Why a node that leaves, and has no weight any more, is kept: it may alone hold bytes.
    pub(crate) fn keeps_for_bytes(&self, node: u32) -> Option<String> {
        self.with_view(|view| view.kept_for_bytes(node))
    }

    fn with_view<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        let own = self.env.own.identity.node.0;
        let peers = self.peers.peers.iter().filter(|(_, peer)| peer.alive);
        let alive: BTreeSet<u32> = peers.map(|(node, _)| node.0).chain([own]).collect();
        let logs = self.logs.values();
        let configurations: BTreeMap<u32, Configuration> = logs
            .map(|log| (log.id().0, log.engine().state().configuration.clone()))
            .collect();
        look(&View {
            directory: &self.directory,
            alive: &alive,
            configurations: &configurations,
            lacks: &self.lacks(),
        })
    }

    /// Of each log, who lacks bytes, by the last word of each. Auxiliaries hold none to speak of.
    fn lacks(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let own = self.env.own.identity.node;
        let mut lacks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (node, peer) in &self.peers.peers {
            for log in &peer.lacks {
                lacks.entry(log.0).or_default().insert(node.0);
            }
        }
        for (id, log) in self.logs.iter() {
            let lacking = lacks.entry(id.0).or_default();
            let members = log.engine().state().configuration.members().iter();
            lacking.extend(members.filter(|m| m.auxiliary).map(|m| m.node.0));
            if log.missing_bytes() > 0 {
                lacking.insert(own.0);
            }
        }
        lacks
    }
}

fn answer(worked: &Worked) -> Vec<u8> {
    wire::ok(worked).into_bytes()
}

fn overtaken() -> Vec<u8> {
    let sentence =
        "somebody else changed the members at the same time: look at the new plan, and ask again";
    Refusal::new("refused", sentence).encode()
}

//! `show-log`: the directory's entry of one log.

use formats::LogKind;
use paxos::NodeId;
use serde::Serialize;

use super::awaiting::{Answer, Commands, Want};
use super::log_name;
use super::of_one_log::unknown_log;
use crate::greeting::Caller;
use crate::node::Node;
use wire::Refusal;

pub(super) struct ShowLog {
    pub name: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: u32,
    name: &'a str,
    kind: LogKind,
    /// The present members if this node hosts the log; else those it began with.
    members: Vec<ShownMember>,
    /// Every node of the cluster hosts it, also those that join.
    on_all_nodes: bool,
    retention: String,
    /// 0 if a majority decides.
    min_copies: u32,
}

#[derive(Serialize)]
struct ShownMember {
    node: u32,
    weight: u32,
    auxiliary: bool,
}

impl Want for ShowLog {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        node.answer_show_log(self)
    }
}

impl Node {
    /// `show-log NAME`
    pub(super) fn show_log(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let name = log_name(request)?.to_owned();
        self.tell_fresh(caller, ShowLog { name })
    }

    fn answer_show_log(&self, show: &ShowLog) -> Answer {
        let found = self.cluster.directory.log_by_name(&show.name);
        let entry = found.and_then(|id| Some((id, self.cluster.directory.logs.get(&id)?)));
        let Some((id, entry)) = entry else {
            return Answer::Line(unknown_log(&show.name).encode());
        };
        // The weights are those that the directory has agreed on: a replica may be behind, and no barrier of its own
        // log was waited for.
        let wanted = self.cluster.directory.members.wanted.get(&id.0);
        let wanted = wanted.iter().flat_map(|wanted| &wanted.weights);
        let replica = self.logs.get(&id).filter(|log| !log.is_stopped());
        let configuration = replica.map(|log| &log.engine().state().configuration);
        let is_auxiliary = |node: u32| match configuration {
            Some(configuration) => configuration.is_auxiliary(NodeId(node)),
            None => entry.auxiliary.contains(&node),
        };
        let members = wanted.map(|(node, weight)| ShownMember {
            node: *node,
            weight: *weight,
            auxiliary: is_auxiliary(*node),
        });
        let shown = Shown {
            id: id.0,
            name: &entry.name,
            kind: entry.kind,
            members: members.collect(),
            on_all_nodes: entry.hosts.is_empty(),
            retention: entry.retention.to_string(),
            min_copies: entry.min_copies,
        };
        let json = serde_json::to_string(&shown).expect("numbers and text are always JSON");
        Answer::Line(format!("ok {json}\n").into_bytes())
    }
}

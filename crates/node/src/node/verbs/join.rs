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
    /// The name in the certificate that it showed.
    pub certificate: Option<String>,
    /// The node whose name it is to get.
    pub replaces: Option<u32>,
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
    /// `join address=HOST:PORT disk=… [speaks=…] [replaces=ID]`, and the additional words of a newer node.
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
            certificate: caller.node.clone(),
            replaces: self.replaced_by(caller)?,
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

    /// The node whose name whoever joins is to get: his token says it, or he himself while no tokens are asked for.
    fn replaced_by(&self, caller: &Caller) -> Result<Option<u32>, Refusal> {
        let said = caller.request.parsed::<u32>("replaces")?;
        let rights = &self.cluster.directory.rights;
        let token = match self.gate.who(caller.conn).by() {
            By::Token(name) => rights.tokens.get(&name),
            By::Socket(_) | By::Certificate(_) | By::Ticket(_) | By::Anonymous => None,
        };
        let by_token = token.and_then(|entry| entry.replaces);
        match (by_token, said) {
            (Some(old), Some(said)) if old != said => Err(Refusal::new(
                "forbidden",
                format!("the token lets in what replaces node {old}, and not node {said}"),
            )),
            (Some(old), _) => Ok(Some(old)),
            (None, Some(said)) if rights.switch.on => Err(Refusal::new(
                "forbidden",
                format!(
                    "only a token that says so lets a node replace another one: logberg token create NAME --allow 'join on cluster' --once --replaces {said}"
                ),
            )),
            (None, said) => Ok(said),
        }
    }

    /// Whether the certificate that whoever joins shows is another node's.
    fn has_anothers_name(&self, join: &JoinCluster) -> Option<Refusal> {
        let directory = &self.cluster.directory;
        if directory.node_by_disk(&join.disk).is_some() {
            return None;
        }
        let shown = join.certificate.as_deref().unwrap_or_default();
        let owner = directory.node_of_certificate(shown);
        let refused = |sentence| Some(Refusal::new("refused", sentence));
        match (owner, join.replaces) {
            (None, None) => None,
            (Some(owner), Some(old)) if owner.0 == old => match self.is_heard(owner) {
                false => None,
                true => refused(format!(
                    "node {owner} is alive, and so has a disk: stop it first, if this one is to be in its place"
                )),
            },
            (None, Some(old)) => refused(format!(
                "node {old} does not have the certificate {shown:?}: who replaces a node shows that node's (`logberg members` lists them); else leave --replaces out"
            )),
            (Some(owner), _) => refused(format!(
                "{shown} is the certificate of node {owner}: give each node its own; if node {owner} lost its disk, start this one with --replaces {owner} (with tokens: one that was made with --replaces {owner})"
            )),
        }
    }

    fn answer_join(&mut self, join: &mut JoinCluster, commands: &mut Commands) -> Answer {
        if let Some(refusal) = self.has_let_in_another(join) {
            return Answer::Line(refusal.encode());
        }
        if let Some(refusal) = self.has_anothers_name(join) {
            return match self.logs.can_direct() {
                true => Answer::Line(refusal.encode()),
                false => Answer::Wait,
            };
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
            certificate: self.certificate.clone(),
            replaces: self.replaces,
        }
    }
}

//! Moving the configuration of each log that this node leads to the wanted one, one legal step at a time
//! ([`crate::membership::plan`] says which).
//!
//! ```text
//!   wanted ──► next step ──► may it be taken now? ──► Reconfigure ──► the next era ──► next step …
//!   (directory)                  │ no: it waits, and says for what
//! ```
//!
//! Every step is worked out anew from the log's configuration, so it does not matter who leads meanwhile, nor
//! whether the operator still listens.
//!
//! ‡ Bytes are not protected by quorums that overlap once, over two steps. So every step that changes a
//! weight insists on all that was chosen before it was looked at. A node is given weight once it durably
//! holds that itself. A node loses weight, or an auxiliary is given more, once active members durably hold
//! that which are a quorum of the configuration that follows. Slots chosen in between are in the hands of a
//! quorum of this era, and every quorum of the next one meets it (docs/decisions/0012).

use std::collections::BTreeSet;
use std::time::Duration;

use formats::LogId;
use paxos::mutation::{self, Mutation};
use paxos::{Action, Change, Configuration, Era, Input, NodeId, Role, Slot, Term, Time};
use replica::{Env, Log};
use wire::quantity;

use super::Cluster;
use crate::directory::{Command, DIRECTORY};
use crate::lent::Lent;
use crate::logs::Logs;
use crate::membership::plan::{Goal, next_step};
use crate::peers::Peers;
use crate::split::has_active_quorum;

/// A log's way to its wanted configuration, as its leader sees it.
pub struct Move {
    /// The era of the next step, and the directory's count of changes.
    at: (Era, u64),
    /// The slots chosen when the step was first looked at: they must be held before it.
    mark: Slot,
    /// The term and slot in which the step was proposed.
    asked: Option<(Term, Slot)>,
    abdicated_at: Option<Time>,
    /// The sentence that says what the step waits for.
    waits_for: String,
}

/// The time after which a leader that is to leave tries another successor.
const ABDICATE_AGAIN: Duration = Duration::from_secs(2);

impl Cluster {
    /// Whether the log is on its way to what is wanted.
    pub fn moves(&self, id: LogId) -> bool {
        self.moves.contains_key(&id)
    }

    /// The thing that a log's next step waits for; empty if it does not wait.
    pub fn waits_for(&self, id: LogId) -> Option<&str> {
        Some(self.moves.get(&id)?.waits_for.as_str())
    }

    /// Logs whose next step waits.
    pub fn waiting_moves(&self) -> impl Iterator<Item = LogId> {
        let waiting = self.moves.iter();
        let waiting = waiting.filter(|(_, step)| !step.waits_for.is_empty());
        waiting.map(|(id, _)| *id)
    }

    /// Whether this node no longer belongs to the cluster. It may not have heard so from the directory, of
    /// which it is sent nothing more; then its peers say it.
    pub fn is_gone(&self, env: &Env, logs: &Logs, peers: &Peers) -> bool {
        self.is_removed(logs, env.own.identity.node) || self.peers_call_us_removed(env, logs, peers)
    }

    /// ‡ Whether a quorum of its peers, or all, call it removed: anybody may answer at the address of one.
    fn peers_call_us_removed(&self, env: &Env, logs: &Logs, peers: &Peers) -> bool {
        let says = |node: NodeId| {
            let peer = peers.get(node);
            peer.is_some_and(|peer| peer.way.calls_us_removed())
        };
        let Some(log) = logs.directory() else {
            return false;
        };
        let configuration = &log.engine().state().configuration;
        let own = env.own.identity.node;
        let members = configuration.members().iter();
        let mut others = members
            .map(|member| member.node)
            .filter(|node| *node != own);
        let all = others.clone().next().is_some() && others.all(says);
        all || configuration.is_quorum(|node| node != own && says(node))
    }

    /// Nodes of the directory that this one does not hear.
    pub fn silent(&self, env: &Env, peers: &Peers) -> BTreeSet<u32> {
        let own = env.own.identity.node;
        let known = self.directory.nodes.keys();
        let silent = known.filter(|node| **node != own && !peers.is_alive(**node));
        silent.map(|node| node.0).collect()
    }

    pub fn move_log(&mut self, lent: &mut Lent<'_>, id: LogId, silent: &BTreeSet<u32>) {
        let leads = lent.logs.get(&id).is_some_and(Log::is_leading);
        let Some(basis) = leads
            .then(|| self.basis_of(lent.logs, lent.env, id))
            .flatten()
        else {
            self.moves.remove(&id);
            return;
        };
        let weights = self.wanted_weights(id, &basis);
        let members = &self.directory.members;
        let log = lent.logs.get_mut(&id).filter(|_| !weights.is_empty());
        let Some(log) = log else {
            self.moves.remove(&id);
            return;
        };
        let goal = Goal {
            weights: &weights,
            zones: &members.zones,
            silent,
        };
        let at = (log.engine().state().era, members.version);
        let first_unchosen = log.engine().first_unchosen();
        let before = self.moves.remove(&id);
        let mark = before.as_ref().filter(|m| m.at == at).map(|m| m.mark);
        let mut step = Move {
            at,
            mark: mark.unwrap_or(first_unchosen),
            asked: before.as_ref().and_then(|m| m.asked),
            abdicated_at: before.and_then(|m| m.abdicated_at),
            waits_for: String::new(),
        };
        let look = Look {
            log,
            env: lent.env,
            peers: lent.peers,
            mark: step.mark,
        };
        let configuration = &log.engine().state().configuration;
        let may_gain = |node| look.lacks_for_weight(node).is_none();
        let Some(change) = next_step(configuration, goal, may_gain) else {
            if let Some(why) = look.unsettled() {
                step.waits_for = why;
                self.moves.insert(id, step);
            }
            return;
        };
        let next = configuration.apply(change);
        let lacks = match change {
            Change::Increment(node) => look.lacks_for_weight(node),
            Change::Decrement(node) => next.as_ref().ok().and_then(|n| look.lacks_to_lose(node, n)),
            _ => None,
        };
        let pending = |(term, slot): (Term, Slot)| {
            log.role() == Role::Leader { term } && first_unchosen <= slot
        };
        let own = lent.env.own.identity.node;
        let leaves = next.is_ok_and(|next| !next.contains(own)) && configuration.contains(own);
        if step.asked.is_some_and(pending) {
            step.waits_for = "the step is being agreed on".into();
        } else if !log.can_propose() {
            step.waits_for = "the leader finishes what was begun before".into();
        } else if let Some(why) = lacks {
            step.waits_for = why;
        } else if leaves {
            let successor = look.successor(goal);
            let again = |at: Time| lent.env.now < at + ABDICATE_AGAIN;
            step.waits_for = match successor {
                Some(node) => format!("node {own} hands the lead to node {node}"),
                None => format!("node {own} leads and leaves, and nobody else can lead yet"),
            };
            if successor.is_some() && !step.abdicated_at.is_some_and(again) {
                step.abdicated_at = Some(lent.env.now);
                log.input(lent.env, Input::Abdicate { to: successor });
                lent.due.touch(id);
            }
        } else {
            let from = at.0;
            tracing::info!(
                log = id.0,
                name = log.name(),
                ?change,
                "a step towards the wanted members"
            );
            let by = basis.by();
            let action = Action::Reconfigure { from, change, by };
            let term = log.role();
            match (log.propose(lent.env, action), term) {
                (Ok(slot), Role::Leader { term }) => {
                    step.asked = Some((term, slot));
                    lent.due.touch(id);
                }
                _ => log.count_step_put_off(),
            }
            step.waits_for = "the step is being agreed on".into();
        }
        self.moves.insert(id, step);
    }

    /// Takes leaving nodes out of the directory once they have weight nowhere, as far as its leader sees.
    pub fn dismiss(&mut self, lent: &mut Lent<'_>) {
        let idle = |log: &Log| log.can_propose() && log.guest_is_idle();
        if !self.directing.is_idle() || !lent.logs.get(&DIRECTORY).is_some_and(idle) {
            return;
        }
        if !self.is_confirmed() {
            return;
        }
        let members = &self.directory.members;
        let leaving = members.leaving.iter().copied();
        let mut free = leaving.filter(|node| !members.has_weight(*node));
        let may_go = |node: &u32| {
            self.has_part_in(lent.logs, NodeId(*node)).is_none()
                && self.keeps_for_bytes(lent.sight(), *node).is_none()
        };
        if let Some(node) = free.find(may_go) {
            self.propose_command(lent, &Command::RemoveNode { node });
        }
    }

    /// Whether this node has nothing to do with that one any more. As long as a configuration known here has
    /// that node, it may be needed.
    pub fn is_removed(&self, logs: &Logs, node: NodeId) -> bool {
        self.directory.members.removed.contains(&node.0) && !logs.have_member(node)
    }

    pub fn tell_if_removed(&self, own: NodeId) {
        let node = own;
        if self.directory.members.removed.contains(&node.0) {
            tracing::error!(
                node = node.0,
                "this node was removed from the cluster: nobody needs it any more; stop it, and to come back join anew, with --join and an empty directory"
            );
        }
    }

    /// Lets nodes that are to have weight host a log that not all host.
    pub fn welcome(&mut self, lent: &mut Lent<'_>, logs: &[LogId]) {
        for id in logs {
            let entry = self.directory.logs.get(id);
            let (Some(entry), Some(log)) = (entry, lent.logs.get_mut(id)) else {
                continue;
            };
            let hosts = entry.hosts.iter().copied().map(NodeId);
            let new =
                hosts.filter(|node| lent.peers.runs(*node, *id) && !log.alive().contains(node));
            for node in new.collect::<Vec<_>>() {
                log.set_alive(lent.env, node, true);
                lent.due.touch(*id);
            }
        }
    }
}

/// A leader's view, which decides about a step.
struct Look<'a> {
    log: &'a Log,
    env: &'a Env,
    peers: &'a Peers,
    mark: Slot,
}

impl Look<'_> {
    fn is_alive(&self, node: NodeId) -> bool {
        node == self.env.own.identity.node || self.log.alive().contains(&node)
    }

    fn is_full(&self, node: NodeId) -> bool {
        match node == self.env.own.identity.node {
            true => self.env.is_full(),
            false => self.env.room.full_peers.contains(&node),
        }
    }

    /// The room that this node's disk lacks to hold all of the log and of the state of its guest.
    fn lacks_room(&self, node: NodeId) -> Option<String> {
        let free = match node == self.env.own.identity.node {
            true => self.env.room.free_bytes,
            false => self.peers.get(node)?.said.free_bytes(),
        };
        let engine = self.log.engine();
        // Bytes that were trimmed and that its state does not stand for are missing too, and come with the state.
        let missing = engine.peer_missing_bytes(node).unwrap_or(0);
        let log_bytes = missing.min(replica::output_bytes(engine.state()));
        let state_bytes = self.log.state_disk_bytes();
        let state_bytes = state_bytes.saturating_sub(self.log.state_disk_bytes_of(node));
        let needed = log_bytes
            .saturating_add(state_bytes)
            .saturating_add(self.env.limits.disk_reserve_bytes);
        (free < needed).then(|| {
            let (free, needed) = (quantity::shown(free), quantity::shown(needed));
            format!(
                "the disk of node {node} has {free} free, and what that node still lacks needs {needed}: free space there, or undo the change"
            )
        })
    }

    fn holds(&self, node: NodeId) -> bool {
        self.log.engine().holds_below(node) >= Some(self.mark)
            || mutation::is(Mutation::HoldsBelowNotAsked)
    }

    /// Whether the nodes that hold all below the mark would be a quorum.
    fn is_held_by_a_quorum_of(&self, next: &Configuration) -> bool {
        next.is_quorum(|member| self.holds(member))
    }

    /// ‡ The reason why this node cannot be given weight yet.
    fn lacks_for_weight(&self, node: NodeId) -> Option<String> {
        if self.log.has_stopped_at(node) {
            return Some(format!(
                "the replica of node {node} stopped: restart that node, or undo the change"
            ));
        }
        if !self.is_alive(node) {
            return Some(format!(
                "the leader cannot reach node {node}: start it, fix the network to it, or undo the change"
            ));
        }
        // With more weight it might be needed by a quorum, and takes no bytes.
        if self.is_full(node) {
            return Some(format!(
                "the disk of node {node} is full: free space there, or undo the change"
            ));
        }
        if mutation::is(Mutation::WeightBeforeBytes) {
            return None;
        }
        let engine = &self.log.engine();
        let configuration = &engine.state().configuration;
        if configuration.is_auxiliary(node) {
            let next = configuration.apply(Change::Increment(node));
            if !next.is_ok_and(|next| self.is_held_by_a_quorum_of(&next)) {
                return Some(format!(
                    "node {node} is an auxiliary, and too few others hold everything to give it more weight"
                ));
            }
        } else if !self.holds(node) {
            if let Some(why) = self.lacks_room(node) {
                return Some(why);
            }
            let missing = engine
                .peer_missing_bytes(node)
                .filter(|missing| *missing > 0);
            let missing = missing.map_or("bytes".into(), quantity::shown);
            return Some(format!("node {node} is being filled: it lacks {missing}"));
        }
        let near = self.env.limits.unchosen_bytes_max / 4;
        let accepted = engine.peer_accepted_up_to(node);
        let level = node == self.env.own.identity.node
            || !engine.wants_proposals(node)
            || accepted.is_some_and(|slot| slot.0 + near >= engine.first_unchosen().0);
        (!level).then(|| format!("node {node} is catching up with the newest bytes"))
    }

    /// ‡ The reason why this node cannot lose weight yet, after which there is this configuration.
    fn lacks_to_lose(&self, node: NodeId, next: &Configuration) -> Option<String> {
        if !next.is_quorum(|member| self.is_alive(member)) {
            let silent = next.members().iter().map(|member| member.node);
            let silent = silent.filter(|member| !self.is_alive(*member));
            let silent: Vec<String> = silent.map(|node| node.to_string()).collect();
            return Some(format!(
                "too few others would be alive without the weight of node {node}: start {}",
                silent.join(", ")
            ));
        }
        if self.is_held_by_a_quorum_of(next) || mutation::is(Mutation::DecrementWhileBytesMissing) {
            return None;
        }
        Some(match self.is_alive(node) {
            true => format!("the others are being filled with what node {node} holds"),
            false => format!(
                "too few others hold everything without node {node}, which is silent: start it, or the others that hold it"
            ),
        })
    }

    /// The reason why the last bytes may be with a node that lost its weight, when nothing else is left to do.
    fn unsettled(&self) -> Option<String> {
        let engine = &self.log.engine();
        let configuration = &engine.state().configuration;
        if configuration.is_quorum(|node| engine.holds_below(node).is_some()) {
            return None;
        }
        if has_active_quorum(configuration) {
            return Some("the members are being filled with the last bytes".into());
        }
        let members = configuration.members().iter();
        let auxiliaries = members.filter(|member| member.auxiliary);
        let auxiliaries: Vec<String> = auxiliaries.map(|m| m.node.to_string()).collect();
        Some(format!(
            "the active members are no quorum, and node {} is to become active: start it, or give its disk room for the whole log",
            auxiliaries.join(" or ")
        ))
    }

    /// The best leader when this one leaves.
    fn successor(&self, goal: Goal) -> Option<NodeId> {
        let own = self.env.own.identity.node;
        let engine = &self.log.engine();
        let members = engine.state().configuration.members().iter();
        let able = members.filter(|m| {
            !m.auxiliary
                && m.node != own
                && goal.weights.contains_key(&m.node.0)
                && self.log.alive().contains(&m.node)
                && self.holds(m.node)
        });
        let best =
            able.max_by_key(|m| (engine.is_level(m.node), m.weight, std::cmp::Reverse(m.node)));
        best.map(|member| member.node)
    }
}

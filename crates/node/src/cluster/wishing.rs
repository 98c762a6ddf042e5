//! The directory's wishes on their way to the logs, and the logs' word of them on its way to the directory's
//! leader.
//!
//! ```text
//!   log 0: retain main 1MB ─▶ wish 7 of main ─ main's leader proposes ─▶ main: Wish 7 ─▶ Trim by 7 …
//!   whoever leads log 0 ◀──── "main has chosen wish 7" ──── main's leader, on the control connection
//!        └▶ the operator is told ok; or, when main cannot hear: agreed, not yet in force in main
//! ```
//!
//! A log's leader acts on the wish in its log's own state, never on the directory: from that it only learns
//! that there is a newer wish to propose. Its word is a fact of the log, which no delay makes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use formats::frame::WishTold;
use formats::version::WISHES;
use formats::{Frame, LogId};
use paxos::mutation::{self, Mutation};
use paxos::{Action, By, NodeId, Role, Slot, Term, Wish, WishNumber};
use replica::{Env, Log};
use wire::{Refusal, Retention};

use super::Cluster;
use crate::directory::wishes::retention_of;
use crate::directory::{DIRECTORY, Directory};
use crate::lent::Lent;
use crate::logs::Logs;

#[derive(Default)]
pub struct Wishing {
    /// The wishes that logs have chosen, as their leaders told this node, which leads the directory.
    heard: BTreeMap<LogId, WishTold>,
    /// The term and slot in which each wish was proposed.
    proposed: BTreeMap<LogId, (WishNumber, Term, Slot)>,
}

/// The basis of a log leader's acts.
pub enum Basis {
    /// The last wish that the log has chosen.
    Wish(Arc<Wish>),
    /// The directory that this node has read and confirmed: for log 0, and while the cluster speaks no wishes.
    Directory,
}

impl Basis {
    pub fn by(&self) -> By {
        match self {
            Basis::Wish(wish) => By::Wish(wish.number),
            Basis::Directory => By::Unsaid,
        }
    }
}

/// The most logs that a peer tells of.
const HEARD_MAX: usize = 1 << 20;

impl Cluster {
    /// The basis on which this node, leading that log, may bring about anything there; none while it cannot know.
    pub fn basis_of(&self, logs: &Logs, env: &Env, id: LogId) -> Option<Basis> {
        let own = &logs.get(&id)?.engine().state().wish;
        match own {
            // A later wish is on its way.
            Some(wish) if self.directory.wish_number(id) > Some(wish.number) => None,
            Some(wish) if wish.sealed => None,
            Some(wish) => Some(Basis::Wish(wish.clone())),
            None if id != DIRECTORY && env.version.logs >= WISHES => None,
            None => self.is_confirmed().then_some(Basis::Directory),
        }
    }

    pub fn wanted_retention(&self, id: LogId, basis: &Basis) -> Retention {
        let entry = self.directory.logs.get(&id);
        match basis {
            Basis::Wish(wish) => retention_of(wish),
            Basis::Directory => entry.map(|entry| entry.retention).unwrap_or_default(),
        }
    }

    pub fn wanted_weights(&self, id: LogId, basis: &Basis) -> BTreeMap<u32, u32> {
        let wanted = self.directory.members.wanted.get(&id.0);
        match basis {
            Basis::Wish(wish) => wish.weights.iter().map(|(n, w)| (n.0, *w)).collect(),
            Basis::Directory => wanted.map(|w| w.weights.clone()).unwrap_or_default(),
        }
    }

    pub fn wanted_auxiliaries(&self, id: LogId, basis: &Basis) -> Vec<NodeId> {
        match basis {
            Basis::Wish(wish) => wish.auxiliaries.clone(),
            Basis::Directory => {
                let meant = self.directory.meant_auxiliaries(id);
                meant.into_iter().map(NodeId).collect()
            }
        }
    }

    /// Proposes newer wishes of the directory in the logs that this node leads.
    pub fn propose_wishes(&mut self, lent: &mut Lent<'_>, logs: &[LogId]) {
        if lent.env.version.logs < WISHES || !self.is_confirmed() {
            return;
        }
        for id in logs {
            let Some(log) = lent.logs.get_mut(id) else {
                continue;
            };
            let now = self.directory.wish_number(*id);
            if now <= log.engine().state().wish_number() || !log.can_propose() {
                continue;
            }
            let (Some(number), Role::Leader { term }) = (now, log.engine().role()) else {
                continue;
            };
            let pending = self.wishing.proposed.get(id);
            let first_unchosen = log.engine().first_unchosen();
            if pending
                .is_some_and(|(n, t, slot)| *n == number && *t == term && first_unchosen <= *slot)
            {
                continue;
            }
            let Some(wish) = self.directory.wish_of(*id) else {
                continue;
            };
            tracing::debug!(log = id.0, name = log.name(), ?wish, "a wish is proposed");
            let action = Action::Wish(wish.into());
            if let Ok(slot) = log.propose(lent.env, action) {
                self.wishing.proposed.insert(*id, (number, term, slot));
                lent.due.touch(*id);
            }
        }
    }

    /// Tells the directory's leader the wishes that these logs have chosen, where this node leads them, if
    /// that is news.
    pub fn tell_wishes<'a>(&mut self, lent: &mut Lent<'_>, logs: impl Iterator<Item = &'a LogId>) {
        let director = lent.logs.director();
        for (id, peer) in lent.peers.iter_mut() {
            if Some(*id) != director {
                peer.told.forget_wishes();
            }
        }
        let own = lent.env.own.identity.node;
        let speaks = |node: &NodeId| lent.env.peers.links.get(node) >= Some(&WISHES);
        let Some(director) = director.filter(|node| *node != own && speaks(node)) else {
            return;
        };
        let told = &mut lent.peers.get_or_add(director).told;
        let mut news = Vec::new();
        for id in logs {
            let log = lent.logs.get(id).filter(|log| log.is_leading());
            let now = log.and_then(|log| told_of(*id, log));
            news.extend(now.filter(|now| told.on_wish(*now)));
        }
        if !news.is_empty() {
            let frame = Frame::Wishes(news);
            lent.peers.send(lent.env, director, &frame);
        }
    }

    /// ‡ Takes a log leader's word of what its log has chosen. A leader leads by a vote: a node that has no
    /// vote there says nothing of it.
    pub fn on_wishes_told(&mut self, logs: &Logs, peer: NodeId, told: &[WishTold]) {
        let votes: Vec<WishTold> = (told.iter().copied())
            .filter(|now| self.has_vote(logs, peer, now.log))
            .collect();
        for now in &votes {
            let heard = &mut self.wishing.heard;
            let before = heard.get(&now.log);
            if before.is_none_or(|before| before.number < now.number) && heard.len() < HEARD_MAX {
                heard.insert(now.log, *now);
            }
        }
    }

    /// Whether a node has a vote in the log's configuration as it is known here, or by what is wanted of it.
    /// Where the log is not here, a node that was chosen to host it may have a vote still.
    pub fn has_vote(&self, logs: &Logs, node: NodeId, log: LogId) -> bool {
        let wanted = self.directory.members.wanted.get(&log.0);
        let is_wanted = wanted.is_some_and(|wanted| wanted.weights.contains_key(&node.0));
        let is_member = match logs.get(&log) {
            Some(log) => log.engine().state().configuration.contains(node),
            None => {
                let entry = self.directory.logs.get(&log);
                entry.is_some_and(|entry| entry.hosts.contains(&node.0))
            }
        };
        is_wanted || is_member
    }

    pub fn forget_deleted(&mut self, log: LogId) {
        self.wishing.heard.remove(&log);
        self.wishing.proposed.remove(&log);
    }

    /// Forgets what deleted logs had heard: it is of no more use.
    pub fn forget_heard(&mut self, logs: &Logs) {
        let directory: &Directory = &self.directory;
        self.wishing
            .heard
            .retain(|log, _| !directory.is_deleted(*log));
        self.wishing
            .proposed
            .retain(|log, _| logs.contains_key(log));
    }

    /// The last wish that this log is known to have chosen.
    fn heard_of(&self, logs: &Logs, id: LogId) -> Option<WishTold> {
        let here = logs.get(&id).and_then(|log| told_of(id, log));
        let told = self.wishing.heard.get(&id).copied();
        [here, told]
            .into_iter()
            .flatten()
            .max_by_key(|told| told.number)
    }

    /// ‡ Whether a log has chosen the present wish for it.
    pub fn has_heard(&self, logs: &Logs, id: LogId) -> bool {
        let wanted = self.directory.wish_number(id);
        let heard = self.heard_of(logs, id).map(|told| told.number);
        heard >= wanted || mutation::is(Mutation::OkBeforeTheLogHeard)
    }

    /// ‡ Whether a log is known to have ended.
    pub fn has_ended(&self, logs: &Logs, id: LogId) -> bool {
        self.heard_of(logs, id).is_some_and(|told| told.sealed)
            || mutation::is(Mutation::NameFreedBeforeTheSeal)
    }

    /// The logs in which an agreed wish is not in force yet, by what this node knows of the directory and has
    /// heard of the logs.
    pub fn unheard(&self, logs: &Logs) -> BTreeSet<LogId> {
        let all = self.directory.logs.keys().copied();
        all.filter(|id| !self.has_heard(logs, *id)).collect()
    }

    /// The same logs, as the directory's leader warns of them: none while it cannot know. ‡ That is no answer
    /// to an operator.
    pub fn not_in_force(&self, logs: &Logs) -> BTreeSet<LogId> {
        let leads = logs.directory().is_some_and(Log::is_leading);
        match leads && self.is_confirmed() {
            true => self.unheard(logs),
            false => BTreeSet::new(),
        }
    }

    fn names_of(&self, logs: &BTreeSet<LogId>) -> String {
        let names = logs.iter().filter_map(|id| self.directory.logs.get(id));
        let names: Vec<&str> = names.map(|entry| entry.name.as_str()).collect();
        names.join(", ")
    }

    /// The refusal for an operator when log 0 has chosen what was asked for, and these logs have not.
    pub fn agreed_only(&self, logs: &BTreeSet<LogId>) -> Refusal {
        let names = self.names_of(logs);
        let sentence = format!(
            "agreed, not yet in force in {names}, where no leader has received it: start or reconnect its nodes; repeat the command to wait for it"
        );
        Refusal::new("not-in-force", sentence).key("logs", names.replace(", ", ","))
    }
}

fn told_of(id: LogId, log: &Log) -> Option<WishTold> {
    let wish = log.engine().state().wish.as_ref()?;
    Some(WishTold {
        log: id,
        number: wish.number,
        sealed: wish.sealed,
    })
}

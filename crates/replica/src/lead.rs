//! Moving a log's leader: the requests for it, and their outcomes.
//!
//! ```text
//! lead LOG [to=ID] ─▶ may it lead? ─▶ permit closed ─ level ─▶ its term is prepared ─▶ it leads
//!                      │ no             │ not in time            │ no sign of it
//!                      └──── refused ───┴── we lead on ──────────┴── we prepare above
//! ```
//!
//! Writers are held where they are until the next leader is known: nobody else could take them before, and
//! then they are told that node.
//!
//! Units:  `pause_ms` is from the closing of the permit to the successor's first word.
//! Errors: `unknown-node`, and `cannot-lead` for a node that is no member, votes without bytes, is silent or
//! behind, and for the leader itself. Nothing is changed by a refusal.

use ops::ConnId;
use paxos::{Input, NodeId, Role, Term, Time};
use serde::Serialize;
use wire::{LineError, Refusal, Request};

use crate::env::Env;
use crate::lent::{Core, no_quorum};

#[derive(Default)]
pub(crate) struct Moves {
    asked: Vec<Asked>,
    /// The deadline of writers that, after a hand-over, wait to hear which node leads.
    writers_held_until: Option<Time>,
}

/// `lead LOG [to=ID]`
struct Asked {
    conn: ConnId,
    to: Option<NodeId>,
    since: Time,
    began: Option<Began>,
}

/// The moment at which the abdication began, in that term of ours.
#[derive(Clone, Copy)]
struct Began {
    at: Time,
    term: Term,
}

#[derive(Serialize)]
struct Moved<'a> {
    log: &'a str,
    from: u32,
    to: u32,
    term: String,
    pause_ms: f64,
}

impl Moves {
    pub(crate) fn are_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    pub(crate) fn hold_writers(&self) -> bool {
        self.writers_held_until.is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.writers_held_until
    }
}

impl Moves {
    /// `lead LOG [to=ID]`
    pub fn on_request(&mut self, core: &mut Core, env: &mut Env, conn: ConnId, request: &Request) {
        let to = request.check().and_then(|()| parse_node(request));
        let to = match to {
            Ok(to) => to,
            Err(error) => return env.refuse(conn, error.into()),
        };
        if let Err(refusal) = core.check_leading(env) {
            return env.refuse(conn, refusal);
        }
        self.asked.push(Asked {
            conn,
            to,
            since: env.now,
            began: None,
        });
    }

    /// Begins or answers the moves that are ready, one at a time. ‡ The log is drained before this is called
    /// again: until then its role is what it was before the engine was asked.
    pub fn pump(&mut self, core: &mut Core, env: &mut Env) {
        for asked in std::mem::take(&mut self.asked) {
            if env.conns.is_open(asked.conn) {
                self.pump_move(core, env, asked);
            }
        }
    }

    fn pump_move(&mut self, core: &mut Core, env: &mut Env, mut asked: Asked) {
        let late = |since: Time| env.now > since + env.limits.leader_wait;
        match (core.role(), asked.began) {
            (Role::Leader { term }, Some(began)) if term != began.term => {
                let to = asked.to;
                env.refuse(
                    asked.conn,
                    self.came_to_nothing(core, to, "gave no sign of life"),
                );
            }
            (Role::Leader { .. }, Some(_)) if !core.engine.is_abdicating() => {
                let to = asked.to;
                env.refuse(
                    asked.conn,
                    self.came_to_nothing(core, to, "did not catch up"),
                );
            }
            (Role::Leader { term }, None) if !core.engine.is_abdicating() => {
                if let Err(refusal) = self.check_successor(core, env, asked.to) {
                    return env.refuse(asked.conn, refusal);
                }
                let near = |lag| lag <= env.limits.unchosen_bytes_max / 4;
                let lag = self.lag_of_successor(core, env, asked.to);
                match (lag, late(asked.since)) {
                    (Some(lag), _) if near(lag) && core.can_propose() => {
                        let at = env.now;
                        asked.began = Some(Began { at, term });
                        core.input(env, Input::Abdicate { to: asked.to });
                    }
                    (Some(lag), true) if !near(lag) => {
                        return env.refuse(asked.conn, self.behind(core, asked.to, lag));
                    }
                    (_, true) => return env.refuse(asked.conn, no_quorum()),
                    (_, false) => {}
                }
                self.asked.push(asked);
            }
            (Role::Follower { leader, term }, Some(began)) => {
                self.answer_move(core, env, &asked, began, leader, term);
            }
            (Role::Leader { .. }, _) => self.asked.push(asked),
            (Role::Candidate, Some(began)) if !late(began.at) => self.asked.push(asked),
            (Role::Candidate, Some(_)) => env.refuse(asked.conn, no_quorum()),
            (_, None) => env.refuse(asked.conn, core.not_leader(env)),
        }
    }

    fn answer_move(
        &self,
        core: &Core,
        env: &mut Env,
        asked: &Asked,
        began: Began,
        leader: NodeId,
        term: Term,
    ) {
        if asked.to.is_some_and(|to| to != leader) {
            let sentence = format!("node {leader} was elected to lead {} instead", core.name);
            return env.refuse(asked.conn, Refusal::new("cannot-lead", sentence));
        }
        let moved = Moved {
            log: &core.name,
            from: env.own.identity.node.0,
            to: leader.0,
            term: term.to_string(),
            pause_ms: (env.now - began.at).as_micros() as f64 / 1000.0,
        };
        let json = serde_json::to_string(&moved).expect("numbers and strings are always JSON");
        env.part(asked.conn, format!("ok {json}\n").as_bytes());
    }

    fn came_to_nothing(&self, core: &Core, to: Option<NodeId>, what: &str) -> Refusal {
        let who = to.map_or("no other node".to_string(), |to| format!("node {to}"));
        let what = match to {
            Some(_) => what,
            None => "could take over in time",
        };
        let name = &core.name;
        let sentence = format!("{who} {what}, and this node leads {name} on; try again later");
        Refusal::new("cannot-lead", sentence)
    }

    /// Whether that node, or any, might lead once it holds everything.
    fn check_successor(&self, core: &Core, env: &Env, to: Option<NodeId>) -> Result<(), Refusal> {
        match to {
            Some(node) => self.may_lead(core, env, node),
            None => {
                let mut others = env.peers.addresses.keys();
                if others.any(|node| self.may_lead(core, env, *node).is_ok()) {
                    return Ok(());
                }
                let sentence = format!("no other node could lead {} now", core.name);
                Err(Refusal::new("cannot-lead", sentence))
            }
        }
    }

    fn may_lead(&self, core: &Core, env: &Env, node: NodeId) -> Result<(), Refusal> {
        let name = &core.name;
        let cannot = |why: String| Err(Refusal::new("cannot-lead", why));
        let member = core.engine.state().configuration.member(node);
        if node == env.own.identity.node {
            return cannot(format!("node {node} leads {name} already"));
        }
        if member.is_none() && !env.peers.addresses.contains_key(&node) {
            let sentence = format!("the cluster has no node {node}; `logberg status` lists them");
            return Err(Refusal::new("unknown-node", sentence));
        }
        match member {
            None => return cannot(format!("node {node} has no vote in {name}")),
            Some(member) if member.auxiliary => {
                let why = "is auxiliary there and holds no bytes while others can";
                return cannot(format!("node {node} cannot lead {name}: it {why}"));
            }
            Some(_) => {}
        }
        if core.stopped_at.contains(&node) {
            return cannot(format!(
                "the replica of {name} on node {node} stopped; restart that node"
            ));
        }
        if !core.engine.is_peer_alive(node) {
            return cannot(format!("node {node} is silent; start or reconnect it"));
        }
        Ok(())
    }

    /// The number of bytes that the successor, or the best one, lacks yet; none if nobody has said so. An
    /// abdication stops all appends until it is over, so one that would take long is not begun.
    fn lag_of_successor(&self, core: &Core, env: &Env, to: Option<NodeId>) -> Option<u64> {
        let may = |node: &&NodeId| to.is_none_or(|to| to == **node);
        let may = |node: &&NodeId| may(node) && self.may_lead(core, env, **node).is_ok();
        let lags = env.peers.addresses.keys().filter(may).filter_map(|node| {
            let accepted = core.engine.peer_accepted_up_to(*node)?;
            let lag = core.engine.proposed_up_to().0.saturating_sub(accepted.0);
            Some(lag.max(core.engine.peer_missing_bytes(*node)?))
        });
        lags.min()
    }

    fn behind(&self, core: &Core, to: Option<NodeId>, lag: u64) -> Refusal {
        let who = to.map_or("every other node".to_string(), |to| format!("node {to}"));
        let name = &core.name;
        let sentence =
            format!("{who} is {lag} bytes behind in {name}; wait until it has caught up");
        Refusal::new("cannot-lead", sentence)
    }

    /// Holds the writers of a leader that no longer leads while a successor takes over: they hear of it here.
    /// False if they go at once.
    pub fn hold_writers_if_handed_over(&mut self, core: &Core, env: &Env) -> bool {
        let holds = core.engine.has_handed_over();
        if holds {
            let patience = env.limits.timing.abdication * 2;
            self.writers_held_until = Some(env.now + patience);
        }
        holds
    }

    /// Releases the writers, once the next leader is known or has been unknown for too long. True if writers
    /// were held.
    pub fn release_writers(&mut self) -> bool {
        self.writers_held_until.take().is_some()
    }

    pub fn refuse(&mut self, env: &mut Env, refusal: &Refusal) {
        for asked in std::mem::take(&mut self.asked) {
            env.refuse(asked.conn, refusal.clone());
        }
    }

    /// Whether writers have waited long enough for a successor's first word.
    pub fn are_writers_due(&self, now: Time) -> bool {
        self.writers_held_until.is_some_and(|until| until <= now)
    }
}

fn parse_node(request: &Request) -> Result<Option<NodeId>, LineError> {
    Ok(request.parsed::<u32>("to")?.map(NodeId))
}

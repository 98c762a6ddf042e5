//! Where the states of a log of kind `state` stand, here and on other nodes, and what follows: which bytes of the log
//! everybody may forget, and whose word that he holds everything counts.
//!
//! ```text
//!  output   0 ──────────── trimmed T ──────── durable D ──── applied A ──── chosen
//!           └ in states alone ┘└─── in the log, too ───────────────────────┘
//! ```
//!
//! ‡ What was acknowledged below T is in states alone. So a trim goes no further than whole states durably stand that are
//! a quorum of the configuration, formed by active members; no step changes the configuration while a trim is being agreed
//! on, and no trim is proposed while a step is. And a replica whose state does not durably stand at T counts as one that
//! lacks bytes: by its own word, and by its leader's knowledge of it.
//!
//! ‡ A word counts as long as the process that said it is heard, and in the term in which it was said. A state may have been
//! replaced while its node was down, and what was said to an earlier leader may have changed since.
//!
//! Units:  positions in the log's output, in bytes.

use std::collections::BTreeMap;

use formats::{Frame, Stand};
use paxos::mutation::{self, Mutation};
use paxos::{Action, By, Input, LogState, NodeId, Slot, StreamPosition, Term, Value};

use crate::env::Env;
use crate::lent::Core;
use crate::marks::{Differs, Marks};
use crate::trim::{forgotten_bytes, output_bytes};

#[derive(Default)]
pub(crate) struct Stands {
    own: Option<Stand>,
    /// By the words of their present processes, to this one.
    peers: BTreeMap<NodeId, Stand>,
    /// The last position from which each node needed the log, whether it is there or not. Only waiting is decided by it: who comes back
    /// finds the rest in the log.
    last: BTreeMap<NodeId, u64>,
    /// The words of all of them on their rows.
    pub marks: Marks,
    /// The last word to each node, and the term in which it was said.
    told: BTreeMap<NodeId, (Term, Stand)>,
    /// The slots in which this replica proposed its last trim and its last step.
    trim: Option<Slot>,
    step: Option<Slot>,
}

impl Stands {
    pub fn own(&self) -> Option<Stand> {
        self.own
    }

    /// Takes this node's word.
    pub fn set_own(&mut self, node: NodeId, stand: Stand) {
        self.own = Some(stand);
        self.marks.hear(node, node, &stand);
    }

    pub fn of(&self, node: NodeId) -> Option<Stand> {
        self.peers.get(&node).copied()
    }

    /// The room that the largest of the states takes, as far as it was told.
    pub fn disk_bytes_max(&self) -> u64 {
        let all = self.own.iter().chain(self.peers.values());
        all.map(|stand| stand.disk_bytes).max().unwrap_or(0)
    }

    /// Takes another node's word.
    pub fn on_told(&mut self, own: NodeId, node: NodeId, stand: Stand) {
        self.peers.insert(node, stand);
        self.last.insert(node, stand.needed_from);
        self.marks.hear(own, node, &stand);
    }

    /// Forgets a node's word: it may be another process by now, which has not heard ours.
    pub fn forget(&mut self, node: NodeId) {
        if !mutation::is(Mutation::WordsOutliveProcesses) {
            self.peers.remove(&node);
        }
        self.told.remove(&node);
    }

    /// Forgets all words: this replica leads in another term, and everybody says anew how he stands.
    pub fn forget_all(&mut self) {
        self.peers.clear();
        self.marks.tell_anew();
    }

    /// Tells a node again, which may not have heard it.
    pub fn tell_again(&mut self, node: NodeId) {
        self.told.remove(&node);
    }

    /// The bytes that were trimmed, and that this node's state does not stand for.
    pub fn lacking(&self, state: &LogState) -> u64 {
        let trimmed = forgotten_bytes(state);
        let held = self.own.filter(|own| own.is_whole);
        match mutation::is(Mutation::ShortStatesCount) {
            true => 0,
            false => trimmed - held.map_or(0, |own| own.durable.min(trimmed)),
        }
    }
}

impl Core {
    /// ‡ Says on the leader what differs, and repairs nothing: no checksum says whose rows are right.
    pub fn tell_differences(&mut self) {
        if self.is_leading() {
            let news = self.stands.marks.news(self.own);
            news.iter()
                .for_each(|differs| self.tell_difference(differs));
        }
    }

    fn tell_difference(&self, differs: &Differs) {
        let Differs { node, own, theirs } = differs;
        tracing::error!(
            log = self.id.0,
            position = own.position,
            "the states of {} differ between this node ({} rows, crc32c {:08x}) and node {} ({} rows, crc32c {:08x}), though both applied the same: one of them is wrong",
            self.name,
            own.rows,
            own.crc32c,
            node.0,
            theirs.rows,
            theirs.crc32c
        );
    }

    /// Whether neither this replica nor anybody whom it hears stands for what was trimmed.
    pub fn is_state_lost(&self) -> bool {
        let trimmed = forgotten_bytes(self.engine.state());
        let mut nodes = self.alive.iter().copied().chain([self.own]);
        !self.kind.is_bytes()
            && trimmed > 0
            && !self.engine.state().configuration.is_auxiliary(self.own)
            && !nodes.any(|node| self.state_holds(node, trimmed))
    }

    /// Whether this node stands for the state after all that was trimmed, whoever crashes.
    fn state_holds(&self, node: NodeId, position: u64) -> bool {
        let stand = match node == self.own {
            true => self.stands.own(),
            false => self.stands.of(node),
        };
        stand.is_some_and(|stand| stand.holds(position))
    }

    /// ‡ Tells the engine whose states are not known to stand where the log begins. Before anything rests on it.
    pub fn judge_states(&mut self, env: &Env) {
        if self.kind.is_bytes() {
            return;
        }
        let (own, alive) = (self.own, &self.alive);
        let configuration = &self.engine.state().configuration;
        let takes_part =
            |node| node == own || configuration.contains(node) || alive.contains(&node);
        self.stands.marks.keep(takes_part);
        let trimmed = forgotten_bytes(self.engine.state());
        let members = self.engine.state().configuration.members().iter();
        let nodes = members
            .map(|member| member.node)
            .chain(self.alive.iter().copied());
        let others: Vec<NodeId> = nodes.filter(|node| *node != self.own).collect();
        for node in others {
            let is_short = trimmed > 0
                && !self.state_holds(node, trimmed)
                && !mutation::is(Mutation::ShortStatesCount);
            self.input(env, Input::StateShort { node, is_short });
        }
    }

    /// Tells the others how this node's state stands, if that is news to them: the leader trims by it, and everybody who copies a
    /// state has to know whose is in doubt.
    pub fn tell_stand(&mut self, env: &mut Env) {
        let (Some(stand), Some((_, term))) = (self.stands.own(), self.engine.leader()) else {
            return;
        };
        if self.kind.is_bytes() {
            return;
        }
        // The next term of a leader that prepares for each batch forgets no word (`Log::on_next_term`).
        let term = match self.engine.prepares_each_batch() {
            true => Term { number: 0, ..term },
            false => term,
        };
        let (news, log) = ((term, stand), self.id);
        for node in self.alive.iter().filter(|node| **node != self.own) {
            if self.stands.told.insert(*node, news) != Some(news) {
                env.out
                    .outbox
                    .push_back((*node, Frame::Stand { log, stand }));
            }
        }
    }

    /// ‡ Whether nothing is to rest on the state of this node, for another's differs from it.
    pub fn is_state_doubted(&self, node: NodeId) -> bool {
        let configuration = &self.engine.state().configuration;
        self.stands.marks.is_doubted(node, configuration)
    }

    /// Whether a quorum of states contradicts this node's.
    pub fn is_state_outvoted(&self, node: NodeId) -> bool {
        let configuration = &self.engine.state().configuration;
        self.stands.marks.is_outvoted(node, configuration)
    }

    /// ‡ Whether a step of the configuration has to wait: a trim is being agreed on.
    pub fn awaits_trim(&self) -> bool {
        !self.kind.is_bytes()
            && (self.is_unchosen(self.stands.trim)
                || self.has_unchosen(|action| matches!(action, Action::Trim { .. })))
    }

    fn awaits_step(&self) -> bool {
        self.is_unchosen(self.stands.step)
            || self.has_unchosen(|action| matches!(action, Action::Reconfigure { .. }))
    }

    pub fn note_step(&mut self, slot: Slot) {
        self.stands.step = Some(slot);
    }

    fn is_unchosen(&self, slot: Option<Slot>) -> bool {
        slot.is_some_and(|slot| slot >= self.engine.first_unchosen())
    }

    /// Whether such an action is accepted here, this leader's or an earlier one's, and not known to be chosen.
    fn has_unchosen(&self, is: impl Fn(&Action) -> bool) -> bool {
        let accepted = self.engine.accepted();
        let mut actions = accepted.iter().filter_map(|run| match &run.value {
            Value::Action(action) => Some(action),
            _ => None,
        });
        actions.any(|action| is(action))
    }

    /// Proposes, on the leader, to forget what states stand for. True if it did.
    pub fn trim_behind_states(&mut self, env: &Env) -> bool {
        if self.kind.is_bytes() || !self.can_propose() || self.is_unchosen(self.stands.trim) {
            return false;
        }
        let Some(before) = self.point_behind_states(env) else {
            return false;
        };
        if self.awaits_step() {
            return false;
        }
        let by = By::Hand;
        let proposed = self.engine.propose(env.now, Action::Trim { before, by });
        self.stands.trim = proposed.ok().or(self.stands.trim);
        proposed.is_ok()
    }

    fn point_behind_states(&self, env: &Env) -> Option<Slot> {
        let own = self.stands.own().filter(|own| *own != Stand::IN_LOG)?;
        let state = self.engine.state();
        let configuration = &state.configuration;
        let members = configuration.members().iter();
        let active = members
            .filter(|member| !member.auxiliary)
            .map(|member| member.node);
        let active: Vec<NodeId> = active.collect();
        // ‡ The log still needs what a state in doubt stands for.
        let held_by = active
            .iter()
            .copied()
            .filter(|node| !self.is_state_doubted(*node));
        let trimmed = forgotten_bytes(state);
        let end = trimmed + output_bytes(state);
        // ‡ So far a quorum stands, and finds its last frames in the log when it starts again.
        let mut needed: BTreeMap<NodeId, u64> = BTreeMap::new();
        for node in held_by {
            let stand = match node == self.own {
                true => Some(own),
                false => self.stands.of(node),
            };
            if let Some(stand) = stand.filter(|stand| stand.is_whole) {
                needed.insert(node, stand.needed_from);
            }
        }
        let mut positions: Vec<u64> = needed.values().copied().collect();
        positions.sort_unstable();
        let is_held = |position: u64| {
            configuration.is_quorum(|node| needed.get(&node).is_some_and(|from| *from >= position))
        };
        let held = match mutation::is(Mutation::TrimBehindOneState) {
            true => own.needed_from,
            false => positions
                .into_iter()
                .rev()
                .find(|position| is_held(*position))?,
        };
        // Everybody is waited for, also who is away, up to a bound.
        let last = |node: &NodeId| match *node == self.own {
            true => own.needed_from,
            false => self.stands.last.get(node).copied().unwrap_or(0),
        };
        let nodes = active.iter().chain(
            self.alive
                .iter()
                .filter(|node| !configuration.is_auxiliary(**node)),
        );
        let slowest = nodes.map(last).min().unwrap_or(0);
        // ‡ A node that lags copies a state instead where the log has no room: a log that is kept for it would stop everybody.
        let has_room = active.iter().all(|node| !env.room.scarce.contains(node));
        let lag_max = match has_room {
            true => env.limits.state_lag_bytes_max,
            false => 0,
        };
        let bound = end.saturating_sub(lag_max);
        let position = held.min(slowest.max(bound)).min(end);
        if position < trimmed + env.limits.state_trim_bytes {
            return None;
        }
        let before = slot_at(state, position)?;
        state.would_forget(before).then_some(before)
    }
}

/// The slot before which all is to be trimmed so that the output begins at this position, or a little before.
fn slot_at(state: &LogState, position: u64) -> Option<Slot> {
    let mut begin = state.streams_trimmed.bytes;
    for stream in &state.streams {
        let end = begin + stream.length.0;
        if position < end {
            return state.trim_point(stream.name, StreamPosition(position.saturating_sub(begin)));
        }
        begin = end;
    }
    let last = state.streams.last()?;
    state.trim_point(last.name, last.length)
}

//! Worlds small enough to visit every state: the production engine, a disk that loses what is not
//! durable, and messages that arrive once, late, in any order, or never.
//!
//! ```text
//!   Stand(n)      n stands for election; pre-votes are made up (they are for liveness only)
//!   Deliver(m)    a message under way arrives, once; one that never does is lost
//!   Sync(n)       n's oldest pending record becomes durable
//!   Restart(n)    n dies, loses what is not durable, and comes back
//!   Give(n)       a client gives n something to propose
//!   Change(n)     an administrator asks n for the reconfiguration
//!   Tell(n)       n's heartbeat tells what is chosen
//! ```
//!
//! The bounds: elections and values per node, slots, restarts, heartbeats, one reconfiguration. The following
//! is left out, and nothing is missed by it:
//!
//! - Time: all of `Timing` is zero, so every timer that is set may fire at once (`fingerprint`).
//! - Refusals, pre-votes and read rounds are lost: loss is always possible, and they serve
//!   liveness.
//! - A message that can never again change anything at its receiver is removed (`is_dead`): to
//!   deliver it and to lose it are the same.
//! - A node that will not restart any more has a disk that takes no time. Its records and what
//!   waits for them can be late no longer than messages can.

// Each user has its own part of this.
#![allow(dead_code)]

pub mod fingerprint;
pub mod memory;
pub mod node;
pub mod observer;
pub mod turn;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use paxos::*;
use stateright::{Model, Property};

use memory::Memory;
use node::Node;
use observer::Observer;

/// Bounds of a world. Nodes are numbered from 1; a list says it for each.
#[derive(Clone, Debug)]
pub struct Small {
    /// Weights in era 0; 0 is no member.
    pub weights: Vec<u32>,
    pub auxiliary: Option<NodeId>,
    pub elections: Vec<u32>,
    /// The number of times that each node's client gives something, and its bytes; 0 gives actions.
    pub values: Vec<u32>,
    pub bytes: u64,
    /// Nothing new is proposed at or above this slot.
    pub slots: u64,
    pub change: Option<Change>,
    /// The number of reconfigurations.
    pub changes: u32,
    /// Whether all of them name the first one's era, as by a caller who did not wait.
    pub impatient: bool,
    /// W: so many bytes may be proposed and not chosen.
    pub window: u64,
    /// It begins with node 1 elected by all, and proposing the reconfiguration: nothing else has
    /// happened, and nothing of the election is under way.
    pub begun: bool,
    /// The number of times that each node may restart, and all together.
    pub restarts: Vec<u32>,
    pub restarts_max: u32,
    pub tells: u32,
    /// Messages that can change nothing any more are kept, to show that nothing is missed without.
    pub keeps_the_dead: bool,
    /// Broken on purpose, to show that it would be seen.
    pub rule: Option<Rule>,
    pub memory: Memory,
}

/// The rules around the engine that a node could break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    PromisesAreForgotten,
    AcceptancesAreForgotten,
    /// Messages do not wait for their records.
    NothingIsAwaited,
}

/// An invariant by its name in docs/invariants.md, and what was seen. "assert" is the engine's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken(pub &'static str, pub String);

pub struct Envelope {
    key: u64,
    from: NodeId,
    to: NodeId,
    message: Message,
}

#[derive(Clone)]
pub struct State {
    nodes: Vec<Arc<(u64, Node)>>,
    net: Arc<BTreeMap<u64, Arc<Envelope>>>,
    observer: Arc<(u64, Observer)>,
    restarts: u32,
    changes: u32,
    told: u32,
    pub broken: Option<Broken>,
    fingerprint: u64,
}

#[derive(Clone, PartialEq)]
pub enum Step {
    Stand(NodeId),
    Deliver(Arc<Envelope>),
    Sync(NodeId),
    Restart(NodeId),
    Give(NodeId),
    Change(NodeId),
    Tell(NodeId),
}

impl Small {
    /// Members of weight 1, nobody does anything yet.
    pub fn of(members: usize) -> Small {
        Small {
            weights: vec![1; members],
            auxiliary: None,
            elections: vec![0; members],
            values: vec![0; members],
            bytes: 0,
            slots: 1,
            change: None,
            changes: 1,
            impatient: false,
            window: 64,
            begun: false,
            restarts: vec![0; members],
            restarts_max: 0,
            tells: 0,
            keeps_the_dead: false,
            rule: None,
            memory: Memory::default(),
        }
    }

    fn ids(&self) -> Vec<NodeId> {
        (1..=self.weights.len() as u32).map(NodeId).collect()
    }

    fn initial(&self) -> LogState {
        let ids = self.ids();
        let members = ids.iter().zip(&self.weights).filter(|(_, w)| **w > 0);
        let members = members.map(|(node, weight)| Member {
            node: *node,
            weight: *weight,
            auxiliary: self.auxiliary == Some(*node),
        });
        LogState::new(Configuration::new(members).expect("weights of a small world"))
    }

    fn may_restart(&self, state: &State, node: NodeId) -> bool {
        let restarts = state.node(node).starts - 1;
        state.restarts < self.restarts_max && restarts < self.restarts[index(node)]
    }
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

impl Model for Small {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let initial = self.initial();
        let ids = self.ids();
        let nodes = ids
            .iter()
            .map(|id| Node::new(*id, &initial, &ids, self.window));
        let observer = Observer::new(initial.clone());
        let mut state = State {
            nodes: nodes.map(|n| Arc::new((n.fingerprint(), n))).collect(),
            net: Arc::default(),
            observer: Arc::new((observer.fingerprint(), observer)),
            restarts: 0,
            changes: 0,
            told: 0,
            broken: None,
            fingerprint: 0,
        };
        state.look_at_itself();
        if self.begun {
            let first = NodeId(1);
            state.settle(self, Step::Stand(first));
            state
                .take(self, &Step::Change(first))
                .expect("an election breaks nothing");
            state.look_at_itself();
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        steps.extend(state.net.values().cloned().map(Step::Deliver));
        for id in self.ids() {
            let node = state.node(id);
            if node.elections < self.elections[index(id)] {
                steps.push(Step::Stand(id));
            }
            if node.has_pending() {
                steps.push(Step::Sync(id));
            }
            if self.may_restart(state, id) {
                steps.push(Step::Restart(id));
            }
            let free = node.engine.permit().is_some_and(|permit| {
                permit.content == PermitContent::Free && permit.next < Slot(self.slots)
            });
            if free && node.given < self.values[index(id)] {
                steps.push(Step::Give(id));
            }
            if free && self.change.is_some() && state.changes < self.changes {
                steps.push(Step::Change(id));
            }
            if state.told < self.tells && node.engine.first_unchosen() > Slot(0) {
                steps.push(Step::Tell(id));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = last.clone();
        match next.take(self, &step) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(broken) => next.broken = Some(broken),
        }
        next.look_at_itself();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Small>> {
        fn holds(state: &State, name: &str) -> bool {
            state.broken.as_ref().is_none_or(|broken| broken.0 != name)
        }
        let mut properties: Vec<Property<Small>> = vec![
            Property::always("I1", |_, s| holds(s, "I1")),
            Property::always("I2", |_, s| holds(s, "I2")),
            Property::always("I3", |_, s| holds(s, "I3")),
            Property::always("I4", |_, s| holds(s, "I4")),
            Property::always("I7", |_, s| holds(s, "I7")),
            Property::always("casting", |_, s| holds(s, "casting")),
            Property::always("assert", |_, s| holds(s, "assert")),
            Property::sometimes(CHOSEN, |_, s: &State| !s.observer.1.truth.is_empty()),
        ];
        if self.elections.iter().sum::<u32>() > 1 {
            properties.push(Property::sometimes(SECOND, |_, s: &State| {
                s.observer.1.is_chosen_by_a_second_leader()
            }));
            properties.push(Property::sometimes(AGAIN, |_, s: &State| {
                s.observer.1.is_proposed_again()
            }));
        }
        if self.change.is_some() {
            properties.push(Property::sometimes(NEW_ERA, |_, s: &State| {
                s.observer.1.truth.iter().any(|(_, term)| term.era > Era(0))
            }));
        }
        if self.begun {
            properties.push(Property::sometimes(FINISHED, |_, s: &State| {
                s.observer.1.is_finished_beside_another_term()
            }));
        }
        if self.restarts_max > 0 {
            properties.push(Property::sometimes(CAME_BACK, |_, s: &State| {
                let chosen = !s.observer.1.truth.is_empty();
                chosen && s.nodes.iter().any(|node| node.1.starts > 1)
            }));
        }
        properties
    }
}

pub const CHOSEN: &str = "something is chosen";
pub const SECOND: &str = "a second leader chose something";
pub const AGAIN: &str = "a value is proposed again by a later leader";
pub const NEW_ERA: &str = "something is chosen in a term of a new era";
pub const FINISHED: &str = "something is accepted in a term after its owner promised another";
pub const CAME_BACK: &str = "a node restarted and something is chosen";

impl State {
    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[index(id)].1
    }

    fn look_at_itself(&mut self) {
        let mut hasher = DefaultHasher::new();
        (self.restarts, self.changes, self.told).hash(&mut hasher);
        self.broken
            .as_ref()
            .map(|broken| broken.0)
            .hash(&mut hasher);
        self.nodes.iter().for_each(|node| node.0.hash(&mut hasher));
        self.net.keys().for_each(|key| key.hash(&mut hasher));
        self.observer.0.hash(&mut hasher);
        self.fingerprint = hasher.finish();
    }

    /// Takes the step, and everything that follows from it without losses.
    fn settle(&mut self, world: &Small, step: Step) {
        let mut next = Some(step);
        while let Some(step) = next {
            self.take(world, &step).expect("an election breaks nothing");
            let mut steps = Vec::new();
            world.actions(self, &mut steps);
            let follows = |step: &Step| matches!(step, Step::Deliver(_) | Step::Sync(_));
            next = steps.into_iter().find(follows);
        }
    }

    /// Takes a step. Returns false if nothing came of it.
    fn take(&mut self, world: &Small, step: &Step) -> Result<bool, Broken> {
        let id = match step {
            Step::Deliver(envelope) => {
                Arc::make_mut(&mut self.net).remove(&envelope.key);
                envelope.to
            }
            Step::Restart(id) => {
                self.restarts += 1;
                *id
            }
            Step::Change(id) => {
                self.changes += 1;
                *id
            }
            Step::Tell(id) => {
                self.told += 1;
                *id
            }
            Step::Stand(id) | Step::Sync(id) | Step::Give(id) => *id,
        };
        let before = &self.nodes[index(id)];
        let key = (before.0, step.key(), self.may_die(world, id));
        let made = world
            .memory
            .turn(key, || turn::take(world, &before.1, step, key.2))?;
        let Some(turn) = made else {
            return Ok(false);
        };
        self.nodes[index(id)] = turn.node.clone();
        let key = (self.observer.0, turn.key);
        let observer = &self.observer.1;
        self.observer = world.memory.observer(key, || observer.after(&turn))?;
        for envelope in &turn.sent {
            if !self.is_dead(world, envelope.to, &envelope.message) {
                Arc::make_mut(&mut self.net).insert(envelope.key, envelope.clone());
            }
        }
        self.sweep(world, id);
        Ok(true)
    }

    fn may_die(&self, world: &Small, id: NodeId) -> bool {
        world.may_restart(self, id)
    }

    fn sweep(&mut self, world: &Small, id: NodeId) {
        let dead = |envelope: &&Arc<Envelope>| {
            envelope.to == id && self.is_dead(world, id, &envelope.message)
        };
        let dead: Vec<u64> = self.net.values().filter(dead).map(|e| e.key).collect();
        if !dead.is_empty() {
            Arc::make_mut(&mut self.net).retain(|key, _| !dead.contains(key));
        }
    }

    /// Whether the message will never change anything at its receiver, however long it is on its way. A
    /// durable promise only grows; known chosen slots may be forgotten by a restart.
    fn is_dead(&self, world: &Small, to: NodeId, message: &Message) -> bool {
        if world.keeps_the_dead {
            return false;
        }
        let engine = &self.node(to).engine;
        let promised = engine.durable_promised().0;
        let leads = match engine.role() {
            Role::Leader { term } => Some(term),
            _ => None,
        };
        let finishes = engine.took_over_from().map(|finishing| finishing.term);
        let known = engine.first_unchosen();
        match message {
            Message::Prepare { term } => *term < promised,
            Message::Propose(proposal) => proposal.term < promised,
            Message::LeaderStatus { term, .. } => *term < promised,
            Message::Promise(promise) => promise.term < promised || leads == Some(promise.term),
            Message::Accepted { term, slots, .. } => {
                (*term < promised && leads != Some(*term) && finishes != Some(*term))
                    || slots.end <= known
            }
            Message::State(state) => state.next <= known && !self.may_die(world, to),
            Message::OfferCatchUp { first_unchosen } => {
                *first_unchosen <= known && !self.may_die(world, to)
            }
            _ => false,
        }
    }
}

impl Observer {
    fn is_chosen_by_a_second_leader(&self) -> bool {
        let mut chosen = self.truth.iter();
        chosen.any(|(_, term)| {
            let mut proposals = self.proposals.keys();
            proposals.any(|(_, earlier)| earlier < term && earlier.owner != term.owner)
        })
    }

    fn is_proposed_again(&self) -> bool {
        let again = |((slot, term), value): (&(u64, Term), &Value)| {
            let earlier = self
                .proposals
                .range((*slot, Term::default())..(*slot, *term));
            *value != Value::NoOp && earlier.into_iter().any(|(_, other)| other == value)
        };
        self.proposals.iter().any(again)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.fingerprint);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.broken {
            Some(Broken(name, text)) => write!(f, "{name}: {text}"),
            None => write!(f, "{:?}", self.observer.1.truth),
        }
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Envelope) -> bool {
        self.key == other.key
    }
}

impl Step {
    /// The step as seen by the node that takes it.
    fn key(&self) -> u64 {
        match self {
            Step::Deliver(envelope) => envelope.key,
            Step::Stand(_) => 1,
            Step::Sync(_) => 2,
            Step::Restart(_) => 3,
            Step::Give(_) => 4,
            Step::Change(_) => 5,
            Step::Tell(_) => 6,
        }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Deliver(e) => write!(f, "{} -> {}: {:?}", e.from, e.to, e.message),
            Step::Stand(id) => write!(f, "{id} stands"),
            Step::Sync(id) => write!(f, "{id}'s oldest record is durable"),
            Step::Restart(id) => write!(f, "{id} restarts"),
            Step::Give(id) => write!(f, "{id}'s client gives something"),
            Step::Change(id) => write!(f, "{id} is asked for the reconfiguration"),
            Step::Tell(id) => write!(f, "{id} tells what is chosen"),
        }
    }
}

//! Sees all that is durable and all that is said, and knows the invariants of docs/invariants.md.

use std::collections::{BTreeMap, BTreeSet};

use paxos::*;

use super::Broken;
use super::node::{Node, Record};
use super::turn::{Seen, Turn};

#[derive(Clone, Debug)]
pub struct Observer {
    /// Everything ever durably accepted, by slot and term.
    pub acceptances: BTreeMap<u64, BTreeMap<Term, (Value, BTreeSet<NodeId>)>>,
    pub proposals: BTreeMap<(u64, Term), Value>,
    /// The durable promise of each node, by its records alone, and what it left open.
    promised: BTreeMap<NodeId, (Term, Option<Finishing>)>,
    /// The nodes that said that they promised a term.
    promises: BTreeMap<Term, BTreeSet<NodeId>>,
    finished: bool,
    /// The chosen values by the definition, with the first term that chose each.
    pub truth: Vec<(Value, Term)>,
    /// The state before each slot.
    pub history: Vec<LogState>,
}

impl Observer {
    pub fn new(initial: LogState) -> Observer {
        Observer {
            acceptances: BTreeMap::new(),
            proposals: BTreeMap::new(),
            promised: BTreeMap::new(),
            promises: BTreeMap::new(),
            finished: false,
            truth: Vec::new(),
            history: vec![initial],
        }
    }

    /// `truth` and `history` follow from the rest.
    pub fn fingerprint(&self) -> u64 {
        let followed = (&self.acceptances, &self.proposals);
        super::fingerprint::of(&(followed, &self.promised, &self.promises, self.finished))
    }

    /// The observer after a node's turn.
    pub fn after(&self, turn: &Turn) -> Result<Observer, Broken> {
        let mut next = self.clone();
        for seen in &turn.seen {
            match seen {
                Seen::Sent(from, message) => next.on_sent(*from, message)?,
                Seen::Proposed(proposal) => next.on_proposed(proposal)?,
                Seen::Durable(node, record) => next.on_durable(*node, record)?,
            }
        }
        next.check_node(&turn.node.1)?;
        Ok(next)
    }

    fn on_proposed(&mut self, proposal: &Proposal) -> Result<(), Broken> {
        let Proposal {
            term, slots, value, ..
        } = proposal;
        if self
            .promised
            .get(&term.owner)
            .is_none_or(|(promised, _)| promised < term)
        {
            let text = format!("{term} proposes before its owner's promise of it is durable");
            return Err(Broken("I4", text));
        }
        for slot in slots.start.0..slots.end.0 {
            let before = self.proposals.entry((slot, *term));
            if *before.or_insert_with(|| value.clone()) != *value {
                let text = format!("{term} proposes two values for slot {slot}");
                return Err(Broken("I3", text));
            }
            if let Some((earlier, other)) = self.could_be_chosen(slot, *term, value) {
                let text = format!(
                    "{term} proposes {value:?} for slot {slot}, and {other:?} may be chosen in {earlier}"
                );
                return Err(Broken("I2", text));
            }
        }
        Ok(())
    }

    /// Another value of an earlier term that is chosen or may still be: by nodes that accepted it, or have
    /// promised nothing later.
    fn could_be_chosen(&self, slot: u64, term: Term, value: &Value) -> Option<(Term, Value)> {
        let state = self.history.get(slot as usize)?;
        let earlier = self.proposals.range((slot, Term::default())..(slot, term));
        let mut others = earlier.filter(|(_, other)| *other != value);
        let (found, other) = others.find(|((_, earlier), _)| {
            let accepted = self
                .acceptances
                .get(&slot)
                .and_then(|by_term| by_term.get(earlier));
            may_choose(*earlier, state)
                && state.configuration.is_quorum(|node| {
                    accepted.is_some_and(|(_, nodes)| nodes.contains(&node))
                        || self.may_accept(node, slot, *earlier)
                })
        })?;
        Some((found.1, other.clone()))
    }

    /// Whether the node may still accept, by its durable promises.
    fn may_accept(&self, node: NodeId, slot: u64, term: Term) -> bool {
        self.promised.get(&node).is_none_or(|(promised, open)| {
            let finishes = |f: Finishing| f.term == term && slot < f.below.0;
            *promised <= term || open.is_some_and(finishes)
        })
    }

    fn on_durable(&mut self, node: NodeId, record: &Record) -> Result<(), Broken> {
        match record {
            Record::Promise(term, finishing, state) => {
                if term.0.era > state.era {
                    let text = format!("{node} promises {} without its era's state", term.0);
                    return Err(Broken("I7", text));
                }
                let promised = self.promised.entry(node).or_default();
                if finishing.is_some_and(|f| f.term != promised.0 || f.term.owner != node) {
                    let text = format!("{node} leaves {finishing:?} open after {promised:?}");
                    return Err(Broken("I4", text));
                }
                if term.0 >= promised.0 {
                    *promised = (term.0, *finishing);
                }
            }
            Record::State(_) => {}
            Record::Accept(term, slots, value) => {
                let last = slots.end.0 - 1;
                if !self.may_accept(node, last, *term) {
                    let promised = &self.promised[&node];
                    let text =
                        format!("{node} accepts {slots} in {term} after it promised {promised:?}");
                    return Err(Broken("I4", text));
                }
                let promised = self.promised.entry(node).or_default();
                if *term >= promised.0 {
                    *promised = (*term, None);
                } else {
                    self.finished = true;
                }
                for slot in slots.start.0..slots.end.0 {
                    let by_term = self.acceptances.entry(slot).or_default();
                    let (accepted, nodes) = by_term
                        .entry(*term)
                        .or_insert_with(|| (value.clone(), BTreeSet::new()));
                    if accepted != value {
                        let text = format!("two values are accepted in {term} for slot {slot}");
                        return Err(Broken("I3", text));
                    }
                    nodes.insert(node);
                }
                self.choose();
                return self.check_agreement();
            }
        }
        Ok(())
    }

    pub fn is_finished_beside_another_term(&self) -> bool {
        self.finished
    }

    fn choose(&mut self) {
        loop {
            let state = &self.history[self.truth.len()];
            let Some(by_term) = self.acceptances.get(&(self.truth.len() as u64)) else {
                return;
            };
            let chosen = by_term.iter().find(|(term, (_, nodes))| {
                may_choose(**term, state) && state.configuration.is_quorum(|n| nodes.contains(&n))
            });
            let Some((term, (value, _))) = chosen else {
                return;
            };
            let mut next = state.clone();
            next.apply(SlotRange::new(next.next, Slot(next.next.0 + 1)), value);
            self.truth.push((value.clone(), *term));
            self.history.push(next);
        }
    }

    /// Checks agreement over all terms, not only the first that chose.
    fn check_agreement(&self) -> Result<(), Broken> {
        for (slot, (value, first)) in self.truth.iter().enumerate() {
            let state = &self.history[slot];
            for (term, (other, nodes)) in &self.acceptances[&(slot as u64)] {
                let chosen = may_choose(*term, state)
                    && state.configuration.is_quorum(|node| nodes.contains(&node));
                if chosen && other != value {
                    let text = format!("slot {slot}: {value:?} in {first}, {other:?} in {term}");
                    return Err(Broken("I1", text));
                }
            }
        }
        self.check_eras()
    }

    fn check_eras(&self) -> Result<(), Broken> {
        let steps = self.history.windows(2).zip(&self.truth);
        for (states, (value, _)) in steps {
            let changes = states[0].era != states[1].era;
            if let (true, Value::Action(action)) = (changes, value)
                && let Action::Reconfigure { from, .. } = action.as_ref()
                && *from != states[0].era
            {
                let text = format!(
                    "what was asked of {from:?} took effect in {:?}",
                    states[0].era
                );
                return Err(Broken("I7", text));
            }
        }
        Ok(())
    }

    /// Checks that a promise and an acceptance are durable before they are told, and that at a casting vote
    /// those who promised have left a quorum, with the leader, to those who did not.
    fn on_sent(&mut self, from: NodeId, message: &Message) -> Result<(), Broken> {
        let (durable, _) = self.promised.get(&from).copied().unwrap_or_default();
        match message {
            Message::Promise(promise) if promise.term > durable => {
                let text = format!("{from} tells a promise that is not durable");
                return Err(Broken("I4", text));
            }
            Message::Promise(promise) => {
                self.promises.entry(promise.term).or_default().insert(from);
            }
            Message::LeaderStatus {
                term,
                finishing: Some(_),
                ..
            } => {
                let promises = self.promises.get(term);
                let goes_on =
                    |node| node == from || promises.is_none_or(|nodes| !nodes.contains(&node));
                let mut states = self.history.iter();
                let state = states.find(|state| state.era == term.era);
                if !state.is_some_and(|state| state.configuration.is_quorum(goes_on)) {
                    let text = format!("{term} took over, and {promises:?} had promised it");
                    return Err(Broken("casting", text));
                }
            }
            Message::Accepted { term, slots, .. } => {
                let accepted = (slots.start.0..slots.end.0).all(|slot| {
                    let in_term = self.acceptances.get(&slot).and_then(|t| t.get(term));
                    in_term.is_some_and(|(_, nodes)| nodes.contains(&from))
                        || slot < self.truth.len() as u64
                });
                if !accepted {
                    let text = format!("{from} tells an acceptance that is not durable");
                    return Err(Broken("I4", text));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The node's view of what is chosen is the truth's beginning.
    fn check_node(&self, node: &Node) -> Result<(), Broken> {
        let next = node.engine.first_unchosen().0 as usize;
        if self.history.get(next) != Some(node.engine.state()) {
            let text = format!("{} takes slots below {next} for chosen otherwise", node.id);
            return Err(Broken("I1", text));
        }
        if node.engine.promised().0.era > node.engine.state().era {
            let text = format!("{} promised an era that it does not know", node.id);
            return Err(Broken("I7", text));
        }
        Ok(())
    }
}

/// P7: the slot's era is the term's, or the next one.
fn may_choose(term: Term, state: &LogState) -> bool {
    term.era <= state.era && state.era.0 <= term.era.0 + 1
}

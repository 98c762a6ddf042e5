//! An observer that sees everything, believes no engine, and knows the invariants.

use super::*;

impl World {
    pub(super) fn on_durable_acceptance(
        &mut self,
        at: usize,
        id: NodeId,
        term: Term,
        slots: SlotRange,
        value: &Value,
    ) {
        for slot in slots.start.0..slots.end.0 {
            if let Value::Content { stream, offset } = value {
                let byte = (*stream, slot - offset.0);
                self.nodes[at].bytes_durable.insert(byte);
            }
            let by_term = self.acceptances.entry(slot).or_default();
            let entry = by_term
                .entry(term)
                .or_insert_with(|| (value.clone(), BTreeSet::new()));
            assert_eq!(&entry.0, value, "I3: one term, one slot, one value");
            entry.1.insert(id);
        }
        self.observe_chosen();
    }

    /// The chosen values by the definition, P7; agreement is checked for every slot and term.
    pub(super) fn observe_chosen(&mut self) {
        loop {
            let slot = self.truth.len() as u64;
            let state = self.history.last().unwrap();
            let Some(by_term) = self.acceptances.get(&slot) else {
                return;
            };
            let chosen = by_term.iter().find(|(term, (_, nodes))| {
                term.era <= state.era
                    && state.era.0 <= term.era.0 + 1
                    && state.configuration.is_quorum(|node| nodes.contains(&node))
            });
            let Some((_, (value, _))) = chosen else {
                return;
            };
            let value = value.clone();
            let mut next = state.clone();
            next.apply(SlotRange::new(Slot(slot), Slot(slot + 1)), &value);
            self.history.push(next);
            self.truth.push(value);
        }
    }

    /// I1 over all terms: nothing else was ever chosen in these slots, under any term.
    pub fn check_agreement(&self) {
        for (slot, value) in self.truth.iter().enumerate() {
            let state = &self.history[slot];
            for (term, (other, nodes)) in &self.acceptances[&(slot as u64)] {
                let chosen = term.era <= state.era
                    && state.era.0 <= term.era.0 + 1
                    && state.configuration.is_quorum(|node| nodes.contains(&node));
                assert!(!chosen || value == other, "I1: slot {slot} in {term}");
            }
        }
    }

    pub(super) fn proposed(&mut self, term: Term, slots: SlotRange, value: &Value) {
        for slot in slots.start.0..slots.end.0 {
            let before = self
                .proposed
                .entry((term, slot))
                .or_insert_with(|| value.clone());
            assert_eq!(before, value, "I3: {term} slot {slot}");
            // P5 in its consequence: nothing but the chosen value is proposed in a later term.
            if let Some(chosen) = self.truth.get(slot as usize) {
                let in_term = self.acceptances[&slot]
                    .iter()
                    .find(|(_, (v, nodes))| {
                        v == chosen
                            && self.history[slot as usize]
                                .configuration
                                .is_quorum(|node| nodes.contains(&node))
                    })
                    .map(|(term, _)| *term);
                if in_term.is_some_and(|chosen_in| chosen_in < term) {
                    assert_eq!(chosen, value, "P5: {term} slot {slot}");
                }
            }
        }
    }

    /// The position below which a stream is trimmed. A node that is to drop a byte may not have heard of the
    /// trim yet, and one that has may be down.
    pub(super) fn trimmed_below(&self, stream: StreamName) -> u64 {
        let state = self.history.last().unwrap_or(&self.initial);
        match state.stream(stream) {
            Some(stream) => stream.trimmed.0,
            None if state.is_forgotten(stream) => u64::MAX,
            None => 0,
        }
    }

    pub(super) fn check_chosen(&mut self, at: usize, up_to: Slot) {
        let id = self.nodes[at].id;
        assert!(
            up_to.0 as usize <= self.truth.len(),
            "I1: {id} takes slots below {up_to} for chosen, and only {} are",
            self.truth.len()
        );
        self.chosen_told = self.chosen_told.max(up_to);
    }

    /// Checks what must hold of a node after every step.
    pub(super) fn check_node(&self, at: usize) {
        let node = &self.nodes[at];
        let Some(engine) = &node.engine else {
            return;
        };
        let next = engine.first_unchosen();
        assert!(next.0 as usize <= self.truth.len(), "I1");
        assert_eq!(engine.state(), &self.history[next.0 as usize], "I1, I6, I7");
        assert!(engine.proposed_up_to() >= next);
        if let Some(permit) = engine.permit() {
            assert_eq!(engine.role(), Role::Leader { term: permit.term });
            let left_open = engine.finishing().is_some_and(|finishing| {
                finishing.term == permit.term && permit.limit <= finishing.below
            });
            assert!(
                engine.promised().0 == permit.term || left_open,
                "raising the promise closes permits: {permit:?}"
            );
            assert_eq!(permit.next, engine.proposed_up_to());
        }
    }
}

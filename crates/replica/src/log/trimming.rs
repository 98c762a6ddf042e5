//! What is forgotten leaves the store.

use std::collections::BTreeMap;

use paxos::{Slot, StreamName, StreamPosition, Value};

use super::Log;

impl Log {
    /// Something was trimmed and could not leave the store at once.
    pub(crate) fn trim_what_was_held_back(&mut self) {
        if self.core.store.is_trim_held_back() {
            let context = self.core.context();
            self.core.store.bear_out(context);
            if self.core.store.may_trim() {
                self.trim_store();
            }
        }
    }

    /// What the state says is trimmed leaves the store, and what an auxiliary is released from.
    /// Acceptances that are not known chosen keep
    /// their bytes, whatever became of their stream: a later leader may have to propose them again.
    pub(crate) fn trim_store(&mut self) {
        let state = self.core.engine.state();
        let released = self.released();
        if state.trimmed == Slot(0) && released.is_empty() {
            return;
        }
        let mut unchosen: BTreeMap<StreamName, u64> = BTreeMap::new();
        for run in self.core.engine.accepted() {
            if let Value::Content { stream, offset } = &run.value {
                let position = run.slots.start.0.saturating_sub(offset.0);
                let lowest = unchosen.entry(*stream).or_insert(position);
                *lowest = position.min(*lowest);
            }
        }
        let table: BTreeMap<_, _> = state.streams.iter().map(|s| (s.name, s.trimmed)).collect();
        let some_left_it = state.streams_trimmed.count > 0;
        self.core.store.trim(state.next, &|stream| {
            let below = match table.get(&stream) {
                Some(trimmed) => *trimmed,
                None if some_left_it && !state.is_new(stream) => StreamPosition(u64::MAX),
                None => StreamPosition(0),
            };
            let below = below.max(released.get(&stream).copied().unwrap_or_default());
            match unchosen.get(&stream) {
                Some(position) => below.min(StreamPosition(*position)),
                None => below,
            }
        });
    }
}

//! Bytes that nodes miss, fetch, and may let go.

use super::*;

impl World {
    /// Counts the bytes that a node lacks of its new state, before anybody hears of that state.
    pub(super) fn count_missing(&mut self, at: usize) {
        let missing = self.missing(at).len() as u64;
        if self.nodes[at].engine.is_some() {
            self.input(at, Input::MissingBytes(missing));
        }
    }

    /// The missing bytes. Only logs with auxiliaries have bytes that may be dropped, so only there it matters.
    pub(super) fn missing(&self, at: usize) -> Vec<(StreamName, u64)> {
        let node = &self.nodes[at];
        let Some(engine) = &node.engine else {
            return Vec::new();
        };
        let state = engine.state();
        if !state.configuration.has_auxiliaries() {
            return Vec::new();
        }
        let bytes = state.streams.iter().flat_map(|stream| {
            (stream.trimmed.0..stream.length.0).map(|position| (stream.name, position))
        });
        bytes
            .filter(|byte| !node.bytes_durable.contains(byte))
            .collect()
    }

    /// Fetches missing bytes from any node that has them.
    pub(super) fn fetch(&mut self, at: usize) {
        let mut missing = self.missing(at);
        if missing.is_empty()
            || self.nodes[at]
                .engine
                .as_ref()
                .is_some_and(Engine::is_auxiliary)
        {
            return;
        }
        let id = self.nodes[at].id;
        missing.truncate(1 + self.rng.below(400) as usize);
        for byte in missing {
            let has = |other: &SimNode| {
                let up = other.engine.is_some() && self.reachable(other.id, id);
                up && other.bytes_durable.contains(&byte)
            };
            if self.nodes.iter().any(has) {
                self.nodes[at].bytes.insert(byte);
                self.nodes[at].bytes_durable.insert(byte);
            }
        }
        self.count_missing(at);
    }

    /// ‡ The bytes that an auxiliary drops, every active member of its era durably holds.
    pub(super) fn release(&mut self, at: usize, below: Slot) {
        let engine = self.nodes[at].engine.as_ref().unwrap();
        let (id, state) = (self.nodes[at].id, engine.state().clone());
        assert!(state.configuration.is_auxiliary(id) && below <= state.next);
        for (stream, end) in engine.bytes_below(below) {
            let of_stream = (stream, 0)..(stream, end.0);
            let held: Vec<_> = self.nodes[at].bytes.range(of_stream).copied().collect();
            let trimmed = self.trimmed_below(stream);
            for byte in held {
                for member in state
                    .configuration
                    .members()
                    .iter()
                    .filter(|m| !m.auxiliary)
                {
                    let other = &self.nodes[self.index(member.node)];
                    let holds = other.bytes_durable.contains(&byte);
                    assert!(
                        holds || byte.1 < trimmed,
                        "I5: {id} drops byte {byte:?}, and {} does not hold it",
                        member.node
                    );
                }
                self.releases += 1;
                self.nodes[at].bytes.remove(&byte);
                self.nodes[at].bytes_durable.remove(&byte);
            }
        }
    }
}

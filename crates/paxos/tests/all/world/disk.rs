//! Disks: writes, their durability, and the remains after a crash.

use super::*;

impl World {
    pub fn start(&mut self, at: usize) {
        let seed = self.rng.next();
        let node = &mut self.nodes[at];
        let mut recovery = Recovery::new(self.initial.clone());
        for record in node.durable.clone() {
            match record {
                Record::Checkpoint(checkpoint) => recovery.on_checkpoint(checkpoint),
                Record::Promise(term, finishing, state) => {
                    recovery.on_promise(term, finishing, state);
                }
                Record::State(state) => recovery.on_state(state),
                Record::Accept(term, slots, value) => {
                    recovery.on_accept(term, slots, value).expect("I4");
                }
                Record::Chosen(slot) => recovery.on_chosen(slot).expect("chosen is accepted"),
            }
        }
        let checkpoint = recovery.finish();
        for run in &checkpoint.accepted {
            if let Value::Content { stream, offset } = run.value {
                for slot in run.slots.start.0..run.slots.end.0 {
                    assert!(
                        node.bytes_durable.contains(&(stream, slot - offset.0)),
                        "an acceptance without its bytes: {run:?}"
                    );
                }
            }
        }
        node.bytes = node.bytes_durable.clone();
        node.durable.clear();
        node.durable.push(Record::Checkpoint(checkpoint.clone()));
        node.incarnation += 1;
        node.counter = 0;
        node.durable_up_to = RecordNumber(0);
        node.alive.clear();
        node.heard.clear();
        let config = EngineConfig {
            node: node.id,
            incarnation: node.incarnation,
            seed,
            unchosen_bytes_max: 200,
            timing: Timing::default(),
            phase_one: self.phase_one,
        };
        let id = node.id;
        node.engine = Some(Engine::new(config, checkpoint, Time::from_micros(self.now)));
        self.say(format_args!("{id} starts"));
        self.nodes[at].recount = true;
        self.drain(at);
    }

    pub fn crash(&mut self, at: usize) {
        let keep = self.rng.below(self.nodes[at].pending.len() as u64 + 1);
        for _ in 0..keep {
            self.sync_one(at);
        }
        let node = &mut self.nodes[at];
        node.engine = None;
        node.pending.clear();
        node.outbox.clear();
        node.sync_at = None;
        node.writer = None;
        node.opening = None;
        node.reads.clear();
        node.bound_since = None;
        let id = node.id;
        self.say(format_args!("{id} crashes, {keep} records survive"));
    }

    /// One pending record becomes durable.
    pub(super) fn sync_one(&mut self, at: usize) -> Option<RecordNumber> {
        let (number, record) = self.nodes[at].pending.pop_front()?;
        let id = self.nodes[at].id;
        match &record {
            Record::Accept(term, slots, value) => {
                self.on_durable_acceptance(at, id, *term, *slots, value);
            }
            Record::Checkpoint(_) => self.nodes[at].durable.clear(),
            _ => {}
        }
        self.nodes[at].durable.push(record);
        Some(number)
    }

    pub(super) fn sync(&mut self, at: usize) {
        let count = 1 + self.rng.below(self.nodes[at].pending.len() as u64 + 1);
        self.sync_so_many(at, count);
    }

    pub(super) fn sync_so_many(&mut self, at: usize, count: u64) {
        let mut last = RecordNumber(0);
        for _ in 0..count {
            if let Some(number) = self.sync_one(at) {
                last = last.max(number);
            }
        }
        let node = &mut self.nodes[at];
        node.sync_at = if node.pending.is_empty() {
            None
        } else {
            Some(self.now + 200 + self.rng.below(3_000))
        };
        if last <= node.durable_up_to {
            return;
        }
        node.durable_up_to = last;
        let id = node.id;
        let mut ready = Vec::new();
        let mut waiting = VecDeque::new();
        for (after, to, message) in std::mem::take(&mut node.outbox) {
            if after <= last {
                ready.push((to, message));
            } else {
                waiting.push_back((after, to, message));
            }
        }
        node.outbox = waiting;
        for (to, message) in ready {
            self.transmit(id, to, message);
        }
        self.input(at, Input::Durable { up_to: last });
    }
}

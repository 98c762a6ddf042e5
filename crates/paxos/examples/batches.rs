//! A million batches of 1500 slots through a leader and two followers in one thread, and how long
//! that takes: what the engine costs when disk and network cost nothing.
//!
//! ```sh
//! cargo run --release -p logberg-paxos --example batches
//! ```

use std::time::Instant;

use logberg_paxos::*;

const BATCHES: u64 = 1_000_000;
pub const SLOTS: u64 = 1500;

fn engine(node: u32) -> Engine {
    let members = Configuration::equal((1..=3).map(NodeId)).unwrap();
    let config = EngineConfig {
        node: NodeId(node),
        incarnation: 1,
        seed: 1,
        unchosen_bytes_max: 64 << 20,
        timing: Timing::default(),
        phase_one: PhaseOne::PerTerm,
    };
    let checkpoint = Recovery::new(LogState::new(members)).finish();
    Engine::new(config, checkpoint, Time::ZERO)
}

/// Performs all outputs at once: disks and networks that take no time.
fn settle(engines: &mut [Engine], now: Time) {
    let mut busy = true;
    while busy {
        busy = false;
        for at in 0..engines.len() {
            let mut durable = None;
            while let Some(output) = engines[at].poll_output() {
                busy = true;
                let from = NodeId(at as u32 + 1);
                match output {
                    Output::Persist { record, .. } => durable = Some(record),
                    Output::Send {
                        to, message, after, ..
                    } => {
                        if let Some(up_to) = durable.filter(|up_to| after <= *up_to) {
                            engines[at].handle(now, Input::Durable { up_to });
                            durable = None;
                        }
                        let to = to.0 as usize - 1;
                        engines[to].handle(now, Input::Message { from, message });
                    }
                    Output::Replicate(proposal) => {
                        for (to, engine) in engines.iter_mut().enumerate() {
                            if to != at {
                                let message = Message::Propose(proposal.clone());
                                engine.handle(now, Input::Message { from, message });
                            }
                        }
                    }
                    _ => {}
                }
            }
            if let Some(up_to) = durable {
                engines[at].handle(now, Input::Durable { up_to });
            }
        }
    }
}

/// A leader with an open stream and two followers.
pub struct Cluster {
    engines: [Engine; 3],
    term: Term,
    stream: StreamName,
    now: Time,
}

impl Cluster {
    pub fn new() -> Cluster {
        let mut engines = [engine(1), engine(2), engine(3)];
        for (at, engine) in engines.iter_mut().enumerate() {
            for peer in (1..=3).filter(|peer| *peer != at as u32 + 1) {
                engine.handle(Time::ZERO, Input::PeerAlive(NodeId(peer)));
            }
        }
        let now = engines[0].deadline().unwrap();
        engines[0].handle(now, Input::Timer);
        settle(&mut engines, now);
        let Role::Leader { term } = engines[0].role() else {
            panic!("node 1 leads");
        };
        let stream = StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter: 1,
            },
        };
        let open = Action::OpenStream(OpenStream {
            stream,
            label: String::new(),
            metadata: Vec::new(),
            continues: None,
        });
        engines[0].propose(now, open).unwrap();
        settle(&mut engines, now);
        Cluster {
            engines,
            term,
            stream,
            now,
        }
    }

    /// One batch of the stream, durable everywhere and chosen.
    pub fn push(&mut self, batch: u64) {
        self.push_of(StreamPosition(batch * SLOTS), SLOTS);
    }

    /// A batch of so many slots, at the end of the stream.
    pub fn push_of(&mut self, position: StreamPosition, count: u64) {
        let Cluster {
            engines,
            term,
            stream,
            now,
        } = self;
        let first_slot = engines[0].permit().unwrap().next;
        let digest = Digest((position.0 / count) as u32);
        let written = BytesWritten {
            term: *term,
            first_slot,
            count,
            stream: *stream,
            position,
            digest,
        };
        let proposal = Proposal {
            term: *term,
            slots: SlotRange::new(first_slot, Slot(first_slot.0 + count)),
            value: Value::Content {
                stream: *stream,
                offset: Offset(first_slot.0 - position.0),
            },
            digest,
            chosen_up_to: engines[0].first_unchosen(),
        };
        engines[0].handle(*now, Input::BytesWritten(written));
        for follower in &mut engines[1..] {
            let message = Message::Propose(proposal.clone());
            let from = NodeId(1);
            follower.handle(*now, Input::Message { from, message });
        }
        settle(engines, *now);
    }

    /// The stream's bytes, as far as they are chosen.
    pub fn chosen(&self) -> u64 {
        self.engines[0].state().current_stream().unwrap().length.0
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}

fn main() {
    let mut cluster = Cluster::new();
    let begin = Instant::now();
    for batch in 0..BATCHES {
        cluster.push(batch);
    }
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!(cluster.chosen(), BATCHES * SLOTS);
    println!("{BATCHES} batches of {SLOTS} slots chosen in {seconds:.3} s");
}

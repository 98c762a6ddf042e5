//! One node of a small world: the production engine, and a disk that loses what is not durable.

use std::collections::VecDeque;
use std::time::Duration;

use paxos::*;

use super::fingerprint;
use super::{Broken, Rule};

/// Every timer may fire at once, and nothing is too early: see `fingerprint`.
const TIMING: Timing = Timing {
    candidate_backoff_first: Duration::ZERO,
    candidate_backoff_max: Duration::ZERO,
    retry: Duration::ZERO,
    leader_timeout: Duration::ZERO,
    phase_one_interval_min: Duration::ZERO,
    missing_bytes_handicap: Duration::ZERO,
    abdication: Duration::ZERO,
    engage_after: Duration::ZERO,
    disengage_after: Duration::ZERO,
    auxiliary_pace: Duration::ZERO,
};

#[derive(Clone, Debug)]
pub enum Record {
    Promise(PromisedTerm, Option<Finishing>, LogState),
    State(LogState),
    Accept(Term, SlotRange, Value),
}

/// A deed of a node that others may notice.
pub enum Deed {
    Sent(NodeId, Message),
    Proposed(Proposal),
    Durable(Record),
}

#[derive(Clone)]
pub struct Node {
    pub id: NodeId,
    pub engine: Engine,
    window: u64,
    clock: Time,
    /// The state that recovery would make of the durable records.
    disk: Recovery,
    pending: VecDeque<(RecordNumber, Record)>,
    /// Messages that wait for their records.
    outbox: VecDeque<(RecordNumber, NodeId, Message)>,
    durable: RecordNumber,
    last: RecordNumber,
    pub starts: u32,
    pub elections: u32,
    /// Values its clients have given it.
    pub given: u32,
    /// Reconfigurations it was asked for: each is for the era that the one before begins.
    pub changed: u32,
}

impl Node {
    pub fn new(id: NodeId, initial: &LogState, peers: &[NodeId], window: u64) -> Node {
        let disk = Recovery::new(initial.clone());
        let mut node = Node {
            id,
            engine: engine(id, disk.clone().finish(), window),
            window,
            clock: Time::ZERO,
            disk,
            pending: VecDeque::new(),
            outbox: VecDeque::new(),
            durable: RecordNumber(0),
            last: RecordNumber(0),
            starts: 1,
            elections: 0,
            given: 0,
            changed: 0,
        };
        node.meet(peers);
        node
    }

    /// Meets the peers. All count as alive: silence is a matter of which messages arrive.
    fn meet(&mut self, peers: &[NodeId]) {
        for peer in peers {
            if *peer != self.id {
                self.engine.handle(self.clock, Input::PeerAlive(*peer));
                while self.engine.poll_output().is_some() {}
            }
        }
    }

    pub fn fingerprint(&self) -> u64 {
        let engine = fingerprint::with_records(&self.engine, self.durable, self.last);
        let ahead = |record: &RecordNumber| record.0.saturating_sub(self.durable.0);
        let pending: Vec<_> = self.pending.iter().map(|(n, r)| (ahead(n), r)).collect();
        let outbox: Vec<_> = self.outbox.iter().collect();
        let outbox: Vec<_> = outbox.iter().map(|(n, to, m)| (ahead(n), to, m)).collect();
        let rest = (&self.disk, pending, outbox);
        fingerprint::of(&(
            engine,
            rest,
            self.starts,
            self.elections,
            self.given,
            self.changed,
        ))
    }

    pub fn input(&mut self, input: Input, rule: Option<Rule>) -> Vec<Deed> {
        self.engine.handle(self.clock, input);
        self.drain(rule)
    }

    /// Stands for election, however the pre-votes went: they are for liveness only, so the offers are made
    /// up. Does nothing if the node leads or may not stand.
    pub fn stand(&mut self, peers: &[NodeId], rule: Option<Rule>) -> Option<Vec<Deed>> {
        let before = self.engine.promised();
        let id = self.id;
        let mut deeds = Vec::new();
        if let Role::Leader { .. } = self.engine.role() {
            return None;
        }
        let leader = self.engine.leader();
        if let Some((leader, _)) = leader {
            deeds.extend(self.input(Input::PeerSilent(leader), rule));
            deeds.extend(self.input(Input::PeerAlive(leader), rule));
        }
        for _ in 0..3 {
            let due = self.engine.deadline().unwrap_or_default();
            self.clock = self.clock.max(due) + Duration::from_micros(1);
            deeds.extend(self.input(Input::Timer, rule));
            for from in peers.iter().filter(|peer| **peer != id) {
                let message = Message::OfferVote {
                    promised: PromisedTerm::default(),
                    missing_bytes: false,
                };
                let offer = Input::Message {
                    from: *from,
                    message,
                };
                if self.engine.promised() == before {
                    deeds.extend(self.input(offer, rule));
                }
            }
            if self.engine.promised() > before {
                self.elections += 1;
                return Some(deeds);
            }
        }
        None
    }

    pub fn propose(&mut self, action: Action, rule: Option<Rule>) -> Option<Vec<Deed>> {
        self.engine.propose(self.clock, action).ok()?;
        Some(self.drain(rule))
    }

    /// Gives `count` bytes to disk and network under the open permit.
    pub fn write(&mut self, stream: StreamName, position: u64, count: u64) -> Option<Proposal> {
        let permit = self.engine.permit()?;
        let end = Slot(permit.next.0 + count);
        (end <= permit.limit).then(|| Proposal {
            term: permit.term,
            slots: SlotRange::new(permit.next, end),
            value: Value::Content {
                stream,
                offset: Offset(permit.next.0 - position),
            },
            digest: Digest(7),
            chosen_up_to: self.engine.first_unchosen(),
        })
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The oldest pending record becomes durable.
    pub fn sync(&mut self, rule: Option<Rule>) -> Result<Vec<Deed>, Broken> {
        let Some((number, record)) = self.pending.pop_front() else {
            return Ok(Vec::new());
        };
        self.durable = number;
        let mut deeds = vec![Deed::Durable(record.clone())];
        match (record, rule) {
            (Record::Promise(_, _, state), Some(Rule::PromisesAreForgotten)) => {
                self.disk.on_state(state);
            }
            (Record::Accept(..), Some(Rule::AcceptancesAreForgotten)) => {}
            (Record::Promise(term, finishing, state), _) => {
                self.disk.on_promise(term, finishing, state);
            }
            (Record::State(state), _) => self.disk.on_state(state),
            (Record::Accept(term, slots, value), _) => {
                let accepted = self.disk.on_accept(term, slots, value);
                accepted.map_err(|error| {
                    Broken(
                        "I4",
                        format!("{}'s disk contradicts itself: {error:?}", self.id),
                    )
                })?;
            }
        }
        for (after, to, message) in std::mem::take(&mut self.outbox) {
            match after <= self.durable {
                true => deeds.push(Deed::Sent(to, message)),
                false => self.outbox.push_back((after, to, message)),
            }
        }
        let up_to = self.durable;
        deeds.extend(self.input(Input::Durable { up_to }, rule));
        Ok(deeds)
    }

    /// Dies and comes back with what is durable.
    pub fn restart(&mut self, peers: &[NodeId], rule: Option<Rule>) -> Vec<Deed> {
        self.engine = engine(self.id, self.disk.clone().finish(), self.window);
        self.pending.clear();
        self.outbox.clear();
        self.durable = RecordNumber(0);
        self.last = RecordNumber(0);
        self.clock = Time::ZERO;
        self.starts += 1;
        let deeds = self.drain(rule);
        self.meet(peers);
        deeds
    }

    fn drain(&mut self, rule: Option<Rule>) -> Vec<Deed> {
        let mut deeds = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Persist { record, what } => {
                    self.last = record;
                    let checkpoint = || self.engine.checkpoint();
                    let what = match what {
                        Persist::Promise { term } => {
                            let Checkpoint {
                                finishing, state, ..
                            } = checkpoint();
                            Record::Promise(term, finishing, state)
                        }
                        Persist::State => Record::State(checkpoint().state),
                        Persist::Accept {
                            term, slots, value, ..
                        } => Record::Accept(term, slots, value),
                    };
                    self.pending.push_back((record, what));
                }
                Output::Send { to, message, after } => {
                    if after <= self.durable || rule == Some(Rule::NothingIsAwaited) {
                        deeds.push(Deed::Sent(to, message));
                    } else {
                        self.outbox.push_back((after, to, message));
                    }
                }
                Output::Replicate(proposal) => deeds.push(Deed::Proposed(proposal)),
                _ => {}
            }
        }
        deeds
    }
}

fn engine(node: NodeId, checkpoint: Checkpoint, window: u64) -> Engine {
    let config = EngineConfig {
        node,
        incarnation: 1,
        seed: 0,
        unchosen_bytes_max: window,
        timing: TIMING,
        phase_one: PhaseOne::PerTerm,
    };
    let mut engine = Engine::new(config, checkpoint, Time::ZERO);
    // Candidates put nothing out; a node alone would.
    while let Some(output) = engine.poll_output() {
        assert!(matches!(output, Output::Role(_)), "{output:?}");
    }
    engine
}

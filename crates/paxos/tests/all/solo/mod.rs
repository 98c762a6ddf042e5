//! One replica against hand-made messages.

#![allow(dead_code, reason = "each test uses its own part")]

use std::sync::Arc;

use paxos::*;

pub const ME: NodeId = NodeId(1);
pub const TWO: NodeId = NodeId(2);
pub const THREE: NodeId = NodeId(3);

pub fn term(era: u32, number: u32, owner: u32) -> Term {
    Term {
        era: Era(era),
        number,
        owner: NodeId(owner),
    }
}

pub fn slots(start: u64, end: u64) -> SlotRange {
    SlotRange::new(Slot(start), Slot(end))
}

pub fn stream(owner: u32, counter: u32) -> StreamName {
    StreamName {
        owner: NodeId(owner),
        sequence: StreamSequence {
            incarnation: 1,
            counter,
        },
    }
}

pub fn open(name: StreamName) -> Action {
    Action::OpenStream(OpenStream {
        stream: name,
        label: String::new(),
        metadata: Vec::new(),
        continues: None,
    })
}

pub fn action(action: Action) -> Value {
    Value::Action(Arc::new(action))
}

pub fn content(name: StreamName, offset: u64) -> Value {
    Value::Content {
        stream: name,
        offset: Offset(offset),
    }
}

/// Node 1, its outputs collected.
pub struct Solo {
    pub engine: Engine,
    pub now: Time,
    pub out: Vec<Output>,
    pub persisted: Vec<(RecordNumber, Persist, Checkpoint)>,
    pub last: RecordNumber,
}

pub fn three() -> LogState {
    LogState::new(Configuration::equal([ME, TWO, THREE]).unwrap())
}

pub fn fresh(state: LogState) -> Checkpoint {
    Recovery::new(state).finish()
}

impl Solo {
    pub fn new(checkpoint: Checkpoint) -> Solo {
        Solo::with_window(checkpoint, 1000)
    }

    /// With so many slots that may be proposed and not chosen.
    pub fn with_window(checkpoint: Checkpoint, unchosen_bytes_max: u64) -> Solo {
        Solo::configured(checkpoint, unchosen_bytes_max, PhaseOne::PerTerm)
    }

    pub fn preparing(checkpoint: Checkpoint, phase_one: PhaseOne) -> Solo {
        Solo::configured(checkpoint, 1000, phase_one)
    }

    fn configured(checkpoint: Checkpoint, unchosen_bytes_max: u64, phase_one: PhaseOne) -> Solo {
        let config = EngineConfig {
            node: ME,
            incarnation: 1,
            seed: 7,
            unchosen_bytes_max,
            timing: Timing::default(),
            phase_one,
        };
        let now = Time::from_micros(1_000_000);
        let mut solo = Solo {
            engine: Engine::new(config, checkpoint, now),
            now,
            out: Vec::new(),
            persisted: Vec::new(),
            last: RecordNumber(0),
        };
        solo.drain();
        solo
    }

    pub fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            if let Output::Persist { record, what } = &output {
                self.last = *record;
                let checkpoint = self.engine.checkpoint();
                self.persisted.push((*record, what.clone(), checkpoint));
            }
            self.out.push(output);
        }
    }

    /// The outputs of one input.
    pub fn input(&mut self, input: Input) -> Vec<Output> {
        self.out.clear();
        self.engine.handle(self.now, input);
        self.drain();
        self.out.clone()
    }

    pub fn from(&mut self, from: NodeId, message: Message) -> Vec<Output> {
        self.input(Input::Message { from, message })
    }

    pub fn durable(&mut self) -> Vec<Output> {
        let up_to = self.last;
        self.input(Input::Durable { up_to })
    }

    pub fn timer(&mut self) -> Vec<Output> {
        self.now = self.engine.deadline().expect("a deadline").max(self.now);
        self.input(Input::Timer)
    }

    pub fn propose(&mut self, action: Action) -> Result<Slot, NotProposed> {
        if let Action::Reconfigure { .. } = action {
            self.all_hold_everything();
        }
        self.propose_as_it_is(action)
    }

    /// Whether the engine lets the next batch begin; its outputs are in `out`.
    pub fn may_begin_batch(&mut self) -> bool {
        self.out.clear();
        let may = self.engine.may_begin_batch(self.now);
        self.drain();
        may
    }

    /// Lets nodes 2 to 4 say that they hold everything.
    pub fn all_hold_everything(&mut self) {
        for node in [2, 3, 4].map(NodeId) {
            self.from(node, holds_below(self.next()));
        }
    }

    /// Proposes without any member having said what it holds.
    pub fn propose_as_it_is(&mut self, action: Action) -> Result<Slot, NotProposed> {
        self.out.clear();
        let slot = self.engine.propose(self.now, action);
        self.drain();
        slot
    }

    pub fn alive(&mut self) {
        self.input(Input::PeerAlive(TWO));
        self.input(Input::PeerAlive(THREE));
    }

    /// Goes up to the prepare of a term above `offered`.
    pub fn prepare(&mut self, offered: Term) -> Term {
        self.alive();
        self.timer();
        let offer = Message::OfferVote {
            promised: PromisedTerm(offered),
            missing_bytes: false,
        };
        let out = self.from(TWO, offer);
        prepared(&out).expect("prepares")
    }

    pub fn lead_after(&mut self, offered: Term, promise: impl Fn(Term) -> Promise) -> Term {
        let term = self.prepare(offered);
        self.durable();
        self.from(TWO, Message::Promise(promise(term)));
        assert_eq!(self.engine.role(), Role::Leader { term });
        term
    }

    pub fn lead(&mut self) -> Term {
        let from = self.engine.first_unchosen();
        self.lead_after(Term::default(), |term| free(term, from.0))
    }

    pub fn accepted(
        &mut self,
        by: NodeId,
        term: Term,
        slots: SlotRange,
        digest: u32,
    ) -> Vec<Output> {
        let digest = Digest(digest);
        let message = Message::Accepted {
            term,
            slots,
            digest,
        };
        self.from(by, message)
    }

    pub fn propose_from(&mut self, by: NodeId, proposal: Proposal) -> Vec<Output> {
        self.from(by, Message::Propose(proposal))
    }

    /// Opens a stream in the next slot, chosen.
    pub fn open_chosen(&mut self, term: Term, name: StreamName) -> Slot {
        let slot = self.propose(open(name)).unwrap();
        self.durable();
        self.accepted(TWO, term, slots(slot.0, slot.0 + 1), 0);
        assert_eq!(self.engine.state().current, Some(name));
        slot
    }

    pub fn write(&mut self, name: StreamName, position: u64, count: u64, digest: u32) -> SlotRange {
        let permit = self.engine.permit().expect("a permit").clone();
        self.input(Input::BytesWritten(BytesWritten {
            term: permit.term,
            first_slot: permit.next,
            count,
            stream: name,
            position: StreamPosition(position),
            digest: Digest(digest),
        }));
        slots(permit.next.0, permit.next.0 + count)
    }

    pub fn next(&self) -> u64 {
        self.engine.first_unchosen().0
    }
}

/// All below is chosen and held, and nothing else is said.
pub fn holds_below(slot: u64) -> Message {
    Message::FollowerStatus {
        promised: PromisedTerm::default(),
        accepted_term: AcceptedTerm::default(),
        accepted_up_to: Slot(0),
        first_unchosen: Slot(slot),
        missing_bytes: 0,
    }
}

pub fn free(term: Term, from: u64) -> Promise {
    Promise {
        term,
        from: Slot(from),
        runs: Vec::new(),
    }
}

pub fn bound(term: Term, from: u64, runs: &[(SlotRange, Term, Value)]) -> Promise {
    let run = |(slots, term, value): &(SlotRange, Term, Value)| AcceptedRun {
        slots: *slots,
        term: AcceptedTerm(*term),
        value: value.clone(),
    };
    Promise {
        term,
        from: Slot(from),
        runs: runs.iter().map(run).collect(),
    }
}

pub fn proposal(term: Term, slots: SlotRange, value: Value, chosen: u64) -> Proposal {
    Proposal {
        term,
        slots,
        value,
        digest: Digest(0),
        chosen_up_to: Slot(chosen),
    }
}

pub fn sent(out: &[Output]) -> Vec<(NodeId, Message, RecordNumber)> {
    let send = |output: &Output| match output {
        Output::Send { to, message, after } => Some((*to, message.clone(), *after)),
        _ => None,
    };
    out.iter().filter_map(send).collect()
}

pub fn prepared(out: &[Output]) -> Option<Term> {
    sent(out).iter().find_map(|(_, message, _)| match message {
        Message::Prepare { term } => Some(*term),
        _ => None,
    })
}

pub fn requested_state(out: &[Output]) -> Option<NodeId> {
    sent(out).iter().find_map(|(to, message, _)| match message {
        Message::RequestState { .. } => Some(*to),
        _ => None,
    })
}

pub fn promised(out: &[Output]) -> Option<(NodeId, Promise, RecordNumber)> {
    sent(out)
        .into_iter()
        .find_map(|(to, message, after)| match message {
            Message::Promise(promise) => Some((to, promise, after)),
            _ => None,
        })
}

pub fn ignored(out: &[Output], why: Ignored) -> bool {
    out.iter().any(
        |output| matches!(output, Output::Note(Note::Ignored { reason, .. }) if *reason == why),
    )
}

pub fn persists(out: &[Output]) -> usize {
    out.iter()
        .filter(|output| matches!(output, Output::Persist { .. }))
        .count()
}

pub fn replicated(out: &[Output]) -> Vec<Proposal> {
    let proposal = |output: &Output| match output {
        Output::Replicate(proposal) => Some(proposal.clone()),
        _ => None,
    };
    out.iter().filter_map(proposal).collect()
}

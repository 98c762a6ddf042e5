//! One log's replica on one node: the dispatch, and everything that its parts share.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::acceptor::Acceptor;
use crate::auxiliary::{Auxiliaries, NOT_COUNTED, Released};
use crate::copies::Copies;
use crate::follower::Recent;
use crate::leadership::Stage;
use crate::learner::CatchUp;
use crate::mutation::{self, Mutation};
use crate::peers::Peers;
use crate::random::Random;
use crate::safety::number_within_reach;
use crate::{
    AcceptedRun, AcceptedTerm, Checkpoint, Digest, EngineConfig, Era, Finishing, Ignored, Input,
    LogState, Message, NodeId, Note, Outcome, Output, Persist, PromisedTerm, RecordNumber, Role,
    Slot, SlotRange, Term, Time, Value, WritePermit,
};

/// The consensus engine of one log on one node.
///
/// ```text
/// state.next = first unchosen <= proposed_up_to                 of the leader
/// chosen <= durable somewhere;  own durable <= own accepted     not ordered against chosen
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) now: Time,
    pub(crate) random: Random,
    outputs: VecDeque<Output>,
    /// All slots below its `next` are chosen. Shared with the messages that carry it.
    pub(crate) state: Arc<LogState>,
    pub(crate) acceptor: Acceptor,
    pub(crate) peers: Peers,
    pub(crate) stage: Stage,
    /// The last role put out.
    role: Role,
    /// The latest term heard of, of an era that is known.
    pub(crate) seen: Term,
    /// Attempts at an election since the last progress.
    pub(crate) attempts: u32,
    /// Until then another node's phase 1 is given its chance.
    pub(crate) patience: Time,
    /// Whether the node has it wait before it stands for election.
    pub(crate) waits_for_turn: bool,
    /// The time when the last promise was asked for, while it is not durable yet.
    pub(crate) promised_since: Option<Time>,
    /// This replica was leader, and has not found another yet: its followers must hear of it.
    pub(crate) deposed: bool,
    pub(crate) last_phase1: Option<Time>,
    pub(crate) missing_bytes: u64,
    /// The state jumped since missing bytes were counted: the bytes that it speaks of need not be here.
    pub(crate) missing_is_stale: bool,
    pub(crate) auxiliaries: Auxiliaries,
    /// Whether this replica was auxiliary in the era that was last looked at (`part_told`).
    pub(crate) was_auxiliary: bool,
    pub(crate) part_told: Option<Era>,
    /// The last record of a state, and that state's first unchosen slot.
    pub(crate) state_recorded: (RecordNumber, Slot),
    pub(crate) released: Option<Released>,
    /// The slot below which acceptances may have been forgotten (a disk lost records). Until all of it is
    /// known chosen this replica promises nothing, for a promise would say that it accepted nothing else.
    pub(crate) forgot_below: Slot,
    pub(crate) catch_up: CatchUp,
    pub(crate) copies: Copies,
    chosen_told: Slot,
    /// Questions for barriers so far.
    pub(crate) asked: u64,
    pub(crate) permit: Option<WritePermit>,
    /// The limit last put out.
    pub(crate) permit_limit_told: Slot,
    /// The last record put out.
    polled: RecordNumber,
    /// The last record asked for that holds a checkpoint.
    last_checkpoint_record: RecordNumber,
    /// Checkpoints as they were before an acceptance that follows a promise's or state's record
    /// while that is not put out: a checkpoint must not claim bytes whose record comes later.
    before: VecDeque<(RecordNumber, Checkpoint)>,
    /// The end of the permit's bound run, if the permit is bound.
    pub(crate) permit_bound_end: Option<Slot>,
    /// Acceptances announced to the leader.
    pub(crate) recent: Recent,
    /// A prepare of an era that is not known here yet, and its sender.
    pub(crate) early_prepare: Option<(Term, NodeId)>,
    // These are kept for their memory alone.
    pub(crate) scratch: Vec<(Slot, u64)>,
    pub(crate) outcomes: Vec<(Slot, Outcome)>,
}

impl Engine {
    /// A replica as recovered. All peers count as silent until the node says otherwise.
    pub fn new(config: EngineConfig, checkpoint: Checkpoint, now: Time) -> Engine {
        Engine::with_gaps(config, checkpoint, Slot(0), now)
    }

    /// As `new`, after a disk lost records: some acceptances below `forgot_below` may be forgotten.
    /// ‡ Until all slots below are known chosen, and the era of its promise is known, this replica
    /// answers no prepare and does not stand.
    pub fn with_gaps(
        config: EngineConfig,
        checkpoint: Checkpoint,
        forgot_below: Slot,
        now: Time,
    ) -> Engine {
        let mut engine = Engine::resting(config, checkpoint, forgot_below, now);
        if engine.is_alone() && engine.may_stand() {
            engine.start_phase1(Vec::new());
        }
        engine.settle();
        engine
    }

    /// As `with_gaps`, but a replica that needs no other vote does not stand before the first
    /// [`Input::Timer`]: the node asks others first whether they remember more of this disk.
    pub fn resting(
        config: EngineConfig,
        checkpoint: Checkpoint,
        forgot_below: Slot,
        now: Time,
    ) -> Engine {
        let Checkpoint {
            promised,
            finishing: _, // the acceptor says why
            state,
            accepted,
        } = checkpoint;
        // A promise of an era proves that all slots before that era were known chosen here, and when the
        // records that said so are lost, that more was than is known now.
        let hides_eras = promised.0.era > state.era;
        let forgot_below = match hides_eras && !mutation::is(Mutation::HiddenErasForgotten) {
            true => forgot_below.max(Slot(state.next.0.saturating_add(1))),
            false => forgot_below,
        };
        let mut acceptor = Acceptor::new(promised, &accepted);
        acceptor.forget_below(state.next);
        let mut engine = Engine {
            now,
            random: Random::new(config.seed ^ (u64::from(config.node.0) << 32)),
            outputs: VecDeque::new(),
            acceptor,
            peers: Peers::default(),
            stage: Stage::default(),
            role: Role::Candidate,
            seen: promised.0,
            attempts: 0,
            patience: now,
            waits_for_turn: false,
            promised_since: None,
            deposed: false,
            last_phase1: None,
            missing_bytes: 0,
            missing_is_stale: false,
            auxiliaries: Auxiliaries::default(),
            was_auxiliary: false,
            part_told: None,
            state_recorded: (RecordNumber(0), state.next),
            released: None,
            forgot_below,
            catch_up: CatchUp::default(),
            copies: Copies::default(),
            chosen_told: state.next,
            asked: 0,
            permit: None,
            permit_limit_told: Slot(0),
            polled: RecordNumber(0),
            last_checkpoint_record: RecordNumber(0),
            before: VecDeque::new(),
            permit_bound_end: None,
            recent: Recent::default(),
            early_prepare: None,
            scratch: Vec::new(),
            outcomes: Vec::new(),
            state: Arc::new(state),
            config,
        };
        engine.become_candidate(Duration::ZERO);
        engine.settle();
        engine
    }

    /// Takes one input. Then drain [`Engine::poll_output`] before the next one.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Message { from, message } => self.on_message(from, message),
            Input::Durable { up_to } => self.on_durable(up_to),
            Input::BytesWritten(written) => self.on_bytes_written(&written),
            Input::PeerAlive(node) => self.on_peer_alive(node),
            Input::PeerSilent(node) => self.on_peer_silent(node),
            Input::MissingBytes(count) => self.on_missing_bytes(count),
            Input::StateShort { node, is_short } => {
                self.peers.entry(node).is_state_short = is_short;
            }
            Input::BytesUnavailable { term, holders } => self.on_bytes_unavailable(term, holders),
            Input::Timer => self.on_timer(),
            Input::Read(id) => self.on_read(id),
            Input::Abdicate { to } => self.on_abdicate(to),
            Input::StepDown => self.on_step_down(),
        }
        self.settle();
    }

    fn on_message(&mut self, from: NodeId, message: Message) {
        if from == self.config.node || from == NodeId(0) {
            self.ignore(from, Ignored::Malformed);
            return;
        }
        match message {
            Message::SeekVotes {
                first_unchosen,
                promised,
                missing_bytes: _,
            } => self.on_seek_votes(from, first_unchosen, promised),
            Message::OfferVote {
                promised,
                missing_bytes,
            } => self.on_offer_vote(from, promised, missing_bytes),
            Message::OfferCatchUp { first_unchosen } => {
                self.on_offer_catch_up(from, first_unchosen)
            }
            Message::RequestState { first_unchosen, .. } => {
                self.on_request_state(from, first_unchosen);
            }
            Message::State(state) => self.on_state(from, state),
            Message::Prepare { term } => self.on_prepare(from, term),
            Message::Promise(promise) => self.on_promise(from, promise),
            Message::Refuse { refused, promised } => self.on_refuse(from, refused, promised),
            Message::Propose(proposal) => self.on_propose(from, proposal),
            Message::Accepted {
                term,
                slots,
                digest,
            } => self.on_accepted(from, term, slots, digest),
            Message::LeaderStatus {
                term,
                proposed_up_to: _,
                chosen_up_to,
                finishing,
            } => self.on_leader_status(from, term, chosen_up_to, finishing),
            Message::FollowerStatus {
                promised,
                accepted_term,
                accepted_up_to,
                first_unchosen,
                missing_bytes,
            } => {
                let peer = self.peers.entry(from);
                peer.missing_bytes = Some(missing_bytes);
                // A peer that lacks something now may have lost what it held before.
                peer.held_below = match missing_bytes {
                    0 => peer.held_below.max(first_unchosen),
                    _ => Slot(0),
                };
                self.on_follower_status(
                    from,
                    promised,
                    accepted_term,
                    accepted_up_to,
                    first_unchosen,
                );
            }
            Message::Confirm { term, round } => self.on_confirm(from, term, round),
            Message::Confirmed { term, round } => self.on_confirmed(from, term, round),
            Message::AskBarrier { term, number } => self.on_ask_barrier(from, term, number),
            Message::Barrier { term, number, slot } => self.on_barrier(from, term, number, slot),
            Message::Release { era, below } => self.on_release(from, era, below),
            Message::Released { era, below } => self.on_released(from, era, below),
        }
    }

    fn on_durable(&mut self, up_to: RecordNumber) {
        self.acceptor.on_durable(up_to, self.state.next);
        self.on_promise_durable();
        self.choose();
        self.settle_released();
        if self.phase1().is_some() {
            self.evaluate_phase1();
        }
    }

    /// The next output. Perform the outputs in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(Output::Persist { record, .. }) = self.outputs.front() {
            self.polled = *record;
            while let Some((first, _)) = self.before.front()
                && *first <= self.polled
            {
                self.before.pop_front();
            }
        }
        self.outputs.pop_front()
    }

    /// The time when `Input::Timer` is wanted. Replicas with nothing under way want none.
    pub fn deadline(&self) -> Option<Time> {
        let own = earliest(self.stage_deadline(), self.catch_up_deadline());
        let own = earliest(own, self.copies_deadline());
        earliest(own, self.auxiliary_deadline())
    }

    /// The checkpoint that the last record put out must be able to restore: the promise, the state, and all
    /// acceptances asked for up to that record.
    pub fn checkpoint(&self) -> Checkpoint {
        match self.before.front() {
            Some((_, checkpoint)) => checkpoint.clone(),
            None => self.checkpoint_now(),
        }
    }

    fn checkpoint_now(&self) -> Checkpoint {
        Checkpoint {
            promised: self.acceptor.promised(),
            finishing: self.acceptor.finishing(),
            state: (*self.state).clone(),
            accepted: self.acceptor.runs(),
        }
    }

    /// The acceptances of this replica that are not known chosen.
    pub fn accepted(&self) -> Vec<AcceptedRun> {
        self.acceptor.runs()
    }

    /// The node this replica is on.
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// Whether every record asked for was put out. Only then may this replica's present knowledge be written
    /// into the next record, since it may rest on acceptances whose records come later.
    pub fn all_records_are_out(&self) -> bool {
        self.polled == self.acceptor.last_record()
    }

    /// The state after all chosen slots known here.
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// This replica's part in its log now.
    pub fn role(&self) -> Role {
        match &self.stage {
            Stage::Following(following) => Role::Follower {
                leader: following.leader,
                term: following.term,
            },
            Stage::Leading(leading) => Role::Leader { term: leading.term },
            _ => Role::Candidate,
        }
    }

    /// The promise, durable or about to be.
    pub fn promised(&self) -> PromisedTerm {
        self.acceptor.promised()
    }

    /// The part that the promise leaves open to this leader, while it casts its vote.
    pub fn finishing(&self) -> Option<Finishing> {
        self.acceptor.finishing()
    }

    /// The promise as peers may be told of it.
    pub fn durable_promised(&self) -> PromisedTerm {
        self.acceptor.durable_promised()
    }

    /// The open permit with its present numbers.
    pub fn permit(&self) -> Option<&WritePermit> {
        self.permit.as_ref()
    }

    /// The leader this replica knows of, itself perhaps.
    pub fn leader(&self) -> Option<(NodeId, Term)> {
        match self.role() {
            Role::Candidate => None,
            Role::Follower { leader, term } => Some((leader, term)),
            Role::Leader { term } => Some((self.config.node, term)),
        }
    }

    /// The first slot not known to be chosen: all slots below are chosen and applied.
    pub fn first_unchosen(&self) -> Slot {
        self.state.next
    }

    /// The term from which this leader's term took over without a stall: the proposals made in it go on.
    pub fn took_over_from(&self) -> Option<Finishing> {
        match &self.stage {
            Stage::Leading(leading) => leading.finishing,
            _ => None,
        }
    }

    /// The end of this leader's proposals; on a replica that does not lead, the first unchosen slot.
    pub fn proposed_up_to(&self) -> Slot {
        match &self.stage {
            Stage::Leading(leading) => leading.proposed_up_to.max(self.state.next),
            _ => self.state.next,
        }
    }

    /// The leader's word on this log, if it leads in a term it can speak for.
    pub fn leader_status(&self) -> Option<Message> {
        match &self.stage {
            Stage::Leading(leading) if leading.goes_on() && self.is_quorum_alive() => {
                Some(Message::LeaderStatus {
                    term: leading.term,
                    proposed_up_to: leading.proposed_up_to.max(self.state.next),
                    chosen_up_to: self.state.next,
                    finishing: leading.finishing,
                })
            }
            _ => None,
        }
    }

    /// The answer to a leader's status: only what is durable. It says nothing of chosen slots on their way to
    /// this disk, so that under load too a replica says how far it durably holds all.
    pub fn follower_status(&self) -> Message {
        let term = match &self.stage {
            Stage::Following(following) => following.term,
            Stage::Leading(leading) => leading.term,
            _ => self.acceptor.durable_promised().0,
        };
        let first_unchosen = self.acceptor.first_undurable(self.state.next);
        Message::FollowerStatus {
            promised: self.acceptor.durable_promised(),
            accepted_term: AcceptedTerm(term),
            accepted_up_to: match first_unchosen == self.state.next {
                true => self.acceptor.durable_end(term, first_unchosen),
                false => first_unchosen,
            },
            first_unchosen,
            missing_bytes: self.missing_bytes_told(),
        }
    }

    /// The end of that replica's acceptances without a hole in this leader's term, as the leader knows. Among
    /// slots not chosen yet only those count whose acceptance itself arrived: all slots above must be
    /// proposed to it again.
    pub fn peer_accepted_up_to(&self, node: NodeId) -> Option<Slot> {
        let Stage::Leading(_) = &self.stage else {
            return None;
        };
        let peer = self.peers.get(node)?;
        let told = peer.accepted_up_to?;
        Some(if told >= self.state.next {
            peer.accepted.prefix_end(self.state.next, |()| true)
        } else {
            told
        })
    }

    /// The number of bytes of the chosen output that replica does not hold, by its last status. An auxiliary
    /// does not say.
    pub fn peer_missing_bytes(&self, node: NodeId) -> Option<u64> {
        let missing = self.peers.get(node)?.missing_bytes;
        missing.filter(|count| *count != NOT_COUNTED)
    }

    /// Whether the node's failure detector hears that replica.
    pub fn is_peer_alive(&self, node: NodeId) -> bool {
        self.peers.is_alive(node)
    }

    /// Whether the role is the one last put out.
    fn role_is_told(&self) -> bool {
        match (&self.stage, &self.role) {
            (Stage::Following(following), Role::Follower { leader, term }) => {
                following.leader == *leader && following.term == *term
            }
            (Stage::Leading(leading), Role::Leader { term }) => leading.term == *term,
            (Stage::Following(_) | Stage::Leading(_), _) => false,
            (_, told) => *told == Role::Candidate,
        }
    }

    // Shared by the parts.

    pub(crate) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.put(Output::Note(note));
    }

    pub(crate) fn ignore(&mut self, from: NodeId, reason: Ignored) {
        self.note(Note::Ignored { from, reason });
    }

    pub(crate) fn send(&mut self, to: NodeId, message: Message, after: RecordNumber) {
        crate::invariant!(
            to != self.config.node,
            "a replica does not write to itself: {message:?}"
        );
        self.put(Output::Send { to, message, after });
    }

    /// Sends to every other member of the current configuration.
    pub(crate) fn send_to_members(&mut self, message: &Message) {
        let state = Arc::clone(&self.state);
        for member in state.configuration.members() {
            if member.node != self.config.node {
                self.send(member.node, message.clone(), RecordNumber(0));
            }
        }
    }

    /// Raises the promise, which closes every permit.
    pub(crate) fn raise_promise(&mut self, term: Term) -> RecordNumber {
        crate::invariant!(
            term.era <= self.state.era,
            "I7: {term} is promised before its era is known"
        );
        if !mutation::is(Mutation::PermitSurvivesPromise) {
            self.close_permit();
        }
        let record = self.acceptor.promise(term);
        self.persist_promise(record, term)
    }

    /// ‡ Promises as a leader at its own casting vote: the slots given out under its permit, up to the
    /// permit's end, are finished in the term before.
    pub(crate) fn promise_and_finish(&mut self, term: Term, finishing: Finishing) -> RecordNumber {
        let record = self.acceptor.promise_and_finish(term, finishing);
        self.persist_promise(record, term)
    }

    fn persist_promise(&mut self, record: RecordNumber, term: Term) -> RecordNumber {
        self.last_checkpoint_record = record;
        self.promised_since = Some(self.now);
        self.see(term);
        let what = Persist::Promise {
            term: PromisedTerm(term),
        };
        self.put(Output::Persist { record, what });
        record
    }

    /// Accepts and asks for its record. A term of a later era than the promise's is promised
    /// first: that record holds the state in which the era is known.
    pub(crate) fn accept(
        &mut self,
        term: Term,
        slots: SlotRange,
        value: Value,
        digest: Digest,
    ) -> RecordNumber {
        if term.era > self.acceptor.promised().0.era {
            self.raise_promise(term);
        }
        let in_checkpoint = self.before.back().map_or(self.polled, |(first, _)| *first);
        if self.last_checkpoint_record > in_checkpoint {
            let record = RecordNumber(self.acceptor.last_record().0 + 1);
            let checkpoint = self.checkpoint_now();
            self.before.push_back((record, checkpoint));
        }
        let record = self
            .acceptor
            .accept(term, slots, value.clone(), self.state.next);
        self.see(term);
        let what = Persist::Accept {
            term,
            slots,
            value,
            digest,
        };
        self.put(Output::Persist { record, what });
        record
    }

    pub(crate) fn persist_state(&mut self) {
        let record = self.acceptor.next_record();
        self.last_checkpoint_record = record;
        self.state_recorded = (record, self.state.next);
        let what = Persist::State;
        self.put(Output::Persist { record, what });
    }

    /// Whether no acceptance that matters can be forgotten.
    pub(crate) fn may_promise(&self) -> bool {
        let knows_its_era = self.acceptor.promised().0.era <= self.state.era;
        let any = mutation::is(Mutation::HiddenErasForgotten);
        self.forgot_below <= self.state.next && (knows_its_era || any)
    }

    /// Remembers the latest term heard of, to prepare above it. Terms of eras not known yet say nothing here:
    /// this replica cannot prepare in their neighbourhood before it catches up. It approaches a number far
    /// ahead by one step each time that it hears it.
    pub(crate) fn see(&mut self, term: Term) {
        if term <= self.seen || term.era > self.state.era {
            return;
        }
        let number = match mutation::is(Mutation::NumbersBelievedFarAhead) {
            true => term.number,
            false => term
                .number
                .min(number_within_reach(self.highest_in(term.era))),
        };
        self.seen = self.seen.max(Term { number, ..term });
    }

    /// As `see`, of a sender's statement about itself. Only members' promises bind a quorum.
    pub(crate) fn see_promise_of(&mut self, from: NodeId, promised: Term) {
        if promised > self.seen && self.state.configuration.contains(from) {
            self.see(promised);
        }
    }

    fn highest_in(&self, era: Era) -> u32 {
        let highest = self.seen.max(self.acceptor.promised().0);
        match highest.era == era {
            true => highest.number,
            false => 0,
        }
    }

    /// ‡ Whether this term can be one that its owner prepared, so that it may raise the promise or be
    /// followed. In an era only its members prepare. The members of an era before are not known here any
    /// more. A later term than the promised one, by which others lead that this replica may follow, would
    /// depose them for a while, so it is believed of a present member alone, and of the leader that is
    /// followed, which may have left and is to hand over. A term of an era to come is asked about, and looked
    /// at again.
    pub(crate) fn believes(&mut self, term: Term) -> Result<(), Ignored> {
        if term <= self.acceptor.promised().0 {
            return Ok(());
        }
        let is_member = self.state.configuration.contains(term.owner);
        let anybody = mutation::is(Mutation::TermsOfStrangers);
        if term.era < self.state.era {
            let is_followed = self.followed_term() == Some(term);
            return match is_member || is_followed || anybody {
                true => Ok(()),
                false => Err(Ignored::NotMember),
            };
        }
        if !is_member && !anybody {
            return Err(match term.era > self.state.era {
                true => Ignored::EraNotKnown,
                false => Ignored::NotMember,
            });
        }
        let far = mutation::is(Mutation::NumbersBelievedFarAhead);
        if term.number > number_within_reach(self.highest_in(term.era)) && !far {
            self.see(term);
            return Err(Ignored::TooFarAhead);
        }
        Ok(())
    }

    /// Does what follows from the input besides the answer to it, in the order the node needs it.
    pub(crate) fn settle(&mut self) {
        self.answer_early_prepare();
        if self.forgot_below > Slot(0) && self.may_promise() {
            self.forgot_below = Slot(0);
            self.on_new_era(); // it may stand now, as after a change of the configuration
        }
        if self.chosen_told < self.state.next {
            self.chosen_told = self.state.next;
            self.attempts = 0;
            self.put(Output::Chosen {
                up_to: self.chosen_told,
            });
        }
        if matches!(self.stage, Stage::Leading(_)) {
            self.settle_leader();
        }
        self.settle_own_part();
        self.settle_auxiliaries();
        if !self.role_is_told() {
            self.role = self.role();
            self.put(Output::Role(self.role));
        }
        if matches!(self.stage, Stage::Leading(_)) {
            self.update_permit();
            self.settle_reads();
        } else {
            self.close_permit();
            self.settle_asking();
        }
    }
}

pub(crate) fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

//! One log's replica on this node: its engine, its records on disk, and everybody who writes to it,
//! follows it or reads it.
//!
//! Positions, in slots:
//!
//! ```text
//! acknowledged <= chosen <= proposed <= written <= received
//!                            durable <= written
//! `durable` and `chosen` are not ordered: followers alone may be a quorum.
//! ```
//!
//! Every entry point hands the engine one input and then calls [`Log::drain`], which performs all
//! that the engine and the store ask for. What may be possible now but was asked for by nobody
//! (sending, acknowledging, reading on) happens in [`Log::settle`], once per round.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use paxos::mutation::{self, Mutation};
use paxos::{
    BytesWritten, Checkpoint, Engine, EngineConfig, Input, Message, NodeId, Note, Outcome, Output,
    PermitContent, Persist, PromisedTerm, Proposal, RecordNumber, Role, Slot, StreamName,
    StreamPosition, Value,
};

use crate::LogId;
use crate::buffer::{Buffer, Shared, Slice};
use crate::catch_up::CatchUp;
use crate::counts::LogCounts;
use crate::env::{Env, LogEvent};
use crate::feed::Feeder;
use crate::follow::Source;
use crate::format::{RECORD_HEADER, codec};
use crate::health::Pulse;
use crate::ingest::Ingest;
use crate::lead::Moves;
use crate::op::{Completion, ConnId};
use crate::read::Readers;
use crate::replicate::Follower;
use crate::retention::Keeping;
use crate::ring::{Entry, Ring};
use crate::scrub::{Asker, Scrub};
use crate::store::{NewRecord, RecordContext, Store, StoreEvent};
use crate::trim::Trims;

mod auxiliary;
mod rebind;

use auxiliary::Auxiliary;
use rebind::Rebind;

pub struct Log {
    pub id: LogId,
    pub name: String,
    pub(crate) engine: Engine,
    pub(crate) store: Store,
    pub(crate) ring: Ring,
    pub(crate) followers: BTreeMap<NodeId, Follower>,
    pub(crate) sources: BTreeMap<ConnId, Source>,
    pub(crate) feeders: BTreeMap<NodeId, Feeder>,
    pub(crate) ingest: Ingest,
    pub(crate) readers: Readers,
    pub(crate) catch_up: CatchUp,
    pub(crate) scrub: Scrub,
    pub(crate) trims: Trims,
    pub(crate) moves: Moves,
    pub(crate) keeping: Keeping,
    pub(crate) alive: BTreeSet<NodeId>,
    own: NodeId,
    role: Role,
    /// The bytes of the batch that the engine is being told of, until it asks to persist them.
    at_hand: Option<Buffer>,
    /// Messages that wait for a record, in the order of the records.
    awaiting_durable: VecDeque<(RecordNumber, NodeId, Message)>,
    durable: RecordNumber,
    pub(crate) persisted: RecordNumber,
    /// What was known when every record asked for had been appended.
    borne_out: RecordContext,
    /// Reads that the store has not answered, by the number each was given.
    reads: BTreeMap<u64, (Ticket, Wanted)>,
    last_read: u64,
    /// A bound run's bytes on their way from our own disk.
    rebind: Option<Rebind>,
    auxiliary: Auxiliary,
    pub(crate) stopped: Option<String>,
    /// It led when it stopped.
    stopped_leading: bool,
    pub(crate) counts: LogCounts,
    pub(crate) pulse: Pulse,
    last_chosen_at: paxos::Time,
}

/// Who asked the store to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    Rebind,
    Reader(ConnId),
    Feeder(NodeId),
    Local,
    Examine(Asker),
}

/// What was asked for: whoever asked may want something else by the time it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub stream: StreamName,
    pub position: u64,
}

impl Wanted {
    pub fn new(stream: StreamName, position: u64) -> Wanted {
        Wanted { stream, position }
    }
}

impl Log {
    pub fn new(env: &Env, id: LogId, name: String, store: Store, checkpoint: Checkpoint) -> Log {
        let config = EngineConfig {
            node: env.identity.node,
            seed: env.nonce ^ u64::from(id.0).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            unchosen_bytes_max: env.limits.unchosen_bytes_max,
            timing: env.limits.timing,
        };
        let borne_out = RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        };
        let learn_past = store.learn_past();
        let learn_past = learn_past.filter(|_| !mutation::is(Mutation::ForgetfulReplicaPromises));
        let forgot_below = learn_past.unwrap_or_default();
        let engine = Engine::with_gaps(config, checkpoint, forgot_below, env.now);
        let mut log = Log {
            id,
            name,
            own: env.identity.node,
            role: engine.role(),
            engine,
            store,
            ring: Ring::default(),
            followers: BTreeMap::new(),
            sources: BTreeMap::new(),
            feeders: BTreeMap::new(),
            ingest: Ingest::default(),
            readers: Readers::default(),
            catch_up: CatchUp::default(),
            scrub: Scrub::default(),
            trims: Trims::default(),
            moves: Moves::default(),
            keeping: Keeping::default(),
            alive: BTreeSet::new(),
            at_hand: None,
            awaiting_durable: VecDeque::new(),
            durable: RecordNumber(0),
            persisted: RecordNumber(0),
            borne_out,
            reads: BTreeMap::new(),
            last_read: 0,
            rebind: None,
            auxiliary: Auxiliary::default(),
            stopped: None,
            stopped_leading: false,
            counts: LogCounts {
                starts_with_gaps: u64::from(forgot_below > Slot(0)),
                ..LogCounts::default()
            },
            pulse: Pulse::default(),
            last_chosen_at: env.now,
        };
        log.learn_ages();
        // What was trimmed and was still there when the process ended.
        log.trim_store();
        log.catch_up.recount(&log.engine, &log.store);
        log.engine
            .handle(env.now, Input::MissingBytes(log.catch_up.missing_bytes()));
        log
    }

    pub fn is_leading(&self) -> bool {
        matches!(self.role, Role::Leader { .. }) && self.stopped.is_none()
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Leading, and free to propose something new.
    pub(crate) fn can_propose(&self) -> bool {
        self.is_leading()
            && self
                .engine
                .permit()
                .is_some_and(|p| p.content == PermitContent::Free && p.next < p.limit)
    }

    /// What the next record may say besides its own fact: what the records before it bear out. The
    /// engine may know more while it still has records to put out.
    pub(crate) fn context(&mut self) -> RecordContext {
        if self.engine.all_records_are_out() {
            self.borne_out = RecordContext {
                promised: self.engine.promised(),
                first_unchosen: self.engine.first_unchosen(),
            };
        }
        self.borne_out
    }

    /// Hands the engine one input and performs all that follows.
    pub(crate) fn input(&mut self, env: &mut Env, input: Input) {
        if self.stopped.is_some() {
            return;
        }
        self.engine.handle(env.now, input);
        self.drain(env);
    }

    pub(crate) fn drain(&mut self, env: &mut Env) {
        self.store.set_time(env.now);
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.perform(env, output);
            }
            while let Some(op) = self.store.poll_op() {
                env.ops.push_back(op);
            }
            match self.store.poll_event() {
                Some(event) => self.on_store_event(env, event),
                // Before anybody hears of the new state, so that nobody takes us for whole.
                None if self.catch_up.take_state_jumped() => self.recount_missing(env),
                None => break,
            }
        }
        let wants_roll = self.take_wants_roll() || self.store.wants_roll();
        if wants_roll && self.stopped.is_none() {
            let context = self.context();
            self.store.roll(&self.engine.checkpoint(), context);
            while let Some(op) = self.store.poll_op() {
                env.ops.push_back(op);
            }
        }
    }

    fn perform(&mut self, env: &mut Env, output: Output) {
        match output {
            Output::Persist { record, what } => self.persist(record, what),
            Output::Send { to, message, after } => {
                if after <= self.durable {
                    env.send_message(to, self.id, message);
                } else {
                    self.awaiting_durable.push_back((after, to, message));
                }
            }
            Output::Replicate(mut proposal) => {
                let payload = match &proposal.value {
                    Value::Action(action) => {
                        let encoded = codec::encode(env.version, action.as_ref());
                        proposal.digest = crate::format::digest(&encoded);
                        Some(Slice::copied_from(&encoded))
                    }
                    _ => None,
                };
                self.ring.push(Entry { proposal, payload });
            }
            Output::Permit(Some(_)) => {}
            Output::Permit(None) => self.counts.permits_lapsed += 1,
            Output::Applied { slot, outcome } => self.on_applied(env, slot, outcome),
            Output::Chosen { .. } => {
                self.last_chosen_at = env.now;
                self.catch_up.on_chosen(self.engine.state());
            }
            Output::Release { below } => self.on_release(env, below),
            Output::StateInstalled => {
                tracing::info!(
                    log = self.id.0,
                    slot = self.engine.first_unchosen().0,
                    "caught up by state"
                );
                self.trim_store();
                self.catch_up.recount_soon();
                self.counts.states_installed += 1;
            }
            Output::Role(role) => self.on_role(env, role),
            Output::ReadReady(read) => self.readers.on_ready(read),
            Output::ReadsFailed => self.fail_barriers(env),
            Output::Note(note) => self.note(note),
        }
    }

    fn persist(&mut self, record: RecordNumber, what: Persist) {
        let borne_out = self.borne_out;
        let mut context = self.context();
        if let Persist::Promise {
            term: PromisedTerm(term),
        }
        | Persist::Accept { term, .. } = what
        {
            self.borne_out.promised = context.promised.max(PromisedTerm(term));
            context = self.borne_out;
        }
        self.persisted = record;
        match what {
            Persist::Promise { .. } => {
                let mut checkpoint = self.engine.checkpoint();
                if mutation::is(Mutation::PromiseWithoutState) {
                    checkpoint.state.next = Slot(0); // so that a recovery does not take it
                    context.first_unchosen = borne_out.first_unchosen;
                }
                self.store
                    .append(NewRecord::Promise(checkpoint), context, record.0);
            }
            Persist::State => {
                self.store.append(
                    NewRecord::State(self.engine.checkpoint()),
                    context,
                    record.0,
                );
            }
            Persist::Accept {
                term,
                slots,
                value,
                digest,
            } => {
                let is_content = matches!(value, Value::Content { .. });
                let buffer = if is_content {
                    Some(
                        self.at_hand
                            .take()
                            .expect("content is proposed and accepted with its bytes at hand"),
                    )
                } else {
                    None
                };
                let frozen = self.store.append(
                    NewRecord::Accept {
                        term,
                        slots,
                        value: value.clone(),
                        digest,
                        payload: buffer,
                    },
                    context,
                    record.0,
                );
                if let (true, Some(frozen)) = (is_content && term.owner == self.own, frozen) {
                    let payload = payload_of(&frozen, slots.len() as usize);
                    let chosen_up_to = self.engine.first_unchosen();
                    self.ring.push(Entry {
                        proposal: Proposal {
                            term,
                            slots,
                            value,
                            digest,
                            chosen_up_to,
                        },
                        payload: Some(payload),
                    });
                }
            }
        }
    }

    fn on_store_event(&mut self, env: &mut Env, event: StoreEvent) {
        match event {
            StoreEvent::Durable { tag } => {
                let up_to = RecordNumber(tag);
                if up_to <= self.durable || self.stopped.is_some() {
                    return;
                }
                self.durable = up_to;
                self.engine.handle(env.now, Input::Durable { up_to });
                while self
                    .awaiting_durable
                    .front()
                    .is_some_and(|(after, _, _)| *after <= up_to)
                {
                    let (_, to, message) =
                        self.awaiting_durable.pop_front().expect("there is a front");
                    env.send_message(to, self.id, message);
                }
            }
            StoreEvent::Read {
                ticket,
                buffer,
                result,
            } => match self.reads.remove(&ticket) {
                Some((Ticket::Rebind, wanted)) => self.on_rebind_read(env, wanted, buffer, result),
                Some((Ticket::Reader(conn), wanted)) => {
                    self.on_reader_bytes(env, conn, wanted, buffer, result);
                }
                Some((Ticket::Feeder(peer), wanted)) => {
                    self.on_feeder_bytes(env, peer, wanted, buffer, result);
                }
                Some((Ticket::Local, wanted)) => self.on_local_bytes(env, wanted, buffer, result),
                Some((Ticket::Examine(asker), wanted)) => {
                    self.on_examined(env, asker, wanted, &buffer, result);
                }
                None => {}
            },
            StoreEvent::Lost { stream, range } => {
                tracing::error!(
                    log = self.id.0,
                    %stream,
                    from = range.start.0,
                    to = range.end.0,
                    "a record on disk is corrupt; it is quarantined and will be fetched from a peer"
                );
                self.counts.ranges_lost += 1;
                self.catch_up
                    .on_lost(stream, range.end, self.engine.state());
                self.recount_missing(env);
            }
            // Who is alone waits for the device.
            StoreEvent::Unreadable { .. } if self.alive.is_empty() => {}
            StoreEvent::Unreadable { stream, range } => {
                tracing::error!(
                    log = self.id.0,
                    %stream,
                    from = range.start.0,
                    to = range.end.0,
                    "a record on disk cannot be read; it will be fetched from a peer"
                );
                self.counts.ranges_lost += 1;
                self.catch_up
                    .on_lost(stream, range.end, self.engine.state());
                self.store.distrust(stream, range);
                self.recount_missing(env);
            }
            StoreEvent::Failed(error) => self.stop(env, format!("the disk failed: {error}")),
        }
    }

    pub(crate) fn recount_missing(&mut self, env: &mut Env) {
        self.catch_up.recount(&self.engine, &self.store);
        self.engine
            .handle(env.now, Input::MissingBytes(self.catch_up.missing_bytes()));
    }

    /// After a disk error this replica takes no part until an operator restarts it.
    fn stop(&mut self, env: &mut Env, why: String) {
        if self.stopped.is_some() {
            return;
        }
        tracing::error!(
            log = self.id.0,
            why,
            "this log's replica stops; repair the disk and restart the node"
        );
        self.counts.disk_failures += 1;
        self.stopped_leading = self.is_leading();
        self.end_replication(env);
        self.stop_clients(
            env,
            "shutting-down",
            "this replica stopped because its disk failed; ask another node",
        );
        self.stopped = Some(why);
    }

    /// What a replica says that led when it stopped: that it does not lead any more, by seeking
    /// votes. Its node's heartbeats go on, so its followers would wait for it for ever. It answers
    /// no offer, and says that it lacks bytes, so that nobody lets it stand first.
    pub(crate) fn renounces(&self) -> Option<Message> {
        (self.stopped.is_some() && self.stopped_leading).then(|| Message::SeekVotes {
            first_unchosen: self.engine.first_unchosen(),
            promised: self.engine.durable_promised(),
            missing_bytes: true,
        })
    }

    fn on_role(&mut self, env: &mut Env, role: Role) {
        let led = matches!(self.role, Role::Leader { .. });
        self.role = role;
        tracing::info!(log = self.id.0, name = self.name, ?role, "role");
        self.release_writers(env);
        match role {
            Role::Leader { term } => {
                self.counts.elections_won += u64::from(!led);
                self.begin_replication(env, term);
            }
            Role::Follower { .. } | Role::Candidate => {
                if led {
                    self.end_replication(env);
                    self.pulse.stop();
                    self.rebind = None;
                    self.part_with_writers(env);
                    // Who follows what is chosen goes on at the next leader.
                    self.fail_barriers(env);
                }
            }
        }
        env.events.push_back(LogEvent::Role { log: self.id });
    }

    fn on_applied(&mut self, env: &mut Env, slot: Slot, outcome: Outcome) {
        self.count(&outcome);
        if matches!(outcome, Outcome::Reconfigured { .. }) {
            self.catch_up.recount_soon(); // what it must hold depends on its part
        }
        if let Outcome::Trimmed { .. } = outcome {
            self.on_trimmed(env, slot);
        }
        match &outcome {
            Outcome::Opened(stream) => self.on_opened(env, *stream),
            Outcome::NotOpened { stream, reason } => self.on_not_opened(env, *stream, *reason),
            Outcome::Closed { stream, at } => self.on_closed(env, *stream, Some(*at)),
            Outcome::NotClosed { stream } => self.on_closed(env, *stream, None),
            Outcome::NodeId(_)
            | Outcome::Reconfigured { .. }
            | Outcome::NotReconfigured(_)
            | Outcome::Trimmed { .. } => {
                env.events.push_back(LogEvent::Applied {
                    log: self.id,
                    slot,
                    outcome,
                });
            }
        }
    }

    /// What clients asked for is their leader's to count.
    fn count(&mut self, outcome: &Outcome) {
        let leading = u64::from(self.is_leading());
        let counts = &mut self.counts;
        match outcome {
            Outcome::Opened(name) => {
                let stream = self.engine.state().stream(*name);
                let continues = stream.is_some_and(|stream| stream.continues.is_some());
                counts.streams_opened += leading;
                counts.streams_continued += u64::from(continues) * leading;
            }
            Outcome::NotOpened { .. } => counts.streams_not_opened += leading,
            Outcome::Closed { .. } => counts.streams_closed += leading,
            Outcome::NotClosed { .. } => counts.streams_not_closed += leading,
            Outcome::Reconfigured { .. } => counts.eras_begun += 1,
            Outcome::NodeId(_) | Outcome::NotReconfigured(_) | Outcome::Trimmed { .. } => {}
        }
    }

    fn note(&mut self, note: Note) {
        self.counts.note(&note);
        match note {
            Note::Refused { by, term } => {
                tracing::debug!(log = self.id.0, by = by.0, %term, "refused");
            }
            Note::Ignored { from, reason } => {
                tracing::debug!(log = self.id.0, from = from.0, ?reason, "message ignored");
            }
            Note::DigestMismatch { by, slots } => tracing::error!(
                log = self.id.0,
                by = by.0,
                %slots,
                "a follower accepted other bytes than were sent; its acceptance does not count"
            ),
            note => tracing::info!(log = self.id.0, name = self.name, ?note, "engine"),
        }
    }

    /// Gives bytes that stand in `buffer[RECORD_HEADER..][..count]` to disk and network. The open
    /// permit must have room for them.
    pub(crate) fn propose_bytes(
        &mut self,
        env: &mut Env,
        stream: StreamName,
        position: u64,
        buffer: Buffer,
        count: usize,
    ) {
        env.appended_at = env.now;
        env.wrote(count);
        let permit = self.engine.permit().expect("only under an open permit");
        let (term, first_slot) = (permit.term, permit.next);
        let digest = crate::format::digest(&buffer[RECORD_HEADER..RECORD_HEADER + count]);
        self.at_hand = Some(buffer);
        self.engine.handle(
            env.now,
            Input::BytesWritten(BytesWritten {
                term,
                first_slot,
                count: count as u64,
                stream,
                position: StreamPosition(position),
                digest,
            }),
        );
        self.pulse
            .on_proposed(env.now, self.engine.proposed_up_to());
        self.drain(env);
        paxos::invariant!(
            self.at_hand.is_none(),
            "what was written under a permit is persisted"
        );
    }

    /// A proposal arrived with its bytes, checked against its digest.
    pub(crate) fn on_proposal(
        &mut self,
        env: &mut Env,
        from: NodeId,
        proposal: Proposal,
        bytes: Option<Buffer>,
    ) {
        if self.stopped.is_some() {
            return;
        }
        if self.declines(env, &proposal) {
            return;
        }
        env.wrote(bytes.as_ref().map_or(0, |_| proposal.slots.len() as usize));
        self.at_hand = bytes;
        self.engine.handle(
            env.now,
            Input::Message {
                from,
                message: Message::Propose(proposal),
            },
        );
        self.drain(env);
        self.at_hand = None;
    }

    pub(crate) fn on_message(&mut self, env: &mut Env, from: NodeId, message: Message) {
        if matches!(message, Message::Propose(_)) {
            return; // Proposals travel with their bytes only.
        }
        let succeeds = |term: &paxos::Term| term.owner == env.identity.node;
        if env.stopping && matches!(&message, Message::Prepare { term } if succeeds(term)) {
            return; // Nodes that all stop would hand the lead around among them until they are gone.
        }
        self.input(env, Input::Message { from, message });
    }

    pub(crate) fn on_disk(&mut self, env: &mut Env, completion: Completion) {
        self.store.on_completion(env.now, completion);
        self.drain(env);
    }

    pub(crate) fn set_alive(&mut self, env: &mut Env, peer: NodeId, alive: bool) {
        if alive {
            self.alive.insert(peer);
            self.resend_to(peer);
            self.input(env, Input::PeerAlive(peer));
        } else {
            self.alive.remove(&peer);
            self.input(env, Input::PeerSilent(peer));
        }
    }

    /// Does whatever has become possible.
    pub(crate) fn settle(&mut self, env: &mut Env) {
        if self.stopped.is_some() {
            return;
        }
        if self.engine.deadline().is_some_and(|d| d <= env.now) {
            self.input(env, Input::Timer);
        }
        self.store.on_time(env.now);
        if self.store.trust_again() {
            self.recount_missing(env);
        }
        if self.stall_deadline(env).is_some_and(|due| due <= env.now) {
            tracing::error!(
                log = self.id.0,
                "this leader's disk hangs; another node takes over"
            );
            self.counts.disk_stalls += 1;
            self.input(env, Input::StepDown);
        }
        self.drain(env);
        self.rebind(env);
        self.trim_what_was_held_back();
        self.pump_trims(env);
        self.pump_moves(env);
        self.make_room(env);
        self.ingest(env);
        self.replicate(env);
        self.acknowledge(env);
        self.pump_sources(env);
        self.pump_readers(env);
        self.pump_catch_up(env);
        self.pump_feeders(env);
        self.settle_auxiliary(env);
        self.take_pulse(env);
        self.settle_scrub(env);
        if env.now.0 > self.last_chosen_at.0 + env.limits.ring_idle {
            let end = self.ring.end();
            self.ring.evict(self.engine.first_unchosen(), 0, end, 0);
        }
        self.drain(env);
    }

    fn take_pulse(&mut self, env: &Env) {
        if self.pulse.is_idle() || !self.is_leading() {
            return;
        }
        let engine = &self.engine;
        let taking = env
            .addresses
            .keys()
            .filter(|node| self.alive.contains(node) && engine.wants_proposals(**node));
        let followers = taking.map(|node| (*node, engine.peer_accepted_up_to(*node)));
        self.pulse
            .on_progress(env.now, engine.first_unchosen(), followers);
    }

    /// Whether it pays to wait for somebody else to lead.
    pub(crate) fn may_hand_over(&self) -> bool {
        let members = self.engine.state().configuration.members();
        let others = members
            .iter()
            .any(|member| self.alive.contains(&member.node));
        self.is_leading() && others
    }

    /// Before the process ends: nothing is taken or said any more.
    pub(crate) fn close(&mut self, env: &mut Env) {
        self.stop_clients(env, "shutting-down", "this node is stopping; ask another");
        self.end_replication(env);
        self.stopped.get_or_insert("this node is stopping".into());
        self.store.close();
        self.drain(env);
    }

    pub(crate) fn is_closed(&mut self, env: &mut Env) -> bool {
        let closed = self.store.is_closed();
        self.drain(env);
        closed
    }

    pub(crate) fn deadline(&self, env: &Env) -> Option<paxos::Time> {
        if self.stopped.is_some() {
            return None;
        }
        [
            self.engine.deadline(),
            self.store.deadline(),
            self.readers.deadline(),
            self.busy_deadline(env),
            self.catch_up_deadline(env),
            self.auxiliary_deadline(),
            self.moves.deadline(),
            self.stall_deadline(env),
            self.scrub_deadline(env),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When a leader whose disk does nothing gives up leading, if somebody else could.
    fn stall_deadline(&self, env: &Env) -> Option<paxos::Time> {
        let since = self.store.oldest_write_since()?.max(env.resumed_at);
        let due = paxos::Time(since.0 + env.limits.disk_stall + 1);
        self.may_hand_over().then_some(due)
    }

    fn busy_deadline(&self, env: &Env) -> Option<paxos::Time> {
        self.is_busy()
            .then_some(paxos::Time(env.now.0 + BUSY_ROUND))
    }

    fn catch_up_deadline(&self, env: &Env) -> Option<paxos::Time> {
        let due = self.catch_up.due(&env.limits)?;
        // If it passed, something else than the rate holds it back.
        (due > env.now).then_some(due)
    }

    /// Something is under way that nobody else would wake us for.
    pub(crate) fn is_busy(&self) -> bool {
        self.stopped.is_none()
            && (self.rebind.is_some()
                || self.catch_up.is_busy()
                || self.ingest.is_waiting()
                || self.readers.are_retrying()
                || self.trims.are_waiting()
                || self.moves.are_waiting()
                || self.ring.bytes() > 0
                || (self.is_leading()
                    && self.engine.first_unchosen() < self.engine.proposed_up_to()))
    }

    pub(crate) fn read_from_store(
        &mut self,
        ticket: Ticket,
        stream: StreamName,
        position: u64,
        buffer: Buffer,
    ) {
        self.last_read += 1;
        let number = self.last_read;
        let to_send = matches!(ticket, Ticket::Reader(_) | Ticket::Feeder(_));
        self.reads
            .insert(number, (ticket, Wanted::new(stream, position)));
        let position = StreamPosition(position);
        self.store.read(number, stream, position, buffer, to_send);
    }

    /// Hands over if we lead and can, so that a stopping node costs its clients no timeout.
    pub(crate) fn abdicate(&mut self, env: &mut Env) {
        if self.is_leading() && !self.engine.is_abdicating() {
            self.input(env, Input::Abdicate { to: None });
        }
    }
}

fn payload_of(frozen: &Shared, count: usize) -> Slice {
    frozen.slice(RECORD_HEADER..RECORD_HEADER + count)
}

/// A batch buffer with these bytes where a record's payload stands; a small one for few bytes, so
/// that waiting small batches do not pin large buffers.
pub(crate) fn batch_of(env: &Env, bytes: &[u8]) -> Buffer {
    let mut batch = batch_for(env, bytes.len());
    batch[RECORD_HEADER..RECORD_HEADER + bytes.len()].copy_from_slice(bytes);
    batch
}

pub(crate) fn batch_for(env: &Env, count: usize) -> Buffer {
    if count <= SMALL_BATCH {
        Buffer::new((RECORD_HEADER + count).next_multiple_of(crate::op::BLOCK))
    } else {
        env.batches.take()
    }
}

/// How often a log with something under way is settled when nothing else wakes it.
const BUSY_ROUND: u64 = 20_000;

pub(crate) const SMALL_BATCH: usize = 64 << 10;

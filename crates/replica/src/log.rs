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

use formats::{LogId, RECORD_HEADER};
use ops::{Buffer, Completion, ConnId, Shared, Slice};
use paxos::mutation::{self, Mutation};
use paxos::{
    BytesWritten, Checkpoint, Engine, EngineConfig, Input, Message, NodeId, PermitContent,
    Proposal, RecordNumber, Role, Slot, StreamName, StreamPosition,
};
use store::{RecordContext, Store};

use crate::catch_up::CatchUp;
use crate::counts::LogCounts;
use crate::env::Env;
use crate::feed::Feeder;
use crate::follow::Source;
use crate::ingest::Ingest;
use crate::lead::Moves;
use crate::pulse::Pulse;
use crate::read::Readers;
use crate::replicate::Follower;
use crate::retention::Keeping;
use crate::ring::Ring;
use crate::scrub::{Asker, Scrub};
use crate::trim::Trims;

mod auxiliary;
mod outputs;
mod rebind;
mod round;
mod seen;

use auxiliary::Auxiliary;
use rebind::Rebind;

pub struct Log {
    pub(crate) id: LogId,
    pub(crate) name: String,
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
    /// It stopped since another replica contradicts what is chosen here.
    pub(crate) is_contradicted: bool,
    /// It led when it stopped.
    stopped_leading: bool,
    pub(crate) counts: LogCounts,
    pub(crate) pulse: Pulse,
    pub(crate) last_chosen_at: paxos::Time,
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
            incarnation: env.incarnation,
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
            is_contradicted: false,
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
    pub fn can_propose(&self) -> bool {
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
    pub fn input(&mut self, env: &mut Env, input: Input) {
        if self.stopped.is_some() {
            return;
        }
        self.engine.handle(env.now, input);
        self.drain(env);
    }

    pub fn drain(&mut self, env: &mut Env) {
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
        self.counts.disk_failures += 1;
        self.stop_over(
            env,
            why,
            "this replica stopped because its disk failed; ask another node",
        );
    }

    /// This replica takes no part from here on.
    fn stop_over(&mut self, env: &mut Env, why: String, sentence: &str) {
        if self.stopped.is_some() {
            return;
        }
        tracing::error!(log = self.id.0, why, "this log's replica stops");
        self.stopped_leading = self.is_leading();
        self.end_replication(env);
        self.stop_clients(env, "shutting-down", sentence);
        self.stopped = Some(why);
    }

    /// What is written now would go with the file that it is in.
    pub fn on_directory_gone(&mut self, env: &mut Env) {
        self.stop(
            env,
            "its directory is gone: somebody removed or moved it".into(),
        );
    }

    /// What a replica says that led when it stopped: that it does not lead any more, by seeking
    /// votes. Its node's heartbeats go on, so its followers would wait for it for ever. It answers
    /// no offer, and says that it lacks bytes, so that nobody lets it stand first.
    pub fn renounces(&self) -> Option<Message> {
        (self.stopped.is_some() && self.stopped_leading).then(|| Message::SeekVotes {
            first_unchosen: self.engine.first_unchosen(),
            promised: self.engine.durable_promised(),
            missing_bytes: true,
        })
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
        let digest = formats::digest(&buffer[RECORD_HEADER..RECORD_HEADER + count]);
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

    pub fn on_message(&mut self, env: &mut Env, from: NodeId, message: Message) {
        if matches!(message, Message::Propose(_)) {
            return; // Proposals travel with their bytes only.
        }
        let succeeds = |term: &paxos::Term| term.owner == env.identity.node;
        if env.stopping && matches!(&message, Message::Prepare { term } if succeeds(term)) {
            return; // Nodes that all stop would hand the lead around among them until they are gone.
        }
        self.input(env, Input::Message { from, message });
    }

    pub fn on_disk(&mut self, env: &mut Env, completion: Completion) {
        self.store.on_completion(env.now, completion);
        self.drain(env);
    }

    pub fn set_alive(&mut self, env: &mut Env, peer: NodeId, alive: bool) {
        if alive {
            self.alive.insert(peer);
            self.resend_to(peer);
            self.input(env, Input::PeerAlive(peer));
        } else {
            self.alive.remove(&peer);
            self.input(env, Input::PeerSilent(peer));
        }
    }

    /// Whether it pays to wait for somebody else to lead.
    pub fn may_hand_over(&self) -> bool {
        let members = self.engine.state().configuration.members();
        let others = members
            .iter()
            .any(|member| self.alive.contains(&member.node));
        self.is_leading() && others
    }

    /// Before the process ends: nothing is taken or said any more.
    pub fn close(&mut self, env: &mut Env) {
        self.stop_clients(env, "shutting-down", "this node is stopping; ask another");
        self.end_replication(env);
        self.stopped.get_or_insert("this node is stopping".into());
        self.store.close();
        self.drain(env);
    }

    pub fn is_closed(&mut self, env: &mut Env) -> bool {
        let closed = self.store.is_closed();
        self.drain(env);
        closed
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
    pub fn abdicate(&mut self, env: &mut Env) {
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
        Buffer::new((RECORD_HEADER + count).next_multiple_of(ops::BLOCK))
    } else {
        env.batches.take()
    }
}

pub(crate) const SMALL_BATCH: usize = 64 << 10;

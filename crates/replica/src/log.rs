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
//! Every entry point hands the engine one input and then calls [`Log::drain`], which performs all that the
//! engine and the store ask for. Steps that may be possible now but that nobody asked for (sending,
//! acknowledging, reading on) happen in [`Log::settle`], once per round.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use formats::{LogId, LogKind, RECORD_HEADER};
use ops::{Buffer, Completion, Shared, Slice};
use paxos::mutation::{self, Mutation};
use paxos::{
    BytesWritten, Checkpoint, Digest, Engine, EngineConfig, Input, Message, NodeId, Proposal,
    RecordNumber, Slot, StreamName, StreamPosition,
};
use store::{RecordContext, Store};

use crate::auxiliary::Auxiliary;
use crate::catch_up::CatchUp;
use crate::counts::LogCounts;
use crate::env::Env;
use crate::feed::Feeders;
use crate::follow::Sources;
use crate::full::Full;
use crate::ingest::state::Ingest;
use crate::lead::Moves;
use crate::lent::Core;
use crate::port::ends::Ends;
use crate::pulse::Pulse;
use crate::read::Readers;
use crate::rebind::Rebind;
use crate::replicate::Followers;
use crate::retention::Keeping;
use crate::ring::Ring;
use crate::scrub::Scrub;
use crate::stands::Stands;
use crate::trim::Trims;
use crate::young::Young;

mod links;
mod outputs;
mod round;
mod seen;
mod serving;
mod upkeep;

pub struct Log {
    pub(crate) core: Core,
    pub(crate) followers: Followers,
    pub(crate) sources: Sources,
    pub(crate) feeders: Feeders,
    pub(crate) ingest: Ingest,
    pub(crate) readers: Readers,
    pub(crate) catch_up: CatchUp,
    pub(crate) scrub: Scrub,
    pub(crate) trims: Trims,
    pub(crate) moves: Moves,
    pub(crate) keeping: Keeping,
    pub(crate) pulse: Pulse,
    pub(crate) port: Ends,
    /// The bytes of the batch that the engine is being told of, until it asks to persist them.
    at_hand: Option<Buffer>,
    /// Messages that wait for a record, in the order of the records.
    awaiting_durable: VecDeque<(RecordNumber, NodeId, Message)>,
    durable: RecordNumber,
    rebind: Rebind,
    auxiliary: Auxiliary,
    full: Full,
    /// The replica stopped since another one contradicts what is chosen here.
    is_contradicted: bool,
    /// The replica led when it stopped.
    stopped_leading: bool,
}

impl Log {
    pub fn new(
        env: &Env,
        id: LogId,
        (name, kind): (String, LogKind),
        store: Store,
        checkpoint: Checkpoint,
    ) -> Log {
        let config = EngineConfig {
            node: env.own.identity.node,
            incarnation: env.own.incarnation,
            seed: env.own.nonce ^ u64::from(id.0).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            unchosen_bytes_max: env.limits.unchosen_bytes_max,
            timing: env.limits.timing,
            phase_one: env.limits.phase_one,
        };
        let borne_out = RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        };
        let learn_past = store.learn_past();
        let learn_past = learn_past.filter(|_| !mutation::is(Mutation::ForgetfulReplicaPromises));
        let forgot_below = learn_past.unwrap_or_default();
        let engine = match env.own.settling {
            true => Engine::resting(config, checkpoint, forgot_below, env.now),
            false => Engine::with_gaps(config, checkpoint, forgot_below, env.now),
        };
        let core = Core {
            id,
            name,
            kind,
            own: env.own.identity.node,
            role: engine.role(),
            stopped: None,
            engine,
            store,
            ring: Ring::default(),
            young: Young::default(),
            alive: BTreeSet::new(),
            stopped_at: BTreeSet::new(),
            counts: LogCounts {
                starts_with_gaps: u64::from(forgot_below > Slot(0)),
                ..LogCounts::default()
            },
            borne_out,
            reads: BTreeMap::new(),
            last_read: 0,
            persisted: RecordNumber(0),
            last_chosen_at: env.now,
            cut_as_gone: None,
            stands: Stands::default(),
            uses_reserve: false,
        };
        let mut log = Log {
            core,
            followers: Followers::default(),
            sources: Sources::default(),
            feeders: Feeders::default(),
            ingest: Ingest::default(),
            readers: Readers::default(),
            catch_up: CatchUp::default(),
            scrub: Scrub::default(),
            trims: Trims::default(),
            moves: Moves::default(),
            keeping: Keeping::default(),
            pulse: Pulse::default(),
            port: Ends::default(),
            at_hand: None,
            awaiting_durable: VecDeque::new(),
            durable: RecordNumber(0),
            rebind: Rebind::default(),
            auxiliary: Auxiliary::default(),
            full: Full::default(),
            is_contradicted: false,
            stopped_leading: false,
        };
        log.keeping.learn(&log.core);
        // These bytes were trimmed and still there when the process ended.
        log.trim_store();
        log.catch_up.on_found(&log.core.engine, &log.core.store);
        log.catch_up.recount_and_tell(&mut log.core, env);
        log
    }

    /// Hands the engine one input and performs all that follows.
    pub fn input(&mut self, env: &mut Env, input: Input) {
        if self.core.stopped.is_some() {
            return;
        }
        self.core.engine.handle(env.now, input);
        self.drain(env);
    }

    pub fn drain(&mut self, env: &mut Env) {
        self.core.store.set_time(env.now);
        loop {
            while let Some(output) = self.core.engine.poll_output() {
                self.perform(env, output);
            }
            while let Some(op) = self.core.store.poll_op() {
                env.out.ops.push_back(op);
            }
            match self.core.store.poll_event() {
                Some(event) => self.on_store_event(env, event),
                // Missing bytes are counted before anybody hears of the new state, so that nobody takes us
                // for whole.
                None if self.catch_up.take_state_jumped() => {
                    self.catch_up.recount_and_tell(&mut self.core, env)
                }
                None => break,
            }
        }
        let wants_roll = self.auxiliary.take_wants_roll() || self.core.store.wants_roll();
        if wants_roll && self.core.stopped.is_none() {
            let context = self.core.context();
            self.core
                .store
                .roll(&self.core.engine.checkpoint(), context);
            while let Some(op) = self.core.store.poll_op() {
                env.out.ops.push_back(op);
            }
        }
    }

    /// Stops this replica after a disk error: it takes no part until an operator restarts it.
    fn stop(&mut self, env: &mut Env, why: String) {
        if self.core.stopped.is_some() {
            return;
        }
        self.core.counts.disk_failures += 1;
        self.stop_over(
            env,
            why,
            "this replica stopped because its disk failed; ask another node",
        );
    }

    /// Stops this replica: it takes no part from here on.
    fn stop_over(&mut self, env: &mut Env, why: String, sentence: &str) {
        if self.core.stopped.is_some() {
            return;
        }
        tracing::error!(log = self.core.id.0, why, "this log's replica stops");
        self.stopped_leading = self.core.is_leading();
        self.end_replication(env);
        self.stop_clients(env, "shutting-down", sentence);
        self.core.stopped = Some(why);
    }

    /// Stops since the directory is gone: bytes written now would go with their file.
    pub fn on_directory_gone(&mut self, env: &mut Env) {
        self.stop(
            env,
            "its directory is gone: somebody removed or moved it".into(),
        );
    }

    /// The message of a replica that led when it stopped: by seeking votes it says that it no longer leads.
    /// Its node's heartbeats go on, so its followers would wait for it for ever. It answers no offer, and
    /// says that it lacks bytes, so that nobody lets it stand first.
    pub fn renounces(&self) -> Option<Message> {
        (self.core.stopped.is_some() && self.stopped_leading).then(|| Message::SeekVotes {
            first_unchosen: self.core.engine.first_unchosen(),
            promised: self.core.engine.durable_promised(),
            missing_bytes: true,
        })
    }

    /// Whether a batch may be proposed now. If not, its term is being prepared, and a later round asks again.
    pub(crate) fn may_begin_batch(&mut self, env: &mut Env) -> bool {
        let may = self.core.engine.may_begin_batch(env.now);
        if !may {
            self.drain(env);
        }
        may
    }

    /// Gives bytes that stand in `buffer[RECORD_HEADER..][..count]` to disk and network. The open
    /// permit must have room for them.
    pub(crate) fn propose_bytes(
        &mut self,
        env: &mut Env,
        stream: StreamName,
        position: u64,
        buffer: Buffer,
        (count, digest): (usize, Digest),
    ) {
        env.moments.appended_at = env.now;
        env.wrote(count);
        let permit = self
            .core
            .engine
            .permit()
            .expect("only under an open permit");
        let (term, first_slot) = (permit.term, permit.next);
        self.at_hand = Some(buffer);
        self.core.engine.handle(
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
            .on_proposed(env.now, self.core.engine.proposed_up_to());
        self.drain(env);
        paxos::invariant!(
            self.at_hand.is_none(),
            "what was written under a permit is persisted"
        );
    }

    /// Takes a proposal that arrived with its bytes, checked against its digest.
    pub(crate) fn on_proposal(
        &mut self,
        env: &mut Env,
        from: NodeId,
        proposal: Proposal,
        bytes: Option<Buffer>,
    ) {
        if self.core.stopped.is_some() || env.own.settling {
            return;
        }
        if self.full.declines(&mut self.core, env, &proposal) {
            return;
        }
        env.wrote(bytes.as_ref().map_or(0, |_| proposal.slots.len() as usize));
        self.at_hand = bytes;
        self.core.engine.handle(
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
        if env.own.settling {
            return; // As if it had been lost.
        }
        let succeeds = |term: &paxos::Term| term.owner == env.own.identity.node;
        if env.stopping && matches!(&message, Message::Prepare { term } if succeeds(term)) {
            return; // Nodes that all stop would hand the lead around among them until they are gone.
        }
        self.input(env, Input::Message { from, message });
    }

    pub fn on_disk(&mut self, env: &mut Env, completion: Completion) {
        self.core.store.on_completion(env.now, completion);
        self.drain(env);
    }

    /// Takes note that a peer's replica of this log stopped, though its node is heard.
    pub fn on_peer_stopped(&mut self, env: &mut Env, peer: NodeId) {
        self.core.stopped_at.insert(peer);
        self.core.stands.forget(peer);
        self.break_links(env, peer);
        self.set_alive(env, peer, false);
    }

    /// Takes note that the peer may be a new process.
    pub fn on_peer_greets(&mut self, env: &mut Env, peer: NodeId) {
        self.core.stopped_at.remove(&peer);
        self.core.stands.forget(peer);
        self.core.judge_states(env);
        self.drain(env);
    }

    pub fn set_alive(&mut self, env: &mut Env, peer: NodeId, alive: bool) {
        if alive {
            self.core.alive.insert(peer);
            self.core.judge_states(env);
            self.resend_to(peer);
            self.input(env, Input::PeerAlive(peer));
        } else {
            self.core.alive.remove(&peer);
            self.core.stands.forget(peer);
            self.core.judge_states(env);
            self.input(env, Input::PeerSilent(peer));
        }
    }

    /// Closes the log before the process ends: nothing is taken or said any more.
    pub fn close(&mut self, env: &mut Env) {
        self.stop_clients(env, "shutting-down", "this node is stopping; ask another");
        self.end_replication(env);
        self.core
            .stopped
            .get_or_insert("this node is stopping".into());
        self.core.store.close();
        self.drain(env);
    }

    pub fn is_closed(&mut self, env: &mut Env) -> bool {
        let closed = self.core.store.is_closed();
        self.drain(env);
        closed
    }

    /// Hands over if we lead and can, so that a stopping node costs its clients no timeout.
    pub fn abdicate(&mut self, env: &mut Env) {
        if self.core.is_leading() && !self.core.engine.is_abdicating() {
            self.input(env, Input::Abdicate { to: None });
        }
    }
}

fn payload_of(frozen: &Shared, count: usize) -> Slice {
    frozen.slice(RECORD_HEADER..RECORD_HEADER + count)
}

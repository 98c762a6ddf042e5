//! The engine's requests, and the store's reports.

use formats::{RECORD_HEADER, codec};
use ops::Slice;
use paxos::mutation::{self, Mutation};
use paxos::{
    ChangeRefused, Input, Note, Outcome, Output, Persist, PromisedTerm, Proposal, RecordNumber,
    Role, Slot, StreamPosition, Value,
};
use store::{NewRecord, StoreEvent};

use super::{Log, payload_of};
use crate::env::{Env, LogEvent};
use crate::lent::Ticket;
use crate::ring::Entry;

/// The bytes that a follower keeps in memory for its log's guest, at most: it is to take them soon.
const YOUNG_BYTES_MAX: u64 = 4 << 20;

impl Log {
    pub(super) fn perform(&mut self, env: &mut Env, output: Output) {
        match output {
            Output::Persist { record, what } => self.persist(env, record, what),
            Output::Send { to, message, after } => {
                if after <= self.durable {
                    env.send_message(to, self.core.id, message);
                } else {
                    self.awaiting_durable.push_back((after, to, message));
                }
            }
            Output::Replicate(mut proposal) => {
                let payload = match &proposal.value {
                    Value::Action(action) => {
                        let encoded = codec::encode(env.version.logs, action.as_ref());
                        proposal.digest = formats::digest(&encoded);
                        Some(Slice::copied_from(&encoded))
                    }
                    _ => None,
                };
                self.core.ring.push(Entry { proposal, payload });
            }
            Output::Permit(Some(_)) => {}
            Output::Permit(None) => self.core.counts.permits_lapsed += 1,
            Output::Applied { slot, outcome } => self.on_applied(env, slot, outcome),
            Output::Chosen { .. } => {
                self.core.last_chosen_at = env.now;
                self.catch_up.on_chosen(self.core.engine.state());
            }
            Output::Release { below } => self.auxiliary.on_release(&mut self.core, env, below),
            Output::StateInstalled => {
                tracing::info!(
                    log = self.core.id.0,
                    slot = self.core.engine.first_unchosen().0,
                    "caught up by state"
                );
                self.trim_store();
                self.catch_up.recount_soon();
                self.core.counts.states_installed += 1;
            }
            Output::Contradicted { by, what } => {
                let name = &self.core.name;
                self.is_contradicted = self.core.stopped.is_none();
                self.stop_over(
                    env,
                    format!(
                        "node {by} contradicts what is chosen in {name} as this node knows it: {what}; one of the two forgot what was agreed on, by an old copy of a directory that was put back, mostly: keep both directories, and see docs/first-aid.md"
                    ),
                    "this replica stopped because another contradicts it; ask another node",
                );
            }
            Output::Role(role) => self.on_role(env, role),
            Output::ReadReady(read) => self.readers.on_ready(read),
            Output::ReadsFailed => self.fail_barriers(env),
            Output::Note(note) => self.note(note),
        }
    }

    fn persist(&mut self, env: &Env, record: RecordNumber, what: Persist) {
        let borne_out = self.core.borne_out;
        let mut context = self.core.context();
        if let Persist::Promise {
            term: PromisedTerm(term),
        }
        | Persist::Accept { term, .. } = what
        {
            self.core.borne_out.promised = context.promised.max(PromisedTerm(term));
            context = self.core.borne_out;
        }
        self.core.persisted = record;
        match what {
            Persist::Promise { .. } => {
                let mut checkpoint = self.core.engine.checkpoint();
                if mutation::is(Mutation::PromiseWithoutState) {
                    checkpoint.state.next = Slot(0); // so that a recovery does not take it
                    context.first_unchosen = borne_out.first_unchosen;
                }
                self.core
                    .store
                    .append(NewRecord::Promise(checkpoint), context, record.0);
            }
            Persist::State => {
                self.core.store.append(
                    NewRecord::State(self.core.engine.checkpoint()),
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
                let frozen = self.core.store.append(
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
                let Some(frozen) = frozen.filter(|_| is_content) else {
                    return;
                };
                let payload = payload_of(&frozen, slots.len() as usize);
                if term.owner == self.core.own {
                    let chosen_up_to = self.core.engine.first_unchosen();
                    self.core.ring.push(Entry {
                        proposal: Proposal {
                            term,
                            slots,
                            value,
                            digest,
                            chosen_up_to,
                        },
                        payload: Some(payload),
                    });
                } else if let Value::Content { stream, offset } = value
                    && self.port.is_read()
                    && !self.core.engine.is_auxiliary()
                {
                    let from = StreamPosition(slots.start.0 - offset.0);
                    let bytes_max = env.room.share.ring_bytes.min(YOUNG_BYTES_MAX);
                    self.core
                        .young
                        .push(slots, (stream, from), payload, bytes_max);
                }
            }
        }
    }

    pub(super) fn on_store_event(&mut self, env: &mut Env, event: StoreEvent) {
        match event {
            StoreEvent::Durable { tag } => {
                let up_to = RecordNumber(tag);
                if up_to <= self.durable || self.core.stopped.is_some() {
                    return;
                }
                self.durable = up_to;
                self.core.engine.handle(env.now, Input::Durable { up_to });
                while self
                    .awaiting_durable
                    .front()
                    .is_some_and(|(after, _, _)| *after <= up_to)
                {
                    let (_, to, message) =
                        self.awaiting_durable.pop_front().expect("there is a front");
                    env.send_message(to, self.core.id, message);
                }
            }
            StoreEvent::Read {
                ticket,
                buffer,
                result,
            } => match self.core.reads.remove(&ticket) {
                Some((Ticket::Rebind, wanted)) => {
                    let read = self
                        .rebind
                        .on_read(&mut self.core, env, wanted, buffer, result);
                    if let Some((stream, position, batch, count)) = read {
                        let digest = formats::digest(&batch[RECORD_HEADER..RECORD_HEADER + count]);
                        self.propose_bytes(env, stream, position, batch, (count, digest));
                        self.rebind.pump(&mut self.core, &mut self.catch_up, env);
                    }
                }
                Some((Ticket::Reader(conn), wanted)) => {
                    self.readers
                        .on_bytes(&self.core, env, conn, wanted, buffer, result);
                }
                Some((Ticket::Feeder(peer), wanted)) => {
                    self.feeders
                        .on_bytes(&mut self.core, env, peer, wanted, buffer, result);
                }
                Some((Ticket::Port, wanted)) => self.on_port_read(env, wanted, buffer, result),
                Some((Ticket::Examine(asker), wanted)) => {
                    let content = result.map(|bytes| &buffer[bytes.payload]);
                    let (core, catch_up) = (&mut self.core, &self.catch_up);
                    self.scrub
                        .on_examined(core, catch_up, env, asker, wanted, content);
                }
                None => {}
            },
            StoreEvent::Lost { stream, range } => {
                tracing::error!(
                    log = self.core.id.0,
                    %stream,
                    from = range.start.0,
                    to = range.end.0,
                    "a record on disk is corrupt; its bytes are fetched from a peer"
                );
                self.core.counts.ranges_lost += 1;
                self.catch_up
                    .on_lost(stream, range.end, self.core.engine.state());
                self.catch_up.recount_and_tell(&mut self.core, env);
            }
            // A replica that is alone waits for the device.
            StoreEvent::Unreadable { .. } if self.core.alive.is_empty() => {}
            StoreEvent::Unreadable { stream, range } => {
                tracing::error!(
                    log = self.core.id.0,
                    %stream,
                    from = range.start.0,
                    to = range.end.0,
                    "a record on disk cannot be read; it will be fetched from a peer"
                );
                self.core.counts.ranges_lost += 1;
                self.catch_up
                    .on_lost(stream, range.end, self.core.engine.state());
                self.core.store.distrust(stream, range);
                self.catch_up.recount_and_tell(&mut self.core, env);
            }
            StoreEvent::Failed(error) => self.stop(env, format!("the disk failed: {error}")),
        }
    }

    /// The next term of a leader that prepares for each batch: nobody else leads, and nothing but its term changed.
    fn on_next_term(&mut self, env: &mut Env, role: Role) {
        self.core.role = role;
        self.core.young.clear();
        if let Role::Leader { term } = role {
            self.followers.begin(&mut self.core, env, term);
        }
    }

    fn on_role(&mut self, env: &mut Env, role: Role) {
        let leads_on = match (self.core.role, role) {
            (Role::Leader { .. }, Role::Leader { .. }) => true,
            (Role::Follower { leader, .. }, Role::Follower { leader: now, .. }) => leader == now,
            _ => false,
        };
        if leads_on && self.core.engine.prepares_each_batch() {
            return self.on_next_term(env, role);
        }
        let led = matches!(self.core.role, Role::Leader { .. });
        self.core.role = role;
        tracing::info!(log = self.core.id.0, name = self.core.name, ?role, "role");
        self.core.young.clear();
        self.core.stands.forget_all();
        // ‡ Before anything rests on whose states stand.
        self.catch_up.recount_soon();
        self.release_writers(env);
        self.ingest.forget_gone();
        self.readers.on_role(env, role);
        match role {
            Role::Leader { term } => {
                self.core.counts.elections_won += u64::from(!led);
                self.followers.begin(&mut self.core, env, term);
            }
            Role::Follower { .. } | Role::Candidate => {
                if led {
                    self.end_replication(env);
                    self.pulse.stop();
                    self.rebind.stop();
                    self.part_with_writers(env);
                    // Readers that follow the chosen bytes go on at the next leader.
                    self.fail_barriers(env);
                    self.readers.part_with_followers(&self.core, env);
                }
            }
        }
        env.out
            .events
            .push_back(LogEvent::Role { log: self.core.id });
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
            Outcome::Cut { stream } => self.core.cut_as_gone = Some(*stream),
            Outcome::NotCut { .. } => {}
            Outcome::NotTrimmed => self.trims.on_not_trimmed(slot),
            Outcome::NodeId(_)
            | Outcome::Reconfigured { .. }
            | Outcome::NotReconfigured(_)
            | Outcome::Trimmed { .. }
            | Outcome::Wished { .. }
            | Outcome::NotWished { .. } => {
                env.out.events.push_back(LogEvent::Applied {
                    log: self.core.id,
                    slot,
                    outcome,
                });
            }
        }
    }

    /// Counts an outcome. Requests of clients are their leader's to count.
    fn count(&mut self, outcome: &Outcome) {
        let leading = u64::from(self.core.is_leading());
        let counts = &mut self.core.counts;
        match outcome {
            Outcome::Opened(name) => {
                let stream = self.core.engine.state().stream(*name);
                let continues = stream.is_some_and(|stream| stream.continues.is_some());
                counts.streams_opened += leading;
                counts.streams_continued += u64::from(continues) * leading;
            }
            Outcome::NotOpened { .. } => counts.streams_not_opened += leading,
            Outcome::Closed { .. } => counts.streams_closed += leading,
            Outcome::NotClosed { .. } => counts.streams_not_closed += leading,
            Outcome::Cut { .. } => counts.streams_cut += leading,
            Outcome::NotCut { .. } => {}
            Outcome::Reconfigured { .. } => counts.eras_begun += 1,
            Outcome::Wished { .. } => counts.wishes_chosen += 1,
            Outcome::NotWished { .. } | Outcome::NotTrimmed => counts.wishes_overtaken += 1,
            Outcome::NotReconfigured(ChangeRefused::StaleWish) => counts.wishes_overtaken += 1,
            Outcome::NodeId(_) | Outcome::NotReconfigured(_) | Outcome::Trimmed { .. } => {}
        }
    }

    fn note(&mut self, note: Note) {
        if matches!(note, Note::PhaseOneAgain { .. }) && self.core.engine.prepares_each_batch() {
            self.core.counts.batch_terms += 1;
            return;
        }
        self.core.counts.note(&note);
        match note {
            Note::Refused { by, term } => {
                tracing::debug!(log = self.core.id.0, by = by.0, %term, "refused");
            }
            Note::Ignored { from, reason } => {
                tracing::debug!(
                    log = self.core.id.0,
                    from = from.0,
                    ?reason,
                    "message ignored"
                );
            }
            Note::DigestMismatch { by, slots } => tracing::error!(
                log = self.core.id.0,
                by = by.0,
                %slots,
                "a follower accepted other bytes than were sent; its acceptance does not count"
            ),
            note => tracing::info!(log = self.core.id.0, name = self.core.name, ?note, "engine"),
        }
    }
}

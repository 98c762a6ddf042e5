//! The sum of the chosen slots: the log's own state machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::mutation::{self, Mutation};
use crate::{
    Action, ChangeRefused, Configuration, Era, NodeId, OpenStream, Slot, SlotRange, StreamName,
    StreamPosition, StreamSequence, Value, Wish, WishNumber,
};

mod contradicted;

pub use contradicted::Contradicted;

/// The state after all slots below `next` were applied. Applying is defined slot by slot, and its
/// result does not depend on how runs are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The first slot not applied.
    pub next: Slot,
    /// The number of configurations that came before the one that holds at `next`.
    pub era: Era,
    /// The first slot of `era`.
    pub era_start: Slot,
    /// The members of this era.
    pub configuration: Configuration,
    /// The id that the next new node gets.
    pub next_node_id: NodeId,
    /// For each owner the greatest sequence number it ever opened. Never trimmed.
    pub sequences: BTreeMap<NodeId, StreamSequence>,
    /// Every untrimmed stream in the order of opening; `streams_trimmed` came before them.
    pub streams: Vec<StreamState>,
    /// What is still known of the streams that were trimmed as a whole.
    pub streams_trimmed: StreamsTrimmed,
    /// The last of `streams` may still grow.
    pub current: Option<StreamName>,
    /// Slots below are forgotten.
    pub trimmed: Slot,
    /// The last wish of the directory for this log that this log has chosen.
    pub wish: Option<Arc<Wish>>,
}

/// The counts of the streams that left the table: so that positions in the log's output, and in chains of
/// streams, mean the same for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsTrimmed {
    /// The number of them.
    pub count: u64,
    /// Their outputs together; none without a stream.
    pub bytes: u64,
}

/// A stream, as far as it is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Its name.
    pub name: StreamName,
    /// Words of its writer.
    pub label: String,
    /// Bytes that its writer keeps with it.
    pub metadata: Vec<u8>,
    /// The stream that it continues, and that one's length.
    pub continues: Option<(StreamName, StreamPosition)>,
    /// The first stream of the chain, and the chain's position at which this stream begins, once the stream
    /// that it continues has left the table.
    pub chain: Option<(StreamName, StreamPosition)>,
    /// The stream that continues it.
    pub continued_by: Option<StreamName>,
    /// The slot of its open-stream.
    pub opened: Slot,
    /// Its output so far: bytes `trimmed..length` can be read.
    pub length: StreamPosition,
    /// The first byte that can still be read.
    pub trimmed: StreamPosition,
    /// Whether it may grow.
    pub end: StreamEnd,
}

/// Whether a stream may grow, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It may grow.
    Open,
    /// By close-stream: complete.
    Closed,
    /// Another stream was opened, a gap followed, or its writer is gone: cut off.
    Cut,
}

/// The outcome of an applied action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This id is given to a new node.
    NodeId(NodeId),
    /// The stream has begun.
    Opened(StreamName),
    /// No stream has begun.
    NotOpened {
        /// The name that it was to have.
        stream: StreamName,
        /// The reason.
        reason: NotOpened,
    },
    /// The stream is whole.
    Closed {
        /// The stream.
        stream: StreamName,
        /// Its length.
        at: StreamPosition,
    },
    /// The stream is not current, or not that long.
    NotClosed {
        /// The stream that was to be closed.
        stream: StreamName,
    },
    /// The stream has ended as one whose writer is gone.
    Cut {
        /// The stream.
        stream: StreamName,
    },
    /// The stream grew, ended or was continued meanwhile.
    NotCut {
        /// The stream that was to be cut.
        stream: StreamName,
    },
    /// A new era has begun.
    Reconfigured {
        /// The new era.
        era: Era,
    },
    /// The configuration stays as it is.
    NotReconfigured(ChangeRefused),
    /// Slots are forgotten.
    Trimmed {
        /// The first slot that is kept.
        before: Slot,
    },
    /// A later wish than the one that the trim names is chosen.
    NotTrimmed,
    /// The wish is chosen.
    Wished {
        /// Its number.
        number: WishNumber,
    },
    /// A later wish is chosen already.
    NotWished {
        /// The number of the wish that was too late.
        number: WishNumber,
    },
}

/// The reason why a stream did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// Its sequence number does not exceed its owner's last.
    NotNew,
    /// The stream to continue has another length, or was already continued.
    Continues {
        /// The length of the stream that was to be continued.
        length: StreamPosition,
        /// The stream that continues it already.
        continued_by: Option<StreamName>,
    },
    /// The stream that was to be continued is not known.
    UnknownStream,
    /// The log has ended.
    Sealed,
}

impl LogState {
    /// The state of a log in which nothing was chosen yet.
    pub fn new(configuration: Configuration) -> LogState {
        let greatest = configuration.members().last().map_or(0, |m| m.node.0);
        LogState {
            next: Slot(0),
            era: Era(0),
            era_start: Slot(0),
            configuration,
            next_node_id: NodeId(greatest.saturating_add(1)),
            sequences: BTreeMap::new(),
            streams: Vec::new(),
            streams_trimmed: StreamsTrimmed::default(),
            current: None,
            trimmed: Slot(0),
            wish: None,
        }
    }

    /// An untrimmed stream.
    pub fn stream(&self, name: StreamName) -> Option<&StreamState> {
        self.index_of(name).map(|at| &self.streams[at])
    }

    /// The stream that may still grow.
    pub fn current_stream(&self) -> Option<&StreamState> {
        self.current.and(self.streams.last())
    }

    /// Looks from the newest on: it is nearly always the last that is asked for.
    fn index_of(&self, name: StreamName) -> Option<usize> {
        self.streams.iter().rposition(|stream| stream.name == name)
    }

    /// The continuation of a trimmed stream, if it is still known, and so the stream's length: for a writer
    /// that continued it itself and did not hear of it.
    pub fn continuation_of_forgotten(&self, name: StreamName) -> Option<NotOpened> {
        if self.index_of(name).is_some() {
            return None;
        }
        let mut streams = self.streams.iter();
        streams.find_map(|stream| match stream.continues {
            Some((continued, length)) if continued == name => Some(NotOpened::Continues {
                length,
                continued_by: Some(stream.name),
            }),
            _ => None,
        })
    }

    /// Applies `value` to each slot of a run that begins at `next`. An action fills one slot and
    /// has an outcome. Takes the same time however long the run is.
    pub fn apply(&mut self, slots: SlotRange, value: &Value) -> Option<Outcome> {
        crate::invariant!(
            slots.start == self.next && !slots.is_empty(),
            "I7: slots are applied in order, {slots} at {}",
            self.next
        );
        let outcome = match value {
            Value::NoOp => None,
            Value::Content { stream, offset } => {
                let position = slots.start.0.checked_sub(offset.0).map(StreamPosition);
                self.grow(*stream, position, slots.len());
                None
            }
            Value::Action(action) => {
                crate::invariant!(
                    slots.len() == 1,
                    "I7: an action fills one slot, not {slots}"
                );
                Some(self.act(slots.start, action))
            }
        };
        self.next = slots.end;
        if let Some(Outcome::Reconfigured { .. }) = outcome {
            self.era_start = self.next;
        }
        outcome
    }

    /// Only the current stream grows, and only by its next byte. Its first slot at another
    /// position ends it, so the run's later slots find it over: one look decides for all.
    fn grow(&mut self, name: StreamName, position: Option<StreamPosition>, count: u64) {
        if self.current != Some(name) {
            return;
        }
        let Some(stream) = self.streams.last_mut() else {
            return;
        };
        if position == Some(stream.length) {
            let whole = mutation::is(Mutation::RunsAppliedWhole);
            stream.length.0 += if whole { count.min(1 << 14) } else { count }; // never more than the slots so far
        } else {
            self.end_current(StreamEnd::Cut);
        }
    }

    fn end_current(&mut self, end: StreamEnd) {
        if self.current.take().is_some()
            && let Some(stream) = self.streams.last_mut()
        {
            stream.end = end;
        }
    }

    fn act(&mut self, slot: Slot, action: &Action) -> Outcome {
        match action {
            Action::GenerateNodeId => {
                let id = self.next_node_id;
                match id.0.checked_add(1) {
                    Some(next) => {
                        self.next_node_id = NodeId(next);
                        Outcome::NodeId(id)
                    }
                    None => Outcome::NodeId(NodeId(0)), // all are given; 0 is never a node
                }
            }
            Action::Reconfigure { from, change, by } => {
                if *from != self.era && !mutation::is(Mutation::ReconfigureInAnyEra) {
                    return Outcome::NotReconfigured(ChangeRefused::WrongEra);
                }
                if !self.is_wanted(*by) && !mutation::is(Mutation::StaleWishReconfigures) {
                    return Outcome::NotReconfigured(ChangeRefused::StaleWish);
                }
                let Some(era) = self.era.0.checked_add(1).map(Era) else {
                    return Outcome::NotReconfigured(ChangeRefused::Overflow);
                };
                match self.configuration.apply(*change) {
                    Ok(configuration) => {
                        self.configuration = configuration;
                        self.era = era;
                        Outcome::Reconfigured { era }
                    }
                    Err(refused) => Outcome::NotReconfigured(refused),
                }
            }
            Action::OpenStream(open) => self.open(slot, open),
            Action::CloseStream { stream, at } => match self.current_stream() {
                Some(current) if current.name == *stream && current.length == *at => {
                    self.end_current(StreamEnd::Closed);
                    Outcome::Closed {
                        stream: *stream,
                        at: *at,
                    }
                }
                _ => Outcome::NotClosed { stream: *stream },
            },
            Action::CutStream { stream, at } => match self.current_stream() {
                Some(current) if current.name == *stream && current.length == *at => {
                    self.end_current(StreamEnd::Cut);
                    Outcome::Cut { stream: *stream }
                }
                _ => Outcome::NotCut { stream: *stream },
            },
            Action::Trim { by, .. }
                if !self.is_wanted(*by) && !mutation::is(Mutation::StaleWishTrims) =>
            {
                Outcome::NotTrimmed
            }
            Action::Trim { before, .. } => self.trim(slot, *before),
            Action::Wish(wish) => {
                let outcome = self.wish_for(wish);
                if self.is_sealed() {
                    self.end_current(StreamEnd::Cut);
                }
                outcome
            }
        }
    }

    fn open(&mut self, slot: Slot, open: &OpenStream) -> Outcome {
        let name = open.stream;
        let refused = |reason| Outcome::NotOpened {
            stream: name,
            reason,
        };
        let reused = mutation::is(Mutation::StreamNumberReused);
        if !self.is_new(name) && !reused {
            return refused(NotOpened::NotNew);
        }
        if self.is_sealed() {
            return refused(NotOpened::Sealed);
        }
        if let Some((continued, at)) = open.continues {
            if let Some(before) = self.continuation_of_forgotten(continued) {
                return refused(before);
            }
            let Some(index) = self.index_of(continued) else {
                return refused(NotOpened::UnknownStream);
            };
            let before = &mut self.streams[index];
            let other_length = before.length != at;
            let once_more = before.continued_by.is_some();
            if other_length && !mutation::is(Mutation::ContinuesAtAnyLength)
                || once_more && !mutation::is(Mutation::ContinuedTwice)
            {
                return refused(NotOpened::Continues {
                    length: before.length,
                    continued_by: before.continued_by,
                });
            }
            before.continued_by = Some(name);
        }
        self.end_current(StreamEnd::Cut);
        self.sequences.insert(name.owner, name.sequence);
        self.current = Some(name);
        self.streams.push(StreamState {
            name,
            label: open.label.clone(),
            metadata: open.metadata.clone(),
            continues: open.continues,
            chain: None,
            continued_by: None,
            opened: slot,
            length: StreamPosition(0),
            trimmed: StreamPosition(0),
            end: StreamEnd::Open,
        });
        Outcome::Opened(name)
    }

    /// Forgets the slots below. The state does not hold which slot each byte took; it knows that a stream's
    /// bytes lie before the next stream's opening (the last one's before this very slot). So at most as many
    /// of its bytes are at or above `before` as there are slots from there on. The rest is certainly below
    /// and is forgotten; the bytes kept in excess are as many as there are actions in between. The last
    /// stream stays in the table, so that it can be continued.
    fn trim(&mut self, slot: Slot, before: Slot) -> Outcome {
        let before = before.min(slot).max(self.trimmed);
        self.trimmed = before;
        let gone = self
            .streams
            .windows(2)
            .take_while(|pair| pair[1].opened <= before)
            .count();
        self.forget_first(gone);
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            if stream.opened >= before {
                break;
            }
            let bytes_end = self.bytes_end(at, slot);
            let kept_max = bytes_end.0 - before.0; // else it is in `gone`, or the last one
            let trimmed = StreamPosition(stream.length.0.saturating_sub(kept_max));
            let stream = &mut self.streams[at];
            stream.trimmed = stream.trimmed.max(trimmed);
        }
        Outcome::Trimmed { before }
    }

    /// Takes the oldest streams out of the table. A stream that continues one remembers where it stands.
    pub(crate) fn forget_first(&mut self, count: usize) {
        let mut chains = BTreeMap::new();
        for gone in self.streams.drain(..count) {
            self.streams_trimmed.count += 1;
            self.streams_trimmed.bytes += gone.length.0;
            let chain = gone.chain.or_else(|| chains.remove(&gone.name));
            let (first, begins) = chain.unwrap_or((gone.name, StreamPosition(0)));
            if let Some(next) = gone.continued_by {
                chains.insert(next, (first, StreamPosition(begins.0 + gone.length.0)));
            }
        }
        for stream in &mut self.streams {
            if chains.is_empty() {
                break;
            }
            if let Some(chain) = chains.remove(&stream.name) {
                stream.chain = Some(chain);
            }
        }
    }

    /// The first stream of the chain that this one is part of, and the chain's position at which
    /// this one begins.
    pub fn chain_of(&self, name: StreamName) -> Option<(StreamName, StreamPosition)> {
        let mut at = self.index_of(name)?;
        let mut begins = 0;
        loop {
            let stream = &self.streams[at];
            if let Some((first, position)) = stream.chain {
                return Some((first, StreamPosition(position.0 + begins)));
            }
            let Some((before, length)) = stream.continues else {
                return Some((stream.name, StreamPosition(begins)));
            };
            begins += length.0;
            at = self.streams[..at].iter().rposition(|s| s.name == before)?;
        }
    }

    /// The rest of the chain that begins with `first`: its oldest stream in the table, and the chain's
    /// position at which that begins.
    pub fn chain_from(&self, first: StreamName) -> Option<(&StreamState, StreamPosition)> {
        if let Some(stream) = self.stream(first) {
            return Some((stream, StreamPosition(0)));
        }
        self.streams.iter().find_map(|stream| match stream.chain {
            Some((name, begins)) if name == first => Some((stream, begins)),
            _ => None,
        })
    }

    /// Whether a stream of this name can have been opened and trimmed since. No other of this name will ever
    /// be opened.
    pub fn is_forgotten(&self, name: StreamName) -> bool {
        self.streams_trimmed.count > 0 && !self.is_new(name) && self.stream(name).is_none()
    }

    /// Whether a stream of this name may be opened: its number exceeds its owner's last.
    pub fn is_new(&self, name: StreamName) -> bool {
        let last = self.sequences.get(&name.owner);
        last.is_none_or(|last| name.sequence > *last)
    }

    /// The slot before which all is to be trimmed so that the bytes of the stream from the position on stay,
    /// and those below it, with everything older, are forgotten. `None` if there is no such stream, or it is
    /// not that long.
    pub fn trim_point(&self, stream: StreamName, position: StreamPosition) -> Option<Slot> {
        let at = self.index_of(stream)?;
        let found = &self.streams[at];
        if position == StreamPosition(0) {
            return Some(found.opened);
        }
        let bytes_end = self.bytes_end(at, self.next);
        let kept = found.length.0.checked_sub(position.0)?;
        Some(Slot(bytes_end.0.saturating_sub(kept)))
    }

    /// Whether a trim before this slot would forget anything: only the oldest stream that is there can have
    /// lost bytes already.
    pub fn would_forget(&self, before: Slot) -> bool {
        let Some(oldest) = self.streams.first() else {
            return false;
        };
        let leaves = self.streams.get(1).is_some_and(|s| s.opened <= before);
        let kept_max = self.bytes_end(0, self.next).0.saturating_sub(before.0);
        leaves || oldest.length.0.saturating_sub(kept_max) > oldest.trimmed.0
    }

    /// The end of this stream's bytes: none stands at or above this slot, if `next` is the first slot not applied.
    fn bytes_end(&self, at: usize, next: Slot) -> Slot {
        self.streams.get(at + 1).map_or(next, |next| next.opened)
    }

    /// Whether a state that came from elsewhere can be true at all.
    pub fn is_sound(&self) -> bool {
        let growing = match self.current {
            None => self.streams.iter().all(|s| s.end != StreamEnd::Open),
            Some(name) => self
                .streams
                .last()
                .is_some_and(|s| s.name == name && s.end == StreamEnd::Open),
        };
        let begins_within = |stream: &StreamState| {
            let begins = stream.chain.map_or(0, |(_, begins)| begins.0);
            begins <= self.streams_trimmed.bytes
        };
        growing
            && self.wish.as_ref().is_none_or(|wish| wish.is_sound())
            && !(self.is_sealed() && self.current.is_some())
            && self.streams.iter().all(begins_within)
            && (self.streams_trimmed.count > 0 || self.streams_trimmed.bytes == 0)
            && self.streams_trimmed.bytes <= self.next.0
            && self.era_start <= self.next
            && self.trimmed <= self.next
            && Configuration::new(self.configuration.members().iter().copied())
                .as_ref()
                .is_ok_and(|sound| *sound == self.configuration)
            && self.streams.windows(2).all(|s| s[0].opened < s[1].opened)
            && self
                .streams
                .iter()
                .all(|s| s.opened < self.next && s.trimmed <= s.length && s.length.0 <= self.next.0)
    }
}

#[cfg(test)]
mod tests;

//! What the chosen slots add up to: the log's own state machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{
    Action, ChangeRefused, Configuration, Era, NodeId, OpenStream, Slot, SlotRange, StreamName,
    StreamPosition, StreamSequence, Value,
};

/// The state after all slots below `next` were applied. Applying is defined slot by slot, and its
/// result does not depend on how runs are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The first slot not applied.
    pub next: Slot,
    pub era: Era,
    /// The first slot of `era`.
    pub era_start: Slot,
    pub configuration: Configuration,
    pub next_node_id: NodeId,
    /// For each owner the greatest sequence number it ever opened. Never trimmed.
    pub sequences: BTreeMap<NodeId, StreamSequence>,
    /// Every untrimmed stream in the order of opening; `streams_trimmed` came before them.
    pub streams: Vec<StreamState>,
    pub streams_trimmed: u64,
    /// The last of `streams` may still grow.
    pub current: Option<StreamName>,
    /// Slots below are forgotten.
    pub trimmed: Slot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub name: StreamName,
    pub label: String,
    pub metadata: Vec<u8>,
    pub continues: Option<(StreamName, StreamPosition)>,
    pub continued_by: Option<StreamName>,
    /// The slot of its open-stream.
    pub opened: Slot,
    /// Its output so far: bytes `trimmed..length` can be read.
    pub length: StreamPosition,
    pub trimmed: StreamPosition,
    pub end: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It may grow.
    Open,
    /// By close-stream: complete.
    Closed,
    /// Another stream was opened, or a gap followed: cut off.
    Cut,
}

/// What applying an action came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    NodeId(NodeId),
    Opened(StreamName),
    NotOpened {
        stream: StreamName,
        reason: NotOpened,
    },
    Closed {
        stream: StreamName,
        at: StreamPosition,
    },
    /// Not current, or not that long.
    NotClosed {
        stream: StreamName,
    },
    Reconfigured {
        era: Era,
    },
    NotReconfigured(ChangeRefused),
    Trimmed {
        before: Slot,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// Its sequence number does not exceed its owner's last.
    NotNew,
    /// The stream to continue has another length, or was already continued.
    Continues {
        length: StreamPosition,
        continued_by: Option<StreamName>,
    },
    UnknownStream,
}

impl LogState {
    /// Of a log in which nothing was chosen yet.
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
            streams_trimmed: 0,
            current: None,
            trimmed: Slot(0),
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

    /// Newest first: it is nearly always the last that is asked for.
    fn index_of(&self, name: StreamName) -> Option<usize> {
        self.streams.iter().rposition(|stream| stream.name == name)
    }

    /// Applies `value` to each slot of a run that begins at `next`. An action fills one slot and
    /// has an outcome. Takes the same time however long the run is.
    pub fn apply(&mut self, slots: SlotRange, value: &Value) -> Option<Outcome> {
        assert!(
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
                assert!(
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
            stream.length.0 += count; // never more than the slots so far
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
            Action::Reconfigure { from, change } => {
                if *from != self.era {
                    return Outcome::NotReconfigured(ChangeRefused::WrongEra);
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
            Action::Trim { before } => self.trim(slot, *before),
        }
    }

    fn open(&mut self, slot: Slot, open: &OpenStream) -> Outcome {
        let name = open.stream;
        let refused = |reason| Outcome::NotOpened {
            stream: name,
            reason,
        };
        let last = self.sequences.get(&name.owner);
        if last.is_some_and(|last| name.sequence <= *last) {
            return refused(NotOpened::NotNew);
        }
        if let Some((continued, at)) = open.continues {
            let Some(index) = self.index_of(continued) else {
                return refused(NotOpened::UnknownStream);
            };
            let before = &mut self.streams[index];
            if before.length != at || before.continued_by.is_some() {
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
            continued_by: None,
            opened: slot,
            length: StreamPosition(0),
            trimmed: StreamPosition(0),
            end: StreamEnd::Open,
        });
        Outcome::Opened(name)
    }

    /// Forgets the slots below. The state does not hold which slot each byte took; it knows that a
    /// stream's bytes lie before the next stream's opening (the last one's before this very slot),
    /// so of the bytes at or above `before` there are at most so many as slots from there on. What
    /// remains is certainly below and is forgotten; the bytes kept in excess are as many as there
    /// are actions in between. The last stream stays in the table, so that it can be continued.
    fn trim(&mut self, slot: Slot, before: Slot) -> Outcome {
        let before = before.min(slot).max(self.trimmed);
        self.trimmed = before;
        let gone = self
            .streams
            .windows(2)
            .take_while(|pair| pair[1].opened <= before)
            .count();
        self.streams.drain(..gone);
        self.streams_trimmed += gone as u64;
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            if stream.opened >= before {
                break;
            }
            let bytes_end = self.streams.get(at + 1).map_or(slot, |next| next.opened);
            let kept_max = bytes_end.0 - before.0; // else it is in `gone`, or the last one
            let trimmed = StreamPosition(stream.length.0.saturating_sub(kept_max));
            let stream = &mut self.streams[at];
            stream.trimmed = stream.trimmed.max(trimmed);
        }
        Outcome::Trimmed { before }
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
        growing
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

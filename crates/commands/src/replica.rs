//! Chosen bytes in, an applied state machine out.

use std::ops::Deref;

use thiserror::Error;

use crate::decoder::{Broken, Torn};
use crate::sessions::{Once, SessionBounds, Sessions};
use crate::snapshot::{Mark, Misplaced, Parts, Snapshot, Source, Took};
use crate::{Decoder, Frame, StateMachine, Unknown};

/// One replica of a state machine. The machine is read through it, as through a reference.
#[derive(Clone, Debug)]
pub struct Replica<M: StateMachine> {
    decoder: Decoder,
    core: Core<M>,
    halted: Option<Halted>,
}

/// The whole replica but for bytes that are on their way into it.
#[derive(Clone, Debug)]
struct Core<M: StateMachine> {
    machine: M,
    sessions: Sessions,
    parts: Parts<M>,
    /// This replica's own place in the snapshot that is read, as long as the two are the same.
    same: Option<Mark<M::Place>>,
    /// Frames so far, snapshots not among them.
    applied: u64,
    /// The bytes before were trimmed: nothing can be applied before a snapshot.
    skipped: bool,
}

/// The result of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Command {
        answer: Vec<u8>,
    },
    SessionOpened {
        client: u64,
    },
    Once {
        client: u64,
        sequence: u64,
        outcome: Once,
    },
    /// The state is now the snapshot's. It was so before, unless everything before the snapshot was skipped.
    Snapshot {
        was_equal: bool,
        bytes: u64,
    },
}

/// Why nothing more is applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Halted {
    #[error("the log holds a command that this version does not know ({0}): upgrade this node")]
    Command(Unknown),
    #[error(
        "the log holds a frame of kind {0}, which this version does not know: upgrade this node"
    )]
    Kind(u8),
    #[error("the log's snapshot cannot be taken over ({0}): upgrade this node")]
    Snapshot(Unknown),
    #[error("what came first was trimmed, and what is left does not begin with a snapshot")]
    Headless,
    #[error("what the log holds is damaged: {0}")]
    Broken(#[from] Broken),
    #[error("what the log holds is damaged: {0}")]
    Misplaced(#[from] Misplaced),
}

impl<M: StateMachine> Replica<M> {
    pub fn new(machine: M, bounds: SessionBounds) -> Replica<M> {
        Replica {
            decoder: Decoder::default(),
            core: Core {
                machine,
                sessions: Sessions::new(bounds),
                parts: Parts::default(),
                same: None,
                applied: 0,
                skipped: false,
            },
            halted: None,
        }
    }

    /// The next chosen bytes of the current stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.halted.is_none() {
            self.decoder.push(bytes);
        }
    }

    /// Says that the next bytes are another stream's: the rest of a frame, or of a snapshot, is dropped. All
    /// whole frames are to be applied before.
    #[must_use = "a torn frame was dropped"]
    pub fn end_of_stream(&mut self) -> Option<Torn> {
        self.core.parts.clear();
        self.core.same = None;
        self.decoder.end_of_stream()
    }

    /// Says that the next bytes are those of the first stream that is left; everything before it was trimmed.
    pub fn skip(&mut self) {
        // Nobody needs to know any more whether that stream ended within a frame.
        let _ = self.end_of_stream();
        self.core.skipped = true;
    }

    /// Applies the next frame that is whole. `None` when there is none. An error stays: nothing is ever
    /// applied after it, and the replica's owner has to say so.
    pub fn apply_next(&mut self) -> Result<Option<Applied>, Halted> {
        if let Some(halted) = &self.halted {
            return Err(halted.clone());
        }
        let applied = self.try_next();
        if let Err(halted) = &applied {
            self.halted = Some(halted.clone());
            self.core.parts.clear();
            self.core.same = None;
        }
        applied
    }

    fn try_next(&mut self) -> Result<Option<Applied>, Halted> {
        while let Some(frame) = self.decoder.next_frame()? {
            let applied = self.core.apply(frame)?;
            if applied.is_some() {
                return Ok(applied);
            }
        }
        Ok(None)
    }

    pub fn halted(&self) -> Option<&Halted> {
        self.halted.as_ref()
    }

    /// Frames that stand for all that was applied, to be the first in a new stream. `None` while this replica
    /// cannot speak for the others.
    pub fn snapshot(&self) -> Option<Snapshot<'_, M>> {
        let speaks = self.halted.is_none() && !self.core.skipped;
        speaks.then(|| Snapshot::begin(self.core.source()))
    }

    /// The rest of a snapshot. `None` if something was applied since it was begun: another is begun.
    pub fn resume(&self, mark: Mark<M::Place>) -> Option<Snapshot<'_, M>> {
        let speaks = self.halted.is_none() && !self.core.skipped;
        let is_same = speaks && mark.applied == self.core.applied;
        is_same.then(|| Snapshot::resume(self.core.source(), mark))
    }
}

impl<M: StateMachine> Core<M> {
    fn source(&self) -> Source<'_, M> {
        Source {
            machine: &self.machine,
            sessions: &self.sessions,
            applied: self.applied,
        }
    }

    fn apply(&mut self, frame: Frame<'_>) -> Result<Option<Applied>, Halted> {
        if let Frame::SnapshotPart { part, parts, bytes } = frame {
            return self.take_part(part, parts, bytes);
        }
        self.parts.interrupt()?;
        if self.skipped {
            return Err(Halted::Headless);
        }
        self.applied += 1;
        Ok(Some(match frame {
            Frame::Command(command) => Applied::Command {
                answer: self.machine.apply(command).map_err(Halted::Command)?,
            },
            Frame::OpenSession { time } => Applied::SessionOpened {
                client: self.sessions.open(time),
            },
            Frame::Session {
                client,
                sequence,
                time,
                command,
            } => {
                let outcome = match self.sessions.find(client, sequence, time) {
                    Some(known) => known,
                    None => {
                        let answer = self.machine.apply(command).map_err(Halted::Command)?;
                        self.sessions.applied(client, sequence, &answer);
                        Once::Answered(answer)
                    }
                };
                Applied::Once {
                    client,
                    sequence,
                    outcome,
                }
            }
            Frame::Unknown { kind } => return Err(Halted::Kind(kind)),
            Frame::SnapshotPart { .. } => unreachable!("taken above"),
        }))
    }

    /// Takes the snapshot's state, also in a replica that has it already: so all replicas are alike from here
    /// on, whichever version wrote it.
    fn take_part(
        &mut self,
        part: u32,
        parts: u32,
        bytes: &[u8],
    ) -> Result<Option<Applied>, Halted> {
        let took = self.parts.take(part, parts, bytes, self.sessions.bounds)?;
        if !matches!(took, Took::Again) {
            self.compare(part, parts, bytes);
        }
        let Took::Whole(whole) = took else {
            return Ok(None);
        };
        let was_equal = self.same.take().is_some();
        self.machine
            .restored(whole.state)
            .map_err(Halted::Snapshot)?;
        self.sessions = whole.sessions;
        self.applied = whole.applied;
        self.skipped = false;
        let bytes = whole.bytes;
        Ok(Some(Applied::Snapshot { was_equal, bytes }))
    }

    /// Whether this replica's own snapshot has the same part.
    fn compare(&mut self, part: u32, parts: u32, bytes: &[u8]) {
        let own = match (part, self.same.take()) {
            _ if self.skipped => return,
            (0, _) => Snapshot::begin(self.source()),
            (_, Some(mark)) => Snapshot::resume(self.source(), mark),
            (_, None) => return,
        };
        let mut own = own;
        let is_same = own.parts() == parts && own.next_bytes().as_deref() == Some(bytes);
        self.same = is_same.then(|| own.mark());
    }
}

impl<M: StateMachine> Deref for Replica<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.core.machine
    }
}

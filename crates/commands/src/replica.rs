//! Chosen bytes in, an applied state machine out.

use std::ops::Deref;

use thiserror::Error;

use crate::sessions::{Once, SessionBounds, Sessions};
use crate::snapshot::{Parts, Snapshot};
use crate::{Decoder, Frame, StateMachine, Unknown, snapshot};

/// One replica of a state machine. What it is in is read through it, as through a reference.
#[derive(Clone, Debug)]
pub struct Replica<M> {
    machine: M,
    decoder: Decoder,
    sessions: Sessions,
    parts: Parts,
    /// Frames so far, snapshots not among them.
    applied: u64,
    /// What was before was trimmed: nothing can be applied before a snapshot.
    skipped: bool,
    halted: Option<Halted>,
}

/// What a frame came to.
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
    /// The state is now the snapshot's. It was before, unless everything before it was skipped.
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
}

impl<M: StateMachine> Replica<M> {
    pub fn new(machine: M, bounds: SessionBounds) -> Replica<M> {
        Replica {
            machine,
            decoder: Decoder::default(),
            sessions: Sessions::new(bounds),
            parts: Parts::default(),
            applied: 0,
            skipped: false,
            halted: None,
        }
    }

    /// The next chosen bytes of the current stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.halted.is_none() {
            self.decoder.push(bytes);
        }
    }

    /// The next bytes are another stream's: what is left of a frame, or of a snapshot, is dropped.
    pub fn end_of_stream(&mut self) {
        self.decoder.end_of_stream();
        self.parts.clear();
    }

    /// The next bytes are those of the first stream that is left; what came before was trimmed.
    pub fn skip(&mut self) {
        self.end_of_stream();
        self.skipped = true;
    }

    /// Applies the next frame that is whole. `None` when there is none, or the replica has halted.
    pub fn apply_next(&mut self) -> Option<Applied> {
        while self.halted.is_none() {
            let frame = self.decoder.next_frame()?;
            match self.apply(frame) {
                Ok(None) => {}
                Ok(applied) => return applied,
                Err(halted) => self.halted = Some(halted),
            }
        }
        None
    }

    pub fn halted(&self) -> Option<&Halted> {
        self.halted.as_ref()
    }

    /// Frames that stand for all that was applied, to be the first in a new stream. `None` while this
    /// replica cannot speak for the others.
    pub fn snapshot(&self) -> Option<Vec<u8>> {
        if self.halted.is_some() || self.skipped {
            return None;
        }
        Some(snapshot::frames(&self.encoded()))
    }

    fn encoded(&self) -> Vec<u8> {
        let snapshot = Snapshot {
            applied: self.applied,
            sessions: self.sessions.clone(),
            state: self.machine.snapshot(),
        };
        snapshot.encode()
    }

    fn apply(&mut self, frame: Frame) -> Result<Option<Applied>, Halted> {
        if let Frame::SnapshotPart { part, parts, bytes } = frame {
            let Some(whole) = self.parts.push(part, parts, &bytes) else {
                return Ok(None);
            };
            return self.restore(&whole).map(Some);
        }
        if self.skipped {
            return Err(Halted::Headless);
        }
        self.applied += 1;
        Ok(Some(match frame {
            Frame::Command(command) => Applied::Command {
                answer: self.machine.apply(&command).map_err(Halted::Command)?,
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
                        let answer = self.machine.apply(&command).map_err(Halted::Command)?;
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

    /// Every replica takes the snapshot's state, also one that has it: so they are alike from here on,
    /// whatever version wrote it.
    fn restore(&mut self, whole: &[u8]) -> Result<Applied, Halted> {
        let was_equal = !self.skipped && self.encoded() == whole;
        let snapshot = Snapshot::decode(whole, self.sessions.bounds).map_err(Halted::Snapshot)?;
        self.machine
            .restore(&snapshot.state)
            .map_err(Halted::Snapshot)?;
        self.sessions = snapshot.sessions;
        self.applied = snapshot.applied;
        self.skipped = false;
        let bytes = whole.len() as u64;
        Ok(Applied::Snapshot { was_equal, bytes })
    }
}

impl<M> Deref for Replica<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

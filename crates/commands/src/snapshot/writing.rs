//! The parts of a snapshot, made when they are asked for.

use std::fmt::Debug;
use std::mem::take;

use super::{Layout, PART_BYTES};
use crate::sessions::Sessions;
use crate::{Frame, StateMachine};

/// The sources of a snapshot.
pub(crate) struct Source<'a, M> {
    pub machine: &'a M,
    pub sessions: &'a Sessions,
    pub applied: u64,
}

/// A replica's snapshot: its parts are frames, to be the first in a new stream, in their order. The
/// replica is borrowed, so that no command is applied between two of them.
pub struct Snapshot<'a, M: StateMachine> {
    source: Source<'a, M>,
    mark: Mark<M::Place>,
}

/// A place in a snapshot, from which [`Replica::resume`](crate::Replica::resume) goes on.
#[derive(Clone, Debug)]
pub struct Mark<P> {
    pub(crate) applied: u64,
    /// The next part.
    part: u32,
    measured: Measured,
    stage: Stage<P>,
    /// Bytes made, and not in a part yet: less than a part and a piece.
    rest: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    parts: u32,
    bytes: u64,
    state_bytes: u64,
    /// The checksum of all that stands behind the checksum itself.
    crc: u32,
}

/// The thing that is made next.
#[derive(Clone, Debug, Default)]
enum Stage<P> {
    Head,
    /// Sessions, after this client's.
    Sessions(Option<u64>),
    State(P),
    #[default]
    Done,
}

impl<'a, M: StateMachine> Snapshot<'a, M> {
    pub(crate) fn begin(source: Source<'a, M>) -> Snapshot<'a, M> {
        let measured = source.measure();
        let mut rest = vec![source.version()];
        if M::LAYOUT == Layout::Checked {
            rest.extend_from_slice(&measured.crc.to_le_bytes());
        }
        let mark = Mark {
            applied: source.applied,
            part: 0,
            measured,
            stage: Stage::Head,
            rest,
        };
        Snapshot { source, mark }
    }

    pub(crate) fn resume(source: Source<'a, M>, mark: Mark<M::Place>) -> Snapshot<'a, M> {
        Snapshot { source, mark }
    }

    /// The place where the snapshot goes on.
    pub fn mark(self) -> Mark<M::Place> {
        self.mark
    }

    /// The bytes of all its parts together, without what makes them frames.
    pub fn bytes(&self) -> u64 {
        self.mark.measured.bytes
    }

    pub fn parts(&self) -> u32 {
        self.mark.measured.parts
    }

    /// The next part's bytes.
    pub(crate) fn next_bytes(&mut self) -> Option<Vec<u8>> {
        let mark = &mut self.mark;
        if mark.part == mark.measured.parts {
            return None;
        }
        while mark.rest.len() < PART_BYTES && !matches!(mark.stage, Stage::Done) {
            let state_bytes = mark.measured.state_bytes;
            self.source
                .make(&mut mark.stage, state_bytes, &mut mark.rest);
        }
        let behind = mark.rest.split_off(mark.rest.len().min(PART_BYTES));
        let bytes = std::mem::replace(&mut mark.rest, behind);
        mark.part += 1;
        let is_last = mark.part == mark.measured.parts;
        assert!(
            is_last == (mark.rest.is_empty() && matches!(mark.stage, Stage::Done)),
            "a state machine gave another snapshot than a moment before"
        );
        Some(bytes)
    }
}

impl<M: StateMachine> Iterator for Snapshot<'_, M> {
    type Item = Vec<u8>;

    /// The next part, as a frame.
    fn next(&mut self) -> Option<Vec<u8>> {
        let part = self.mark.part;
        let bytes = self.next_bytes()?;
        let frame = Frame::SnapshotPart {
            part,
            parts: self.parts(),
            bytes: &bytes,
        };
        Some(frame.encode().expect("a part is smaller than a command"))
    }
}

impl<M: StateMachine> Source<'_, M> {
    fn version(&self) -> u8 {
        match M::LAYOUT {
            Layout::Plain => 1,
            Layout::Checked => 2,
        }
    }

    fn measure(&self) -> Measured {
        let (state_bytes, state_crc) = self.measure_from(Stage::State(M::Place::default()), 0);
        let (bytes, crc) = self.measure_from(Stage::Head, state_bytes);
        let before = match M::LAYOUT {
            Layout::Plain => 1,
            Layout::Checked => 5,
        };
        let bytes = before + bytes + state_bytes;
        Measured {
            parts: u32::try_from(bytes.div_ceil(PART_BYTES as u64)).unwrap_or(u32::MAX),
            bytes,
            state_bytes,
            crc: crc32c::crc32c_combine(crc, state_crc, state_bytes as usize),
        }
    }

    /// The bytes from here up to the state, or those of the state; and their checksum.
    fn measure_from(&self, mut stage: Stage<M::Place>, state_bytes: u64) -> (u64, u32) {
        let is_state = matches!(stage, Stage::State(_));
        let (mut bytes, mut crc, mut piece) = (0, 0, Vec::new());
        while !matches!(stage, Stage::Done) && is_state == matches!(stage, Stage::State(_)) {
            self.make(&mut stage, state_bytes, &mut piece);
            bytes += piece.len() as u64;
            crc = crc32c::crc32c_append(crc, &piece);
            piece.clear();
        }
        (bytes, crc)
    }

    /// Appends the next thing.
    fn make(&self, stage: &mut Stage<M::Place>, state_bytes: u64, into: &mut Vec<u8>) {
        let mut put = |number: u64| into.extend_from_slice(&number.to_le_bytes());
        let next = match take(stage) {
            Stage::Head => {
                let sessions = self.sessions;
                let count = sessions.count() as u64;
                for number in [self.applied, sessions.time, sessions.last_client, count] {
                    put(number);
                }
                Stage::Sessions(None)
            }
            Stage::Sessions(after) => match self.sessions.after(after) {
                Some((client, session)) => {
                    for number in [client, session.sequence, session.used] {
                        put(number);
                    }
                    put(session.answer.len() as u64);
                    into.extend_from_slice(&session.answer);
                    Stage::Sessions(Some(client))
                }
                None => {
                    put(state_bytes);
                    Stage::State(M::Place::default())
                }
            },
            Stage::State(mut at) => match self.machine.snapshot(&mut at, into) {
                true => Stage::State(at),
                false => Stage::Done,
            },
            Stage::Done => Stage::Done,
        };
        *stage = next;
    }
}

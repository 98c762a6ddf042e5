//! Parts in their order, read as they come.

use super::{Misplaced, PART_BYTES};
use crate::sessions::{Session, SessionBounds, Sessions};
use crate::{COMMAND_BYTES_MAX, Halted, StateMachine, Unknown};

/// The parts of one snapshot after another.
#[derive(Clone, Debug)]
pub(crate) struct Parts<M: StateMachine> {
    /// The snapshot of which more parts are to come.
    reading: Option<Reading<M>>,
    /// The last part that was taken.
    last: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    part: u32,
    parts: u32,
    crc: u32,
}

/// The result of a part.
pub(crate) enum Took<M: StateMachine> {
    More,
    /// The part is the same as the one before.
    Again,
    Whole(Box<Whole<M>>),
}

/// A snapshot of which all parts came.
pub(crate) struct Whole<M: StateMachine> {
    /// Frames before it, snapshots not among them.
    pub applied: u64,
    pub sessions: Sessions,
    pub state: M::Restoring,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
struct Reading<M: StateMachine> {
    next: u32,
    parts: u32,
    bytes: u64,
    /// Bytes that came, and end within something: a number, a session.
    rest: Vec<u8>,
    expected: Expected,
    /// The checksum that the whole is to have, and the one that it has so far.
    crc: Option<(u32, u32)>,
    applied: u64,
    sessions: Sessions,
    state: M::Restoring,
}

/// The thing that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Version,
    Checksum,
    Head,
    Sessions { left: u64 },
    StateLength,
    State { left: u64 },
    End,
}

impl<M: StateMachine> Default for Parts<M> {
    fn default() -> Parts<M> {
        Parts {
            reading: None,
            last: None,
        }
    }
}

impl<M: StateMachine> Parts<M> {
    pub fn take(
        &mut self,
        part: u32,
        parts: u32,
        bytes: &[u8],
        bounds: SessionBounds,
    ) -> Result<Took<M>, Halted> {
        if part >= parts {
            return Err(Misplaced::Number { part, parts }.into());
        }
        let crc = crc32c::crc32c(bytes);
        let last = self.last.replace(Part { part, parts, crc });
        if part == 0 {
            self.reading = Some(Reading::new(parts, bounds));
        } else if last == self.last {
            return Ok(Took::Again);
        }
        let Some(reading) = &mut self.reading else {
            let (expected, found) = (0, part);
            return Err(Misplaced::Order { expected, found }.into());
        };
        if parts != reading.parts {
            let (expected, found) = (reading.parts, parts);
            return Err(Misplaced::Foreign { expected, found }.into());
        }
        if part != reading.next {
            let (expected, found) = (reading.next, part);
            return Err(Misplaced::Order { expected, found }.into());
        }
        reading.next += 1;
        reading.take(bytes).map_err(Halted::Snapshot)?;
        if reading.next < parts {
            return Ok(Took::More);
        }
        match self.reading.take().map(Reading::finish) {
            Some(whole) => Ok(Took::Whole(Box::new(whole.map_err(Halted::Snapshot)?))),
            None => Ok(Took::More),
        }
    }

    /// Notes a frame that is no part of a snapshot.
    pub fn interrupt(&mut self) -> Result<(), Misplaced> {
        self.last = None;
        match &self.reading {
            Some(reading) => Err(Misplaced::Interrupted {
                expected: reading.next,
            }),
            None => Ok(()),
        }
    }

    pub fn clear(&mut self) {
        *self = Parts::default();
    }
}

impl<M: StateMachine> Reading<M> {
    fn new(parts: u32, bounds: SessionBounds) -> Reading<M> {
        Reading {
            next: 0,
            parts,
            bytes: 0,
            rest: Vec::new(),
            expected: Expected::Version,
            crc: None,
            applied: 0,
            sessions: Sessions::new(bounds),
            state: M::Restoring::default(),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Unknown> {
        self.bytes += bytes.len() as u64;
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut left = &rest[..];
        while let Some(behind) = self.step(left)? {
            left = behind;
        }
        let read = rest.len() - left.len();
        rest.drain(..read);
        rest.shrink_to(PART_BYTES);
        self.rest = rest;
        Ok(())
    }

    /// Reads the next thing, and gives the bytes behind it; `None` if it is not there yet.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Unknown> {
        let length = match self.expected {
            Expected::Version => Some(1),
            Expected::Checksum => Some(4),
            Expected::Head => Some(32),
            Expected::Sessions { left: 0 } => Some(0),
            Expected::Sessions { .. } => match number(bytes, 24) {
                Some(answer) => Some(32 + self.may_come(answer)?),
                None => None,
            },
            Expected::StateLength => Some(8),
            Expected::State { left: 0 } => Some(0),
            Expected::State { left } => Some(bytes.len().min(left as usize)).filter(|n| *n > 0),
            Expected::End if bytes.is_empty() => None,
            Expected::End => return Err(Unknown("a snapshot with more behind its end".into())),
        };
        let taken = length.and_then(|length| bytes.split_at_checked(length));
        let Some((taken, behind)) = taken else {
            return Ok(None);
        };
        if let Some((_, so_far)) = &mut self.crc {
            *so_far = crc32c::crc32c_append(*so_far, taken);
        }
        self.expected = self.read(taken)?;
        Ok(Some(behind))
    }

    /// Reads `bytes`, which are just the thing that was expected. Gives what is expected behind them.
    fn read(&mut self, bytes: &[u8]) -> Result<Expected, Unknown> {
        let number = |at: usize| number(bytes, at).ok_or_else(short);
        Ok(match self.expected {
            Expected::Version => match bytes {
                [1] => Expected::Head,
                [2] => Expected::Checksum,
                other => {
                    let version = other.first().copied().unwrap_or_default();
                    return Err(Unknown(format!(
                        "a snapshot of version {version}, and this program knows only 1 and 2"
                    )));
                }
            },
            Expected::Checksum => {
                let crc = bytes.try_into().map_err(|_| short())?;
                self.crc = Some((u32::from_le_bytes(crc), 0));
                Expected::Head
            }
            Expected::Head => {
                self.applied = number(0)?;
                self.sessions.time = number(8)?;
                self.sessions.last_client = number(16)?;
                let left = number(24)?;
                Expected::Sessions { left }
            }
            Expected::Sessions { left: 0 } => Expected::StateLength,
            Expected::Sessions { left } => {
                let session = Session {
                    sequence: number(8)?,
                    used: number(16)?,
                    answer: bytes.get(32..).ok_or_else(short)?.to_vec(),
                };
                self.sessions.insert(number(0)?, session);
                Expected::Sessions { left: left - 1 }
            }
            Expected::StateLength => {
                let left = number(0)?;
                self.may_come(left)?;
                Expected::State { left }
            }
            Expected::State { left: 0 } => Expected::End,
            Expected::State { left } => {
                M::restore(&mut self.state, bytes)?;
                let left = left - bytes.len() as u64;
                Expected::State { left }
            }
            Expected::End => Expected::End,
        })
    }

    /// A length, unless the parts that are to come, and this one, cannot hold so much.
    fn may_come(&self, length: u64) -> Result<usize, Unknown> {
        let parts = u64::from(self.parts - self.next) + 1;
        let may_come = parts.saturating_mul(COMMAND_BYTES_MAX as u64) + self.bytes;
        match usize::try_from(length) {
            Ok(bytes) if length <= may_come => Ok(bytes),
            _ => Err(Unknown(format!(
                "a snapshot in which {length} bytes are claimed, and at most {may_come} can come"
            ))),
        }
    }

    fn finish(self) -> Result<Whole<M>, Unknown> {
        if self.expected != Expected::End {
            return Err(short());
        }
        if self.crc.is_some_and(|(told, is)| told != is) {
            return Err(Unknown(
                "a snapshot whose checksum is wrong: its parts are not of one".into(),
            ));
        }
        Ok(Whole {
            applied: self.applied,
            sessions: self.sessions,
            state: self.state,
            bytes: self.bytes,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

fn short() -> Unknown {
    Unknown("a snapshot that ends too early".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose state is nothing.
    #[derive(Clone, Debug)]
    struct Empty;

    impl StateMachine for Empty {
        type Place = ();
        type Restoring = ();

        fn apply(&mut self, _: &[u8]) -> Result<Vec<u8>, Unknown> {
            Ok(Vec::new())
        }

        fn snapshot(&self, (): &mut (), _: &mut Vec<u8>) -> bool {
            false
        }

        fn restore((): &mut (), _: &[u8]) -> Result<(), Unknown> {
            Ok(())
        }

        fn restored(&mut self, (): ()) -> Result<(), Unknown> {
            Ok(())
        }
    }

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut reading = Reading::<Empty>::new(1000, SessionBounds::default());
        let claimed = 1 << 32;
        reading.take(&[1]).unwrap();
        reading.take(&numbers(&[0, 0, 0, 1])).unwrap();
        reading.take(&numbers(&[1, 1, 1, claimed])).unwrap();
        assert_eq!(reading.rest.len(), 32);
        assert!(reading.rest.capacity() < 1000);
    }

    #[test]
    fn the_state_is_passed_on_as_it_comes() {
        let mut reading = Reading::<Empty>::new(1000, SessionBounds::default());
        let left = 5 << 20;
        let mut head = vec![1];
        head.extend(numbers(&[0, 0, 0, 0, left]));
        reading.take(&head).unwrap();
        for _ in 0..5 {
            reading.take(&vec![0; PART_BYTES]).unwrap();
            assert_eq!(reading.rest.len(), 0);
        }
        assert!(reading.take(&[0]).is_err());
        assert!(reading.finish().is_ok());
    }
}

//! A replica as bytes, and these bytes as frames.
//!
//! ```text
//! snapshot = version u8 | applied u64 | time u64 | last client u64
//!          | sessions u64 | each: client, sequence, used u64, answer
//!          | state                                        bytes = length u64 | bytes
//! ```

use crate::sessions::{Session, SessionBounds, Sessions};
use crate::{Frame, Unknown};

const VERSION: u8 = 1;
/// Small enough to be proposed and sent among other frames.
const PART_BYTES: usize = 1 << 20;

pub(crate) struct Snapshot {
    /// Frames before it, snapshots not among them.
    pub applied: u64,
    pub sessions: Sessions,
    pub state: Vec<u8>,
}

impl Snapshot {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let sessions = &self.sessions;
        let count = sessions.iter().count() as u64;
        for number in [self.applied, sessions.time, sessions.last_client, count] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (client, session) in sessions.iter() {
            for number in [*client, session.sequence, session.used] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_bytes(&mut bytes, &session.answer);
        }
        put_bytes(&mut bytes, &self.state);
        bytes
    }

    pub fn decode(bytes: &[u8], bounds: SessionBounds) -> Result<Snapshot, Unknown> {
        let mut reader = Reader { left: bytes };
        match reader.take(1)? {
            [VERSION] => {}
            [version] => {
                return Err(Unknown(format!(
                    "a snapshot of version {version}, and this program knows only {VERSION}"
                )));
            }
            _ => return Err(short()),
        }
        let applied = reader.number()?;
        let mut sessions = Sessions::new(bounds);
        sessions.time = reader.number()?;
        sessions.last_client = reader.number()?;
        for _ in 0..reader.number()? {
            let client = reader.number()?;
            let session = Session {
                sequence: reader.number()?,
                used: reader.number()?,
                answer: reader.bytes()?,
            };
            sessions.insert(client, session);
        }
        let state = reader.bytes()?;
        match reader.left.is_empty() {
            true => Ok(Snapshot {
                applied,
                sessions,
                state,
            }),
            false => Err(Unknown("a snapshot with more behind its end".into())),
        }
    }
}

fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn short() -> Unknown {
    Unknown("a snapshot that ends too early".into())
}

struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Unknown> {
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(short)?;
        self.left = left;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Unknown> {
        let bytes = self.take(8)?.try_into().map_err(|_| short())?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Unknown> {
        let length = self.number()?;
        Ok(self.take(length as usize)?.to_vec())
    }
}

/// The frames that carry these bytes.
pub(crate) fn frames(bytes: &[u8]) -> Vec<u8> {
    let parts = bytes.chunks(PART_BYTES);
    let count = parts.len() as u32;
    let frames = (0..).zip(parts).map(|(part, bytes)| Frame::SnapshotPart {
        part,
        parts: count,
        bytes: bytes.to_vec(),
    });
    frames.flat_map(|frame| frame.encode()).collect()
}

/// Puts the parts of a snapshot together again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    next: u32,
    bytes: Vec<u8>,
}

impl Parts {
    /// The whole, with its last part. Parts that do not follow each other are none.
    pub fn push(&mut self, part: u32, parts: u32, bytes: &[u8]) -> Option<Vec<u8>> {
        if part == 0 {
            self.clear();
        }
        if part != self.next {
            self.clear();
            return None;
        }
        self.next += 1;
        self.bytes.extend_from_slice(bytes);
        if self.next != parts {
            return None;
        }
        self.next = 0;
        Some(std::mem::take(&mut self.bytes))
    }

    pub fn clear(&mut self) {
        *self = Parts::default();
    }
}

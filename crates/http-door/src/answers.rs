//! The bytes of answers that readers have not taken yet.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;

/// The bytes that all readers of a node together leave untaken.
pub const ANSWERS_BYTES_MAX: usize = 256 << 20;
/// They are counted in pieces of this size, and those that are not longer are not counted.
const PIECE: usize = 4 << 10;

/// The room for them. Clones are the same.
#[derive(Clone)]
pub struct Answers(Arc<Semaphore>);

/// Bytes, and the room that they take until nobody holds them: a connection holds what it has to write.
struct Held {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Answers {
    fn default() -> Answers {
        Answers(Arc::new(Semaphore::new(ANSWERS_BYTES_MAX / PIECE)))
    }
}

impl Answers {
    /// Errors: others hold so many that there is no room.
    pub fn hold(&self, bytes: Vec<u8>) -> Result<Bytes, Fault> {
        self.try_hold(bytes).map_err(|_| {
            Fault::not_now("this node holds as many bytes for readers as it may, who take none")
        })
    }

    /// Errors: as [`Answers::hold`]. The bytes come back.
    pub fn try_hold(&self, bytes: Vec<u8>) -> Result<Bytes, Vec<u8>> {
        if bytes.len() <= PIECE {
            return Ok(Bytes::from(bytes));
        }
        let pieces = u32::try_from(bytes.len().div_ceil(PIECE)).unwrap_or(u32::MAX);
        match self.0.clone().try_acquire_many_owned(pieces) {
            Ok(_room) => Ok(Bytes::from_owner(Held { bytes, _room })),
            Err(_) => Err(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_once_nobody_holds_the_bytes() {
        let answers = Answers::default();
        let half = || answers.hold(vec![7; ANSWERS_BYTES_MAX / 2]);
        let first = half().expect("there is room");
        let second = half().expect("there is room");
        assert!(answers.hold(vec![0; PIECE + 1]).is_err());
        assert!(answers.hold(vec![0; PIECE]).is_ok(), "not counted");
        let part = first.slice(0..10);
        drop((first, second));
        assert!(half().is_ok());
        assert_eq!(part[..], [7; 10]);
        drop(part);
        assert!(answers.hold(vec![0; ANSWERS_BYTES_MAX]).is_ok());
    }
}

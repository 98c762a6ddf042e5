//! The bytes of answers that readers have not taken yet.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

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
        if bytes.len() <= PIECE {
            return Ok(Bytes::from(bytes));
        }
        Ok(self.room_now(bytes.len())?.hold(bytes))
    }

    /// Room for so many bytes that are there already.
    ///
    /// Errors: others hold so many that there is none.
    pub fn room_now(&self, bytes: usize) -> Result<Room, Fault> {
        let room = self.0.clone().try_acquire_many_owned(pieces(bytes));
        room.map(Room).map_err(|_| full())
    }

    /// Room for so many bytes that are still to be read. ‡ Who reads first, and waits for room then, holds what nobody counts.
    ///
    /// Errors: there is none for so long.
    pub async fn room(&self, bytes: usize, within: Duration) -> Result<Room, Fault> {
        let room = self.0.clone().acquire_many_owned(pieces(bytes));
        match timeout(within, room).await {
            Ok(Ok(room)) => Ok(Room(room)),
            Ok(Err(_)) | Err(_) => Err(full()),
        }
    }
}

/// Room for bytes.
pub struct Room(OwnedSemaphorePermit);

impl Room {
    /// The bytes, of which there are no more than it is for. What it has beyond them is given back.
    pub fn hold(mut self, bytes: Vec<u8>) -> Bytes {
        let spare = self
            .0
            .num_permits()
            .saturating_sub(pieces(bytes.len()) as usize);
        drop(self.0.split(spare));
        let _room = self.0;
        Bytes::from_owner(Held { bytes, _room })
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

fn full() -> Fault {
    Fault::not_now("this node holds as many bytes for readers as it may, who take none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_before_bytes_are_read_and_what_is_too_much_is_given_back() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(async {
            let answers = Answers::default();
            let soon = Duration::from_millis(1);
            let all = answers
                .room(ANSWERS_BYTES_MAX, soon)
                .await
                .expect("there is room");
            assert!(answers.room(PIECE, soon).await.is_err());
            let held = all.hold(vec![1; PIECE + 1]);
            let rest = answers.room(ANSWERS_BYTES_MAX - 2 * PIECE, soon).await;
            assert!(rest.is_ok() && answers.room(PIECE, soon).await.is_err());
            drop((held, rest));
            assert!(answers.room(ANSWERS_BYTES_MAX, soon).await.is_ok());
        });
    }

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

//! Requests on the rows of a space.

mod append;
mod create;
mod limit;
mod remove;
mod trim;

use paxos::mutation::{self, Mutation};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::chain::{CHUNK_BYTES, Chain};
use crate::keys;
use crate::offset::POSITION_MAX;
use crate::path::Path;
use crate::request::{Answer, Place, Refusal, Request};
use crate::rows::{Page, Rows, View};
use crate::stored::{self, BEGINS, GOES_ON, Stream, Tail};

pub use append::{PRODUCER_KEPT_MS, PRODUCERS_MAX};
pub use create::{FORK_DEPTH_MAX, STREAMS_MAX, STREAMS_USUAL};

/// Why a request does not go on.
enum End<S> {
    /// As the rows say.
    Stop(S),
    Refused(Refusal),
}

type Outcome<T, R> = Result<T, End<<R as View>::Stop>>;

/// Executes a request.
///
/// Errors: those of the rows. Nothing is written then, or all that was is to be dropped.
pub fn execute<R: Rows>(rows: &mut R, request: &Request) -> Result<Answer, R::Stop> {
    let mut space = Space { rows };
    let outcome = match request {
        Request::Create(create) => space.create(create),
        Request::Append(append) => space.append(append),
        Request::Delete { path } => space.delete(path),
        Request::Touch { path, uses } => space.touch(path, *uses),
        Request::Sweep { streams_max } => space.sweep(*streams_max),
        Request::Limit(change) => space.change_limits(change),
    };
    match outcome {
        Ok(answer) => Ok(answer),
        Err(End::Refused(refusal)) => Ok(Answer::Refused(refusal)),
        Err(End::Stop(stop)) => Err(stop),
    }
}

/// The rows of a space, and what is done to them.
struct Space<'a, R: Rows> {
    rows: &'a mut R,
}

/// A stream that is there.
struct There {
    id: u64,
    stream: Stream,
    tail: Tail,
}

/// What a name stands for.
enum Named {
    Nothing,
    /// Deleted, and held by its forks.
    Deleted,
    There(Box<There>),
}

impl There {
    fn chain(&self) -> Chain {
        Chain::of(self.id, &self.stream, self.tail.position)
    }

    fn place(&self) -> Place {
        Place {
            id: self.id,
            media: self.stream.media.clone(),
            tail: self.chain().offset(self.tail.position),
            is_closed: self.tail.closed.is_some(),
        }
    }
}

impl<R: Rows> Space<'_, R> {
    fn row<T: DeserializeOwned>(&mut self, key: &[u8]) -> Outcome<Option<T>, R> {
        let Some(bytes) = self.rows.get(key).map_err(End::Stop)? else {
            return Ok(None);
        };
        let decoded = stored::decode(&bytes).ok_or(End::Refused(Refusal::Unreadable));
        decoded.map(Some)
    }

    fn put(&mut self, key: &[u8], value: &impl Serialize) -> Outcome<(), R> {
        let value = stored::encode(value);
        self.rows.put(key, &value).map_err(End::Stop)
    }

    fn put_bytes(&mut self, key: &[u8], value: &[u8]) -> Outcome<(), R> {
        self.rows.put(key, value).map_err(End::Stop)
    }

    fn delete_row(&mut self, key: &[u8]) -> Outcome<(), R> {
        self.rows.delete(key).map_err(End::Stop)
    }

    fn forget(&mut self, prefix: &[u8]) -> Outcome<(), R> {
        self.rows.forget(prefix).map_err(End::Stop)
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Outcome<Page, R> {
        self.rows.range(from, to, rows_max).map_err(End::Stop)
    }

    fn id_of(&mut self, path: &Path) -> Outcome<Option<u64>, R> {
        let found = self
            .rows
            .get(&keys::name(path.as_str()))
            .map_err(End::Stop)?;
        let Some(bytes) = found else {
            return Ok(None);
        };
        match bytes.try_into() {
            Ok(bytes) => Ok(Some(u64::from_be_bytes(bytes))),
            Err(_) => Err(End::Refused(Refusal::Unreadable)),
        }
    }

    fn stream_row(&mut self, id: u64) -> Outcome<Option<Stream>, R> {
        let Some(bytes) = self.rows.get(&keys::stream(id)).map_err(End::Stop)? else {
            return Ok(None);
        };
        let stream = Stream::decode(&bytes).ok_or(End::Refused(Refusal::Unreadable));
        stream.map(Some)
    }

    fn stream(&mut self, id: u64) -> Outcome<Stream, R> {
        let stream = self.stream_row(id)?;
        stream.ok_or(End::Refused(Refusal::Unreadable))
    }

    fn tail(&mut self, id: u64) -> Outcome<Tail, R> {
        let bytes = self.rows.get(&keys::tail(id)).map_err(End::Stop)?;
        let tail = bytes.and_then(|bytes| Tail::decode(&bytes));
        tail.ok_or(End::Refused(Refusal::Unreadable))
    }

    /// The stream of this name. One whose time is over is removed, for good: nobody sees it again.
    fn named(&mut self, path: &Path) -> Outcome<Named, R> {
        let Some(id) = self.id_of(path)? else {
            return Ok(Named::Nothing);
        };
        let stream = self.stream(id)?;
        if stream.is_deleted {
            return Ok(Named::Deleted);
        }
        let tail = self.tail(id)?;
        let ends_ms = stream.lifetime.ends_ms(tail.touched_ms);
        let is_over = ends_ms.is_some_and(|ends| ends <= self.rows.time_ms());
        if is_over && !mutation::is(Mutation::OverLivesOn) {
            let is_held = self.remove(id, stream, &tail)?;
            return Ok(match is_held {
                true => Named::Deleted,
                false => Named::Nothing,
            });
        }
        Ok(Named::There(Box::new(There { id, stream, tail })))
    }

    fn there(&mut self, path: &Path) -> Outcome<Box<There>, R> {
        match self.named(path)? {
            Named::Nothing => Err(End::Refused(Refusal::NotFound)),
            Named::Deleted => Err(End::Refused(Refusal::Deleted)),
            Named::There(there) => Ok(there),
        }
    }

    /// Errors: there are no positions for so many bytes.
    fn check_room(tail: &Tail, bytes: &[u8]) -> Outcome<(), R> {
        match tail.position + bytes.len() as u64 > POSITION_MAX {
            true => Err(End::Refused(Refusal::Full)),
            false => Ok(()),
        }
    }

    /// Writes the bytes of an append behind the tail.
    fn write(&mut self, id: u64, tail: &mut Tail, bytes: &[u8]) -> Outcome<(), R> {
        for (at, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
            let tag = if at == 0 { BEGINS } else { GOES_ON };
            let key = keys::data(id, tail.position);
            self.put_bytes(&key, &[&[tag], chunk].concat())?;
            tail.position += chunk.len() as u64;
        }
        Ok(())
    }

    fn touch(&mut self, path: &Path, uses: bool) -> Outcome<Answer, R> {
        let There {
            id,
            stream,
            mut tail,
        } = *self.there(path)?;
        let now_ms = self.rows.time_ms();
        if uses && stream.lifetime.notes_use(tail.touched_ms, now_ms) {
            tail.touched_ms = now_ms;
            self.put(&keys::tail(id), &tail)?;
        }
        Ok(Answer::Touched)
    }
}

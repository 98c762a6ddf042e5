//! Whoever waits at the tails of streams, and the bytes that came there last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use streams::sse::{self, Encoding};
use streams::{Found, From, Offset, Path, Read};
use tokio::sync::watch;

use crate::answers::Answers;
use crate::crowd::{Crowd, Word};
use crate::fault::Fault;
use crate::space::Handle;

/// Bytes of recent reads that all live readers of a node share.
const SHARED_BYTES_MAX: usize = 64 << 20;
/// Recent reads of one stream that are kept.
const RECENT_MAX: usize = 4;
/// Bytes of a character of text.
const CHARACTER_BYTES_MAX: usize = 4;
/// Bytes that a live reader is given at a time.
pub const LIVE_BYTES_MAX: usize = 256 << 10;

/// The streams at whose tails somebody waits.
#[derive(Clone, Default)]
pub struct Tails(Arc<Shared>);

type Key = (u64, Arc<str>);

#[derive(Default)]
struct Shared {
    /// By the stream's number, and the name of its space: spaces count by themselves.
    by_stream: Mutex<BTreeMap<Key, Weak<Tail>>>,
    kept_bytes: AtomicUsize,
}

/// The tail of one stream.
pub struct Tail {
    id: u64,
    space: Arc<str>,
    /// Counts its moves.
    moves: watch::Sender<u64>,
    recent: tokio::sync::Mutex<VecDeque<Arc<Recent>>>,
    /// Those who are told by events.
    pub crowd: Crowd,
    shared: Arc<Shared>,
}

/// A read that several readers share.
pub struct Recent {
    pub read: Read,
    /// The tail had moved so often before it was read.
    moves: u64,
    event: OnceLock<Bytes>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tails {
    /// The tail of this stream, for as long as somebody holds it.
    pub fn of(&self, space: &Arc<str>, id: u64) -> Arc<Tail> {
        let mut by_stream = lock(&self.0.by_stream);
        let key = (id, space.clone());
        if let Some(tail) = by_stream.get(&key).and_then(Weak::upgrade) {
            return tail;
        }
        let tail = Arc::new(Tail {
            id,
            space: space.clone(),
            moves: watch::channel(0).0,
            recent: tokio::sync::Mutex::default(),
            crowd: Crowd::default(),
            shared: self.0.clone(),
        });
        by_stream.insert(key, Arc::downgrade(&tail));
        tail
    }

    /// These tails moved, in some space: another's stream of the same number is looked at in vain.
    pub fn moved(&self, streams: &[u64]) {
        let by_stream = lock(&self.0.by_stream);
        if by_stream.is_empty() {
            return;
        }
        let of = |id: u64| {
            let all = by_stream.range((id, Arc::default())..);
            all.take_while(move |((of, _), _)| *of == id)
        };
        let held = streams.iter().flat_map(|id| of(*id));
        let held: Vec<Arc<Tail>> = held.filter_map(|(_, tail)| tail.upgrade()).collect();
        // A tail that is dropped here would want the lock.
        drop(by_stream);
        held.iter().for_each(|tail| tail.moved());
    }

    fn held(&self) -> Vec<Arc<Tail>> {
        let by_stream = lock(&self.0.by_stream);
        by_stream.values().filter_map(Weak::upgrade).collect()
    }

    /// Any may have moved.
    pub fn all_moved(&self) {
        self.held().iter().for_each(|tail| tail.moved());
    }

    /// Readers of events have to look whether they may go on.
    pub fn call(&self) {
        for tail in self.held() {
            tail.crowd.tell(&Word::Look);
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut by_stream = lock(&self.shared.by_stream);
        let key = (self.id, self.space.clone());
        // Another may have its place by now.
        if by_stream
            .get(&key)
            .is_some_and(|held| held.strong_count() == 0)
        {
            by_stream.remove(&key);
        }
        drop(by_stream);
        let kept: usize = self
            .recent
            .get_mut()
            .iter()
            .map(|recent| recent.bytes())
            .sum();
        self.shared.kept_bytes.fetch_sub(kept, Ordering::Relaxed);
    }
}

impl Tail {
    fn moved(&self) {
        self.moves.send_modify(|moves| *moves += 1);
        self.crowd.moved();
    }

    /// To wait for the next move. ‡ Taken before the read that finds nothing: a move in between is not missed.
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// What follows a place, as this node has it: read once for all that wait there.
    ///
    /// Errors: those of the read.
    pub async fn read(
        &self,
        space: &Handle,
        path: &Path,
        from: Offset,
    ) -> Result<Found<Arc<Recent>>, Fault> {
        let mut recent = self.recent.lock().await;
        let known = recent.iter().find(|recent| recent.read.from == from);
        if let Some(known) = known {
            return Ok(Found::There(known.clone()));
        }
        let moves = *self.moves.borrow();
        let found = space
            .read(path.clone(), From::At(from), LIVE_BYTES_MAX, true)
            .await?;
        Ok(match found {
            Found::There(read) => {
                let read = Arc::new(Recent {
                    read,
                    moves,
                    event: OnceLock::new(),
                });
                self.keep(&mut recent, &read);
                Found::There(read)
            }
            Found::Nothing => Found::Nothing,
            Found::Deleted => Found::Deleted,
            Found::OtherOffset => Found::OtherOffset,
            Found::WrongOffset => Found::WrongOffset,
            Found::Trimmed { first } => Found::Trimmed { first },
        })
    }

    fn keep(&self, recent: &mut VecDeque<Arc<Recent>>, read: &Arc<Recent>) {
        // A read of another stream of this name; or with nothing in it, which is over soon. ‡ Or with a part of a character perhaps: more is asked
        // for from the same place.
        if !self.is_of(&read.read) || read.read.bytes.len() < CHARACTER_BYTES_MAX {
            return;
        }
        let kept_bytes = &self.shared.kept_bytes;
        while recent.len() >= RECENT_MAX
            && let Some(gone) = recent.pop_front()
        {
            kept_bytes.fetch_sub(gone.bytes(), Ordering::Relaxed);
        }
        if kept_bytes.load(Ordering::Relaxed) + read.bytes() <= SHARED_BYTES_MAX {
            kept_bytes.fetch_add(read.bytes(), Ordering::Relaxed);
            recent.push_back(read.clone());
        }
    }

    /// Whether it is of this stream, and not of one of its name before or after.
    pub fn is_of(&self, read: &Read) -> bool {
        read.standing.place.id == self.id
    }

    /// Whether this is all that there is, still.
    pub fn is_at_tail(&self, recent: &Recent) -> bool {
        recent.read.is_at_tail() && *self.moves.borrow() == recent.moves
    }
}

impl Recent {
    /// As it is counted: its event has as many, about.
    fn bytes(&self) -> usize {
        3 * self.read.bytes.len() + 512
    }

    /// The event of its bytes, for all readers of the stream's usual encoding.
    ///
    /// Errors: there is no room for it.
    pub fn event(&self, encoding: Encoding, answers: &Answers) -> Result<Bytes, Fault> {
        if let Some(event) = self.event.get() {
            return Ok(event.clone());
        }
        let mut out = Vec::new();
        sse::data(encoding, &self.read.bytes, &mut out);
        let event = answers.hold(out)?;
        // Another reader may have been faster: its bytes are the same.
        Ok(self.event.get_or_init(|| event).clone())
    }
}

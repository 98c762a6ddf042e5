//! Shelves that tell which streams' tails moved.

use std::path::PathBuf;
use std::sync::Arc;

use host::{Shelves, row_of_machine};
use shelf::{Applied, Batch, Figures, Identity, Shelf, ShelfError, Snapshot};
use streams::stream_of_tail_row;

/// Told on the lane that applies: it has to be quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved<'a> {
    /// The tails of these streams of this log: appended to, closed, made or removed.
    Tails { log: u32, streams: &'a [u64] },
    /// Any of this log's: its shelf is another.
    All { log: u32 },
}

type Tell = dyn Fn(Moved<'_>) + Send + Sync;

/// Shelves whose writes somebody wants to hear of.
pub struct Noticed<S> {
    shelves: S,
    tell: Arc<Tell>,
}

impl<S: Shelves> Noticed<S> {
    pub fn new(shelves: S, tell: impl Fn(Moved<'_>) + Send + Sync + 'static) -> Noticed<S> {
        let tell = Arc::new(tell);
        Noticed { shelves, tell }
    }
}

impl<S: Shelves> Shelves for Noticed<S> {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        let shelf = self.shelves.open(identity)?;
        (self.tell)(Moved::All { log: identity.log });
        Ok(Arc::new(Told {
            shelf,
            log: identity.log,
            tell: self.tell.clone(),
        }))
    }

    fn put_aside(&self, identity: Identity) -> Result<PathBuf, ShelfError> {
        self.shelves.put_aside(identity)
    }

    fn remove(&self, identity: Identity) -> Result<(), ShelfError> {
        self.shelves.remove(identity)
    }
}

struct Told {
    shelf: Arc<dyn Shelf>,
    log: u32,
    tell: Arc<Tell>,
}

impl Shelf for Told {
    fn apply(&self, batch: &Batch, applied: Applied) -> Result<(), ShelfError> {
        self.shelf.apply(batch, applied)?;
        let writes = batch.writes().iter();
        let tails = writes.filter_map(|write| stream_of_tail_row(row_of_machine(write.key())?));
        let mut streams: Vec<u64> = tails.collect();
        streams.sort_unstable();
        streams.dedup();
        if !streams.is_empty() {
            // ‡ Not before they can be read.
            (self.tell)(Moved::Tails {
                log: self.log,
                streams: &streams,
            });
        }
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.shelf.applied()
    }

    fn durable(&self) -> Applied {
        self.shelf.durable()
    }

    fn snapshot(&self) -> Box<dyn Snapshot + '_> {
        self.shelf.snapshot()
    }

    fn flush(&self) -> Result<Applied, ShelfError> {
        self.shelf.flush()
    }

    fn compact(&self) -> Result<(), ShelfError> {
        self.shelf.compact()
    }

    fn look_after(&self) -> Result<(), ShelfError> {
        self.shelf.look_after()
    }

    fn end_compactions(&self) {
        self.shelf.end_compactions();
    }

    fn close(&self) {
        self.shelf.close();
    }

    fn figures(&self) -> Figures {
        self.shelf.figures()
    }

    fn keep_note(&self, note: &[u8]) -> Result<(), ShelfError> {
        self.shelf.keep_note(note)
    }

    fn note(&self) -> Option<Vec<u8>> {
        self.shelf.note()
    }
}

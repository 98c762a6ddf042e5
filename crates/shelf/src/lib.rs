//! Applied state: what the commands of a log came to, as ordered rows.
//!
//! ```text
//!  chosen frames ──▶ apply(batch, applied) ──▶ memory ──flush──▶ disk ──compact──▶ less disk
//!                                               │                 │
//!                        applied() stands here ─┘    durable() ───┘    after a crash applied() is what durable() was
//! ```
//!
//! The log is the journal: a shelf has none of its own. A crash takes it back to its last flush, and the log has all that
//! came after. So a batch and the position up to which it applies the log go into the shelf together: a shelf is the state
//! after exactly one prefix of its log, in memory and on disk.
//!
//! All three writes (put, delete, forget) are blind and idempotent, the last one wins, and nothing is ever written again below
//! a forgotten prefix. Copies of shelves stand on that.
//!
//! [`Tree`] keeps rows on disk, [`Memory`] in memory with a model of crashes; `contract` holds both, and any other, to
//! what is said here.

mod applied;
mod batch;
mod carry;
pub mod contract;
mod forgotten;
mod identity;
mod keymap;
mod looked;
mod memory;
mod tree;

use std::io;
use std::ops::Bound;
use std::path::PathBuf;

pub use applied::Applied;
pub use batch::{Batch, KEY_BYTES_MAX, VALUE_BYTES_MAX, Write};
pub use carry::{STATES, bytes_below, carry, directory_of};
pub use forgotten::Forgotten;
pub use identity::Identity;
pub use keymap::KeyMap;
pub use looked::Looked;
pub use memory::{Media, Memory};
pub use tree::{Settings, Tree};

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// What was asked for, in that order, and what has been applied where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    pub values: Vec<Option<Vec<u8>>>,
    /// As in a page.
    pub applied: Applied,
}

/// Rows in the order of their keys, or against it, and what has been applied where they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// The state that was read is that after exactly this prefix of the log.
    pub applied: Applied,
    /// No row stands behind the last one, within the bounds that were asked for.
    pub is_last: bool,
}

/// How much one page holds at most. A page with room for nothing holds one row all the same.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    pub rows_max: usize,
    /// Keys and values together.
    pub bytes_max: usize,
}

/// What a shelf takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Applied and not flushed yet, in bytes of memory.
    pub unflushed_bytes: u64,
    pub disk_bytes: u64,
    /// Forgotten prefixes whose rows may still stand on disk.
    pub forgotten: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("a key of {0} bytes is longer than {KEY_BYTES_MAX}")]
    KeyTooLong(usize),
    #[error("a value of {0} bytes is longer than {VALUE_BYTES_MAX}")]
    ValueTooLong(usize),
    #[error("a row is written below a prefix that was forgotten")]
    Forgotten,
    #[error("position {now} is applied already, so a batch up to {asked} cannot be")]
    GoesBack { now: u64, asked: u64 },
    /// The disk is full, or failed: what is in memory stays there, and the same call may succeed later.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// It was [closed](Shelf::close), to be removed.
    #[error("the shelf {path} is not used any more")]
    Closed { path: PathBuf },
    /// Nothing of this shelf is to be believed any more.
    #[error("the shelf {path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path} is no shelf: {what}")]
    NotAShelf { path: PathBuf, what: String },
    #[error(
        "the shelf {path} is of version {found}, and this program reads {known}: start a newer one"
    )]
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("the shelf {path} is that of {found}, not of {expected}")]
    AnotherLog {
        path: PathBuf,
        found: Identity,
        expected: Identity,
    },
}

/// All rows of one state, or those of a range, however long it takes to read them.
pub type Cursor = Box<dyn Pages + Send>;

/// Rows of one log's state.
///
/// One thread applies; others read, flush and compact meanwhile.
pub trait Shelf: Send + Sync {
    /// All of a batch or nothing of it, with the position that it brings the shelf to.
    ///
    /// Errors change nothing. A batch whose end is applied already is refused.
    fn apply(&self, batch: &Batch, applied: Applied) -> Result<(), ShelfError>;

    fn applied(&self) -> Applied;

    /// What a crash leaves.
    fn durable(&self) -> Applied;

    /// The state as it is now, for as long as somebody wants to look at it.
    fn snapshot(&self) -> Box<dyn Snapshot + '_>;

    /// Makes durable what is applied when it is called; returns what is durable then.
    fn flush(&self) -> Result<Applied, ShelfError>;

    /// Gives back the room of rows that nobody can read any more. Takes as long as it takes; others flush meanwhile.
    fn compact(&self) -> Result<(), ShelfError>;

    /// Looks whether what is durable is still where it was written: somebody may have taken it away meanwhile, and open files do not tell.
    ///
    /// Errors: [`ShelfError::Damaged`] if it is not.
    fn look_after(&self) -> Result<(), ShelfError> {
        Ok(())
    }

    /// Has a compaction that is under way end soon, and further ones do nothing: the process is to end. Waits for nobody.
    fn end_compactions(&self) {}

    /// ‡ Waits until nothing is written below the shelf's directory any more, and has nothing written from then on: it is to be
    /// removed.
    fn close(&self) {}

    fn figures(&self) -> Figures;

    /// Keeps a short note beside the rows, in the place of the one before, durably. It goes when the shelf goes.
    fn keep_note(&self, note: &[u8]) -> Result<(), ShelfError>;

    fn note(&self) -> Option<Vec<u8>>;

    /// The values of these keys, all at one position.
    fn read(&self, keys: &[&[u8]]) -> Result<Values, ShelfError> {
        let snapshot = self.snapshot();
        let values = keys.iter().map(|key| snapshot.get(key));
        Ok(Values {
            values: values.collect::<Result<_, _>>()?,
            applied: snapshot.applied(),
        })
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        self.snapshot().scan(from, to, max)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        self.snapshot().get(key)
    }
}

/// The state after one prefix of the log, whatever is applied meanwhile.
///
/// A shelf keeps what a snapshot shows, and may have to keep all that is written meanwhile: it is for a short look.
pub trait Snapshot {
    /// The prefix.
    fn applied(&self) -> Applied;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError>;

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError>;

    /// The last rows of the range, the last one first.
    fn scan_back(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError>;

    /// The same rows for a reader who takes long: other threads go on with them, and the snapshot, and the shelf, may go.
    fn cursor(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Cursor, ShelfError>;
}

/// Rows in their order, all as of one state, whatever is applied meanwhile. They cost the room of that one state at most, and of memory
/// what was not flushed when the cursor was made.
pub trait Pages {
    /// The state.
    fn applied(&self) -> Applied;

    /// The rows behind those of the page before. Behind the last page is an empty one.
    fn next_page(&mut self, max: PageBounds) -> Result<Page, ShelfError>;
}

/// Nothing lies between the bounds. A map would panic.
fn is_empty_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Excluded(from) | Bound::Included(from),
            Bound::Excluded(to) | Bound::Included(to),
        ) => from >= to,
    }
}

/// No further row has room, which would make it so many bytes.
fn is_full(page: &Page, bytes: usize, max: PageBounds) -> bool {
    let has_one = !page.rows.is_empty();
    has_one && (bytes > max.bytes_max || page.rows.len() >= max.rows_max)
}

/// The first key behind all that begin with this prefix, if there is one.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn a_key_behind_a_prefix_is_the_least_that_does_not_begin_with_it() {
        assert_eq!(behind(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind(b"\xff"), None);
        assert_eq!(behind(b""), None);
    }
}

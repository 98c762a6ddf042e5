//! A shelf on disk: a log-structured merge tree without a journal.
//!
//! ```text
//!  DIRECTORY/shelf     whose it is (identity)
//!  DIRECTORY/note      short bytes of whoever has the shelf, if it kept some
//!  DIRECTORY/tree-3/   the crate lsm-tree: tables, and one file that says which of them count
//!
//!  key   r │ key of a row        value
//!        a │                     Applied
//!        f │ prefix              nothing: that prefix is forgotten
//! ```
//!
//! A batch goes into one generation of what is [not flushed](unflushed), its rows under rising sequence numbers, and readers see none of it before all is
//! there: they read as of the sequence number that was published last. A generation is sealed between two batches, so a table on disk
//! ends at one of them, with the row that says at which.

mod cursor;
mod guarded;
mod merged;
mod note;
mod open;
mod pace;
mod reading;
mod room;
mod snapshots;
mod unflushed;
mod upkeep;
mod writeback;

use std::collections::VecDeque;
use std::fs;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::{
    AbstractTree, AnyTree, Memtable, SequenceNumberCounter, TableId, UserKey, UserValue,
};

use super::forgotten::Forgotten;
use super::{Applied, Batch, Figures, Identity, Shelf, ShelfError, Snapshot, Write};
use cursor::Discarded;
use guarded::Guarded;
use merged::Merged;
use pace::Pace;
use reading::Rows;
use room::Room;
use snapshots::{Published, Snapshots};
use unflushed::{Change, Unflushed, Within};

const ROW: u8 = b'r';
const APPLIED: &[u8] = b"a";
const FORGOTTEN: u8 = b'f';

/// What a tree may take.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Blocks of tables in memory.
    pub cache_bytes: u64,
    /// Open tables.
    pub files_max: usize,
    /// So many forgotten prefixes are remembered; of those beyond it the rows are deleted one by one.
    pub forgotten_max: usize,
    /// The aim for the size of a table.
    pub table_bytes: u64,
    /// The pace of compactions, as long as they keep up: rows that they read.
    pub compact_bytes_per_second: u64,
    /// Compactions leave so many free bytes on the disk: flushes, and the logs beside the shelf, need them more.
    pub free_bytes_min: u64,
    /// Flushes leave so many: the logs beside the shelf need them more.
    pub flush_free_bytes_min: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cache_bytes: 32 << 20,
            files_max: 256,
            forgotten_max: 16_384,
            table_bytes: 64 << 20,
            compact_bytes_per_second: 32_000_000,
            free_bytes_min: 512 << 20,
            flush_free_bytes_min: 128 << 20,
        }
    }
}

pub struct Tree {
    directory: PathBuf,
    /// Those of the crate.
    files: PathBuf,
    settings: Settings,
    tree: AnyTree,
    sequence: SequenceNumberCounter,
    snapshots: Snapshots,
    /// Forgotten prefixes, as of the last flush: of these a compaction may drop rows.
    droppable: Arc<open::Droppable>,
    writer: Mutex<Writer>,
    /// Held by the one who flushes, and by the one who compacts. A flush never waits for a compaction.
    flushing: Mutex<()>,
    compacting: Mutex<()>,
    pace: Arc<Pace>,
    room: Arc<Room>,
    is_closed: AtomicBool,
    /// Tables with these numbers may be left over from a flush or a compaction that failed.
    left_over: Mutex<Option<Range<TableId>>>,
    durable: Mutex<Durable>,
    unflushed: Unflushed,
    /// The tree's memtables that are on their way to the disk, the oldest first. Each ends between two batches.
    sealed: Mutex<VecDeque<Arc<Memtable>>>,
    /// The memory of rows that the tree has and that are not on disk. The tree's own count is of all its versions that somebody reads, each with the same
    /// rows again.
    drained_bytes: AtomicU64,
    /// The first version of which a reader sees the memtable that is drained into.
    rotated: AtomicU64,
    discarded: Discarded,
    guarded: Arc<Guarded>,
}

/// What only the one who applies looks at.
#[derive(Default)]
struct Writer {
    applied: Applied,
    forgotten: Arc<Forgotten>,
}

#[derive(Clone, Default)]
struct Durable {
    applied: Applied,
    forgotten: Arc<Forgotten>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn row(key: &[u8]) -> Vec<u8> {
    tagged(ROW, key)
}

fn key_of(tag: u8, key: &[u8]) -> UserKey {
    UserKey::from(tagged(tag, key))
}

fn tagged(tag: u8, key: &[u8]) -> Vec<u8> {
    let mut tagged = Vec::with_capacity(1 + key.len());
    tagged.push(tag);
    tagged.extend_from_slice(key);
    tagged
}

impl Tree {
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A directory of which nothing is to be believed is put aside, and what was put aside before is removed.
    ///
    /// Returns where it is now.
    pub fn put_aside(directory: &Path) -> Result<PathBuf, ShelfError> {
        let mut aside = directory.as_os_str().to_owned();
        aside.push(".damaged");
        let aside = PathBuf::from(aside);
        let io = |source| ShelfError::Io {
            path: aside.clone(),
            source,
        };
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        match fs::rename(directory, &aside) {
            // Somebody took it away already.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(aside),
            renamed => renamed.map_err(io).map(|()| aside.clone()),
        }
    }

    /// Removes a shelf that nobody uses. A crash in the middle leaves one that was never finished, and the next [`Tree::open`] begins
    /// anew there.
    pub fn remove(directory: &Path) -> Result<(), ShelfError> {
        Identity::remove(directory).map_err(|source| ShelfError::Io {
            path: directory.to_owned(),
            source,
        })
    }

    /// The keys of a prefix that there is no room to remember, as far as batches before have them: their rows are deleted one by one.
    fn keys_below(&self, prefix: &[u8]) -> Result<Vec<UserKey>, ShelfError> {
        let from = row(prefix);
        let to = super::behind(&from).map_or(Bound::Unbounded, Bound::Excluded);
        let within = Within {
            from: Bound::Included(from),
            to,
            is_back: false,
        };
        let mut rows = Merged::of(self, within, self.sequence.get());
        let mut keys = Vec::new();
        while let Some((key, _)) = rows.next().map_err(|error| self.guarded.failed(error))? {
            keys.push(key);
        }
        Ok(keys)
    }
}

impl Tree {
    fn change(&self, key: UserKey, value: Option<&[u8]>) -> Change {
        Change {
            key,
            since: self.sequence.next(),
            value: value.map(UserValue::from),
        }
    }
}

impl Shelf for Tree {
    fn apply(&self, batch: &Batch, applied: Applied) -> Result<(), ShelfError> {
        batch.check()?;
        let mut writer = lock(&self.writer);
        if applied.position < writer.applied.position {
            return Err(ShelfError::GoesBack {
                now: writer.applied.position,
                asked: applied.position,
            });
        }
        let mut forgotten = writer.forgotten.clone();
        check_forgotten(batch, &forgotten)?;
        let oldest = self.snapshots.oldest();
        self.unflushed.let_go(oldest);
        let mut changes = Vec::with_capacity(batch.writes().len() + 1);
        self.guarded.run(|| {
            for write in in_order_of_keys(batch) {
                match write {
                    Write::Put { key, value } => {
                        changes.push(self.change(key_of(ROW, key), Some(value)));
                    }
                    Write::Delete { key } => changes.push(self.change(key_of(ROW, key), None)),
                    Write::Forget { prefix } if forgotten.len() < self.settings.forgotten_max => {
                        let change = self.change(key_of(FORGOTTEN, prefix), Some(&[]));
                        Arc::make_mut(&mut forgotten).add(prefix, change.since);
                        changes.push(change);
                    }
                    Write::Forget { prefix } => {
                        self.unflushed.write(changes.drain(..), oldest);
                        let keys = self.keys_below(prefix)?;
                        changes.extend(keys.into_iter().map(|key| self.change(key, None)));
                    }
                }
            }
            Ok(())
        })?;
        changes.push(self.change(UserKey::from(APPLIED), Some(&applied.encode())));
        self.unflushed.write(changes, oldest);
        writer.applied = applied;
        writer.forgotten = forgotten.clone();
        self.snapshots.publish(Published {
            version: self.sequence.get(),
            applied,
            forgotten,
        });
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.snapshots.published().applied
    }

    fn durable(&self) -> Applied {
        lock(&self.durable).applied
    }

    fn snapshot(&self) -> Box<dyn Snapshot + '_> {
        Box::new(Rows {
            tree: self,
            reading: self.snapshots.take(),
        })
    }

    fn flush(&self) -> Result<Applied, ShelfError> {
        self.flush_all()
    }

    fn compact(&self) -> Result<(), ShelfError> {
        self.compact_all()
    }

    fn end_compactions(&self) {
        self.pace.end();
    }

    fn close(&self) {
        self.close_upkeep();
    }

    fn look_after(&self) -> Result<(), ShelfError> {
        self.check_open()?;
        self.guarded.run(|| self.check_there())
    }

    fn keep_note(&self, note: &[u8]) -> Result<(), ShelfError> {
        let _flushing = lock(&self.flushing);
        self.check_open()?;
        note::write(&self.directory, note).map_err(|source| ShelfError::Io {
            path: self.directory.clone(),
            source,
        })
    }

    fn note(&self) -> Option<Vec<u8>> {
        note::read(&self.directory)
    }

    fn figures(&self) -> Figures {
        Figures {
            unflushed_bytes: self.unflushed_bytes(),
            disk_bytes: self.tree.disk_space(),
            forgotten: self.snapshots.published().forgotten.len() as u64,
        }
    }
}

/// The writes in the order of their keys, as long as it does not matter, and those of one key in theirs. Neighbours go the same way down a tree of all rows in
/// memory: what they need is in the processor's caches.
fn in_order_of_keys(batch: &Batch) -> Vec<&Write> {
    let mut writes: Vec<&Write> = batch.writes().iter().collect();
    let forgets = |write: &&Write| matches!(write, Write::Forget { .. });
    if !writes.iter().any(forgets) {
        writes.sort_by_key(|write| write.key());
    }
    writes
}

/// Looked at before anything is done. A batch may forget what it wrote, and not write what it forgot.
fn check_forgotten(batch: &Batch, forgotten: &Forgotten) -> Result<(), ShelfError> {
    let mut own = Forgotten::default();
    for write in batch.writes() {
        match write {
            Write::Put { key, .. } if forgotten.covers(key) || own.covers(key) => {
                return Err(ShelfError::Forgotten);
            }
            Write::Forget { prefix } => own.add(prefix, 0),
            Write::Put { .. } | Write::Delete { .. } => {}
        }
    }
    Ok(())
}

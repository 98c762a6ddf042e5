//! A shelf on disk: a log-structured merge tree without a journal.
//!
//! ```text
//!  DIRECTORY/shelf     whose it is (identity)
//!  DIRECTORY/note      short bytes of whoever has the shelf, if it kept some
//!  DIRECTORY/tree/     the crate lsm-tree: tables, and one file that says which of them count
//!
//!  key   r │ key of a row        value
//!        a │                     Applied
//!        f │ prefix              nothing: that prefix is forgotten
//! ```
//!
//! A batch goes into one memtable, its rows under rising sequence numbers, and readers see none of it before all is there:
//! they read as of the sequence number that was published last. A memtable is sealed between two batches, so a table on disk
//! ends at one of them, with the row that says at which.

mod guarded;
mod note;
mod open;
mod pace;
mod reading;
mod snapshots;
mod upkeep;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::{AbstractTree, AnyTree, SequenceNumberCounter};

use super::forgotten::Forgotten;
use super::{Applied, Batch, Figures, Held, Identity, Shelf, ShelfError, Snapshot, Write};
use guarded::Guarded;
use pace::Pace;
use reading::Rows;
use snapshots::{Published, Snapshots};

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
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cache_bytes: 32 << 20,
            files_max: 256,
            forgotten_max: 16_384,
            table_bytes: 64 << 20,
            compact_bytes_per_second: 32_000_000,
        }
    }
}

pub struct Tree {
    directory: PathBuf,
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
    is_closed: AtomicBool,
    /// Tables with this number, or a greater one, may be left over from a flush or a compaction that failed.
    left_over_from: AtomicU64,
    durable: Mutex<Durable>,
    guarded: Guarded,
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

    /// The rows of a prefix that there is no room to remember are deleted here and now.
    fn delete_below(&self, prefix: &[u8]) -> Result<(), ShelfError> {
        let from = row(prefix);
        for item in self.tree.prefix(&from, self.sequence.get(), None) {
            let key = lsm_tree::Guard::key(item).map_err(|error| self.guarded.failed(error))?;
            self.tree.remove(key, self.sequence.next());
        }
        Ok(())
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
        self.guarded.run(|| {
            for write in batch.writes() {
                match write {
                    Write::Put { key, value } => {
                        let next = self.sequence.next();
                        self.tree.insert(row(key), value.as_slice(), next);
                    }
                    Write::Delete { key } => {
                        self.tree.remove(row(key), self.sequence.next());
                    }
                    Write::Forget { prefix } if forgotten.len() < self.settings.forgotten_max => {
                        let next = self.sequence.next();
                        self.tree.insert(tagged(FORGOTTEN, prefix), [], next);
                        Arc::make_mut(&mut forgotten).add(prefix, next);
                    }
                    Write::Forget { prefix } => self.delete_below(prefix)?,
                }
            }
            let next = self.sequence.next();
            self.tree.insert(APPLIED, applied.encode(), next);
            Ok(())
        })?;
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

    fn held(self: Arc<Self>) -> Held {
        let reading = self.snapshots.take();
        let tree = self;
        Box::new(Rows { tree, reading })
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

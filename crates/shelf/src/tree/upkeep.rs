//! Flushing and compacting, beside the one who applies and beside each other.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, Table, TableId, UserKey};

use super::open::{FIRST_FILE, tables_of};
use super::snapshots::Published;
use super::unflushed::Generation;
use super::writeback::Writeback;
use super::{APPLIED, Durable, FORGOTTEN, ROW, Tree, key_of, lock, row};
use crate::forgotten::Forgotten;
use crate::identity::FILE;
use crate::{Applied, ShelfError, behind};

/// From so many forgotten prefixes on, a compaction rewrites all tables to be rid of them.
const SWEPT_FROM: usize = 64;
/// With so many tables that were flushed and not merged a compaction goes on flat out.
const TABLES_WAITING_MAX: usize = 16;
/// A compaction begins no further step after so long, and comes again: other shelves wait for their turn.
const STEPS_FOR: Duration = Duration::from_secs(10);
/// The longest rest of a flush: a disk that stalls needs no more rest than that.
const RESTS_MAX: Duration = Duration::from_millis(20);

impl Tree {
    pub(super) fn flush_all(&self) -> Result<Applied, ShelfError> {
        let _flushing = lock(&self.flushing);
        self.discarded.clear();
        let flushed = self.flush_locked();
        self.set_pace();
        flushed
    }

    /// Each table that waits to be merged is one more to be looked into by whoever reads.
    fn set_pace(&self) {
        let waiting = self.tree.l0_run_count();
        self.pace.set_hurries(waiting >= TABLES_WAITING_MAX);
    }

    /// ‡ Once this is done nothing writes below the directory any more.
    pub(super) fn close_upkeep(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.pace.end();
        drop(lock(&self.compacting));
        drop(lock(&self.flushing));
        self.discarded.clear();
    }

    pub(super) fn check_open(&self) -> Result<(), ShelfError> {
        let is_closed = self.is_closed.load(Ordering::Acquire);
        match is_closed {
            true => Err(ShelfError::Closed {
                path: self.directory.clone(),
            }),
            false => Ok(()),
        }
    }

    /// Whether the files that a start reads first are there.
    pub(super) fn check_there(&self) -> Result<(), ShelfError> {
        let files = [self.directory.join(FILE), self.files.join(FIRST_FILE)];
        for file in files {
            match fs::symlink_metadata(&file) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let what = format!("{} was taken away while the node ran", file.display());
                    return Err(self.guarded.damage(what));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn flush_locked(&self) -> Result<Applied, ShelfError> {
        self.check_open()?;
        self.guarded.run(|| self.check_there())?;
        // ‡ A flush that fails has filled the disk for a moment, and a log beside it that writes in that moment stops.
        let room = self.room.check_flush(self.unflushed_bytes());
        room.map_err(|source| ShelfError::Io {
            path: self.directory.clone(),
            source,
        })?;
        let (flushed, sealed) = {
            let writer = lock(&self.writer);
            let flushed = Durable {
                applied: writer.applied,
                forgotten: writer.forgotten.clone(),
            };
            // Between two batches: what is sealed ends with the row that says how far it goes.
            (flushed, self.unflushed.seal())
        };
        // ‡ The memtable is that of the rotation before. Whoever reads an older version does not see it.
        let in_tree_from = self.rotated.load(Ordering::Acquire);
        self.guarded.run(|| {
            for generation in sealed {
                self.drain(&generation);
            }
            self.unflushed.are_in_tree(in_tree_from);
            lock(&self.sealed).extend(self.tree.rotate_memtable());
            Ok(())
        })?;
        self.rotated.store(self.sequence.get(), Ordering::Release);
        self.unflushed.let_go(self.snapshots.oldest());
        let bytes = self.drained_bytes.load(Ordering::Relaxed);
        let first = self.tree.get_next_table_id();
        let oldest = self.snapshots.oldest();
        let done = self.guarded.run(|| {
            let flushing = self.tree.get_flush_lock();
            let done = self.write_sealed(oldest, bytes);
            drop(flushing);
            done.map_err(|error| self.guarded.failed(error))
        });
        self.publish_what_upkeep_took();
        if done.is_err() {
            self.note_left_over(first);
        }
        if let Ok(_compacting) = self.compacting.try_lock() {
            self.remove_what_is_left_over();
        }
        done?;
        self.drained_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.droppable.set(flushed.forgotten.clone());
        let applied = flushed.applied;
        *lock(&self.durable) = flushed;
        Ok(applied)
    }

    /// Writes what is sealed: a table of each memtable, the oldest first, so that whatever is on the disk ends between two batches.
    ///
    /// `bytes`: the memory that all of it takes.
    fn write_sealed(&self, oldest: u64, bytes: u64) -> lsm_tree::Result<()> {
        let tables = tables_of(&self.files);
        loop {
            let Some(memtable) = lock(&self.sealed).front().cloned() else {
                break;
            };
            let mut writeback = Writeback::from(&tables, self.tree.get_next_table_id());
            let mut since = Instant::now();
            let rows = memtable.iter().map(|row| {
                if writeback.count((row.key.user_key.len() + row.value.len()) as u64)? {
                    self.rest(since.elapsed(), bytes);
                    since = Instant::now();
                }
                Ok(row)
            });
            if let Some((written, _)) = self.tree.flush_to_tables(rows)? {
                let taken = [memtable.id()];
                self.tree
                    .register_tables(&written, None, None, &taken, oldest)?;
            }
            lock(&self.sealed).pop_front();
        }
        // ‡ The log is trimmed by what a flush says: the crate is asked, and not this list alone.
        match self.tree.sealed_memtable_count() {
            0 => Ok(()),
            left => {
                let what = format!("{left} memtables are sealed that no flush knows of");
                Err(std::io::Error::other(what).into())
            }
        }
    }

    /// A flush of so many bytes rests as long as it worked, for cores and disks are others' too. It does not where as much comes meanwhile as it can
    /// write so.
    fn rest(&self, worked: Duration, bytes: u64) {
        if !self.pace.is_over() && self.unflushed.bytes() < bytes / 2 {
            thread::sleep(worked.min(RESTS_MAX));
        }
    }

    /// ‡ A generation that is drained again, since the time before broke off, has the same rows under the same numbers.
    fn drain(&self, generation: &Generation) {
        let mut bytes = 0;
        let oldest = self.snapshots.oldest();
        generation.drain(oldest, |key, since, value| {
            bytes += match value {
                Some(value) => self.tree.insert(key, value, since).0,
                None => self.tree.remove(key, since).0,
            };
        });
        self.drained_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The tree numbers its own changes with the rows' numbers: readers go on behind them, or they would read what was
    /// before, and keep it in memory.
    fn publish_what_upkeep_took(&self) {
        let _writer = lock(&self.writer);
        self.snapshots.publish_version(self.sequence.get());
    }

    /// What failed wrote tables from this number on.
    fn note_left_over(&self, first: TableId) {
        let mut left_over = lock(&self.left_over);
        let first = left_over
            .as_ref()
            .map_or(first, |left| left.start.min(first));
        *left_over = Some(first..self.tree.get_next_table_id());
    }

    /// A flush or a compaction that failed wrote tables that would stay until the next start, and a full disk would be filled by each
    /// further attempt. Nothing else is under way: what that writes is not live yet either. Nobody reads for long: what he reads may be
    /// live no more.
    fn remove_what_is_left_over(&self) {
        let mut left_over = lock(&self.left_over);
        let Some(numbers) = left_over.take_if(|_| !self.discarded.is_followed()) else {
            return;
        };
        drop(left_over);
        let version = self.tree.current_version();
        let live = |id: TableId| version.iter_tables().any(|table| table.id() == id);
        for entry in fs::read_dir(tables_of(&self.files))
            .into_iter()
            .flatten()
            .flatten()
        {
            let id = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if id.is_some_and(|id: TableId| numbers.contains(&id) && !live(id)) {
                _ = fs::remove_file(entry.path());
            }
        }
    }

    pub(super) fn compact_all(&self) -> Result<(), ShelfError> {
        let _compacting = lock(&self.compacting);
        self.check_open()?;
        if self.room.is_scarce() {
            return Ok(());
        }
        let first = self.tree.get_next_table_id();
        let version = self.tree.current_version().id();
        let durable = lock(&self.durable).forgotten.clone();
        let oldest = self.snapshots.oldest();
        // Readers of before may still see these rows.
        let prefixes: Vec<Vec<u8>> = durable.before(oldest).cloned().collect();
        let done = self.guarded.run(|| {
            let failed = |error| self.guarded.failed(error);
            for prefix in self.prefixes_of_whole_tables(&durable, oldest) {
                let from = row(&prefix);
                match behind(&from) {
                    Some(to) => self.tree.drop_range(from..to).map_err(failed)?,
                    None => self.tree.drop_range(from..).map_err(failed)?,
                }
            }
            if self.room.check().is_err() {
                return Ok(());
            }
            if prefixes.len() >= SWEPT_FROM {
                let size = self.settings.table_bytes;
                return self.tree.major_compact(size, oldest).map_err(failed);
            }
            let began = Instant::now();
            while !self.pace.is_over() && began.elapsed() < STEPS_FOR {
                self.set_pace();
                let before = self.tree.current_version().id();
                let size = self.settings.table_bytes;
                let leveled = Leveled::default().with_table_target_size(size);
                // ‡ Anew for each step: what the step before replaced would else stay on the disk.
                let oldest = self.snapshots.oldest();
                self.tree
                    .compact(Arc::new(leveled), oldest)
                    .map_err(failed)?;
                if self.tree.current_version().id() == before {
                    break;
                }
                self.publish_what_upkeep_took();
            }
            Ok(())
        });
        self.publish_what_upkeep_took();
        if done.is_err() {
            self.note_left_over(first);
        }
        if let Ok(_flushing) = self.flushing.try_lock() {
            self.remove_what_is_left_over();
        }
        if self.pace.is_over() {
            return Ok(());
        }
        if !self.room.is_scarce() {
            done?;
            self.room.on_compacted();
            if prefixes.len() >= SWEPT_FROM {
                self.unremember(&prefixes)?;
            }
        }
        match self.tree.current_version().id() == version {
            true => Ok(()),
            false => self.let_replaced_go(),
        }
    }

    /// The forgotten prefixes that tables have nothing but. For any other there is nothing to take away at once, and each attempt would
    /// write a new list of all tables.
    fn prefixes_of_whole_tables(&self, forgotten: &Forgotten, oldest: u64) -> BTreeSet<Vec<u8>> {
        let version = self.tree.current_version();
        let of_table = |table: &Table| {
            let keys = &table.metadata.key_range;
            let first = keys.min().strip_prefix(&[ROW])?;
            let last = keys.max().strip_prefix(&[ROW])?;
            let (prefix, since) = forgotten.covering(first)?;
            (since < oldest && last.starts_with(prefix)).then(|| prefix.clone())
        };
        version.iter_tables().filter_map(of_table).collect()
    }

    /// The tree lets go of tables that were replaced when it changes the next time. If nothing more is written for a while, that is never: a
    /// state would take twice its room, and on a full disk nothing more is written.
    fn let_replaced_go(&self) -> Result<(), ShelfError> {
        {
            let writer = lock(&self.writer);
            let applied = writer.applied.encode();
            let change = self.change(UserKey::from(APPLIED), Some(&applied));
            self.unflushed.write([change], self.snapshots.oldest());
            self.snapshots.publish_version(self.sequence.get());
        }
        self.flush_all().map(|_| ())
    }

    /// No table has a row below these any more, and none is ever written.
    fn unremember(&self, prefixes: &[Vec<u8>]) -> Result<(), ShelfError> {
        let mut writer = lock(&self.writer);
        let mut forgotten = writer.forgotten.clone();
        let changes = prefixes.iter().map(|prefix| {
            Arc::make_mut(&mut forgotten).remove(prefix);
            self.change(key_of(FORGOTTEN, prefix), None)
        });
        self.unflushed.write(changes, self.snapshots.oldest());
        writer.forgotten = forgotten.clone();
        self.snapshots.publish(Published {
            version: self.sequence.get(),
            applied: writer.applied,
            forgotten,
        });
        Ok(())
    }

    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.unflushed.bytes() + self.drained_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Applied, Batch, Identity, Settings, Shelf, Tree};

    #[test]
    fn rows_that_are_written_again_and_again_take_room_once() {
        let here = tempfile::tempdir().unwrap();
        let identity = Identity {
            cluster: [1; 16],
            log: 7,
        };
        let tree = Tree::open(here.path(), identity, Settings::default()).unwrap();
        for position in 1..=100 {
            let mut batch = Batch::default();
            for row in 0..10u8 {
                batch.put([row], vec![7; 1_000]);
            }
            let applied = Applied {
                position,
                ..Applied::default()
            };
            tree.apply(&batch, applied).unwrap();
        }
        let unflushed = tree.figures().unflushed_bytes;
        // Whoever looks now sees the values before the last ones as long as a batch is not whole.
        assert!((20_000..24_000).contains(&unflushed), "{unflushed}");
        tree.flush().unwrap();
        assert_eq!(tree.figures().unflushed_bytes, 0);
    }
}

//! Flushing and compacting, beside the one who applies and beside each other.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, TableId};

use super::snapshots::Published;
use super::{APPLIED, Durable, FORGOTTEN, Tree, lock, row, tagged};
use crate::{Applied, ShelfError, behind};

/// From so many forgotten prefixes on, a compaction rewrites all tables to be rid of them.
const SWEPT_FROM: usize = 64;
/// With so many tables that were flushed and not merged a compaction goes on flat out.
const TABLES_WAITING_MAX: usize = 16;
/// A compaction begins no further step after so long, and comes again: other shelves wait for their turn.
const STEPS_FOR: Duration = Duration::from_secs(10);

impl Tree {
    pub(super) fn flush_all(&self) -> Result<Applied, ShelfError> {
        let _flushing = lock(&self.flushing);
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

    fn flush_locked(&self) -> Result<Applied, ShelfError> {
        self.check_open()?;
        let flushed = {
            let writer = lock(&self.writer);
            // Between two batches: what is sealed ends with the row that says how far it goes.
            self.guarded.run(|| {
                self.tree.rotate_memtable();
                Ok(())
            })?;
            Durable {
                applied: writer.applied,
                forgotten: writer.forgotten.clone(),
            }
        };
        let first = self.tree.get_next_table_id();
        let oldest = self.snapshots.oldest();
        let done = self.guarded.run(|| {
            let flushing = self.tree.get_flush_lock();
            let done = self.tree.flush(&flushing, oldest);
            done.map(|_| ()).map_err(|error| self.guarded.failed(error))
        });
        self.publish_what_upkeep_took();
        if done.is_err() {
            self.left_over_from.fetch_min(first, Ordering::Relaxed);
        }
        if let Ok(_compacting) = self.compacting.try_lock() {
            self.remove_what_is_left_over();
        }
        done?;
        self.droppable.set(flushed.forgotten.clone());
        let applied = flushed.applied;
        *lock(&self.durable) = flushed;
        Ok(applied)
    }

    /// The tree numbers its own changes with the rows' numbers: readers go on behind them, or they would read what was
    /// before, and keep it in memory.
    fn publish_what_upkeep_took(&self) {
        let _writer = lock(&self.writer);
        self.snapshots.publish_version(self.sequence.get());
    }

    /// A flush or a compaction that failed wrote tables that would stay until the next start, and a full disk would be filled by each further attempt. Nothing
    /// else is under way: what that writes is not live yet either.
    fn remove_what_is_left_over(&self) {
        let first = self.left_over_from.swap(u64::MAX, Ordering::Relaxed);
        if first == u64::MAX {
            return;
        }
        let live = |id: TableId| {
            let version = self.tree.current_version();
            version.iter_tables().any(|table| table.id() == id)
        };
        let tables = self.directory.join("tree").join("tables");
        for entry in fs::read_dir(tables).into_iter().flatten().flatten() {
            let id = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if id.is_some_and(|id: TableId| id >= first && !live(id)) {
                _ = fs::remove_file(entry.path());
            }
        }
    }

    pub(super) fn compact_all(&self) -> Result<(), ShelfError> {
        let _compacting = lock(&self.compacting);
        self.check_open()?;
        let first = self.tree.get_next_table_id();
        let version = self.tree.current_version().id();
        let durable = lock(&self.durable).forgotten.clone();
        let oldest = self.snapshots.oldest();
        // Readers of before may still see these rows.
        let prefixes: Vec<Vec<u8>> = durable.before(oldest).cloned().collect();
        let done = self.guarded.run(|| {
            let failed = |error| self.guarded.failed(error);
            for prefix in &prefixes {
                let from = row(prefix);
                match behind(&from) {
                    Some(to) => self.tree.drop_range(from..to).map_err(failed)?,
                    None => self.tree.drop_range(from..).map_err(failed)?,
                }
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
            self.left_over_from.fetch_min(first, Ordering::Relaxed);
        }
        if let Ok(_flushing) = self.flushing.try_lock() {
            self.remove_what_is_left_over();
        }
        if self.pace.is_over() {
            return Ok(());
        }
        done?;
        if prefixes.len() >= SWEPT_FROM {
            self.unremember(&prefixes)?;
        }
        match self.tree.current_version().id() == version {
            true => Ok(()),
            false => self.let_replaced_go(),
        }
    }

    /// The tree lets go of tables that were replaced when it changes the next time. If nothing more is written for a while, that is never: a
    /// state would take twice its room, and on a full disk nothing more is written.
    fn let_replaced_go(&self) -> Result<(), ShelfError> {
        {
            let writer = lock(&self.writer);
            self.guarded.run(|| {
                let next = self.sequence.next();
                self.tree.insert(APPLIED, writer.applied.encode(), next);
                Ok(())
            })?;
            self.snapshots.publish_version(self.sequence.get());
        }
        self.flush_all().map(|_| ())
    }

    /// No table has a row below these any more, and none is ever written.
    fn unremember(&self, prefixes: &[Vec<u8>]) -> Result<(), ShelfError> {
        let mut writer = lock(&self.writer);
        let mut forgotten = writer.forgotten.clone();
        self.guarded.run(|| {
            for prefix in prefixes {
                let key = tagged(FORGOTTEN, prefix);
                self.tree.remove(key, self.sequence.next());
                Arc::make_mut(&mut forgotten).remove(prefix);
            }
            Ok(())
        })?;
        writer.forgotten = forgotten.clone();
        self.snapshots.publish(Published {
            version: self.sequence.get(),
            applied: writer.applied,
            forgotten,
        });
        Ok(())
    }

    pub(super) fn unflushed_bytes(&self) -> u64 {
        let sealed = self.tree.version_memtable_size_sum();
        // The tree counts those of versions that somebody still reads.
        sealed.max(self.tree.active_memtable().size())
    }
}

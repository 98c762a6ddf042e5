//! Flushing and compacting, beside the one who applies.

use std::fs;
use std::sync::Arc;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, TableId};

use super::snapshots::Published;
use super::{Durable, FORGOTTEN, Tree, lock, row, tagged};
use crate::{Applied, ShelfError, behind};

/// From so many forgotten prefixes on, a compaction rewrites all tables to be rid of them.
const SWEPT_FROM: usize = 64;
/// A compaction does some steps and comes again.
const STEPS_MAX: usize = 32;

impl Tree {
    pub(super) fn flush_all(&self) -> Result<Applied, ShelfError> {
        let _upkeep = lock(&self.upkeep);
        self.flush_locked()
    }

    fn flush_locked(&self) -> Result<Applied, ShelfError> {
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
            self.remove_unfinished(first);
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

    /// What a flush that failed wrote would stay until the next start, and a full disk would be filled by each further attempt.
    fn remove_unfinished(&self, first: TableId) {
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
        let _upkeep = lock(&self.upkeep);
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
            for _ in 0..STEPS_MAX {
                let before = self.tree.current_version().id();
                let size = self.settings.table_bytes;
                let leveled = Leveled::default().with_table_target_size(size);
                self.tree
                    .compact(Arc::new(leveled), oldest)
                    .map_err(failed)?;
                if self.tree.current_version().id() == before {
                    break;
                }
            }
            Ok(())
        });
        self.publish_what_upkeep_took();
        done?;
        match prefixes.len() >= SWEPT_FROM {
            true => self.unremember(&prefixes),
            false => Ok(()),
        }
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

//! Tables come to the disk while they are written, and not all at once.
//!
//! The crate writes a table to the page cache, and has the disk take it when it is whole. With 64 MiB at a time whatever else is synced on that disk waits
//! behind them: the logs of all groups, in front of each command. Here the disk takes what is there after each MiB, and the writer waits for that.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use lsm_tree::TableId;

/// Rows that are counted between two syncs.
const STRIDE: u64 = 1 << 20;
/// So many numbers in a row may have no table: a table without rows is removed again.
const GAP: TableId = 4;
/// So many tables are looked at, the latest: those before them are whole. A compaction of a large state writes thousands, and each would stay open.
const GROWING_MAX: usize = 8;

/// The tables that somebody writes, and others that are written meanwhile.
pub(super) struct Writeback {
    tables: PathBuf,
    /// The next table to come has this number, or one of those behind it.
    next: TableId,
    growing: Vec<Growing>,
    uncounted: u64,
}

struct Growing {
    file: File,
    synced: u64,
}

impl Writeback {
    /// Tables with this number and later ones.
    pub fn from(tables: &Path, first: TableId) -> Writeback {
        Writeback {
            tables: tables.to_owned(),
            next: first,
            growing: Vec::new(),
            uncounted: 0,
        }
    }

    /// Tables that come after those that are there.
    pub fn behind(tables: &Path) -> Writeback {
        let names = fs::read_dir(tables).into_iter().flatten().flatten();
        let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let last: Option<TableId> = numbers.max();
        Writeback::from(tables, last.map_or(0, |last| last + 1))
    }

    /// Counts a row of so many bytes, and has the disk take what was written if that is enough: true if it did.
    ///
    /// Errors: the disk does not take it. The crate, which had the table open before, hears of that too.
    pub fn count(&mut self, bytes: u64) -> io::Result<bool> {
        self.uncounted += bytes;
        if self.uncounted < STRIDE {
            return Ok(false);
        }
        self.uncounted = 0;
        self.open_new();
        for Growing { file, synced } in &mut self.growing {
            let length = file.metadata()?.len();
            if length != *synced {
                file.sync_data()?;
                *synced = length;
            }
        }
        Ok(true)
    }

    /// A table that cannot be opened is synced at its end, by the crate.
    fn open_new(&mut self) {
        let mut number = self.next;
        while number < self.next + GAP {
            let path = self.tables.join(number.to_string());
            number += 1;
            if let Ok(file) = File::open(path) {
                self.growing.push(Growing { file, synced: 0 });
                self.next = number;
                if self.growing.len() > GROWING_MAX {
                    self.growing.remove(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_tables_that_come_are_synced_once_for_each_stride() {
        let here = tempfile::tempdir().unwrap();
        let write = |number: u64, bytes: usize| {
            let path = here.path().join(number.to_string());
            let mut options = File::options();
            let mut file = options.create(true).append(true).open(path).unwrap();
            file.write_all(&vec![1; bytes]).unwrap();
        };
        write(6, 100);
        let mut writeback = Writeback::behind(here.path());
        let synced = |writeback: &Writeback| {
            let growing = writeback.growing.iter();
            growing.map(|one| one.synced).collect::<Vec<_>>()
        };
        write(7, 1_000);
        assert!(!writeback.count(STRIDE - 1).unwrap());
        assert_eq!(synced(&writeback), []);
        assert!(writeback.count(1).unwrap());
        assert_eq!(synced(&writeback), [1_000]);
        // Table 8 was empty, and is gone.
        write(9, 50);
        write(7, 500);
        writeback.count(STRIDE).unwrap();
        assert_eq!(synced(&writeback), [1_500, 50]);
        (10..30).for_each(|number| write(number, 10));
        writeback.count(STRIDE).unwrap();
        assert_eq!(synced(&writeback), [10; GROWING_MAX]);
    }
}

//! Rows and pages of rows, as of one snapshot.

use std::ops::Bound;

use lsm_tree::{AbstractTree, Guard};

use super::cursor::Following;
use super::merged::Merged;
use super::snapshots::Reading;
use super::unflushed::Within;
use super::{ROW, Tree, row};
use crate::{
    Applied, Cursor, KEY_BYTES_MAX, Page, PageBounds, ShelfError, Snapshot, is_empty_range, is_full,
};

pub(super) struct Rows<'a> {
    pub tree: &'a Tree,
    pub reading: Reading,
}

impl Snapshot for Rows<'_> {
    fn applied(&self) -> Applied {
        self.reading.state.applied
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        let state = &self.reading.state;
        // ‡ No row has a longer key, and the tree does not take one to look for.
        if key.len() > KEY_BYTES_MAX || state.forgotten.covers(key) {
            return Ok(None);
        }
        let guarded = &self.tree.guarded;
        guarded.run(|| {
            let key = row(key);
            // ‡ What is not flushed is looked at first: it goes from there to the tree.
            let value = match self.tree.unflushed.get(&key, state.version) {
                Some(value) => value,
                None => {
                    let value = self.tree.tree.get(key, state.version);
                    value.map_err(|error| guarded.failed(error))?
                }
            };
            Ok(value.map(|value| value.to_vec()))
        })
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        self.page(from, to, max, false)
    }

    fn scan_back(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        self.page(from, to, max, true)
    }

    fn cursor(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Cursor, ShelfError> {
        let state = &self.reading.state;
        let rows = match is_empty_range(from, to) {
            true => None,
            false => Some(self.tree.guarded.run(|| {
                let mut rows = Merged::of(self.tree, stored(from, to, false), state.version);
                // ‡ Nobody keeps this version for the cursor once the snapshot is gone.
                rows.hold();
                Ok(rows)
            })?),
        };
        Ok(Box::new(Following::new(self.tree, state, rows)))
    }
}

impl Rows<'_> {
    fn page(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
        is_back: bool,
    ) -> Result<Page, ShelfError> {
        let state = &self.reading.state;
        let mut page = Page {
            rows: Vec::new(),
            applied: state.applied,
            is_last: true,
        };
        if is_empty_range(from, to) {
            return Ok(page);
        }
        let guarded = &self.tree.guarded;
        guarded.run(|| {
            let mut bytes = 0;
            let mut rows = Merged::of(self.tree, stored(from, to, is_back), state.version);
            while let Some((key, value)) = rows.next().map_err(|error| guarded.failed(error))? {
                let key = key.get(1..).unwrap_or_default();
                if state.forgotten.covers(key) {
                    continue;
                }
                bytes += key.len() + value.len();
                if is_full(&page, bytes, max) {
                    page.is_last = false;
                    break;
                }
                page.rows.push((key.to_vec(), value.to_vec()));
            }
            Ok(page)
        })
    }
}

/// As much of a key as a row's may have. The rows before and behind the key are those up to this and behind it.
fn longest(key: &[u8]) -> &[u8] {
    key.get(..KEY_BYTES_MAX).unwrap_or(key)
}

/// Bounds among all that a tree has.
fn stored(from: Bound<&[u8]>, to: Bound<&[u8]>, is_back: bool) -> Within {
    let from = match from {
        Bound::Unbounded => Bound::Included(vec![ROW]),
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
            Bound::Excluded(row(longest(key)))
        }
        bound => bound.map(row),
    };
    let to = match to {
        Bound::Unbounded => Bound::Excluded(vec![ROW + 1]),
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
            Bound::Included(row(longest(key)))
        }
        bound => bound.map(row),
    };
    Within { from, to, is_back }
}

impl Tree {
    /// Reads every row, and with it the checksum of every block. `progress` is told how many bytes of rows are read.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<(), ShelfError> {
        let reading = self.snapshots.take();
        self.guarded.run(|| {
            let mut bytes = 0;
            for item in self.tree.iter(reading.state.version, None) {
                let (key, value) = item
                    .into_inner()
                    .map_err(|error| self.guarded.failed(error))?;
                bytes += (key.len() + value.len()) as u64;
                progress(bytes);
            }
            Ok(())
        })
    }
}

//! Rows and pages of rows, as of one snapshot.

use std::ops::{Bound, Deref};

use lsm_tree::{AbstractTree, Guard};

use super::snapshots::Reading;
use super::{ROW, Tree, row};
use crate::{Applied, Page, PageBounds, ShelfError, Snapshot, is_empty_range, is_full};

/// `T` borrows the tree, or keeps it open.
pub(super) struct Rows<T> {
    pub tree: T,
    pub reading: Reading,
}

impl<T: Deref<Target = Tree>> Snapshot for Rows<T> {
    fn applied(&self) -> Applied {
        self.reading.state.applied
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        let state = &self.reading.state;
        if state.forgotten.covers(key) {
            return Ok(None);
        }
        let guarded = &self.tree.guarded;
        guarded.run(|| {
            let value = self.tree.tree.get(row(key), state.version);
            let value = value.map_err(|error| guarded.failed(error))?;
            Ok(value.map(|value| value.to_vec()))
        })
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
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
        let from = match from {
            Bound::Unbounded => Bound::Included(vec![ROW]),
            bound => bound.map(row),
        };
        let to = match to {
            Bound::Unbounded => Bound::Excluded(vec![ROW + 1]),
            bound => bound.map(row),
        };
        let Tree { tree, guarded, .. } = &*self.tree;
        guarded.run(|| {
            let mut bytes = 0;
            for item in tree.range::<Vec<u8>, _>((from, to), state.version, None) {
                let item = item.into_inner();
                let (key, value) = item.map_err(|error| guarded.failed(error))?;
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

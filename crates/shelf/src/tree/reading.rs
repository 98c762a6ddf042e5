//! Rows and pages of rows, as of one snapshot.

use std::ops::Bound;

use lsm_tree::{AbstractTree, Guard};

use super::{ROW, Tree, row};
use crate::{Page, PageBounds, ShelfError, Values, is_empty_range, is_full};

impl Tree {
    pub(super) fn read_rows(&self, keys: &[&[u8]]) -> Result<Values, ShelfError> {
        let snapshot = self.snapshots.take();
        let state = &snapshot.state;
        self.guarded.run(|| {
            let values = keys.iter().map(|key| {
                if state.forgotten.covers(key) {
                    return Ok(None);
                }
                let value = self.tree.get(row(key), state.version);
                let value = value.map_err(|error| self.guarded.failed(error))?;
                Ok(value.map(|value| value.to_vec()))
            });
            Ok(Values {
                values: values.collect::<Result<_, _>>()?,
                applied: state.applied,
            })
        })
    }

    /// Reads every row, and with it the checksum of every block. `progress` is told how many bytes of rows are read.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<(), ShelfError> {
        let snapshot = self.snapshots.take();
        self.guarded.run(|| {
            let mut bytes = 0;
            for item in self.tree.iter(snapshot.state.version, None) {
                let (key, value) = item
                    .into_inner()
                    .map_err(|error| self.guarded.failed(error))?;
                bytes += (key.len() + value.len()) as u64;
                progress(bytes);
            }
            Ok(())
        })
    }

    pub(super) fn scan_rows(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        let snapshot = self.snapshots.take();
        let state = &snapshot.state;
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
        self.guarded.run(|| {
            let mut bytes = 0;
            for item in self
                .tree
                .range::<Vec<u8>, _>((from, to), state.version, None)
            {
                let item = item.into_inner();
                let (key, value) = item.map_err(|error| self.guarded.failed(error))?;
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

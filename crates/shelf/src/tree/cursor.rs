//! All rows of a state, page by page, for readers who take long.
//!
//! ‡ No snapshot is kept for them: a tree would keep all that is written since in memory and on disk. An iterator keeps the memtables and the
//! tables of the moment at which it was made, the cursor holds what was not flushed then, and neither has what came later.

use std::sync::{Arc, Mutex};

use lsm_tree::IterGuardImpl;

use super::guarded::Guarded;
use super::merged::Merged;
use super::snapshots::Published;
use super::{Tree, lock};
use crate::{Applied, Page, PageBounds, Pages, Row, ShelfError, is_full};

pub(super) type Items = Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send>;

pub(super) struct Following {
    guarded: Arc<Guarded>,
    discarded: Discarded,
    state: Published,
    /// `None` behind the last one.
    rows: Option<Merged>,
    /// Had no room on the page before.
    next: Option<Row>,
}

impl Following {
    pub fn new(tree: &Tree, state: &Published, rows: Option<Merged>) -> Following {
        Following {
            guarded: tree.guarded.clone(),
            discarded: tree.discarded.clone(),
            state: state.clone(),
            rows,
            next: None,
        }
    }

    fn next_row(&mut self) -> Result<Option<Row>, ShelfError> {
        if let Some(row) = self.next.take() {
            return Ok(Some(row));
        }
        let Some(rows) = &mut self.rows else {
            return Ok(None);
        };
        while let Some((key, value)) = rows.next().map_err(|error| self.guarded.failed(error))? {
            let key = key.get(1..).unwrap_or_default();
            if !self.state.forgotten.covers(key) {
                return Ok(Some((key.to_vec(), value.to_vec())));
            }
        }
        Ok(None)
    }
}

impl Pages for Following {
    fn applied(&self) -> Applied {
        self.state.applied
    }

    fn next_page(&mut self, max: PageBounds) -> Result<Page, ShelfError> {
        let mut page = Page {
            rows: Vec::new(),
            applied: self.state.applied,
            is_last: true,
        };
        let guarded = self.guarded.clone();
        guarded.run(|| {
            let mut bytes = 0;
            while let Some((key, value)) = self.next_row()? {
                bytes += key.len() + value.len();
                if is_full(&page, bytes, max) {
                    page.is_last = false;
                    self.next = Some((key, value));
                    break;
                }
                page.rows.push((key, value));
            }
            Ok(())
        })?;
        if page.is_last {
            self.rows = None;
        }
        Ok(page)
    }
}

impl Following {
    /// ‡ On the way of a flush: whoever lets go of the last one gives back the room of tables that were merged, which takes time.
    fn let_go(&mut self) {
        if let Some(rows) = self.rows.take() {
            self.discarded.add(rows.into_items());
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Iterators that nobody wants any more.
#[derive(Clone, Default)]
pub(super) struct Discarded(Arc<Mutex<Vec<Items>>>);

impl Discarded {
    fn add(&self, items: Items) {
        lock(&self.0).push(items);
    }

    /// Somebody has a cursor.
    pub fn is_followed(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn clear(&self) {
        let items = std::mem::take(&mut *lock(&self.0));
        drop(items);
    }
}

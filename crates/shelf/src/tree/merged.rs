//! The rows of a range, of the tree and of those that are not flushed, in their order.

use std::cmp::Ordering;

use lsm_tree::{Guard, UserKey, UserValue};

use super::cursor::Items;
use super::unflushed::{Staged, Within};
use super::{AbstractTree, Tree};

pub(super) struct Merged {
    /// The newest generation first: of a key that several have its row counts, and that of the tree last.
    staged: Vec<Staged>,
    items: Items,
    /// The next one of the tree.
    next: Option<(UserKey, UserValue)>,
    is_back: bool,
}

impl Merged {
    /// ‡ What is not flushed is looked at first: it goes from there to the tree.
    pub fn of(tree: &Tree, within: Within, version: u64) -> Merged {
        let is_back = within.is_back;
        let range = (within.from.clone(), within.to.clone());
        let staged = tree.unflushed.rows(within, version);
        Merged {
            staged,
            items: tree.tree.range(range, version, None),
            next: None,
            is_back,
        }
    }

    /// From now on the version that is read need not be kept by others.
    pub fn hold(&mut self) {
        self.staged.iter_mut().for_each(Staged::hold);
    }

    /// The iterator of the tree, which holds its tables.
    pub fn into_items(self) -> Items {
        self.items
    }

    pub fn next(&mut self) -> lsm_tree::Result<Option<(UserKey, UserValue)>> {
        loop {
            if self.next.is_none() {
                let item = match self.is_back {
                    true => self.items.next_back(),
                    false => self.items.next(),
                };
                self.next = item.map(|item| item.into_inner()).transpose()?;
            }
            let in_tree = self.next.as_ref().map(|(key, _)| key.clone());
            let staged = self.staged.iter_mut().filter_map(|one| one.peek().cloned());
            let staged = match self.is_back {
                true => staged.max(),
                false => staged.min(),
            };
            let Some(key) = staged else {
                return Ok(self.next.take());
            };
            let order = in_tree.map_or(Ordering::Greater, |in_tree| match self.is_back {
                true => key.cmp(&in_tree),
                false => in_tree.cmp(&key),
            });
            if order == Ordering::Less {
                return Ok(self.next.take());
            }
            if order == Ordering::Equal {
                self.next = None;
            }
            let mut found = None;
            for one in &mut self.staged {
                if one.peek() == Some(&key) {
                    let popped = one.pop();
                    found = found.or(popped);
                }
            }
            if let Some((key, Some(value))) = found {
                return Ok(Some((key, value)));
            }
            // It was deleted.
        }
    }
}

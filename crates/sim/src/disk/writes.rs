//! The last writes to files, their places and times: what a process may take for durable, and what rests.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use ops::Time;

/// The number of writes after which a record says that this one was durable.
const LAST_WRITES: usize = 6;

#[derive(Default)]
pub(super) struct Writes {
    /// The beginnings of the last few writes to each file, oldest first.
    last: BTreeMap<PathBuf, VecDeque<u64>>,
    /// The time when the last write to each file was to be over.
    quiet_from: BTreeMap<PathBuf, Time>,
}

impl Writes {
    /// A write to that file will be over then.
    pub fn expect(&mut self, path: PathBuf, until: Time) {
        self.quiet_from.insert(path, until);
    }

    pub fn remember(&mut self, path: PathBuf, offset: u64) {
        let last = self.last.entry(path).or_default();
        last.push_back(offset);
        if last.len() > LAST_WRITES {
            last.pop_front();
        }
    }

    /// The time of the last write to the file.
    pub fn quiet_from(&self, path: &Path) -> Option<Time> {
        self.quiet_from.get(path).copied()
    }

    pub fn settled_below(&self, path: &Path) -> u64 {
        let settled = |path: &Path| {
            let last = self.last.get(path);
            let last = last.filter(|last| last.len() == LAST_WRITES);
            last.and_then(|last| last.front().copied())
        };
        let behind = (Bound::Excluded(path.to_owned()), Bound::Unbounded);
        let followed = self
            .last
            .range(behind)
            .any(|(later, _)| later.parent() == path.parent() && settled(later).is_some());
        match followed {
            true => u64::MAX,
            false => settled(path).unwrap_or(0),
        }
    }

    /// The disk is another one, and empty.
    pub fn forget_places(&mut self) {
        self.last.clear();
    }

    /// The places on a copy of the disk, where nothing is under way.
    pub fn copy(&self) -> Writes {
        Writes {
            last: self.last.clone(),
            quiet_from: BTreeMap::new(),
        }
    }
}

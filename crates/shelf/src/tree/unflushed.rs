//! Rows that are applied and not on their way to the disk yet.
//!
//! ```text
//!  apply ──▶ generation 3 ── flush: sealed, generation 4 begins ──▶ drained, in the order of keys ──▶ the tree's memtable ──▶ table
//!                │                                                      │
//!                └───────── readers: the newest generation first ───────┴──── and the tree behind them
//! ```
//!
//! The tree's own memtable is a list with skips, in which each insert waits for memory dozens of times: it took a fifth of all time of a load of small
//! commands. Here a row costs a few such waits, is there once however often it is written, and comes to the tree beside its neighbours.
//!
//! ‡ A row leaves its generation only when it is in the tree, and a reader looks here first: so it is in one of the two.
//!
//! ‡ The tree shows a reader the memtables that it had at the reader's version. A generation has rows from before the memtable that it is drained into:
//! it stays until nobody reads an older version than that memtable.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use lsm_tree::{UserKey, UserValue};

use crate::keymap::KeyMap;

/// The memory that a row takes beside its key and its value.
const ROW_BYTES: u64 = 96;
/// Rows that a reader takes at a time.
const CHUNK: usize = 256;

/// A value, or none, and since which sequence number.
#[derive(Clone)]
struct Version {
    since: u64,
    value: Option<UserValue>,
}

/// The newest version of a row, and older ones that somebody may read, the newest of them first.
struct Versions {
    newest: Version,
    older: Vec<Version>,
}

impl Versions {
    /// The row as whoever reads this version sees it; `None` if it is not of this generation then.
    fn at(&self, version: u64) -> Option<&Version> {
        let mut all = std::iter::once(&self.newest).chain(&self.older);
        all.find(|one| one.since < version)
    }
}

#[derive(Default)]
struct Rows {
    map: KeyMap<UserKey, Versions>,
    bytes: u64,
}

fn cost(key: &UserKey, version: &Version) -> u64 {
    let value = version.value.as_ref().map_or(0, |value| value.len());
    (key.len() + value) as u64 + ROW_BYTES
}

impl Rows {
    fn write(&mut self, Change { key, since, value }: Change, oldest: u64) {
        let version = Version { since, value };
        self.bytes += cost(&key, &version);
        let Some(versions) = self.map.get_mut(&key) else {
            let newest = version;
            let older = Vec::new();
            self.map.insert(key, Versions { newest, older });
            return;
        };
        let before = std::mem::replace(&mut versions.newest, version);
        // A version is read by those who read before the next one was there.
        let mut next = since;
        let older = std::mem::take(&mut versions.older);
        for one in std::iter::once(before).chain(older) {
            let until = std::mem::replace(&mut next, one.since);
            match until >= oldest {
                true => versions.older.push(one),
                false => self.bytes -= cost(&key, &one),
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Generation(RwLock<Rows>);

impl Generation {
    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every row in the order of keys, with the versions of it that somebody may read. Nobody writes here any more.
    ///
    /// `oldest`: nobody reads an older version, now or later.
    pub fn drain(&self, oldest: u64, mut to: impl FnMut(UserKey, u64, Option<UserValue>)) {
        for (key, versions) in self.read().map.iter() {
            let mut until = u64::MAX;
            for one in std::iter::once(&versions.newest).chain(&versions.older) {
                if until >= oldest {
                    to(key.clone(), one.since, one.value.clone());
                }
                until = one.since;
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        self.read().bytes
    }
}

struct Sealed {
    generation: Arc<Generation>,
    /// It is in the tree, for all who read this version or a later one.
    in_tree_from: Option<u64>,
}

struct Generations {
    open: Arc<Generation>,
    /// The newest first.
    sealed: Vec<Sealed>,
}

impl Generations {
    /// The generations whose rows the tree does not show to a reader of this version.
    ///
    /// ‡ No others: one that stays for an older reader may have rows below a prefix that was forgotten, and that nobody remembers any more.
    fn not_in_tree(&self, version: u64) -> impl Iterator<Item = &Arc<Generation>> {
        let sealed = self
            .sealed
            .iter()
            .filter(move |sealed| sealed.in_tree_from.is_none_or(|from| version < from));
        let sealed = sealed.map(|sealed| &sealed.generation);
        std::iter::once(&self.open).chain(sealed)
    }
}

pub(super) struct Unflushed(RwLock<Generations>);

impl Default for Unflushed {
    fn default() -> Unflushed {
        Unflushed(RwLock::new(Generations {
            open: Arc::default(),
            sealed: Vec::new(),
        }))
    }
}

/// A row's new value, or none, and the sequence number of the change.
pub(super) struct Change {
    pub key: UserKey,
    pub since: u64,
    pub value: Option<UserValue>,
}

impl Unflushed {
    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Generations> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes changes. `oldest`: nobody reads an older version, now or later.
    pub fn write(&self, changes: impl IntoIterator<Item = Change>, oldest: u64) {
        let open = self.read().open.clone();
        let mut rows = open.write();
        for change in changes {
            rows.write(change, oldest);
        }
    }

    /// The row at a version: `None` if the tree has to be asked.
    pub fn get(&self, key: &[u8], version: u64) -> Option<Option<UserValue>> {
        let generations = self.read();
        generations.not_in_tree(version).find_map(|generation| {
            let rows = generation.read();
            let found = rows.map.get(key)?.at(version)?;
            Some(found.value.clone())
        })
    }

    pub fn bytes(&self) -> u64 {
        let generations = self.read();
        // Those that are in the tree share their rows with it.
        let apart = generations
            .sealed
            .iter()
            .filter(|sealed| sealed.in_tree_from.is_none());
        let apart = apart.map(|sealed| sealed.generation.bytes());
        generations.open.bytes() + apart.sum::<u64>()
    }

    /// Changes from now on are of another generation. One that was sealed before and never came to the tree comes with the one that is
    /// sealed now: the oldest first.
    pub fn seal(&self) -> Vec<Arc<Generation>> {
        let mut generations = self.change();
        let generation = std::mem::take(&mut generations.open);
        let sealed = Sealed {
            generation,
            in_tree_from: None,
        };
        generations.sealed.insert(0, sealed);
        let apart = generations.sealed.iter().rev();
        let apart = apart.filter(|sealed| sealed.in_tree_from.is_none());
        apart.map(|sealed| sealed.generation.clone()).collect()
    }

    /// All that is sealed is in the tree, for those who read this version or a later one.
    pub fn are_in_tree(&self, from: u64) {
        for sealed in &mut self.change().sealed {
            sealed.in_tree_from.get_or_insert(from);
        }
    }

    /// Lets generations go that nobody needs. `oldest`: nobody reads an older version, now or later.
    pub fn let_go(&self, oldest: u64) {
        if self.read().sealed.is_empty() {
            return;
        }
        let is_needed = |sealed: &mut Sealed| sealed.in_tree_from.is_none_or(|from| from > oldest);
        let mut generations = self.change();
        let gone = generations
            .sealed
            .extract_if(.., |sealed| !is_needed(sealed));
        let gone: Vec<Sealed> = gone.collect();
        drop(generations);
        drop(gone);
    }

    /// The rows of a range at a version, for somebody who is known to read it.
    pub fn rows(&self, within: Within, version: u64) -> Vec<Staged> {
        let generations = self.read();
        let generations = generations.not_in_tree(version).cloned();
        let staged = generations.map(|generation| Staged {
            rows: VecDeque::new(),
            rest: Some((generation, within.clone())),
            version,
        });
        staged.collect()
    }
}

/// A range, and from which end it is read.
#[derive(Clone)]
pub(super) struct Within {
    pub from: Bound<Vec<u8>>,
    pub to: Bound<Vec<u8>>,
    pub is_back: bool,
}

/// Rows of one generation at a version, one after the other.
pub(super) struct Staged {
    rows: VecDeque<(UserKey, Option<UserValue>)>,
    /// The rows behind these are taken from here.
    rest: Option<(Arc<Generation>, Within)>,
    version: u64,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Staged {
    /// Takes all rows now: from then on it is nobody's matter which versions are kept.
    pub fn hold(&mut self) {
        self.take(usize::MAX);
    }

    fn take(&mut self, count: usize) {
        let Some((generation, mut within)) = self.rest.take() else {
            return;
        };
        let rows = generation.read();
        let range = rows.map.range(as_slice(&within.from), as_slice(&within.to));
        let version = self.version;
        let seen = |(key, versions): (&UserKey, &Versions)| {
            let seen = versions.at(version)?;
            Some((key.clone(), seen.value.clone()))
        };
        match within.is_back {
            true => self.rows.extend(range.rev().filter_map(seen).take(count)),
            false => self.rows.extend(range.filter_map(seen).take(count)),
        }
        drop(rows);
        if self.rows.len() < count {
            return;
        }
        if let Some((last, _)) = self.rows.back() {
            let end = match within.is_back {
                true => &mut within.to,
                false => &mut within.from,
            };
            *end = Bound::Excluded(last.to_vec());
            self.rest = Some((generation, within));
        }
    }

    pub fn peek(&mut self) -> Option<&UserKey> {
        if self.rows.is_empty() {
            self.take(CHUNK);
        }
        self.rows.front().map(|(key, _)| key)
    }

    pub fn pop(&mut self) -> Option<(UserKey, Option<UserValue>)> {
        self.rows.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, since: u64) -> Change {
        let value = Some(UserValue::from(since.to_be_bytes()));
        let key = UserKey::from(key);
        Change { key, since, value }
    }

    fn seen(unflushed: &Unflushed, key: &str, version: u64) -> Option<u64> {
        let value = unflushed.get(key.as_bytes(), version)??;
        Some(u64::from_be_bytes(value[..].try_into().unwrap()))
    }

    #[test]
    fn a_row_stays_for_those_who_do_not_see_the_memtable_that_it_went_to() {
        let unflushed = Unflushed::default();
        unflushed.write([put("a", 5)], 0);
        let drained = unflushed.seal();
        assert_eq!(drained.len(), 1);
        unflushed.let_go(100);
        assert_eq!(seen(&unflushed, "a", 6), Some(5));
        // The memtable is there from version 10 on, and somebody reads version 6.
        unflushed.are_in_tree(10);
        unflushed.let_go(6);
        assert_eq!(seen(&unflushed, "a", 6), Some(5));
        // Whoever reads a later version finds it in the tree alone.
        assert_eq!(unflushed.get(b"a", 10).map(|_| ()), None);
        unflushed.let_go(10);
        assert_eq!(unflushed.get(b"a", 6).map(|_| ()), None);
    }

    #[test]
    fn versions_stay_as_long_as_somebody_reads_them() {
        let unflushed = Unflushed::default();
        unflushed.write([put("a", 1)], 0);
        unflushed.write([put("a", 3)], 2);
        unflushed.write([put("a", 5)], 2);
        let versions = |version| seen(&unflushed, "a", version);
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(versions),
            [None, Some(1), Some(1), Some(3), Some(3), Some(5)]
        );
        let before = unflushed.bytes();
        unflushed.write([put("a", 7)], 6);
        assert_eq!((versions(6), versions(8)), (Some(5), Some(7)));
        assert!(unflushed.bytes() < before, "older ones are gone");

        // The tree gets the versions that somebody may read.
        let mut drained = Vec::new();
        for generation in unflushed.seal() {
            generation.drain(8, |_, since, _| drained.push(since));
        }
        assert_eq!(drained, [7]);
        // A row that is written again later hides the older one.
        unflushed.write([put("a", 9)], 8);
        assert_eq!((versions(8), versions(10)), (Some(7), Some(9)));
    }
}

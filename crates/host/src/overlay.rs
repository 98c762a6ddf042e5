//! The overlay: what a leader wrote and its shelf does not have yet, and rows of the shelf that were asked for.
//!
//! ```text
//!  execute ─ frame n ─▶ written (n) ──── the shelf has applied n ────▶ may leave, when room is needed
//!  a row read from the shelf at frame p ─▶ learned (p), unless something newer is here ─▶ may leave
//! ```
//!
//! ‡ What was read at frame P is overlaid with all writes after P: a write stays as long as a read that may be older than it
//! is under way. So a row that is read finds all later writes of its key here, or there are none.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use paxos::mutation::{self, Mutation};
use shelf::Forgotten;

/// A key's value, and since which frame.
#[derive(Clone, Debug)]
pub struct Entry {
    pub frame: u64,
    /// `None`: there is no such row.
    pub value: Option<Vec<u8>>,
}

/// Rows in the order of their keys, in parts by the first bytes of these. Nearly all of a command's looks are for one key each, and in one tree of all rows
/// the most of a command's time went into comparing keys that begin alike.
#[derive(Debug, Default)]
struct Rows {
    parts: BTreeMap<u32, BTreeMap<Vec<u8>, Entry>>,
    count: usize,
}

/// The part of a key. Of two keys the greater one is in the same part, or a later one.
fn part_of(key: &[u8]) -> u32 {
    let mut part = [0; 4];
    for (to, from) in part.iter_mut().zip(key) {
        *to = *from;
    }
    u32::from_be_bytes(part)
}

fn part_of_bound(bound: Bound<&[u8]>, open: u32) -> u32 {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => part_of(key),
        Bound::Unbounded => open,
    }
}

impl Rows {
    fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.parts.get(&part_of(key))?.get(key)
    }

    fn range<'a>(
        &'a self,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Entry)> {
        let first = part_of_bound(from, 0);
        let last = part_of_bound(to, u32::MAX);
        let parts = self.parts.range(first..=last.max(first));
        parts.flat_map(move |(_, part)| part.range::<[u8], _>((from, to)))
    }

    /// Returns what was there.
    fn insert(&mut self, key: &[u8], entry: Entry) -> Option<Entry> {
        let part = self.parts.entry(part_of(key)).or_default();
        let before = part.insert(key.to_vec(), entry);
        self.count += usize::from(before.is_none());
        before
    }

    fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let part = self.parts.get_mut(&part_of(key))?;
        let gone = part.remove(key)?;
        if part.is_empty() {
            self.parts.remove(&part_of(key));
        }
        self.count -= 1;
        Some(gone)
    }
}

#[derive(Debug, Default)]
pub struct Overlay {
    rows: Rows,
    /// In the order in which they came: the frame, and the key.
    order: VecDeque<(u64, Vec<u8>)>,
    /// Prefixes that were forgotten, and in which frame. ‡ They stay for as long as a write does.
    forgotten: Forgotten,
    bytes: usize,
    /// The last frame of the log, or the one that is being written.
    last_frame: u64,
}

impl Overlay {
    /// The log has so many frames.
    pub fn begin(&mut self, frame: u64) {
        self.last_frame = self.last_frame.max(frame);
    }

    /// Whether nothing was ever written in this log.
    pub fn is_of_new_log(&self) -> bool {
        self.last_frame == 0
    }

    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.rows.get(key)
    }

    pub fn range<'a>(
        &'a self,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Entry)> {
        self.rows.range(from, to)
    }

    pub fn write(&mut self, frame: u64, key: &[u8], value: Option<&[u8]>) {
        self.begin(frame);
        let value = value.map(<[u8]>::to_vec);
        self.put(key, Entry { frame, value });
    }

    /// Takes all rows away whose keys begin so.
    pub fn forget(&mut self, frame: u64, prefix: &[u8]) {
        self.begin(frame);
        self.forgotten.add(prefix, frame);
        let below = self.rows.range(Bound::Included(prefix), Bound::Unbounded);
        let below: Vec<Vec<u8>> = below
            .map(|(key, _)| key.clone())
            .take_while(|key| key.starts_with(prefix))
            .collect();
        for key in below {
            if let Some(gone) = self.rows.remove(&key) {
                self.bytes -= cost(&key, &gone);
            }
        }
    }

    /// The frame that forgot a prefix of this key, if one did.
    pub fn forgotten_in(&self, key: &[u8]) -> Option<u64> {
        match mutation::is(Mutation::HostSeesForgotten) {
            true => None,
            false => self.forgotten.since(key),
        }
    }

    /// Takes a row as the shelf had it after that frame.
    pub fn learn(&mut self, frame: u64, key: &[u8], value: Option<Vec<u8>>) {
        if self.rows.get(key).is_none() && !self.forgotten.covers(key) {
            self.put(key, Entry { frame, value });
        }
    }

    fn put(&mut self, key: &[u8], entry: Entry) {
        self.order.push_back((entry.frame, key.to_vec()));
        self.bytes += cost(key, &entry);
        if let Some(before) = self.rows.insert(key, entry) {
            self.bytes -= cost(key, &before);
        }
    }

    /// Lets rows go that the shelf has, oldest first, while more is kept than `bytes_max`.
    ///
    /// `until`: the frame that the shelf had applied when the oldest read that is under way began, or has applied.
    pub fn shrink(&mut self, until: u64, bytes_max: usize) {
        if !self.forgotten.is_empty() {
            self.forgotten.remove_until(until);
        }
        while self.bytes > bytes_max || self.order.len() > 2 * self.rows.count + 64 {
            let Some((frame, _)) = self.order.front() else {
                return;
            };
            if *frame > until {
                return;
            }
            let Some((frame, key)) = self.order.pop_front() else {
                return;
            };
            let is_last = self.rows.get(&key).is_some_and(|row| row.frame == frame);
            if is_last && let Some(gone) = self.rows.remove(&key) {
                self.bytes -= cost(&key, &gone);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(key: &[u8], entry: &Entry) -> usize {
    // The key stands in `order`, too; maps and vectors have their own.
    2 * key.len() + entry.value.as_ref().map_or(0, Vec::len) + 192
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_parts_are_found_and_ranged_over_as_in_one_tree() {
        let keys: [&[u8]; 9] = [
            b"",
            b"a",
            b"a\0",
            b"a\0\0\0",
            b"a\0\0\0b",
            b"abcd",
            b"abcde",
            b"abce",
            b"\xff\xff\xff\xff\xff",
        ];
        let entry = || Entry {
            frame: 1,
            value: None,
        };
        let (mut rows, mut tree) = (Rows::default(), BTreeMap::new());
        for key in keys {
            assert!(rows.insert(key, entry()).is_none());
            tree.insert(key.to_vec(), ());
        }
        let mut bounds = vec![Bound::Unbounded];
        bounds.extend(
            keys.iter()
                .flat_map(|key| [Bound::Included(*key), Bound::Excluded(*key)]),
        );
        for (from, to) in bounds
            .iter()
            .flat_map(|from| bounds.iter().map(move |to| (*from, *to)))
        {
            let key_of = |bound| match bound {
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
                Bound::Unbounded => None,
            };
            // A tree of the standard library takes no other ranges.
            if key_of(from)
                .zip(key_of(to))
                .is_some_and(|(from, to)| from >= to)
            {
                continue;
            }
            let found: Vec<&Vec<u8>> = rows.range(from, to).map(|(key, _)| key).collect();
            let expected: Vec<&Vec<u8>> = tree
                .range::<[u8], _>((from, to))
                .map(|(key, ())| key)
                .collect();
            assert_eq!(found, expected, "{from:?} to {to:?}");
        }
        for key in keys {
            assert!(
                rows.get(key).is_some() && rows.remove(key).is_some() && rows.get(key).is_none()
            );
        }
        assert!(rows.count == 0 && rows.parts.is_empty());
    }

    fn value(overlay: &Overlay, key: &[u8]) -> Option<Option<Vec<u8>>> {
        overlay.get(key).map(|entry| entry.value.clone())
    }

    #[test]
    fn a_row_of_the_shelf_does_not_hide_what_was_written_since() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"a", Some(b"new"));
        overlay.learn(4, b"a", Some(b"old".to_vec()));
        overlay.learn(4, b"b", None);
        assert_eq!(value(&overlay, b"a"), Some(Some(b"new".to_vec())));
        assert_eq!(value(&overlay, b"b"), Some(None));
        overlay.write(6, b"b", Some(b"born"));
        assert_eq!(value(&overlay, b"b"), Some(Some(b"born".to_vec())));
    }

    #[test]
    fn what_a_read_under_way_may_not_have_seen_stays() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"a", Some(b"1"));
        overlay.write(6, b"a", Some(b"2"));
        overlay.write(7, b"b", None);
        overlay.shrink(5, 0);
        assert_eq!(value(&overlay, b"a"), Some(Some(b"2".to_vec())));
        overlay.shrink(6, 0);
        assert_eq!(value(&overlay, b"a"), None);
        assert_eq!(value(&overlay, b"b"), Some(None));
        overlay.shrink(7, 0);
        assert_eq!(overlay.bytes(), 0);
    }

    #[test]
    fn what_was_forgotten_is_not_learned_from_a_read_of_before() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"ab", Some(b"1"));
        overlay.forget(6, b"a");
        assert_eq!((overlay.get(b"ab").is_none(), overlay.bytes()), (true, 0));
        overlay.shrink(5, 0);
        overlay.learn(5, b"ac", Some(b"of before".to_vec()));
        assert!(overlay.get(b"ac").is_none());
        assert_eq!(overlay.forgotten_in(b"ac"), Some(6));
        overlay.shrink(6, 0);
        assert_eq!(overlay.forgotten_in(b"ac"), None);
    }

    #[test]
    fn a_hot_key_takes_no_more_room_than_a_cold_one() {
        let mut overlay = Overlay::default();
        for frame in 1..10_000 {
            overlay.write(frame, b"hot", Some(b"x"));
            overlay.shrink(frame, 1 << 20);
        }
        assert!(overlay.order.len() < 100, "{}", overlay.order.len());
        assert_eq!(value(&overlay, b"hot"), Some(Some(b"x".to_vec())));
    }
}
